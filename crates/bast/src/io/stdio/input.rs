//! The buffer of standard input: what a reader that is interrupted had read stays there for the next.
//!
//! ```text
//!   store: │ used │ there, not consumed │ room │ ◀── the descriptor
//!                 pos                  end
//! ```
//!
//! A `BufReader` moves the parts of a long line to the caller as they come; if the caller is cancelled then, they
//! are lost with it. Here a line, or all, is put together in the buffer, and leaves it in one piece.

use std::io::{self, BufRead, Read};

/// What is read at once. A buffer that grew far beyond it for one line is let go afterwards.
const CHUNK: usize = 1 << 13;
const KEPT: usize = 1 << 20;

/// Bytes from a descriptor.
pub(super) struct Input<R> {
    from: R,
    store: Vec<u8>,
    pos: usize,
    end: usize,
}

impl<R> Input<R> {
    pub(super) const fn new(from: R) -> Input<R> {
        Input { from, store: Vec::new(), pos: 0, end: 0 }
    }

    fn there(&self) -> &[u8] {
        &self.store[self.pos..self.end]
    }

    /// Gives `n` bytes out.
    fn take(&mut self, n: usize, to: &mut Vec<u8>) {
        if to.is_empty() && self.pos == 0 && n == self.end && n > CHUNK {
            self.store.truncate(n);
            *to = std::mem::take(&mut self.store);
            self.end = 0;
            return;
        }
        to.extend_from_slice(&self.there()[..n]);
        self.consume_some(n);
    }

    fn consume_some(&mut self, n: usize) {
        self.pos = (self.pos + n).min(self.end);
        if self.pos == self.end {
            (self.pos, self.end) = (0, 0);
            if self.store.len() > KEPT {
                self.store = Vec::new();
            }
        }
    }
}

