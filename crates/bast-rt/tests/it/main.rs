//! The scheduler's contracts, from outside: what a program may rely on, on every driver.
//!
//! `BAST_DRIVER=uring|epoll` and `BAST_WORKERS=N` choose what the runtimes are made of unless a test
//! needs a certain number of workers. Each test is watched: one that hangs ends the process with its
//! name. What measures the whole process (descriptors, memory, CPU) runs in a child of its own.

mod blocking;
#[allow(unsafe_code)]
#[cfg(target_os = "linux")] // its limits
mod bound;
mod cancel;
mod dump;
mod fibers;
mod hooks;
mod idle;
mod interruptible;
mod interrupts;
mod leaks;
mod locals;
mod metrics;
#[cfg(not(feature = "sanitizer"))]
mod neighbours;
mod overflow;
mod parking;
mod polled;
mod results;
mod runtime;
mod scheduling;
mod shutdown;
mod sockets;
mod support;
mod tasks;
mod timeouts;
mod timers;
#[cfg(feature = "tracing")]
mod trace;
mod unwinding;
// It shows where a fiber is that does not come back: Windows cannot interrupt a thread to ask for that.
#[cfg(unix)]
mod watchdog;
