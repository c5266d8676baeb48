//! The standard streams, without a worker that waits for a terminal or a pipe.
//!
//! ```text
//!   Stdin  ──▶ Mutex         ──▶ Input  ──▶ os::…::stdio ── 0 ──┐
//!   Stdout ──▶ ReentrantLock ──▶ Output ──▶ os::…::stdio ── 1 ──┤ in whatever mode they are
//!   Stderr ──▶ ReentrantLock ──▶ Output ──▶ os::…::stdio ── 2 ──┘
//! ```
//!
//! The descriptors are std's: they are looked at each time, never owned, closed or set non-blocking. What `Output`
//! still has when the program ends in the ordinary way is written by a handler of `atexit`.

mod input;
mod output;
mod print;
mod stderr;
mod stdin;
mod stdout;

use std::io;

pub use print::{_eprint, _print};
pub use stderr::{Stderr, StderrLock, stderr};
pub use stdin::{Stdin, StdinLock, stdin};
pub use stdout::{Stdout, StdoutLock, stdout};

/// Same as [`std::io::IsTerminal`], for whatever has a descriptor.
pub trait IsTerminal {
    /// Same as [`std::io::IsTerminal::is_terminal`].
    fn is_terminal(&self) -> bool;
}

/// As in std a stream that the program was started without takes everything and gives nothing.
fn unless_closed<T>(result: io::Result<T>, closed: T) -> io::Result<T> {
    match result {
        Err(error) if bast_io::foreign::is_closed(&error) => Ok(closed),
        result => result,
    }
}

/// `Write` for a stream and for its lock, by way of the lock.
macro_rules! output_stream {
    ($stream:ident, $lock:ident) => {
        impl std::io::Write for &$stream {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.lock().write(bytes)
            }

            fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
                self.lock().write_all(bytes)
            }

            fn write_fmt(&mut self, args: std::fmt::Arguments<'_>) -> std::io::Result<()> {
                self.lock().write_fmt(args)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                self.lock().flush()
            }
        }

        impl std::io::Write for $stream {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                (&*self).write(bytes)
            }

            fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
                (&*self).write_all(bytes)
            }

            fn write_fmt(&mut self, args: std::fmt::Arguments<'_>) -> std::io::Result<()> {
                (&*self).write_fmt(args)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                (&*self).flush()
            }
        }

        impl std::fmt::Debug for $stream {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($stream)).finish_non_exhaustive()
            }
        }

        impl std::fmt::Debug for $lock<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($lock)).finish_non_exhaustive()
            }
        }
    };
}
use output_stream;
