//! `io::copy`: by the kernel where it can, by hand where it cannot, or where that costs less.
//!
//! ```text
//!   not descriptors ──▶ std::io::copy
//!   file ─▶ file    ──▶ std::io::copy of one part after the other, on the pool: copy_file_range
//!   file ─▶ socket  ──▶ sendfile ───────────refused──┐
//!   the rest        ──▶ by hand ◀────────────────────┘
//!                         │  ▲
//!       a read fills the  │  │ a few little parts in a row, or refused:
//!       buffer            ▼  │ what is in the pipe is read from there
//!                       splice, through a pipe if neither side is one
//! ```
//!
//! Messages go by hand and streams by splice: a splice takes two calls more than `recv` and `send` do, and saves
//! two copies. So a connection that is silent or has little to say holds no pipe either.

pub(crate) mod ends;
// A kernel without splice(2) refuses.
#[cfg_attr(not(target_os = "linux"), path = "no_splice.rs")]
mod splice;

use std::io::{self, Read, Seek, SeekFrom, Write};

use bast_rt::{ops, run_blocking, wait};

use self::ends::End;
use crate::fs::File;
use crate::os::known::{self, Source, Target};
use crate::os::system::with_std_file;

/// Bytes that are read at a time by hand. Whoever fills it has more to say.
const BUFFER: usize = 16 << 10;
/// The same where there is nothing else than by hand.
const LARGE: usize = 128 << 10;
/// Bytes of a file that are moved by one call, which holds a thread of the pool for so long.
const PART: u64 = 16 << 20;

/// Same as [`std::io::copy`], also in that the kernel moves the bytes where it can: between bast's files, TCP and Unix
/// streams, pipes and the pipes of child processes; references to them; [`Take`](std::io::Take) and
/// [`BufReader`](std::io::BufReader) of them; and to [`BufWriter`](std::io::BufWriter) of them.
///
/// ```
/// use bast::net::{Shutdown, TcpListener, TcpStream};
/// use std::io::{Read, Write};
///
/// # fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr()?)?;
/// let (server, _) = listener.accept()?;
/// client.write_all(b"there and back")?;
/// client.shutdown(Shutdown::Write)?;
/// assert_eq!(bast::io::copy(&mut &server, &mut &server)?, 14);
/// drop(server);
/// let mut text = String::new();
/// client.read_to_string(&mut text)?;
/// assert_eq!(text, "there and back");
/// # Ok(()) }
/// ```
///
/// # Differences from std
/// * From socket to socket it splices too, through a pipe (two descriptors) while much is under way. If no pipe is
///   to be had it goes on by hand.
/// * Between files it goes in parts of 16 MiB.
/// * A socket's timeout is that of each wait for it, as it was when that began; and a socket that
///   is non-blocking when the copy begins is so for the whole of it.
/// * A socket's descriptor may be in non-blocking mode afterwards, which matters to who uses it by its number only.
///
/// # Errors
/// As std's. What had been read and not yet written is lost then: at most 512 KiB.
///
/// # Cancellation
/// A suspension point. It loses what an error loses. The limit of a [`Take`](std::io::Take) is then as it was.
pub fn copy<R, W>(reader: &mut R, writer: &mut W) -> io::Result<u64>
where
    R: ?Sized + Read,
    W: ?Sized + Write,
{
    match (known::source(reader), known::target(writer)) {
        (Some(source), Some(target)) => between(source, target),
        _ => io::copy(reader, writer),
    }
}

/// Between what has descriptors.
fn between(source: &mut dyn Source, target: &mut dyn Target) -> io::Result<u64> {
    target.settle()?;
    let ahead = source.ahead().len();
    if ahead > 0 {
        target.end().write_all(source.ahead())?;
        source.used(ahead, 0);
    }
    let mut copy = Copy { from: source.end(), to: target.end(), left: source.left(), taken: 0 };
    let result = copy.all();
    let taken = copy.taken;
    source.used(0, taken);
    result.map(|()| ahead as u64 + taken)
}

