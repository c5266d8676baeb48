//! Runs operations on a driver and holds it to the contract: every record comes back exactly once.
//!
//! ```text
//!   start(op) ─▶ Slot { record, buffer } ─▶ driver ─▶ Done ─▶ the slot's outcome ─▶ wait / finish
//! ```
//!
//! A slot owns the record and the memory that its operation names, so a test that panics halfway
//! frees nothing under the kernel's hands: the driver is dropped first, the slots after it. Finished
//! slots are kept for a while, so that a record that comes back twice is noticed and not a crash.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::ptr::NonNull;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bast_io::{
    Config, Done, Driver, DriverKind, Handle, Kind, Op, Outcome, Pool, Record, SockAddr, Wait,
};

/// One test per driver of each function `fn(&mut Rig)`.
macro_rules! on_every_driver {
    ($($name:ident),+ $(,)?) => {
        mod sim { $(#[test] fn $name() {
            $crate::harness::test_on(bast_io::DriverKind::Sim, super::$name);
        })+ }
        on_real_drivers!($($name),+);
    };
}

/// The same without the simulator, for what only a kernel has.
macro_rules! on_real_drivers {
    ($($name:ident),+ $(,)?) => {
        #[cfg(windows)]
        mod iocp { $(#[test] fn $name() {
            $crate::harness::test_on(bast_io::DriverKind::Iocp, super::$name);
        })+ }
        #[cfg(unix)]
        mod epoll { $(#[test] fn $name() {
            $crate::harness::test_on(bast_io::DriverKind::Epoll, super::$name);
        })+ }
        #[cfg(unix)]
        mod uring { $(#[test] fn $name() {
            $crate::harness::test_on(bast_io::DriverKind::Uring, super::$name);
        })+ }
    };
}

/// How long a test may take before the whole run is given up.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Runs `body`; aborts the process with a message if it hangs.
pub fn watched<T>(what: &str, patience: Duration, body: impl FnOnce() -> T) -> T {
    let (finished, watch) = mpsc::channel::<()>();
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let what = what.to_owned();
    let watcher = std::thread::spawn(move || {
        if watch.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            eprintln!("WATCHDOG: {name} ({what}) has not ended after {patience:?}");
            std::process::abort();
        }
    });
    let result = body();
    drop(finished);
    let _ = watcher.join();
    result
}

/// Whether the environment asks for this driver.
pub fn is_wanted(kind: DriverKind) -> bool {
    let name = match kind {
        DriverKind::Sim => "sim",
        DriverKind::Epoll => "epoll",
        DriverKind::Kqueue => "kqueue",
        DriverKind::Uring => "uring",
        DriverKind::Iocp => "iocp",
        DriverKind::Auto => return true,
    };
    match std::env::var("BAST_DRIVER") {
        Ok(only) => only == name,
        Err(_) => true,
    }
}

/// One test body on one driver; in the simulator under several seeds (`BAST_SEEDS`).
pub fn test_on(kind: DriverKind, body: fn(&mut Rig)) {
    if !is_wanted(kind) {
        return;
    }
    let seeds = match kind {
        DriverKind::Sim => number("BAST_SEEDS").unwrap_or(4),
        _ => 1,
    };
    watched(&format!("{kind:?}"), PATIENCE, || {
        for seed in (0..seeds).map(|n| seed() + n) {
            println!("seed {seed}");
            if let Some(mut rig) = Rig::seeded(kind, seed) {
                body(&mut rig);
            }
        }
    });
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Rounds of a randomised test: `normal`, or what `BAST_ROUNDS` says.
pub fn rounds(normal: usize) -> usize {
    number("BAST_ROUNDS").map_or(normal, |n| n as usize)
}

/// The seed of randomised tests, printed so that a failure can be replayed.
pub fn seed() -> u64 {
    let seed = number("BAST_SEED").unwrap_or(0xBA57);
    println!("BAST_SEED={seed}");
    seed
}

/// A small generator (xorshift64*).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
}

/// One pool for the whole run.
pub fn pool() -> Arc<Pool> {
    static POOL: OnceLock<Arc<Pool>> = OnceLock::new();
    Arc::clone(POOL.get_or_init(|| Arc::new(Pool::new(4))))
}

/// The configuration that tests use.
pub fn config(kind: DriverKind, seed: u64) -> Config {
    Config { kind, pool: pool(), entries: 64, seed }
}

/// An operation that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(usize);

struct Slot {
    record: Record,
    /// Memory that the operation names.
    memory: Option<Box<dyn Any>>,
    outcome: Option<Outcome>,
}

/// A driver and the operations on it.
pub struct Rig {
    /// First, so that it is dropped before the memory that it may still be using.
    driver: Driver,
    pub kind: DriverKind,
    slots: HashMap<usize, Box<Slot>>,
    /// Records that have come back once and must not do so again.
    buried: VecDeque<Box<Slot>>,
    last: usize,
}

impl Rig {
    /// A rig, or `None` (after saying why) if the machine lacks io_uring.
    pub fn new(kind: DriverKind) -> Option<Rig> {
        Rig::seeded(kind, seed())
    }

