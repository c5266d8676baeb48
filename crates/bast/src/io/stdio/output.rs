//! The buffer of standard output: lines are written when they are complete, and outlive a writer that is
//! interrupted.
//!
//! ```text
//!   write ─▶ buffer: │ lines, due now │ the begun line, kept │ ─▶ the descriptor
//! ```
//!
//! A `LineWriter` gives a long piece to the descriptor at once; a writer that is cancelled while that is half
//! done would leave half a line, with the next writer's behind it. Here everything goes through the buffer. What is
//! left in it by a writer that unwinds is written by whoever writes, flushes or ends the program next.

use std::io::{self, Write};

use bast_rt::wait;

/// As much is taken before something has to be written. Lines up to this length are never torn.
pub(super) const CAPACITY: usize = 1 << 16;

/// Bytes on their way to a descriptor.
pub(super) struct Output<W> {
    to: W,
    /// Taken from writers that were told so, or that have unwound.
    buffer: Vec<u8>,
    /// Whether lines are waited for.
    lines: bool,
}

impl<W> Output<W> {
    pub(super) const fn new(to: W, lines: bool) -> Output<W> {
        Output { to, buffer: Vec::new(), lines }
    }

    /// What nobody has written yet.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }
}

impl<W: Write> Output<W> {
    /// Writes the first `due` bytes. Each that is written leaves the buffer at once, however this ends.
    fn drain(&mut self, due: usize) -> io::Result<()> {
        let left = self.buffer.len() - due;
        while self.buffer.len() > left {
            let due = self.buffer.len() - left;
            match self.to.write(&self.buffer[..due]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => drop(self.buffer.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn due(&self) -> usize {
        if !self.lines {
            return self.buffer.len();
        }
        self.buffer.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    }
}

impl<W: Write> Write for Output<W> {
    /// On an error nothing of `bytes` has been taken, or it is less than all and the next write tells.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.is_empty() {
            // Here, where no line has been begun.
            wait::check();
        }
        if self.buffer.len() >= CAPACITY {
            self.drain(self.buffer.len())?;
        }
        let taken = bytes.len().min(CAPACITY - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.lines && !bytes[..taken].contains(&b'\n') {
            return Ok(taken);
        }
        match self.drain(self.due()) {
            Ok(()) => Ok(taken),
            Err(error) => {
                // Ours are the last of what is left.
                let back = taken.min(self.buffer.len());
                self.buffer.truncate(self.buffer.len() - back);
                if taken > back { Ok(taken - back) } else { Err(error) }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain(self.buffer.len())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Does with each write what it is told: takes so many bytes, fails, or unwinds.
    #[derive(Default)]
    struct Script {
        steps: Vec<Option<io::Result<usize>>>,
        seen: Vec<u8>,
        calls: usize,
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            let step =
                if self.steps.is_empty() { Some(Ok(usize::MAX)) } else { self.steps.remove(0) };
            let Some(step) = step else { std::panic::resume_unwind(Box::new(())) };
            let n = step?.min(bytes.len());
            self.seen.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn broken() -> Option<io::Result<usize>> {
        Some(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn output(steps: Vec<Option<io::Result<usize>>>) -> Output<Script> {
        Output::new(Script { steps, ..Script::default() }, true)
    }

    #[test]
    fn lines_are_written_when_they_are_complete() {
        let mut out = output(Vec::new());
        out.write_all(b"be").unwrap();
        assert_eq!(out.to.calls, 0);
        out.write_all(b"gun\nand").unwrap();
        assert_eq!((out.to.calls, &*out.to.seen), (1, &b"begun\n"[..]));
        out.flush().unwrap();
        assert_eq!(out.to.seen, b"begun\nand");
        let long = vec![b'x'; 3 * CAPACITY];
        out.write_all(&long).unwrap();
        assert!(out.buffer.len() <= CAPACITY);
        out.flush().unwrap();
        assert_eq!(out.to.seen.len(), 9 + long.len());
    }

    #[test]
    fn an_error_is_about_what_was_not_taken() {
        let mut out = output(vec![Some(Ok(2)), broken(), broken()]);
        assert_eq!(out.write(b"one\n").unwrap(), 2);
        assert!(out.write(b"e\n").is_err());
        assert_eq!(out.write(b"two\n").unwrap(), 4);
        assert_eq!(out.to.seen, b"ontwo\n");
        // What had been taken before stays.
        let mut out = output(vec![broken()]);
        out.write_all(b"kept ").unwrap();
        assert!(out.write(b"line\n").is_err());
        out.flush().unwrap();
        assert_eq!(out.to.seen, b"kept ");
    }

    #[test]
    fn a_writer_that_unwinds_leaves_its_line_whole() {
        let mut out = output(vec![Some(Ok(3)), None]);
        assert!(catch_unwind(AssertUnwindSafe(|| out.write_all(b"first\n"))).is_err());
        assert_eq!(out.to.seen, b"fir");
        out.write_all(b"second\n").unwrap();
        assert_eq!(out.to.seen, b"first\nsecond\n");
    }
}
