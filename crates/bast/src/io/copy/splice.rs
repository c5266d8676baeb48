//! Copying by splice.
//!
//! ```text
//!   one side is a pipe:   from ───────────splice──────────▶ to
//!   none is:              from ──splice──▶ pipe ──splice──▶ to     until the pipe is empty, then the next part
//! ```
//!
//! Nobody else has that pipe. It is given back only when it is empty; if there is an error, or the fiber is cancelled, it is
//! closed with what is in it.

use std::io::{self, Write};

use bast_io::conduit::{self, Conduit};
use bast_rt::ops;

use super::Copy;
use super::ends::End;

/// Bytes of one part between two ends of which one is a pipe.
const PART: usize = 1 << 20;
/// Parts smaller than this are little.
const LITTLE: usize = super::BUFFER;
/// So many little ones in a row are messages, and no stream.
const PATIENCE: u32 = 4;

/// How splicing has ended.
pub(super) enum Ended {
    /// Nothing more comes, or is wanted.
    End,
    /// There is little to do.
    Quiet,
    /// These two cannot be spliced, or there is no pipe.
    Refused,
}

/// Whether the kernel says that it has no such way between these two.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| conduit::REFUSALS.contains(&code))
}

impl Copy<'_> {
    /// Until the end, or as long as much is under way.
    pub(super) fn by_splice(&mut self, buffer: &mut [u8]) -> io::Result<Ended> {
        if matches!(self.from, End::Pipe(_)) || matches!(self.to, End::Pipe(_)) {
            return self.directly();
        }
        let Ok(conduit) = Conduit::take() else { return Ok(Ended::Refused) };
        let ended = self.through(&conduit, buffer)?;
        conduit.put_back();
        Ok(ended)
    }

    fn directly(&mut self) -> io::Result<Ended> {
        let mut little = 0;
        while self.left > 0 && little < PATIENCE {
            let (from, to) = (self.from.handle(), self.to.handle());
            let timeout = self.from.read_timeout().or(self.to.write_timeout());
            match ops::splice(from, None, to, None, self.at_most(PART) as u32, timeout) {
                Ok(0) => return Ok(Ended::End),
                Ok(n) => {
                    self.take(n);
                    little = if n < LITTLE { little + 1 } else { 0 };
                }
                Err(error) if is_refusal(&error) => return Ok(Ended::Refused),
                Err(error) => return Err(error),
            }
        }
        Ok(if self.left > 0 { Ended::Quiet } else { Ended::End })
    }

    /// Returns with the pipe empty, or not at all.
    fn through(&mut self, pipe: &Conduit, buffer: &mut [u8]) -> io::Result<Ended> {
        let mut little = 0;
        while self.left > 0 && little < PATIENCE {
            let most = self.at_most(pipe.size()) as u32;
            let timeout = self.from.read_timeout();
            match ops::splice(self.from.handle(), None, &pipe.writer, None, most, timeout) {
                Ok(0) => return Ok(Ended::End),
                Ok(n) => {
                    self.take(n);
                    if !self.empty(pipe, n, buffer)? {
                        return Ok(Ended::Refused);
                    }
                    little = if n < LITTLE { little + 1 } else { 0 };
                }
                Err(error) if is_refusal(&error) => return Ok(Ended::Refused),
                Err(error) => return Err(error),
            }
        }
        Ok(if self.left > 0 { Ended::Quiet } else { Ended::End })
    }

    /// Moves the `held` bytes on. `false`: by hand, as they cannot be spliced there.
    fn empty(&mut self, pipe: &Conduit, mut held: usize, buffer: &mut [u8]) -> io::Result<bool> {
        while held > 0 {
            let timeout = self.to.write_timeout();
            match ops::splice(&pipe.reader, None, self.to.handle(), None, held as u32, timeout) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => held -= n,
                Err(error) if is_refusal(&error) => break,
                Err(error) => return Err(error),
            }
        }
        let refused = held > 0;
        while held > 0 {
            let room = held.min(buffer.len());
            let n = ops::read(&pipe.reader, &mut buffer[..room], None)?;
            self.to.write_all(&buffer[..n])?;
            held -= n;
        }
        Ok(!refused)
    }
}
