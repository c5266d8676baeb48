//! What all connected and datagram sockets have in common: the handle, and what bast keeps where std
//! leaves it to the kernel.
//!
//! Memory ordering: the mode and the timeouts are independent settings that guard no other memory, so
//! Relaxed is enough.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bast_io::batch::{RecvBatch, Transmit};
use bast_io::{Half, Handle, SockAddr};
use bast_rt::ops;

/// A timeout in nanoseconds; zero is none.
#[derive(Debug, Default)]
pub(crate) struct Timeout(AtomicU64);

impl Timeout {
    #[inline]
    pub(crate) fn get(&self) -> Option<Duration> {
        match self.0.load(Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    pub(crate) fn set(&self, value: Option<Duration>) -> io::Result<()> {
        if value.is_some_and(|value| value.is_zero()) {
            return Err(zero());
        }
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(value.map_or(0, nanos), Relaxed);
        Ok(())
    }
}

pub(crate) fn zero() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "cannot set a 0 duration timeout")
}

/// What bast keeps about a socket and std keeps in the kernel.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) nonblocking: bool,
    pub(crate) read: Option<Duration>,
    pub(crate) write: Option<Duration>,
}

/// A socket and its settings, shared by its clones.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) handle: Handle,
    pub(crate) nonblocking: AtomicBool,
    pub(crate) read: Timeout,
    pub(crate) write: Timeout,
}

impl Socket {
    pub(crate) fn new(handle: Handle) -> Socket {
        Socket {
            handle,
            nonblocking: AtomicBool::new(false),
            read: Timeout::default(),
            write: Timeout::default(),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            nonblocking: self.nonblocking.load(Relaxed),
            read: self.read.get(),
            write: self.write.get(),
        }
    }

    /// How an operation is to be done: not to wait at all, or for so long.
    #[inline]
    pub(crate) fn limits(&self, timeout: &Timeout) -> (i32, Option<Duration>) {
        if self.nonblocking.load(Relaxed) { (ops::DONT_WAIT, None) } else { (0, timeout.get()) }
    }

    #[inline]
    pub(crate) fn recv(&self, buf: &mut [u8], flags: i32) -> io::Result<usize> {
        let (more, timeout) = self.limits(&self.read);
        ops::recv(&self.handle, buf, flags | more, timeout)
    }

    pub(crate) fn recv_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.read);
        ops::recv_vectored(&self.handle, bufs, flags, timeout)
    }

    #[inline]
    pub(crate) fn send(&self, buf: &[u8]) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.write);
        ops::send(&self.handle, buf, flags, timeout)
    }

    /// Sends what more will follow soon.
    pub(crate) fn send_ahead(&self, buf: &[u8]) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.write);
        ops::send(&self.handle, buf, flags | ops::MORE, timeout)
    }

    pub(crate) fn send_file(&self, file: &Handle, offset: u64, len: usize) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.write);
        let timeout = if flags == 0 { timeout } else { Some(Duration::ZERO) };
        ops::sendfile(&self.handle, file, offset, len, timeout)
    }

    pub(crate) fn send_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.write);
        ops::send_vectored(&self.handle, bufs, flags, timeout)
    }

    pub(crate) fn recv_from(&self, buf: &mut [u8], flags: i32) -> io::Result<(usize, SockAddr)> {
        let (more, timeout) = self.limits(&self.read);
        ops::recv_from(&self.handle, buf, flags | more, timeout)
    }

    pub(crate) fn send_to(&self, buf: &[u8], addr: &SockAddr) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.write);
        ops::send_to(&self.handle, buf, addr, flags, timeout)
    }

    pub(crate) fn recv_many(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.read);
        ops::recv_many(&self.handle, batch, flags, timeout)
    }

    pub(crate) fn send_many(&self, transmits: &[Transmit<'_>]) -> io::Result<usize> {
        let (flags, timeout) = self.limits(&self.write);
        ops::send_many(&self.handle, transmits, flags, timeout)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => Half::Read,
            Shutdown::Write => Half::Write,
            Shutdown::Both => Half::Both,
        };
        ops::shutdown(&self.handle, how)
    }
}

