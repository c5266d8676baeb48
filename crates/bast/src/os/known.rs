//! Which readers and writers have a descriptor behind them: what std's `io::copy` finds out by specialization.
//!
//! A type is compared by [`typeid`], which knows types that borrow as well; if it is one of the list, the
//! reference is looked at as what it is.
//!
//! ```text
//!   &mut R ──typeid::of::<R>() is that of Take<&TcpStream>──▶ &mut Take<&TcpStream> ──▶ &mut dyn Source
//! ```
//!
//! `typeid` does not tell lifetimes apart, so the cast may change them, from `&mut Take<&'long T>` to
//! `&mut Take<&'r T>`, where `'r` is that of the outer reference. Nothing can come of that: `'r` is the shorter, so that
//! what is read through it is alive; and the traits have no method that stores a reference.

use std::io::{self, BufReader, BufWriter, Read, Take, Write};

use crate::fs::File;
use crate::io::{PipeReader, PipeWriter, ends::End};
use crate::net::TcpStream;
#[cfg(unix)]
use crate::os::unix::net::UnixStream;
use crate::process::{ChildStderr, ChildStdin, ChildStdout};

/// A reader with a descriptor.
pub(crate) trait Source {
    fn end(&self) -> End<'_>;

    /// What has been read already and comes first. To be followed by [`used`](Source::used).
    fn ahead(&self) -> &[u8] {
        &[]
    }

    /// How much may be read, with what is [`ahead`](Source::ahead).
    fn left(&self) -> u64 {
        u64::MAX
    }

    /// So much of what was ahead has been taken, and then so much of the descriptor.
    fn used(&mut self, _ahead: usize, _read: u64) {}
}

/// A writer with a descriptor.
pub(crate) trait Target {
    fn end(&self) -> End<'_>;

    /// Writes what comes first.
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<T: Source> Source for &T {
    fn end(&self) -> End<'_> {
        (**self).end()
    }
}

impl<T: Source> Source for &mut T {
    fn end(&self) -> End<'_> {
        (**self).end()
    }
}

/// Of what has no buffer itself.
impl<T: Source> Source for Take<T> {
    fn end(&self) -> End<'_> {
        self.get_ref().end()
    }

    fn left(&self) -> u64 {
        self.limit()
    }

    fn used(&mut self, _ahead: usize, read: u64) {
        self.set_limit(self.limit() - read);
    }
}

impl<T: Source + Read> Source for BufReader<T> {
    fn end(&self) -> End<'_> {
        self.get_ref().end()
    }

    fn ahead(&self) -> &[u8] {
        self.buffer()
    }

    fn used(&mut self, ahead: usize, _read: u64) {
        io::BufRead::consume(self, ahead);
    }
}

impl<T: Target> Target for &T {
    fn end(&self) -> End<'_> {
        (**self).end()
    }
}

impl<T: Target> Target for &mut T {
    fn end(&self) -> End<'_> {
        (**self).end()
    }
}

impl<T: Target + Write> Target for BufWriter<T> {
    fn end(&self) -> End<'_> {
        self.get_ref().end()
    }

    fn settle(&mut self) -> io::Result<()> {
        self.flush()
    }
}

macro_rules! ends {
    ($trait:ident: $($(#[$on:meta])? $t:ty => |$it:ident| $end:expr;)*) => {$(
        $(#[$on])?
        impl $trait for $t {
            fn end(&self) -> End<'_> {
                let $it = self;
                $end
            }
        }
    )*};
}

ends! {
    Source:
    File => |it| End::File(it);
    TcpStream => |it| End::Socket(it.socket());
    #[cfg(unix)]
    UnixStream => |it| End::Socket(it.socket());
    PipeReader => |it| End::Pipe(it.handle());
    ChildStdout => |it| End::Pipe(it.handle());
    ChildStderr => |it| End::Pipe(it.handle());
}

ends! {
    Target:
    File => |it| End::File(it);
    TcpStream => |it| End::Socket(it.socket());
    #[cfg(unix)]
    UnixStream => |it| End::Socket(it.socket());
    PipeWriter => |it| End::Pipe(it.handle());
    ChildStdin => |it| End::Pipe(it.handle());
}

/// `$it: &'r mut $given` as a `&'r mut dyn $trait`, if `$given` is one of the types.
macro_rules! look {
    ($it:ident: $given:ident as $trait:ident; $($t:ty),*) => {
        $(look!(@one $it $given $trait $t, &'r $t, &'r mut $t);)*
    };
    (@one $it:ident $given:ident $trait:ident $($t:ty),*) => {$(
        look!(@try $it $given $trait $t);
        look!(@wrapped $trait $it $given $t);
    )*};
    (@wrapped Source $it:ident $given:ident $t:ty) => {
        look!(@try $it $given Source Take<$t>);
        look!(@try $it $given Source BufReader<$t>);
    };
    (@wrapped Target $it:ident $given:ident $t:ty) => {
        look!(@try $it $given Target BufWriter<$t>);
    };
    (@try $it:ident $given:ident $trait:ident $t:ty) => {
        if typeid::of::<$given>() == typeid::of::<$t>() {
            // SAFETY: it is this type, but for its lifetimes; the file's head says why these do no harm.
            return Some(unsafe { &mut *std::ptr::from_mut($it).cast::<$t>() });
        }
    };
}

/// The reader as one with a descriptor, if it is known to be one.
pub(crate) fn source<'r, R: ?Sized>(it: &'r mut R) -> Option<&'r mut (dyn Source + 'r)> {
    #[cfg(unix)]
    look!(it: R as Source; UnixStream);
    look!(it: R as Source; File, TcpStream, PipeReader, ChildStdout, ChildStderr);
    None
}

/// The writer as one with a descriptor, if it is known to be one.
pub(crate) fn target<'r, W: ?Sized>(it: &'r mut W) -> Option<&'r mut (dyn Target + 'r)> {
    #[cfg(unix)]
    look!(it: W as Target; UnixStream);
    look!(it: W as Target; File, TcpStream, PipeWriter, ChildStdin);
    None
}
