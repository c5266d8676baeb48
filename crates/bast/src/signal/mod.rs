//! Waiting for Ctrl-C; other signals are in module `unix`, what else Windows tells programs in module `windows`.
//!
//! As long as nobody listens, Ctrl-C ends the process, as it does without bast. From the first listener
//! on it no longer does, even when the last listener is gone.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! bast::spawn(|| loop {
//!     // … serve …
//! #   bast::yield_now();
//! });
//! bast::signal::ctrl_c()?;
//! println!("ending");
//! # Ok(()) }
//! ```

mod signals;
#[cfg(unix)]
pub mod unix;
#[cfg(windows)]
pub mod windows;

use std::io;

use bast_io::signal::{SIGINT, Signal};
use bast_rt::ops;

/// Waits until Ctrl-C is pressed (on Unix: or SIGINT comes in another way).
///
/// What was pressed before the call does not count. A loop that must not miss one between two calls
/// uses a [`CtrlC`].
///
/// # Errors
/// As [`CtrlC::new`] and [`CtrlC::wait`].
///
/// # Cancellation
/// A suspension point: unwinds when the fiber is cancelled.
pub fn ctrl_c() -> io::Result<()> {
    CtrlC::new()?.wait()
}

/// A listener for Ctrl-C. From [`new`](CtrlC::new) on it misses none.
///
/// There can be many; each one hears of every Ctrl-C. When several fibers wait for the same listener,
/// each Ctrl-C ends one wait.
#[derive(Debug)]
pub struct CtrlC {
    signal: Signal,
}

impl CtrlC {
    /// Begins to listen.
    ///
    /// # Errors
    /// No more descriptors, or 256 listeners exist already.
    pub fn new() -> io::Result<CtrlC> {
        Ok(CtrlC { signal: Signal::new(SIGINT)? })
    }

    /// Waits for a Ctrl-C, or returns at once if there was one since the last wait. Several in between
    /// count as one.
    ///
    /// # Errors
    /// `EBADF` in a fiber on the simulator, which knows no signals. Else only if the system has
    /// no memory.
    ///
    /// # Cancellation
    /// A suspension point: unwinds when the fiber is cancelled.
    pub fn wait(&self) -> io::Result<()> {
        let mut count = [0; size_of::<u64>()];
        ops::read(self.signal.handle(), &mut count, None).map(drop)
    }
}
