//! What to run, and how.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{CommandArgs, CommandEnvs, ExitStatus, Output, Stdio};

use bast_rt::run_blocking;

use super::Child;
use super::end::{self, How};
use super::reaper;

/// Same as [`std::process::Command`]. What is missing here can be set on [std's](Command::as_std_mut).
pub struct Command {
    std: std::process::Command,
    /// Which of stdin, stdout and stderr have been set: what `output` makes of them depends on that, and
    /// std does not tell.
    set: [bool; 3],
    pub(crate) how: How,
    kill_on_drop: bool,
}

impl From<std::process::Command> for Command {
    /// [`output`](Command::output) then takes stdin, stdout and stderr for not set.
    fn from(std: std::process::Command) -> Command {
        Command { std, set: [false; 3], how: How::default(), kill_on_drop: false }
    }
}

macro_rules! as_std {
    ($($name:ident[$($generics:tt)*]($($arg:ident: $t:ty),*);)*) => {$(
        #[doc = concat!("Same as [`std::process::Command::", stringify!($name), "`].")]
        pub fn $name<$($generics)*>(&mut self $(, $arg: $t)*) -> &mut Command {
            self.std.$name($($arg),*);
            self
        }
    )*};
}

impl Command {
    /// Same as [`std::process::Command::new`].
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        std::process::Command::new(program).into()
    }

    as_std! {
        arg[S: AsRef<OsStr>](arg: S);
        args[I: IntoIterator<Item = S>, S: AsRef<OsStr>](args: I);
        env[K: AsRef<OsStr>, V: AsRef<OsStr>](key: K, value: V);
        envs[I: IntoIterator<Item = (K, V)>, K: AsRef<OsStr>, V: AsRef<OsStr>](vars: I);
        env_remove[K: AsRef<OsStr>](key: K);
        env_clear[]();
        current_dir[P: AsRef<Path>](dir: P);
    }

    /// Same as [`std::process::Command::stdin`].
    pub fn stdin<T: Into<Stdio>>(&mut self, stdin: T) -> &mut Command {
        self.set[0] = true;
        self.std.stdin(stdin);
        self
    }

    /// Same as [`std::process::Command::stdout`].
    pub fn stdout<T: Into<Stdio>>(&mut self, stdout: T) -> &mut Command {
        self.set[1] = true;
        self.std.stdout(stdout);
        self
    }

    /// Same as [`std::process::Command::stderr`].
    pub fn stderr<T: Into<Stdio>>(&mut self, stderr: T) -> &mut Command {
        self.set[2] = true;
        self.std.stderr(stderr);
        self
    }

    /// Same as `std::os::unix::process::CommandExt::process_group`.
    ///
    /// # Differences from std
    /// With 0 the child leads a group of its own: then [`terminate`](Child::terminate) and
    /// [`kill_on_drop`](Command::kill_on_drop) mean the whole group.
    #[cfg(unix)]
    pub fn process_group(&mut self, group: i32) -> &mut Command {
        self.how.leads = group == 0;
        std::os::unix::process::CommandExt::process_group(&mut self.std, group);
        self
    }

    /// Whether a [`Child`] that is dropped before it has been waited for is killed: also when the fiber that has it is
    /// cancelled or panics. Default: no, as in std.
    ///
    /// On Unix that is done by SIGKILL, and if the child leads a group of its own (`process_group`) the whole group is
    /// killed; on Windows the child and all that it has started is (a job object).
    pub fn kill_on_drop(&mut self, kill: bool) -> &mut Command {
        self.kill_on_drop = kill;
        self
    }

    /// std's command, to set what is missing here.
    pub fn as_std_mut(&mut self) -> &mut std::process::Command {
        &mut self.std
    }

    /// Same as [`std::process::Command::get_program`].
    #[must_use]
    pub fn get_program(&self) -> &OsStr {
        self.std.get_program()
    }

    /// Same as [`std::process::Command::get_args`].
    pub fn get_args(&self) -> CommandArgs<'_> {
        self.std.get_args()
    }

    /// Same as [`std::process::Command::get_envs`].
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.std.get_envs()
    }

    /// Same as [`std::process::Command::get_current_dir`].
    #[must_use]
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.std.get_current_dir()
    }

    /// Same as [`std::process::Command::spawn`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// None: it is held off until there is a [`Child`].
    pub fn spawn(&mut self) -> io::Result<Child> {
        reaper::sweep();
        let (how, kill) = (self.how, self.kill_on_drop);
        let (std, tree) = run_blocking(|| end::start(&mut self.std, how, kill))?;
        Child::adopt(std, tree, kill)
    }

    /// Same as [`std::process::Command::status`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point. The child goes on, unless [`kill_on_drop`](Command::kill_on_drop) is set.
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Same as [`std::process::Command::output`]. The whole output is kept in memory.
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// As [`status`](Command::status).
    pub fn output(&mut self) -> io::Result<Output> {
        self.defaults(Stdio::null, Stdio::piped);
        let child = self.spawn();
        self.defaults(Stdio::inherit, Stdio::inherit);
        child?.wait_with_output()
    }

    /// Sets what has not been set.
    fn defaults(&mut self, stdin: fn() -> Stdio, out: fn() -> Stdio) {
        if !self.set[0] {
            self.std.stdin(stdin());
        }
        if !self.set[1] {
            self.std.stdout(out());
        }
        if !self.set[2] {
            self.std.stderr(out());
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.std.fmt(f)
    }
}