    pub fn seeded(kind: DriverKind, seed: u64) -> Option<Rig> {
        let driver = Driver::new(&config(kind, seed)).expect("a driver");
        if kind == DriverKind::Uring
            && let Some(reason) = driver.fallback_reason()
        {
            println!("skipped: {reason}");
            return None;
        }
        Some(Rig::on(kind, driver))
    }

    /// A rig on a driver that was made elsewhere.
    pub fn on(kind: DriverKind, driver: Driver) -> Rig {
        Rig { driver, kind, slots: HashMap::new(), buried: VecDeque::new(), last: 0 }
    }

    pub fn is_sim(&self) -> bool {
        self.kind == DriverKind::Sim
    }

    pub fn driver(&mut self) -> &mut Driver {
        &mut self.driver
    }

    pub fn now(&self) -> u64 {
        self.driver.now()
    }

    /// How many operations the driver says are in flight.
    pub fn pending(&self) -> usize {
        self.driver.pending()
    }

    /// Starts an operation whose memory lives as long as the test function.
    pub fn start(&mut self, op: Op) -> Ticket {
        self.start_slot(op, None)
    }

    /// Starts an operation on memory that the rig keeps.
    pub fn start_with<T: 'static>(
        &mut self,
        mut memory: Box<T>,
        op: impl FnOnce(&mut T) -> Op,
    ) -> Ticket {
        let op = op(&mut memory);
        self.start_slot(op, Some(memory))
    }

    fn start_slot(&mut self, op: Op, memory: Option<Box<dyn Any>>) -> Ticket {
        self.last += 1;
        let id = self.last;
        let record = Record::new(op, id as *mut ());
        let slot = self.slots.entry(id).or_insert(Box::new(Slot { record, memory, outcome: None }));
        let record = NonNull::from(&mut slot.record);
        // SAFETY: io 1: the slot is boxed and stays until the record has come back.
        if let Some(outcome) = unsafe { self.driver.submit(record) }
            && let Some(slot) = self.slots.get_mut(&id)
        {
            slot.outcome = Some(outcome);
        }
        Ticket(id)
    }

    /// Asks a pending operation to end; does nothing to one that has completed.
    pub fn cancel(&mut self, ticket: Ticket) {
        let slot = self.slots.get_mut(&ticket.0).expect("a ticket that has not been taken");
        if slot.outcome.is_none() {
            let record = NonNull::from(&mut slot.record);
            // SAFETY: it was submitted here and has not come back.
            unsafe { self.driver.cancel(record) };
        }
    }

    /// Polls once.
    pub fn poll(&mut self, wait: Wait) {
        let mut done = Done::new();
        self.driver.poll(wait, &mut done).expect("a driver that works");
        while let Some(record) = done.pop() {
            // SAFETY: it belongs to its slot, which is kept (buried ones too, for a while).
            let (id, outcome) =
                unsafe { (record.as_ref().tag() as usize, record.as_ref().outcome()) };
            let Some(slot) = self.slots.get_mut(&id) else {
                panic!("record {id} came back after it had come back ({outcome:?})")
            };
            assert_eq!(NonNull::from(&mut slot.record), record, "another record with this tag");
            if let Some(before) = slot.outcome {
                panic!(
                    "record {id} came back twice: {before:?}, {outcome:?}: {:?}",
                    slot.record.op()
                );
            }
            slot.outcome = Some(outcome);
        }
    }

    /// The outcome, if there is one yet.
    pub fn peek(&self, ticket: Ticket) -> Option<Outcome> {
        self.slots[&ticket.0].outcome
    }

    /// Polls until the operation has completed.
    pub fn wait(&mut self, ticket: Ticket) -> Outcome {
        self.finish(ticket).0
    }

    /// Polls until the operation has completed; its outcome and its memory.
    pub fn finish(&mut self, ticket: Ticket) -> (Outcome, Option<Box<dyn Any>>) {
        while self.peek(ticket).is_none() {
            self.poll(Wait::Forever);
        }
        let mut slot = self.slots.remove(&ticket.0).expect("the slot");
        let result = (slot.outcome.expect("complete"), slot.memory.take());
        self.buried.push_back(slot);
        if self.buried.len() > 256 {
            self.buried.pop_front();
        }
        result
    }

    /// Starts an operation and waits for it.
    pub fn run(&mut self, op: Op) -> Outcome {
        let ticket = self.start(op);
        self.wait(ticket)
    }

    /// Polls without waiting (in the simulator: without jumping) a few times.
    pub fn settle(&mut self) {
        for _ in 0..4 {
            self.poll(Wait::No);
        }
    }

    /// Polls for about `ms` milliseconds.
    pub fn linger(&mut self, ms: u64) {
        let end = self.now() + ms * 1_000_000;
        while self.now() < end {
            self.poll(Wait::AtMost(Duration::from_nanos(end - self.now())));
        }
    }

    /// Whether the operation is still pending after things have had time to happen.
    pub fn is_stuck(&mut self, ticket: Ticket) -> bool {
        let end = self.now() + 20_000_000;
        while self.peek(ticket).is_none() && self.now() < end {
            self.poll(Wait::AtMost(Duration::from_nanos(end - self.now())));
        }
        self.peek(ticket).is_none()
    }
}