/// What went before, in both files' positions, is done; this is the rest.
struct Copy<'a> {
    from: End<'a>,
    to: End<'a>,
    /// How much may still be taken from `from`.
    left: u64,
    /// How much has been taken, and, unless there is an error, also written.
    taken: u64,
}

/// How a way of copying has ended.
enum Way {
    /// Nothing more comes, or is wanted.
    End,
    /// Another way is better, or the only one.
    Another,
}

impl Copy<'_> {
    fn take(&mut self, n: usize) {
        self.taken += n as u64;
        self.left -= n as u64;
    }

    /// As much as is left, and no more than `most`.
    fn at_most(&self, most: usize) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX).min(most)
    }

    fn all(&mut self) -> io::Result<()> {
        let movable = self.left > 0 && self.from.is_movable() && self.to.is_movable();
        let way = match (self.from, self.to) {
            (End::File(from), End::File(to)) if movable => {
                return with_std_file(from.handle(), |from| {
                    with_std_file(to.handle(), |to| {
                        copy_files(from, to, self.left, &mut self.taken)
                    })
                });
            }
            (End::File(file), End::Socket(_)) if movable => self.by_sendfile(file)?,
            _ => Way::Another,
        };
        if matches!(way, Way::End) {
            return Ok(());
        }
        let mut buffer = vec![0; BUFFER];
        let mut splices = movable;
        loop {
            if let Way::End = self.by_hand(&mut buffer, splices)? {
                return Ok(());
            }
            match self.by_splice(&mut buffer)? {
                #[cfg(target_os = "linux")]
                splice::Ended::End => return Ok(()),
                #[cfg(target_os = "linux")]
                splice::Ended::Quiet => {}
                splice::Ended::Refused => splices = false,
            }
        }
    }

    /// Until the end, or, if it `splices` else, until a read fills the buffer.
    fn by_hand(&mut self, buffer: &mut Vec<u8>, splices: bool) -> io::Result<Way> {
        while self.left > 0 {
            let room = self.at_most(buffer.len());
            let n = match self.from.read(&mut buffer[..room]) {
                Ok(0) => return Ok(Way::End),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.take(n);
            self.to.write_all(&buffer[..n])?;
            if n == buffer.len() && n < LARGE {
                if splices {
                    return Ok(Way::Another);
                }
                buffer.resize(LARGE, 0);
            }
        }
        Ok(Way::End)
    }

    /// The operation wants to know where, so the file's position follows it.
    fn by_sendfile(&mut self, mut file: &File) -> io::Result<Way> {
        let Ok(mut at) = file.stream_position() else { return Ok(Way::Another) };
        while self.left > 0 {
            let most = self.at_most(PART as usize);
            let (to, timeout) = (self.to.handle(), self.to.write_timeout());
            match ops::sendfile(to, file.handle(), at, most, timeout) {
                // Files in /proc say so at once, and have something to read all the same.
                Ok(0) if self.taken == 0 => return Ok(Way::Another),
                Ok(0) => break,
                Ok(n) => {
                    self.take(n);
                    at += n as u64;
                    file.seek(SeekFrom::Start(at))?;
                }
                Err(error) if splice::is_refusal(&error) => return Ok(Way::Another),
                Err(error) => return Err(error),
            }
        }
        Ok(Way::End)
    }
}

/// Copies until the end or `most` bytes, and counts. std knows all the ways and what refuses them; it is asked for a
/// part at a time.
pub(crate) fn copy_files(
    from: &std::fs::File,
    to: &std::fs::File,
    most: u64,
    taken: &mut u64,
) -> io::Result<()> {
    while *taken < most {
        wait::check();
        let part = (most - *taken).min(PART);
        let n = run_blocking(|| io::copy(&mut from.take(part), &mut { to }))?;
        *taken += n;
        if n < part {
            break;
        }
    }
    Ok(())
}