/// The settings' methods, which are the same for all: `$std` is std's type. The type has a field `shared`, an
/// `Arc<Socket>`.
macro_rules! settings {
    ($name:ident, $std:literal) => {
        impl $name {
            /// Around a handle in the mode that its kind says.
            pub(crate) fn from_handle(handle: bast_io::Handle) -> $name {
                $name { shared: std::sync::Arc::new($crate::net::socket::Socket::new(handle)) }
            }

            #[inline]
            pub(crate) fn handle(&self) -> &bast_io::Handle {
                &self.shared.handle
            }

            /// The socket, also when this is gone.
            pub(crate) fn keep(&self) -> bast_rt::Keep {
                std::sync::Arc::<$crate::net::socket::Socket>::clone(&self.shared)
            }

            pub(crate) fn settings(&self) -> $crate::net::socket::Settings {
                self.shared.settings()
            }

            /// The handle, if there is no clone.
            pub(crate) fn into_handle(self) -> Result<bast_io::Handle, $name> {
                match std::sync::Arc::try_unwrap(self.shared) {
                    Ok(shared) => Ok(shared.handle),
                    Err(shared) => Err($name { shared }),
                }
            }

            #[doc = concat!("Same as [`", $std, "::try_clone`].")]
            ///
            /// # Differences from std
            /// The clone shares the descriptor, which is closed with the last of them. It cannot fail.
            /// Timeouts and the non-blocking mode are shared, as they are in std, where the kernel keeps
            /// them per socket.
            ///
            /// # Errors
            /// None.
            pub fn try_clone(&self) -> std::io::Result<$name> {
                Ok($name { shared: std::sync::Arc::clone(&self.shared) })
            }

            #[doc = concat!("Same as [`", $std, "::set_read_timeout`].")]
            /// What waits longer to receive fails with `WouldBlock`, on Windows with `TimedOut`.
            ///
            /// # Differences from std
            /// Kept in bast, to the nanosecond; the kernel's `SO_RCVTIMEO` is not used. A call that is
            /// waiting already keeps the timeout it has.
            ///
            /// # Errors
            /// `InvalidInput` if it is zero.
            pub fn set_read_timeout(
                &self,
                timeout: Option<std::time::Duration>,
            ) -> std::io::Result<()> {
                self.shared.read.set(timeout)
            }

            #[doc = concat!("Same as [`", $std, "::set_write_timeout`].")]
            /// What waits longer to send fails with `WouldBlock`, on Windows with `TimedOut`.
            ///
            /// # Differences from std
            #[doc = concat!("As [`set_read_timeout`](", stringify!($name), "::set_read_timeout).")]
            ///
            /// # Errors
            /// `InvalidInput` if it is zero.
            pub fn set_write_timeout(
                &self,
                timeout: Option<std::time::Duration>,
            ) -> std::io::Result<()> {
                self.shared.write.set(timeout)
            }

            #[doc = concat!("Same as [`", $std, "::read_timeout`].")]
            ///
            /// # Differences from std
            /// It is exactly what was set; the kernel rounds.
            ///
            /// # Errors
            /// None.
            pub fn read_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
                Ok(self.shared.read.get())
            }

            #[doc = concat!("Same as [`", $std, "::write_timeout`].")]
            ///
            /// # Differences from std
            /// It is exactly what was set; the kernel rounds.
            ///
            /// # Errors
            /// None.
            pub fn write_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
                Ok(self.shared.write.get())
            }

            #[doc = concat!("Same as [`", $std, "::set_nonblocking`]: what would wait")]
            /// fails with `WouldBlock` instead.
            ///
            /// # Differences from std
            /// The mode is kept in bast and shared by all clones; the descriptor's own mode does not
            /// change. A call that is waiting already goes on waiting.
            ///
            /// # Errors
            /// None.
            pub fn set_nonblocking(&self, nonblocking: bool) -> std::io::Result<()> {
                self.shared.nonblocking.store(nonblocking, std::sync::atomic::Ordering::Relaxed);
                Ok(())
            }

            #[doc = concat!("Same as [`", $std, "::take_error`].")]
            ///
            /// # Errors
            /// The kernel's, of asking.
            pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
                bast_rt::ops::take_error(self.handle())
            }
        }
    };
}
pub(crate) use settings;

/// `Read` and `Write` for a stream, by value and by reference.
macro_rules! stream_io {
    ($name:ident) => {
        impl $name {
            pub(crate) fn socket(&self) -> &$crate::net::socket::Socket {
                &self.shared
            }
        }

        /// Each read is a suspension point.
        impl std::io::Read for &$name {
            #[inline]
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.shared.recv(buf, 0)
            }

            fn read_vectored(
                &mut self,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                self.shared.recv_vectored(bufs)
            }
        }

        /// Each write is a suspension point. Nothing is buffered, so `flush` does nothing.
        impl std::io::Write for &$name {
            #[inline]
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                self.shared.send(buf)
            }

            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                self.shared.send_vectored(bufs)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        /// Each read is a suspension point.
        impl std::io::Read for $name {
            #[inline]
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                (&*self).read(buf)
            }

            fn read_vectored(
                &mut self,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                (&*self).read_vectored(bufs)
            }
        }

        /// Each write is a suspension point. Nothing is buffered, so `flush` does nothing.
        impl std::io::Write for $name {
            #[inline]
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
}
pub(crate) use stream_io;
