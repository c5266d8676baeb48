//! The names of [`std::io`]: its traits are bast's traits, so any code that reads and writes works
//! with a fiber's streams.
//!
//! # Differences from std
//! `stdin`, `stdout` and `stderr` are not here: reading a terminal blocks the worker. Read it in
//! [`blocking`](crate::blocking), or on a plain thread.

mod copy;
pub(crate) mod pipe;
mod sendfile;

pub use copy::copy;
pub(crate) use copy::{copy_files, ends};
pub use pipe::{PipeReader, PipeWriter, pipe};
pub use sendfile::{PartlySent, Socket, send_file, send_file_with_head};

#[doc(no_inline)]
pub use std::io::{
    BufRead, BufReader, BufWriter, Bytes, Chain, Cursor, Empty, Error, ErrorKind, IntoInnerError,
    IoSlice, IoSliceMut, LineWriter, Lines, Read, Repeat, Result, Seek, SeekFrom, Sink, Split,
    Take, Write, WriterPanicked, empty, read_to_string, repeat, sink,
};
