//! The names of [`std::io`]: its traits are bast's traits, so any code that reads and writes works
//! with a fiber's streams.

pub(crate) mod pipe;
mod record_writer;
mod stdio;

pub use pipe::{PipeReader, PipeWriter, pipe};
pub use record_writer::{CancelSafe, RecordWriter};
#[doc(hidden)]
pub use stdio::{_eprint, _print};
pub use stdio::{
    IsTerminal, Stderr, StderrLock, Stdin, StdinLock, Stdout, StdoutLock, stderr, stdin, stdout,
};

#[doc(no_inline)]
pub use std::io::{
    BufRead, BufReader, BufWriter, Cursor, Empty, Error, ErrorKind, IntoInnerError, IoSlice,
    IoSliceMut, LineWriter, Lines, Read, Repeat, Result, Seek, SeekFrom, Sink, Split, Take, Write,
    copy, empty, read_to_string, repeat, sink,
};
