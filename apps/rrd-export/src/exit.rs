//! How the program ends, as a number that scripts can tell apart.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// What a run came to. [`HELP`] tells users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Every file is in the output.
    Complete = 0,
    /// The run could not begin, or had to end.
    Fatal = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The output is complete but for files that could not be read.
    SomeFailed = 3,
    /// There was no file to export.
    NoFiles = 4,
    /// Ctrl-C.
    Interrupted = 130,
    /// Who reads the output has gone: as if SIGPIPE had ended it.
    OutputClosed = 141,
}

/// For `--help` and the man page.
pub const HELP: &str = "\
Exit status:
    0  every file is in the output
    1  fatal: the run could not begin (devices, rrdtool, output) or had to end (disk full); nothing has the output's name
    2  the command line makes no sense
    3  the output is complete, but some files could not be read: see --report
    4  there was no file to export: no device, or nothing matches the pattern
  130  interrupted by Ctrl-C; --resume goes on
  141  whoever read the output from a pipe has gone";

/// Says something on standard error. Nobody may be there to hear it: `eprintln!` would end the run for that.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
