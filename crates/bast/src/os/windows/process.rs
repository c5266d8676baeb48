//! Same as [`std::os::windows::process`].

use std::ffi::OsStr;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, RawHandle};
use std::os::windows::process::CommandExt as _;

use crate::process::{Child, Command};

#[doc(no_inline)]
pub use std::os::windows::process::ExitStatusExt;

mod private {
    pub trait Sealed {}
    impl Sealed for crate::process::Command {}
}

/// Same as [`std::os::windows::process::CommandExt`].
pub trait CommandExt: private::Sealed {
    /// Same as [`std::os::windows::process::CommandExt::creation_flags`]. With `CREATE_NEW_PROCESS_GROUP` a child can
    /// be asked to end: see [`Child::terminate`]. (Flags that are set on std's command instead are unknown here, and
    /// lost if the child is to be [killed on drop](Command::kill_on_drop).)
    fn creation_flags(&mut self, flags: u32) -> &mut Command;

    /// Same as [`std::os::windows::process::CommandExt::raw_arg`].
    fn raw_arg<S: AsRef<OsStr>>(&mut self, text_to_append_as_is: S) -> &mut Command;
}

impl CommandExt for Command {
    fn creation_flags(&mut self, flags: u32) -> &mut Command {
        self.how.flags = flags;
        self.as_std_mut().creation_flags(flags);
        self
    }

    fn raw_arg<S: AsRef<OsStr>>(&mut self, text_to_append_as_is: S) -> &mut Command {
        self.as_std_mut().raw_arg(text_to_append_as_is);
        self
    }
}

impl AsHandle for Child {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.as_std().as_handle()
    }
}

impl AsRawHandle for Child {
    fn as_raw_handle(&self) -> RawHandle {
        self.as_std().as_raw_handle()
    }
}
