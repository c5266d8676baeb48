//! Same as [`std::os::unix::process`].

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;

use crate::process::{Child, Command};

#[doc(no_inline)]
pub use std::os::unix::process::{ExitStatusExt, parent_id};

mod private {
    pub trait Sealed {}
    impl Sealed for crate::process::Command {}
    impl Sealed for crate::process::Child {}
}

/// Same as [`std::os::unix::process::CommandExt`].
pub trait CommandExt: private::Sealed {
    /// Same as [`std::os::unix::process::CommandExt::uid`].
    fn uid(&mut self, id: u32) -> &mut Command;

    /// Same as [`std::os::unix::process::CommandExt::gid`].
    fn gid(&mut self, id: u32) -> &mut Command;

    /// Same as [`std::os::unix::process::CommandExt::pre_exec`].
    ///
    /// # Safety
    /// As std's. In the new process there are no fibers, and no workers: `f` uses nothing of bast.
    unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static;

    /// Same as [`std::os::unix::process::CommandExt::exec`]. If it fails it leaves SIGPIPE as the new program should have
    /// had it, as std's does: writing to a pipe that nobody reads ends the process from then on.
    fn exec(&mut self) -> io::Error;

    /// Same as [`std::os::unix::process::CommandExt::arg0`].
    fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command;

    /// Same as [`std::os::unix::process::CommandExt::process_group`], and as [`Command::process_group`].
    fn process_group(&mut self, group: i32) -> &mut Command;
}

impl CommandExt for Command {
    fn uid(&mut self, id: u32) -> &mut Command {
        self.as_std_mut().uid(id);
        self
    }

    fn gid(&mut self, id: u32) -> &mut Command {
        self.as_std_mut().gid(id);
        self
    }

    unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller's promise.
        unsafe { self.as_std_mut().pre_exec(f) };
        self
    }

    fn exec(&mut self) -> io::Error {
        self.as_std_mut().exec()
    }

    fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.as_std_mut().arg0(arg);
        self
    }

    fn process_group(&mut self, group: i32) -> &mut Command {
        Command::process_group(self, group)
    }
}

/// Same as the (unstable) `std::os::unix::process::ChildExt`.
pub trait ChildExt: private::Sealed {
    /// Sends a signal to the child. Does nothing if it has been waited for.
    ///
    /// # Errors
    /// No such signal, or not to that process.
    fn send_signal(&self, signal: i32) -> io::Result<()>;

    /// Sends a signal to the group that the child leads. Does nothing if the child has been waited for: then its number may
    /// be another's.
    ///
    /// # Errors
    /// As [`send_signal`](ChildExt::send_signal); it leads no group.
    fn send_process_group_signal(&self, signal: i32) -> io::Result<()>;
}

impl ChildExt for Child {
    fn send_signal(&self, signal: i32) -> io::Result<()> {
        self.send(false, signal)
    }

    fn send_process_group_signal(&self, signal: i32) -> io::Result<()> {
        self.send(true, signal)
    }
}