impl<R: Read> Input<R> {
    /// Reads more, behind what is there; 0 at the end of the input.
    fn more(&mut self) -> io::Result<usize> {
        if self.end == self.store.len() {
            if self.pos > self.end / 2 {
                self.store.copy_within(self.pos..self.end, 0);
                (self.pos, self.end) = (0, self.end - self.pos);
            } else {
                let len = (2 * self.store.len()).max(CHUNK);
                self.store.try_reserve_exact(len - self.store.len())?;
                self.store.resize(len, 0);
            }
        }
        loop {
            match self.from.read(&mut self.store[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(n) => {
                    self.end += n;
                    return Ok(n);
                }
            }
        }
    }

    /// How many bytes there are up to `delimiter`, which is one of them, or to the end of the input.
    fn find(&mut self, delimiter: u8) -> io::Result<usize> {
        let mut seen = 0;
        loop {
            // What is compiled into std searches words at a time.
            let mut rest = &self.there()[seen..];
            seen += rest.skip_until(delimiter)?;
            let found = seen > 0 && self.there()[seen - 1] == delimiter;
            if found || self.more()? == 0 {
                return Ok(seen);
            }
        }
    }

    fn find_end(&mut self) -> io::Result<usize> {
        while self.more()? > 0 {}
        Ok(self.end - self.pos)
    }

    fn take_text(&mut self, n: usize, to: &mut String) -> io::Result<usize> {
        let mut bytes = Vec::new();
        self.take(n, &mut bytes);
        match String::from_utf8(bytes) {
            Ok(text) if to.is_empty() => *to = text,
            Ok(text) => to.push_str(&text),
            Err(_) => {
                let what = "stream did not contain valid UTF-8";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        Ok(n)
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.pos == self.end && buf.len() >= CHUNK {
            return self.from.read(buf);
        }
        let n = self.fill_buf()?.read(buf)?;
        self.consume(n);
        Ok(n)
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        while self.there().len() < buf.len() {
            if self.more()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        buf.copy_from_slice(&self.there()[..buf.len()]);
        self.consume(buf.len());
        Ok(())
    }

    fn read_to_end(&mut self, to: &mut Vec<u8>) -> io::Result<usize> {
        let n = self.find_end()?;
        self.take(n, to);
        Ok(n)
    }

    fn read_to_string(&mut self, to: &mut String) -> io::Result<usize> {
        let n = self.find_end()?;
        self.take_text(n, to)
    }
}

impl<R: Read> BufRead for Input<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.pos == self.end {
            self.more()?;
        }
        Ok(self.there())
    }

    fn consume(&mut self, n: usize) {
        self.consume_some(n);
    }

    fn read_until(&mut self, delimiter: u8, to: &mut Vec<u8>) -> io::Result<usize> {
        let n = self.find(delimiter)?;
        self.take(n, to);
        Ok(n)
    }

    fn read_line(&mut self, to: &mut String) -> io::Result<usize> {
        let n = self.find(b'\n')?;
        self.take_text(n, to)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Gives its pieces one by one; `None` unwinds.
    struct Pieces(VecDeque<Option<Vec<u8>>>);

    impl Read for Pieces {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let Some(piece) = self.0.pop_front() else { return Ok(0) };
            let Some(mut piece) = piece else { std::panic::resume_unwind(Box::new(())) };
            let n = piece.len().min(buf.len());
            buf[..n].copy_from_slice(&piece[..n]);
            if n < piece.len() {
                self.0.push_front(Some(piece.split_off(n)));
            }
            Ok(n)
        }
    }

    fn input(pieces: &[Option<&str>]) -> Input<Pieces> {
        Input::new(Pieces(pieces.iter().map(|p| p.map(|p| p.as_bytes().to_vec())).collect()))
    }

    fn interrupted<T>(f: impl FnOnce() -> T) -> bool {
        catch_unwind(AssertUnwindSafe(f)).is_err()
    }

    #[test]
    fn lines_in_any_pieces() {
        let text = "one\n\ntwo\nno end";
        for size in 1..text.len() {
            let pieces = text.as_bytes().chunks(size).map(|p| Some(p.to_vec())).collect();
            let lines: Vec<_> = Input::new(Pieces(pieces)).lines().map(|l| l.unwrap()).collect();
            assert_eq!(lines, ["one", "", "two", "no end"]);
        }
    }

    #[test]
    fn who_is_interrupted_loses_nothing() {
        let mut input = input(&[Some("fi"), None, Some("rst\nsec"), None, Some("ond"), None]);
        let mut line = String::new();
        assert!(interrupted(|| input.read_line(&mut line)));
        assert_eq!((input.read_line(&mut line).unwrap(), &*line), (6, "first\n"));
        assert!(interrupted(|| input.read_exact(&mut [0; 6])));
        assert!(interrupted(|| input.read_to_end(&mut Vec::new())));
        let mut rest = Vec::new();
        assert_eq!((input.read_to_end(&mut rest).unwrap(), &*rest), (6, &b"second"[..]));
    }

    #[test]
    fn a_long_line_goes_and_so_does_its_buffer() {
        let long = "x".repeat(3 * KEPT);
        let mut input = input(&[Some(&long), Some("\nshort\n"), Some("tail")]);
        let mut line = String::from("> ");
        assert_eq!(input.read_line(&mut line).unwrap(), long.len() + 1);
        assert!(line.len() == long.len() + 3 && line.ends_with("x\n"));
        line.clear();
        assert_eq!((input.read_line(&mut line).unwrap(), &*line), (6, "short\n"));
        assert!(input.store.len() <= KEPT);
        assert_eq!(input.read_exact(&mut [0; 5]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let mut tail = [0; 4];
        input.read_exact(&mut tail).unwrap();
        assert_eq!((&tail, input.fill_buf().unwrap()), (b"tail", &b""[..]));
    }

    #[test]
    fn what_is_not_text_is_an_error() {
        let mut input = Input::new(Pieces([Some(vec![0xff, b'\n', b'a'])].into()));
        let mut line = String::new();
        assert_eq!(input.read_line(&mut line).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!((input.read_line(&mut line).unwrap(), &*line), (1, "a"));
    }
}
