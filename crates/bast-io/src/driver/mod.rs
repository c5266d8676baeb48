//! The drivers: one contract, several kernels. The only place where one is chosen.
//!
//! A driver belongs to the thread that made it and is used only there; other threads may hold its
//! [`Waker`] (contract io 4). Reading order: `sim` (no kernel at all), `readiness`, `uring`, `iocp`.

#[cfg(windows)]
pub(crate) mod iocp;
#[cfg(unix)]
mod readiness;
pub(crate) mod remote;
mod sim;
#[cfg(all(test, unix))]
mod tests;
#[cfg(all(target_os = "linux", not(bast_kqueue)))]
mod uring;

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

#[cfg(windows)]
use self::iocp::Iocp;
#[cfg(unix)]
use self::readiness::Readiness;
use self::remote::Remote;
use self::sim::Sim;
#[cfg(all(target_os = "linux", not(bast_kqueue)))]
use self::uring::Uring;
use crate::handle::{Raw, SIM_BASE};
use crate::{Done, Op, Outcome, Pool, Record, Waker, sys};

/// Which driver to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverKind {
    /// The best that works here: on Linux io_uring, else epoll; elsewhere the one that there is.
    #[default]
    Auto,
    /// io_uring, or epoll (with the reason kept) where the kernel lacks or forbids it.
    Uring,
    /// epoll, Linux' readiness.
    Epoll,
    /// kqueue, that of macOS and FreeBSD. Of these three a system has one, which runs (with the reason kept) for the others.
    Kqueue,
    /// I/O completion ports, Windows'.
    Iocp,
    /// The deterministic in-memory simulator.
    Sim,
}

/// A driver's name that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDriver(String);

impl fmt::Display for UnknownDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown driver {:?}: use one of auto, uring, epoll, kqueue, iocp, sim", self.0)
    }
}

impl std::error::Error for UnknownDriver {}

impl FromStr for DriverKind {
    type Err = UnknownDriver;

    fn from_str(name: &str) -> Result<DriverKind, UnknownDriver> {
        match name {
            "auto" => Ok(DriverKind::Auto),
            "uring" => Ok(DriverKind::Uring),
            "epoll" => Ok(DriverKind::Epoll),
            "kqueue" => Ok(DriverKind::Kqueue),
            "iocp" => Ok(DriverKind::Iocp),
            "sim" => Ok(DriverKind::Sim),
            _ => Err(UnknownDriver(name.to_owned())),
        }
    }
}

/// How a driver is made.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which driver.
    pub kind: DriverKind,
    /// Where blocking work goes.
    pub pool: Arc<Pool>,
    /// io_uring: submission queue entries.
    pub entries: u32,
    /// The simulator's seed.
    pub seed: u64,
}

impl Default for Config {
    /// The best driver, the process's pool, 256 entries, seed 0.
    fn default() -> Config {
        Config { kind: DriverKind::Auto, pool: Pool::shared(), entries: 256, seed: 0 }
    }
}

/// How long [`Driver::poll`] may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: submit what is batched, collect what is there.
    No,
    /// At most this long.
    AtMost(Duration),
    /// Until something completes or somebody wakes the driver.
    Forever,
}

/// One thread's driver. Dropping it with operations pending cancels them and waits until the kernel
/// and the pool have let go of their memory (contract io 1); their records do not come back.
pub struct Driver {
    inner: Inner,
    fallback: Option<String>,
}

enum Inner {
    Sim(Box<Sim>),
    #[cfg(unix)]
    Readiness(Box<Readiness>),
    #[cfg(all(target_os = "linux", not(bast_kqueue)))]
    Uring(Box<Uring>),
    #[cfg(windows)]
    Iocp(Box<Iocp>),
}

/// The same method on whichever driver it is.
macro_rules! each {
    ($self:expr, $driver:ident => $body:expr) => {
        match $self {
            Inner::Sim($driver) => $body,
            #[cfg(unix)]
            Inner::Readiness($driver) => $body,
            #[cfg(all(target_os = "linux", not(bast_kqueue)))]
            Inner::Uring($driver) => $body,
            #[cfg(windows)]
            Inner::Iocp($driver) => $body,
        }
    };
}

impl Driver {
    /// Makes a driver for the calling thread.
    ///
    /// # Errors
    /// No descriptor was to be had, or the kernel refused even the last choice.
    pub fn new(config: &Config) -> io::Result<Driver> {
        let mut fallback = None;
        let inner = match config.kind {
            DriverKind::Sim => Inner::Sim(Box::new(Sim::new(config)?)),
            #[cfg(windows)]
            kind => {
                if kind != DriverKind::Auto && kind != DriverKind::Iocp {
                    fallback = Some(format!("{kind:?} is another system's; iocp is used instead"));
                }
                Inner::Iocp(Box::new(Iocp::new(config)?))
            }
            #[cfg(all(target_os = "linux", not(bast_kqueue)))]
            DriverKind::Auto | DriverKind::Uring => match Uring::new(config) {
                Ok(uring) => Inner::Uring(Box::new(uring)),
                Err(reason) => {
                    fallback = Some(format!("{reason}; epoll is used instead"));
                    Inner::Readiness(Box::new(Readiness::new(config)?))
                }
            },
            #[cfg(unix)]
            kind => {
                if kind != DriverKind::Auto && kind != readiness::KIND {
                    let name = readiness::NAME;
                    fallback =
                        Some(format!("{kind:?} is another system's; {name} is used instead"));
                }
                Inner::Readiness(Box::new(Readiness::new(config)?))
            }
        };
        Ok(Driver { inner, fallback })
    }

