//! What stands at either end of a copy, and how it is read and written by hand.

use std::io::{self, Read, Write};
use std::time::Duration;

use bast_io::Handle;
use bast_rt::ops;

use crate::fs::File;
use crate::net::socket::Socket;

/// One end.
#[derive(Clone, Copy)]
pub(crate) enum End<'a> {
    File(&'a File),
    Socket(&'a Socket),
    Pipe(&'a Handle),
}

impl End<'_> {
    pub(super) fn handle(&self) -> &Handle {
        match self {
            End::File(file) => file.handle(),
            End::Socket(socket) => &socket.handle,
            End::Pipe(handle) => handle,
        }
    }

    /// Whether the kernel may move bytes from here or to here by itself: it is no simulated thing, a file is a
    /// regular one (with others nobody knows how long it takes), and a socket has not been set non-blocking, which
    /// is bast's to heed.
    pub(super) fn is_movable(&self) -> bool {
        !self.handle().is_simulated()
            && match self {
                End::File(file) => ops::stat(file.handle()).is_ok_and(|stat| stat.is_file()),
                End::Socket(socket) => !socket.settings().nonblocking,
                End::Pipe(_) => true,
            }
    }

    #[cfg(target_os = "linux")] // where a splice waits for it
    pub(super) fn read_timeout(&self) -> Option<Duration> {
        match self {
            End::Socket(socket) => socket.read.get(),
            End::File(_) | End::Pipe(_) => None,
        }
    }

    pub(super) fn write_timeout(&self) -> Option<Duration> {
        match self {
            End::Socket(socket) => socket.write.get(),
            End::File(_) | End::Pipe(_) => None,
        }
    }
}

impl Read for End<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            End::File(file) => (&**file).read(buf),
            End::Socket(socket) => socket.recv(buf, 0),
            End::Pipe(handle) => ops::read(handle, buf, None),
        }
    }
}

impl Write for End<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            End::File(file) => (&**file).write(buf),
            End::Socket(socket) => socket.send(buf),
            End::Pipe(handle) => ops::write(handle, buf, None),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
