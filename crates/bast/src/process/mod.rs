//! Same as [`std::process`]: child processes, whose ends and pipes suspend the fiber and not the worker.
//!
//! ```text
//!   Command::spawn ─▶ std's, on the pool ─▶ Child: pipes in non-blocking mode
//!   Child::wait ────▶ std's try_wait, else a poll of its pidfd and again (no pidfd: waitid on the pool)
//!   dropped unwaited ─▶ a fiber of its own waits: no zombie stays, and no SIGCHLD handler is needed
//! ```
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! # if cfg!(unix) {
//! let output = bast::process::Command::new("echo").arg("hello").output()?;
//! assert_eq!(output.stdout, b"hello\n");
//! # }
//! # Ok(()) }
//! ```
//!
//! # Differences from std
//! * A [`Child`] that is dropped is waited for, in the background.
//! * [`Command::kill_on_drop`] and [`Child::terminate`] have no counterparts.

mod child;
mod command;
#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
pub(crate) mod end;
mod reaper;

pub use child::{Child, ChildStderr, ChildStdin, ChildStdout};
pub use command::Command;

#[doc(no_inline)]
pub use std::process::{
    CommandArgs, CommandEnvs, ExitCode, ExitStatus, Output, Stdio, Termination, abort, exit, id,
};
