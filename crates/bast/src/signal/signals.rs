//! The listener for whatever a system calls a signal.

use std::io;

use bast_io::signal::Signal;
use bast_rt::ops;

/// A listener. There can be many for one signal, in fibers and threads of all runtimes, and each hears of it.
///
/// Every signal that is delivered to the process after `signal` has returned is told once to each listener, however
/// late that looks. But a kernel itself delivers a signal once that is sent several times before it gets to
/// deliver it: what is promised is that after the last one is sent at least one more is told. When several fibers wait
/// for one listener, each signal ends one wait.
#[derive(Debug)]
pub struct Signals {
    pub(super) signal: Signal,
}

impl Signals {
    /// Waits for the next signal, or returns at once if there has been one.
    ///
    /// # Errors
    /// `EBADF` in a fiber on the simulator, which knows no signals. Else only if the system has no memory.
    ///
    /// # Cancellation
    /// A suspension point. No signal is lost by it.
    pub fn recv(&self) -> io::Result<()> {
        let mut count = [0; size_of::<u64>()];
        ops::read(self.signal.handle(), &mut count, None)?;
        let others = u64::from_ne_bytes(count) - 1;
        if others > 0 {
            // Whoever else waits has not heard of them. Masked, so that they cannot get lost here.
            bast_rt::mask(|| ops::write(self.signal.handle(), &others.to_ne_bytes(), None))?;
        }
        Ok(())
    }
}

/// The signals, without end; it ends at an error.
impl Iterator for &Signals {
    type Item = ();

    fn next(&mut self) -> Option<()> {
        self.recv().ok()
    }
}

/// As of a reference.
impl Iterator for Signals {
    type Item = ();

    fn next(&mut self) -> Option<()> {
        self.recv().ok()
    }
}
