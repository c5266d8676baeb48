//! How the end of a child is heard of, and brought about: a pidfd, and signals.
//!
//! ```text
//!   attend ─▶ a poll of its pidfd; no pidfd: waitid on the pool, or looking now and then if there is a limit
//!   ask, kill ─▶ SIGTERM, SIGKILL: to the child, or to the group that it leads
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::time::Duration;

use bast_io::Interest;
use bast_io::child::{self, SIGKILL, SIGTERM};
use bast_rt::{Instant, ops, run_blocking_interruptible, sleep};

/// How long a bounded wait sleeps between two looks where there is no pidfd.
const LOOK: Duration = Duration::from_millis(2);

/// What a command says of the children to come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Whether they lead groups of their own.
    pub(crate) leads: bool,
}

/// A child, and whatever is to end with it.
pub(super) struct Tree {
    pidfd: Option<OwnedFd>,
    leads: bool,
}

/// Starts a child. To be called on the pool: it returns when the child has begun its program, and that is read
/// from a disk.
pub(super) fn start(command: &mut Command, how: How, _kill: bool) -> io::Result<(Child, Tree)> {
    Ok((command.spawn()?, Tree { pidfd: None, leads: how.leads }))
}

impl Tree {
    /// Waits for the end of the child, which has not been reaped, or for a time, and leaves it to be reaped.
    pub(super) fn attend(&mut self, std: &Child, limit: Option<Duration>) -> io::Result<()> {
        let pid = std.id();
        if self.pidfd.is_none() {
            // There may be a descriptor by now.
            self.pidfd = child::pidfd(pid).ok();
        }
        match (&self.pidfd, limit) {
            (Some(pidfd), _) => ops::poll_fd(pidfd.as_fd(), Interest::Readable, limit),
            (None, None) => run_blocking_interruptible(|| child::wait(pid)),
            (None, Some(limit)) => {
                let begun = Instant::now();
                while !child::has_ended(pid)? && begun.elapsed() < limit {
                    sleep(LOOK.min(limit));
                }
                Ok(())
            }
        }
    }

    /// Asks the child, which has not been reaped, to end.
    pub(super) fn ask(&self, std: &Child) -> io::Result<()> {
        child::send_signal(std.id(), self.leads, SIGTERM)
    }

    /// Ends it, and its group if it leads one.
    pub(super) fn kill(&self, std: &Child) -> io::Result<()> {
        child::send_signal(std.id(), self.leads, SIGKILL)
    }
}
