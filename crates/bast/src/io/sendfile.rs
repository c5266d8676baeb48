//! Files to sockets, past the program's memory.
//!
//! ```text
//!   head ─send, more to come─▶ ┐
//!   file ─sendfile(2)────────▶ socket ─▶ … until all of the range is sent, or the file ends
//! ```
//!
//! What the driver does is in `bast_io::warm`: what the page cache has is sent at once, on the worker; a
//! thread of the pool waits for the disk; the driver waits for room in the socket.

use std::fmt;
use std::io::{self, ErrorKind};

use crate::fs::File;
use crate::net::TcpStream;
#[cfg(unix)]
use crate::os::unix::net::UnixStream;

/// From here on a head is sent by itself. In front of the file it would shift every page to come across the
/// borders of the segments: 1 MiB costs a tenth more then, and a segment of a few hundred bytes a hundredth.
const LONG: u64 = 256 << 10;

/// The most that one operation is asked to send.
const AT_ONCE: u64 = 1 << 30;

mod private {
    use std::io;

    use crate::fs::File;

    pub trait Sealed {
        fn send_head(&self, head: &[u8], more: bool) -> io::Result<usize>;
        fn send_some(&self, file: &File, offset: u64, len: usize) -> io::Result<usize>;
    }
}

/// What a file can be sent to: a [`TcpStream`], or on Unix a `UnixStream`.
pub trait Socket: private::Sealed {}

macro_rules! sockets {
    ($($t:ty),*) => {$(
        impl private::Sealed for $t {
            fn send_head(&self, head: &[u8], more: bool) -> io::Result<usize> {
                if more { self.socket().send_ahead(head) } else { self.socket().send(head) }
            }

            fn send_some(&self, file: &File, offset: u64, len: usize) -> io::Result<usize> {
                self.socket().send_file(file.handle(), offset, len)
            }
        }

        impl Socket for $t {}
    )*};
}

sockets!(TcpStream);
#[cfg(unix)]
sockets!(UnixStream);

/// Sends `len` bytes of `file`, from `offset` on, to a socket, without a copy through the program's
/// memory. Returns what was sent: less than `len` if the file ends before, which it may do when
/// it is shortened meanwhile. The file's own position is neither used nor moved.
///
/// ```
/// use bast::fs::File;
/// use bast::net::{TcpListener, TcpStream};
/// use std::io::Read;
///
/// # fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("bast-sendfile-{}", std::process::id()));
/// # std::fs::write(&path, "some of the bytes of a file")?;
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr()?)?;
/// let (server, _) = listener.accept()?;
/// let file = File::open(&path)?;
/// assert_eq!(bast::io::send_file(&file, 12, u64::MAX, &server)?, 15);
/// drop(server);
/// let mut text = String::new();
/// client.read_to_string(&mut text)?;
/// assert_eq!(text, "bytes of a file");
/// # std::fs::remove_file(&path)?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The kernel's; `WouldBlock` (Windows: `TimedOut`) if the socket has taken nothing for as long as its write timeout. If
/// something was sent before, the error is a [`PartlySent`], of the same [`kind`](io::Error::kind).
///
/// # Cancellation
/// A suspension point. How much was sent is not known then: the connection is of no further use.
pub fn send_file(file: &File, offset: u64, len: u64, to: &impl Socket) -> io::Result<u64> {
    send(file, offset, len, to, 0)
}

/// Sends `head`, and then as [`send_file`]. If the file's part is not long, both travel together. Returns
/// what was sent of the file.
///
/// # Errors
/// As [`send_file`]; what was sent includes the head.
///
/// # Cancellation
/// As [`send_file`].
pub fn send_file_with_head(
    head: &[u8],
    file: &File,
    offset: u64,
    len: u64,
    to: &impl Socket,
) -> io::Result<u64> {
    let mut sent = 0;
    while sent < head.len() {
        match to.send_head(&head[sent..], len < LONG) {
            Ok(0) => return Err(partly(ErrorKind::WriteZero.into(), sent as u64)),
            Ok(n) => sent += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(partly(error, sent as u64)),
        }
    }
    send(file, offset, len, to, sent as u64)
}

fn send(file: &File, offset: u64, len: u64, to: &impl Socket, before: u64) -> io::Result<u64> {
    let mut sent = 0;
    while sent < len {
        let some = (len - sent).min(AT_ONCE) as usize;
        match to.send_some(file, offset.saturating_add(sent), some) {
            Ok(0) => break,
            Ok(n) => sent += n as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(partly(error, before + sent)),
        }
    }
    Ok(sent)
}

fn partly(error: io::Error, sent: u64) -> io::Error {
    if sent == 0 { error } else { io::Error::new(error.kind(), PartlySent { sent, error }) }
}

/// The error of [`send_file`] when something has been sent already. It is found with
/// [`io::Error::downcast`].
#[derive(Debug)]
pub struct PartlySent {
    /// How many bytes the socket has taken.
    pub sent: u64,
    /// What went wrong then.
    pub error: io::Error,
}

impl fmt::Display for PartlySent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (after {} bytes had been sent)", self.error, self.sent)
    }
}

impl std::error::Error for PartlySent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
