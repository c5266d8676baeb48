//! A child process, its end and its pipes.

use std::fmt;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ExitStatus, Output};

use bast_io::Interest;
use bast_rt::{ScopedJoinHandle, ops, run_blocking};

use super::reaper;
use crate::io::pipe::pipe_end;

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
    /// `None` before Linux 5.3: then waiting takes a thread of the pool.
    pidfd: Option<OwnedFd>,
}

impl Process {
    pub(super) fn wait(&mut self) -> io::Result<ExitStatus> {
        let Some(pidfd) = &self.pidfd else { return run_blocking(|| self.std.wait()) };
        loop {
            if let Some(status) = self.std.try_wait()? {
                return Ok(status);
            }
            ops::poll_fd(pidfd.as_fd(), Interest::Readable, None)?;
        }
    }

    /// Whether nothing is left to be reaped.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.std.try_wait(), Ok(None))
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
    pub(super) fn adopt(mut std: std::process::Child, kill_on_drop: bool) -> io::Result<Child> {
        let pidfd = bast_io::child::pidfd(std.id()).ok();
        let (stdin, stdout, stderr) = (std.stdin.take(), std.stdout.take(), std.stderr.take());
        // From here on an error drops it.
        let mut child = Child {
            stdin: None,
            stdout: None,
            stderr: None,
            process: Some(Process { std, pidfd }),
            kill_on_drop,
        };
        child.stdin = stdin.map(|pipe| ChildStdin::adopt(pipe.into())).transpose()?;
        child.stdout = stdout.map(|pipe| ChildStdout::adopt(pipe.into())).transpose()?;
        child.stderr = stderr.map(|pipe| ChildStderr::adopt(pipe.into())).transpose()?;
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
        self.process().std.try_wait()
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
            bast_rt::scope(|s| {
                let stderr = CancelOnDrop(Some(s.spawn(|| all(stderr))));
                let stdout = all(stdout);
                (stdout, stderr.join())
            })
        } else {
            (all(stdout), all(stderr))
        };
        Ok(Output { status: self.wait()?, stdout: stdout?, stderr: stderr? })
    }
}

/// So that the scope's end does not wait for the child if the caller is cancelled.
struct CancelOnDrop<'s, T>(Option<ScopedJoinHandle<'s, T>>);

impl<T> CancelOnDrop<'_, T> {
    fn join(mut self) -> T {
        let fiber = self.0.take().expect("joined once");
        fiber.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl<T> Drop for CancelOnDrop<'_, T> {
    fn drop(&mut self) {
        if let Some(fiber) = &self.0 {
            fiber.cancel();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        if process.has_ended() {
            return;
        }
        if self.kill_on_drop {
            let _ = process.std.kill();
        }
        reaper::reap(process);
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("id", &self.std.id()).finish_non_exhaustive()
    }
}
