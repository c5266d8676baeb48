//! Seeing what is stuck: a dump of every fiber, the watchdog, the report of deadlocks, and figures.
//!
//! ```
//! let fiber = bast::Builder::new().name("patient".into()).spawn(bast::park)?;
//! bast::sleep(std::time::Duration::from_millis(20));
//! let dump = bast::dump();
//! let patient = dump.fibers().find(|fiber| fiber.name() == Some("patient")).unwrap();
//! assert_eq!((patient.state(), patient.waits_in()), ("parked", Some("park")));
//! println!("{dump}");
//! fiber.fiber().unpark();
//! fiber.join().unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! prints, with one line for each frame and one for its place:
//!
//! ```text
//! bast: 1 fiber, 2 workers, 1 runtime; taken in 45 ms
//! runtime 1, worker 0 (uring): 1 fiber, 0 ready, 0 not started
//! runtime 1, worker 1 (uring): 0 fibers, 0 ready, 0 not started
//!
//! fiber 1 'patient': parked in park, for 17 ms
//!     spawned at src/main.rs:2:55
//!       0: bast_rt::suspend::park
//!               at /…/bast-rt/src/suspend.rs:270
//! ```
//!
//! A thousand fibers that wait alike are one entry.
//!
//! # Without a change of the program
//! | in the environment | what happens |
//! |---|---|
//! | `BAST_DUMP=1`, `BAST_DUMP=json` | Ctrl-\ (SIGQUIT) prints a dump to stderr, and the program goes on |
//! | `BAST_WATCHDOG=200ms` | a fiber that holds its worker for longer is reported with its backtrace |
//! | `BAST_DEADLOCK=off`, `force` | see below |
//!
//! # Deadlocks
//! When nothing is left in the process that could wake a fiber, stderr says so, once: who is blocked
//! indefinitely on what, the cycle if there is one, and the dump. Nothing has to be set up for that.
//!
//! It takes every thread of the process to be sure. So the report is made only if all of them are
//! workers, threads of bast's own, or blocked in bast without a timeout (`main` in a `join`, say), and if no
//! operation and no timer is pending anywhere. While there is a thread that bast knows nothing of, even one
//! that sleeps, nothing is said. `BAST_DEADLOCK=force` leaves such threads out of account, which is for
//! tests whose harness has threads; `off` never reports.

#[doc(inline)]
pub use bast_rt::{
    Dump, FiberDump, Frame, Metrics, RuntimeMetrics, WorkerMetrics, dump, dump_on_signal, metrics,
};
