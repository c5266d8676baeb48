//! A child process, its end and its pipes.

use std::fmt;
use std::io::{self, Read};
use std::process::{ExitStatus, Output};
use std::time::Duration;

use super::end::Tree;
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
    /// How its end is heard of, and brought about.
    tree: Tree,
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
            self.tree.attend(&self.std, None)?;
        }
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
        tree: Tree,
        kill_on_drop: bool,
    ) -> io::Result<Child> {
        let (stdin, stdout, stderr) = (std.stdin.take(), std.stdout.take(), std.stderr.take());
        let mut child = Child {
            stdin: None,
            stdout: None,
            stderr: None,
            process: Some(Process { std, tree, reaped: false }),
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
    /// it has ended. If it leads a group of its own (`process_group`) the signals go to the whole group, and what is
    /// left of it is killed when the child itself has ended.
    ///
    /// On Windows a child is asked by Ctrl-Break if it was started with `CREATE_NEW_PROCESS_GROUP`, and then or if
    /// it is [killed on drop](super::Command::kill_on_drop) all that it has started is killed with it. Any other child is
    /// not asked, and killed when `grace` has passed.
    ///
    /// Like [`wait`](Child::wait) it closes the child's stdin first. It does not read the child's output: one that wants
    /// to write more than a pipe holds before it ends is killed, unless somebody reads it.
    ///
    /// ```
    /// # #[cfg(windows)]
    /// # fn main() {}
    /// # #[cfg(unix)]
    /// # fn main() -> std::io::Result<()> {
    /// use bast::process::Command;
    /// use std::os::unix::process::ExitStatusExt;
    /// use std::time::Duration;
    ///
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
            process.tree.ask(&process.std)?;
            // That the time is up is no fault; whatever else is wrong, it is to end.
            let _ = process.tree.attend(&process.std, Some(grace));
            process.tree.kill(&process.std)?;
        }
        process.wait()
    }

    /// Sends a signal, to the child or to the group that it leads, unless it has been waited for.
    #[cfg(unix)]
    pub(crate) fn send(&self, group: bool, signal: i32) -> io::Result<()> {
        let process = self.process.as_ref().expect("only the drop takes it");
        if process.reaped {
            return Ok(());
        }
        bast_io::child::send_signal(process.std.id(), group, signal)
    }

    #[cfg(windows)]
    pub(crate) fn as_std(&self) -> &std::process::Child {
        &self.process.as_ref().expect("only the drop takes it").std
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
        if self.kill_on_drop && !process.reaped {
            let _ = process.tree.kill(&process.std);
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
