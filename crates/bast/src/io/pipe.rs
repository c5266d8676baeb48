//! Pipes between fibers, threads and processes.

use std::io;

use bast_io::Handle;

/// Same as [`std::io::pipe`].
///
/// ```
/// use std::io::{Read, Write};
///
/// # fn main() -> std::io::Result<()> {
/// let (mut reader, mut writer) = bast::io::pipe()?;
/// bast::spawn(move || writer.write_all(b"through"));
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "through");
/// # Ok(()) }
/// ```
///
/// # Errors
/// As std's.
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = bast_io::pipe::pair()?;
    Ok((PipeReader { handle: reader }, PipeWriter { handle: writer }))
}

/// Same as [`std::io::PipeReader`].
///
/// # Differences from std
/// The descriptor is in non-blocking mode. Given to a child process or to std it goes back to blocking mode, and so
/// do its clones.
///
/// # Cancellation
/// Reading is a suspension point.
#[derive(Debug)]
pub struct PipeReader {
    handle: Handle,
}

/// Same as [`std::io::PipeWriter`].
///
/// # Differences from std
/// As [`PipeReader`]'s. Writing to a pipe that nobody reads is an error, and never raises SIGPIPE as long as
/// that is ignored, which Rust's start-up code sees to.
///
/// # Cancellation
/// Writing is a suspension point. What fits into the pipe is written first.
#[derive(Debug)]
pub struct PipeWriter {
    handle: Handle,
}

/// One end of a pipe under another name.
macro_rules! pipe_end {
    (read $name:ident) => {
        $crate::io::pipe::pipe_end!(common $name);

        impl std::io::Read for &$name {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                bast_rt::ops::read(&self.handle, buf, None)
            }

            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                bast_rt::ops::read_vectored(&self.handle, bufs, None)
            }
        }

        impl std::io::Read for $name {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                (&*self).read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                (&*self).read_vectored(bufs)
            }
        }
    };
    (write $name:ident) => {
        $crate::io::pipe::pipe_end!(common $name);

        impl std::io::Write for &$name {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                bast_rt::ops::write(&self.handle, buf, None)
            }

            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                bast_rt::ops::write_vectored(&self.handle, bufs, None)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        impl std::io::Write for $name {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                (&*self).write(buf)
            }

            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                (&*self).write_vectored(bufs)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    };
    (common $name:ident) => {
        impl $name {
            /// Takes over the end of a pipe.
            pub(crate) fn adopt(fd: $crate::os::system::Owned) -> std::io::Result<$name> {
                Ok($name { handle: $crate::os::system::adopt_pipe(fd)? })
            }

            pub(crate) fn handle(&self) -> &bast_io::Handle {
                &self.handle
            }

            pub(crate) fn into_handle(self) -> bast_io::Handle {
                self.handle
            }
        }

        impl From<$name> for std::process::Stdio {
            /// Gives the end to a child, in blocking mode.
            ///
            /// # Panics
            /// If the descriptor is none that has a mode.
            fn from(end: $name) -> std::process::Stdio {
                $crate::os::system::pipe_for_child(end.handle)
            }
        }
    };
}
pub(crate) use pipe_end;

pipe_end!(read PipeReader);
pipe_end!(write PipeWriter);

impl PipeReader {
    /// Same as [`std::io::PipeReader::try_clone`].
    ///
    /// # Errors
    /// No more descriptors.
    pub fn try_clone(&self) -> io::Result<PipeReader> {
        Ok(PipeReader { handle: crate::os::system::duplicate_handle(&self.handle)? })
    }
}

impl PipeWriter {
    /// Same as [`std::io::PipeWriter::try_clone`].
    ///
    /// # Errors
    /// No more descriptors.
    pub fn try_clone(&self) -> io::Result<PipeWriter> {
        Ok(PipeWriter { handle: crate::os::system::duplicate_handle(&self.handle)? })
    }
}
