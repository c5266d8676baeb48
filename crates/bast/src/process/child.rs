//! A child process, its end and its pipes.

use std::fmt;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ExitStatus, Output};
use std::time::Duration;

use bast_io::Interest;
use bast_io::child::{self, SIGKILL, SIGTERM};
use bast_rt::{Instant, ops, run_blocking_interruptible, sleep};

use super::reaper;
use crate::io::pipe::pipe_end;

/// How long a bounded wait sleeps between two looks where there is no pidfd.
const LOOK: Duration = Duration::from_millis(2);

/// Same as [`std::process::ChildStdin`].
///
/// # Cancellation
/// Writing is a suspension point.
#[derive(Debug)]
pub struct ChildStdin {
    handle: bast_io::Handle,
}

/// Same as [`std::process::ChildStdout`].
///
/// # Cancellation
/// Reading is a suspension point.
#[derive(Debug)]
pub struct ChildStdout {
    handle: bast_io::Handle,
}

/// Same as [`std::process::ChildStderr`].
///
/// # Cancellation
/// Reading is a suspension point.
#[derive(Debug)]
pub struct ChildStderr {
    handle: bast_io::Handle,
}

pipe_end!(write ChildStdin);
pipe_end!(read ChildStdout);
pipe_end!(read ChildStderr);

/// A process that has not been waited for, or has.
pub(super) struct Process {
    std: std::process::Child,
    pidfd: Option<OwnedFd>,
    /// Whether it leads a group of its own.
    leads: bool,
    /// Its number may be another's.
    reaped: bool,
}

impl Process {
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.std.try_wait()?;
        self.reaped |= status.is_some();
        Ok(status)
    }

    pub(super) fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            self.attend(None)?;
        }
    }

    /// Waits for its end, or for a time, and leaves it to be reaped.
    fn attend(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let pid = self.std.id();
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

    /// Sends a signal, to the child or to the group that it leads, unless it has been waited for.
    fn send(&self, group: bool, signal: i32) -> io::Result<()> {
        if self.reaped { Ok(()) } else { child::send_signal(self.std.id(), group, signal) }
    }

    /// Whether nothing is left to be reaped.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.try_wait(), Ok(None))
    }
}

/// Same as [`std::process::Child`].
///
/// # Differences from std
/// One that is dropped before it has been waited for leaves no zombie: it is waited for in the background.
#[derive(Debug)]
pub struct Child {
    /// Where to write to the child, if that is a pipe.
    pub stdin: Option<ChildStdin>,
    /// What the child writes, if that is a pipe.
    pub stdout: Option<ChildStdout>,
    /// What the child reports, if that is a pipe.
    pub stderr: Option<ChildStderr>,
    /// Taken by the drop only.
    process: Option<Process>,
    kill_on_drop: bool,
}

impl Child {
    pub(super) fn adopt(
        mut std: std::process::Child,
        leads: bool,
        kill_on_drop: bool,
    ) -> io::Result<Child> {
        let (stdin, stdout, stderr) = (std.stdin.take(), std.stdout.take(), std.stderr.take());
        let mut child = Child {
            stdin: None,
            stdout: None,
            stderr: None,
            process: Some(Process { std, pidfd: None, leads, reaped: false }),
            // An error below drops it, and says that there is no child.
            kill_on_drop: true,
        };
        child.stdin = stdin.map(|pipe| ChildStdin::adopt(pipe.into())).transpose()?;
        child.stdout = stdout.map(|pipe| ChildStdout::adopt(pipe.into())).transpose()?;
        child.stderr = stderr.map(|pipe| ChildStderr::adopt(pipe.into())).transpose()?;
        child.kill_on_drop = kill_on_drop;
        Ok(child)
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("only the drop takes it")
    }

    /// Same as [`std::process::Child::id`].
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("only the drop takes it").std.id()
    }

    /// Same as [`std::process::Child::kill`].
    ///
    /// # Errors
    /// As std's.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process().std.kill()
    }

    /// Asks the child to end, by SIGTERM, and kills it, by SIGKILL, if it has not ended when `grace` has passed. Returns how
    /// it has ended. If it leads a [group of its own](super::Command::process_group) the signals go to the whole group, and
    /// what is left of it is killed when the child itself has ended.
    ///
    /// Like [`wait`](Child::wait) it closes the child's stdin first. It does not read the child's output: one that wants
    /// to write more than a pipe holds before it ends is killed, unless somebody reads it.
    ///
    /// ```
    /// use bast::process::Command;
    /// use std::os::unix::process::ExitStatusExt;
    /// use std::time::Duration;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let mut child = Command::new("sh").args(["-c", "trap '' TERM; sleep 60 & wait"]).process_group(0).spawn()?;
    /// let status = child.terminate(Duration::from_millis(10))?;
    /// assert!(status.signal().is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As those of [`kill`](Child::kill) and [`wait`](Child::wait): `EPERM` if the child runs as somebody else.
    ///
    /// # Cancellation
    /// A suspension point. The child may have been asked to end then, and goes on.
    pub fn terminate(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        let process = self.process();
        if !process.reaped {
            process.send(process.leads, SIGTERM)?;
            // That the time is up is no fault; whatever else is wrong, it is to end.
            let _ = process.attend(Some(grace));
            process.send(process.leads, SIGKILL)?;
        }
        process.wait()
    }

    pub(crate) fn send(&self, group: bool, signal: i32) -> io::Result<()> {
        self.process.as_ref().expect("only the drop takes it").send(group, signal)
    }

    /// Same as [`std::process::Child::wait`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point. The child goes on, and can be waited for again.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.process().wait()
    }

    /// Same as [`std::process::Child::try_wait`].
    ///
    /// # Errors
    /// As std's.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process().try_wait()
    }

    /// Same as [`std::process::Child::wait_with_output`]. The whole output is kept in memory.
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point. The child goes on, unless
    /// [`kill_on_drop`](super::Command::kill_on_drop) was set.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        fn all(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                pipe.read_to_end(&mut bytes)?;
            }
            Ok(bytes)
        }

        drop(self.stdin.take());
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        // Both at once: a child whose stderr is full writes no more to stdout.
        let (stdout, stderr) = if stdout.is_some() && stderr.is_some() {
            bast_sync::join(|| all(stdout), || all(stderr))
        } else {
            (all(stdout), all(stderr))
        };
        Ok(Output { status: self.wait()?, stdout: stdout?, stderr: stderr? })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        if self.kill_on_drop {
            let _ = process.send(process.leads, SIGKILL);
        }
        if !process.has_ended() {
            reaper::reap(process);
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("id", &self.std.id()).finish_non_exhaustive()
    }
}