    /// `"uring"`, `"epoll"`, `"kqueue"`, `"iocp"` or `"sim"`: what runs, after any fallback.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.inner {
            Inner::Sim(_) => "sim",
            #[cfg(unix)]
            Inner::Readiness(_) => readiness::NAME,
            #[cfg(all(target_os = "linux", not(bast_kqueue)))]
            Inner::Uring(_) => "uring",
            #[cfg(windows)]
            Inner::Iocp(_) => "iocp",
        }
    }

    /// Why what was wanted is not used, in a sentence.
    #[must_use]
    pub fn fallback_reason(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// What other threads use to end this driver's [`poll`](Driver::poll).
    #[must_use]
    pub fn waker(&self) -> Waker {
        each!(&self.inner, d => d.waker())
    }

    /// Nanoseconds on the driver's clock: the kernel's monotonic one, or the simulator's.
    #[must_use]
    pub fn now(&self) -> u64 {
        match &self.inner {
            Inner::Sim(sim) => sim.now(),
            _ => sys::now(),
        }
    }

    /// How many operations are in flight, or completed and not handed back yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        each!(&self.inner, d => d.pending())
    }

    /// Starts an operation. `Some` if it completed at once: the record was not kept.
    ///
    /// # Safety
    /// Contract io 1: the record and all memory that its op names stay valid and untouched until the
    /// record comes back from [`poll`](Driver::poll) (or this returns `Some`).
    pub unsafe fn submit(&mut self, record: NonNull<Record>) -> Option<Outcome> {
        // SAFETY: the caller's promise.
        unsafe { each!(&mut self.inner, d => d.submit(record)) }
    }

    /// Asks for a pending operation to end. It still completes exactly once, through `poll`, with
    /// `ECANCELED` or, if it won the race, its real outcome. Asking twice is harmless; of an
    /// interruptible [`Op::Call`] each asking interrupts it once.
    ///
    /// # Safety
    /// `record` was submitted to this driver and has not come back.
    pub unsafe fn cancel(&mut self, record: NonNull<Record>) {
        // SAFETY: the caller's promise.
        unsafe { each!(&mut self.inner, d => d.cancel(record)) }
    }

    /// Does an operation once, now, on the calling thread; `EAGAIN` if it would have to wait. For those that
    /// wait for a peer, and those that wait for nothing. No record is needed, and nothing is kept.
    ///
    /// # Safety
    /// Contract io 1 for the time of the call.
    pub unsafe fn attempt(&mut self, op: &Op) -> Outcome {
        match &mut self.inner {
            // SAFETY: the caller's promise.
            Inner::Sim(sim) => unsafe { sim.attempt(op) },
            #[cfg(unix)]
            // SAFETY: the caller's promise.
            Inner::Readiness(readiness) => unsafe { readiness.attempt(op) },
            #[cfg(all(target_os = "linux", not(bast_kqueue)))]
            // SAFETY: the caller's promise.
            Inner::Uring(_) => unsafe { crate::blocking::once(op) },
            #[cfg(windows)]
            // SAFETY: the caller's promise.
            Inner::Iocp(_) => unsafe { crate::blocking::once(op) },
        }
    }

    /// Submits what is batched and moves completed records to `done`; blocks as `wait` allows while
    /// nothing has completed (`done` is empty). A [`Waker::wake`] before or during the wait ends it;
    /// it may also end early for no reason.
    ///
    /// # Errors
    /// Only what leaves the driver unusable.
    pub fn poll(&mut self, wait: Wait, done: &mut Done) -> io::Result<()> {
        each!(&mut self.inner, d => d.poll(wait, done))
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("name", &self.name())
            .field("pending", &self.pending())
            .field("fallback", &self.fallback)
            .finish()
    }
}

/// Closes a descriptor, the kernel's or the simulator's.
pub(crate) fn close_raw(fd: Raw) -> Outcome {
    if fd >= SIM_BASE {
        sim::close_raw(fd);
        return Outcome(0);
    }
    sys::close(fd)
}

/// Waits until the pool has handed back `pooled` records to a driver that goes away, and closes the
/// handles that they made. What is left: 0.
fn await_pool(remote: &Arc<Remote>, mut pooled: usize) -> usize {
    loop {
        let mut next = remote.take();
        while let Some(record) = next {
            pooled -= 1;
            // SAFETY: io 1: the pool has handed the record back, and its owner still keeps it.
            let record = unsafe { record.as_ref() };
            next = record.next;
            if record.op.yields_handle() && record.outcome.0 >= 0 {
                let _ = close_raw(record.outcome.0);
            }
        }
        if pooled == 0 {
            return 0;
        }
        remote.waker().wait(None);
    }
}

/// Nanoseconds on the kernel's monotonic clock: what [`Driver::now`] reads on a kernel's driver.
#[must_use]
pub fn monotonic_now() -> u64 {
    sys::now()
}