impl Drop for Rig {
    /// Closes what was made for this test and never taken, so that a count of descriptors counts
    /// the driver's mistakes only.
    fn drop(&mut self) {
        for slot in self.slots.values() {
            if let Some(Outcome(fd @ 0..)) = slot.outcome
                && slot.record.op().yields_handle()
            {
                // SAFETY: it came back to this rig, and nobody has asked for it.
                drop(unsafe { Handle::from_raw(fd, Kind::Stream) });
            }
        }
    }
}

/// The errno of a failed operation.
#[track_caller]
pub fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("it should fail").raw_os_error().expect("an errno")
}

pub fn sock(addr: SocketAddr) -> SockAddr {
    SockAddr::from(addr)
}

pub fn empty() -> SockAddr {
    SockAddr::zeroed()
}

#[track_caller]
pub fn inet(addr: &SockAddr) -> SocketAddr {
    addr.to_std().expect("an internet address")
}

/// The test `module::driver::name` of a rig's driver, as [`in_child`] wants it.
pub fn path(module: &str, rig: &Rig, name: &str) -> String {
    format!("{module}::{}::{name}", format!("{:?}", rig.kind).to_lowercase())
}

fn alone(test: &str) -> std::process::Output {
    let this = std::env::current_exe().expect("this binary");
    // What programs for this machine are run by, if the machine is only emulated (`cargo xtask cross`).
    let mut command = match std::env::var_os("BAST_TEST_RUNNER") {
        Some(runner) => {
            let mut command = std::process::Command::new(runner);
            command.arg(this);
            command
        }
        None => std::process::Command::new(this),
    };
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("BAST_IT_CHILD", "1")
        .output()
        .expect("a child")
}

/// Runs one test of this binary alone in a process of its own, where it finds `BAST_IT_CHILD` set.
/// Returns false in that child: the caller goes on with the test itself.
pub fn in_child(test: &str) -> bool {
    if std::env::var_os("BAST_IT_CHILD").is_some() {
        return false;
    }
    let output = alone(test);
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(output.status.success(), "{test} failed in its own process: {}", output.status);
    assert!(text.contains("1 passed"), "{test} was not run in its own process");
    true
}

/// How many handles this process has open. (Asked one by one: Wine's `GetProcessHandleCount` says zero.)
#[cfg(windows)]
pub fn open_descriptors() -> usize {
    use windows_sys::Win32::Foundation::GetHandleInformation;
    // What the system's own libraries open once, at the first use of each thing.
    static WARM: std::sync::Once = std::sync::Once::new();
    WARM.call_once(|| {
        for _ in 0..2 {
            let mut rig = Rig::new(DriverKind::Iocp).expect("a driver");
            let (a, b) = rig.pair();
            let poll = Op::Poll { handle: b.as_ref(), interest: bast_io::Interest::Readable };
            let waiting = [rig.start_recv(a.as_ref(), 1, 0), rig.start(poll)];
            rig.linger(5);
            waiting.iter().for_each(|&ticket| rig.cancel(ticket));
            let _ = waiting.map(|ticket| rig.wait(ticket));
            let client = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
            drop(std::net::TcpStream::connect(client.local_addr().expect("a name")));
        }
    });
    let is_open = |n: usize| {
        let mut flags = 0;
        // SAFETY: room for the answer.
        unsafe { GetHandleInformation((4 * n) as _, &raw mut flags) != 0 }
    };
    let count = (1..2_000).filter(|&n| is_open(n)).count();
    assert!(count > 5, "they are not counted");
    count
}

/// How many descriptors this process has open.
#[cfg(unix)]
pub fn open_descriptors() -> usize {
    let linux = cfg!(target_os = "linux");
    let list = if linux { "/proc/self/fd" } else { "/dev/fd" };
    std::fs::read_dir(list).expect("a list of descriptors").count()
}

/// The guards of this harness must be able to fail.
mod canaries {
    use super::*;

    #[test]
    fn the_watchdog_bites() {
        if std::env::var_os("BAST_IT_CHILD").is_some() {
            watched("a canary", Duration::from_millis(20), || {
                std::thread::sleep(Duration::from_secs(60));
            });
            return;
        }
        let output = alone("harness::canaries::the_watchdog_bites");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("WATCHDOG"), "{text}");
    }

    #[test]
    #[should_panic = "came back"]
    fn a_record_that_comes_back_twice_is_noticed() {
        let mut rig = Rig::new(DriverKind::Sim).expect("the simulator is always there");
        let (a, b) = rig.pair();
        let ticket = rig.start_recv(a.as_ref(), 1, 0);
        let slot = rig.slots.get_mut(&ticket.0).expect("the slot");
        assert!(slot.outcome.is_none());
        // As if it had come back before.
        slot.outcome = Some(Outcome(1));
        rig.send_all(&b, b"x");
        rig.linger(5);
    }
}
