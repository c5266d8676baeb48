//! The names of [`std::io`]: its traits are bast's traits, so any code that reads and writes works
//! with a fiber's streams.

mod copy;
pub(crate) mod pipe;
mod record_writer;
mod sendfile;
mod stdio;

pub use copy::copy;
#[cfg(unix)]
pub(crate) use copy::copy_files;
pub(crate) use copy::ends;
pub use pipe::{PipeReader, PipeWriter, pipe};
pub use record_writer::{CancelSafe, RecordWriter};
pub use sendfile::{PartlySent, Socket, send_file, send_file_with_head};
#[doc(hidden)]
pub use stdio::{_eprint, _print};
pub use stdio::{
    IsTerminal, Stderr, StderrLock, Stdin, StdinLock, Stdout, StdoutLock, stderr, stdin, stdout,
};

#[doc(no_inline)]
pub use std::io::{
    BufRead, BufReader, BufWriter, Bytes, Chain, Cursor, Empty, Error, ErrorKind, IntoInnerError,
    IoSlice, IoSliceMut, LineWriter, Lines, Read, Repeat, Result, Seek, SeekFrom, Sink, Split,
    Take, Write, WriterPanicked, empty, read_to_string, repeat, sink,
};
