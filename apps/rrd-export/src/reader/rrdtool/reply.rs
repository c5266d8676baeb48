//! What rrdtool says to a `fetch`.
//!
//! ```text
//!                             in                 out        the sources' names
//!                                                           an empty line
//!   1700000400: 1.2345000000e+02 -nan                       a row a line
//!   OK u:0.01 s:0.00 r:0.00                                 a daemon's end; of a child's reply: its end
//!
//!   ERROR: opening 'x': No such file or directory           instead of all that
//! ```

use std::io::{self, Read};

use memchr::memchr;
use rrd_file::{Fetched, Query};

use super::value;

/// Pieces of a reply are read into this, in bytes. A daemon writes 4 KiB at a time.
const BUFFER: usize = 1 << 15;

/// No line of rrdtool's is as long, in bytes.
const LONGEST: usize = 1 << 20;

/// A whole reply.
#[derive(Debug)]
pub(super) enum Reply {
    Rows(Fetched),
    /// In rrdtool's words.
    Error(String),
}

/// The lines of replies.
pub(super) struct Replies<R> {
    from: R,
    buffer: Vec<u8>,
    /// What has been read and not used yet.
    start: usize,
    end: usize,
    /// Whether a reply ends with the stream.
    single: bool,
}

fn odd(what: &str, line: &[u8]) -> io::Error {
    let text = line[..line.len().min(100)].escape_ascii();
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: `{text}`"))
}

impl<R: Read> Replies<R> {
    /// Of a daemon.
    pub(super) fn new(from: R) -> Replies<R> {
        Replies { from, buffer: vec![0; BUFFER], start: 0, end: 0, single: false }
    }

    /// Of a child that gives one.
    pub(super) fn single(from: R) -> Replies<R> {
        Replies { single: true, ..Replies::new(from) }
    }

    /// The next line, without its end; `None` at the end of the stream.
    fn line(&mut self) -> io::Result<Option<&[u8]>> {
        let mut looked = self.start;
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[looked..self.end]) {
                let line = self.start..looked + at;
                self.start = line.end + 1;
                return Ok(Some(&self.buffer[line]));
            }
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            looked = self.end;
            if self.end == self.buffer.len() {
                if self.end >= LONGEST {
                    return Err(odd("a line without end", &self.buffer));
                }
                self.buffer.resize(2 * self.end, 0);
            }
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(0) if self.end == 0 => return Ok(None),
                Ok(0) => return Err(odd("half a line", &self.buffer[..self.end])),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next reply.
    ///
    /// # Errors
    /// The stream's; `UnexpectedEof` if it ends before the reply does; `InvalidData` if that is no reply. The stream is
    /// of no use then.
    pub(super) fn read(&mut self, query: &Query) -> io::Result<Reply> {
        let single = self.single;
        let names = self.line()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if let Some(text) = names.strip_prefix(b"ERROR: ") {
            return Ok(Reply::Error(String::from_utf8_lossy(text).into_owned()));
        }
        let words = names.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let sources: Vec<String> =
            words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let mut rows = Rows { width: sources.len(), first: 0, second: 0, count: 0, values: vec![] };
        loop {
            match self.line()? {
                Some(b"") if rows.count == 0 => {}
                Some(line) if line.starts_with(b"OK u:") && !single => break,
                Some(line) if line.starts_with(b"ERROR: ") => {
                    return Ok(Reply::Error(String::from_utf8_lossy(&line[7..]).into_owned()));
                }
                Some(line) => rows.add(line).ok_or_else(|| odd("no row of a reply", line))?,
                None if single => break,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        // One row does not tell how far it is from the next; whoever has one needs its time alone.
        let step = if rows.count > 1 {
            u64::try_from(rows.second - rows.first).unwrap_or(1)
        } else {
            query.resolution.unwrap_or(1)
        };
        let start = if rows.count == 0 { query.from } else { rows.first - step as i64 };
        Ok(Reply::Rows(Fetched { start, step, sources, values: rows.values }))
    }
}

/// Rows so far. Their times are evenly spaced, or they are no rows.
struct Rows {
    width: usize,
    first: i64,
    second: i64,
    count: i64,
    values: Vec<f64>,
}

impl Rows {
    fn add(&mut self, line: &[u8]) -> Option<()> {
        let colon = memchr(b':', line)?;
        let time: i64 = str::from_utf8(&line[..colon]).ok()?.trim_ascii().parse().ok()?;
        match self.count {
            0 => self.first = time,
            1 if time > self.first => self.second = time,
            count => {
                let step = self.second.checked_sub(self.first)?;
                if Some(time) != step.checked_mul(count)?.checked_add(self.first) {
                    return None;
                }
            }
        }
        let mut width = 0;
        for word in line[colon + 1..].split(|byte| *byte == b' ') {
            if !word.is_empty() {
                self.values.push(value::parse(word)?);
                width += 1;
            }
        }
        self.count += 1;
        (width == self.width).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rrd_file::Cf;

    const QUERY: Query = Query { cf: Cf::Average, from: 100, to: 700, resolution: None };
    const TWO: &str = "   in    out\n\n300: 1.0000000000e+00 -nan\n600: -2.5000000000e-01 nan\nOK u:0.01 s:0.00 r:0.00\n";

    /// Gives a few bytes at a time.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn rows(reply: Reply) -> Fetched {
        match reply {
            Reply::Rows(fetched) => fetched,
            Reply::Error(text) => panic!("an error: {text}"),
        }
    }

    #[test]
    fn replies_follow_one_another_however_they_are_cut() {
        let text = format!("{TWO}ERROR: opening 'x': No such file or directory\n{TWO}");
        for cut in [1, 2, 7, 64, 10_000] {
            let mut replies = Replies::new(Drip(text.as_bytes(), cut));
            for turn in 0..3 {
                match (turn, replies.read(&QUERY).unwrap()) {
                    (1, Reply::Error(text)) => assert!(text.starts_with("opening 'x'")),
                    (_, reply) => {
                        let fetched = rows(reply);
                        assert_eq!((fetched.start, fetched.step), (0, 300));
                        assert_eq!(fetched.sources, ["in", "out"]);
                        assert_eq!((fetched.values[0], fetched.values[2]), (1.0, -0.25));
                        assert!(fetched.values[1].is_nan() && fetched.values[3].is_nan());
                    }
                }
            }
            let end = replies.read(&QUERY).unwrap_err();
            assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn a_reply_that_stops_anywhere_is_none() {
        for length in 0..TWO.len() {
            assert!(Replies::new(&TWO.as_bytes()[..length]).read(&QUERY).is_err(), "{length}");
        }
    }

    #[test]
    fn a_child_ends_where_its_output_does() {
        let text = TWO.split_once("OK").unwrap().0;
        assert_eq!(rows(Replies::single(text.as_bytes()).read(&QUERY).unwrap()).values.len(), 4);
        let none = rows(Replies::single(&b" in\n\n"[..]).read(&QUERY).unwrap());
        assert_eq!((none.start, none.values.len()), (100, 0));
        let one = rows(Replies::single(&b" in\n\n300: nan\n"[..]).read(&QUERY).unwrap());
        assert_eq!(one.start + one.step as i64, 300);
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        for text in [
            " in\n\n300: 1.0 2.0\nOK u:0\n",
            " in\n\nhello\nOK u:0\n",
            " in\n\n300: one\nOK u:0\n",
            " in\n\n300: 1\n300: 1\nOK u:0\n",
            " in\n\n300: 1\n600: 1\n1000: 1\nOK u:0\n",
            " a b\n\n300: 1\nOK u:0\n",
        ] {
            let error = Replies::new(text.as_bytes()).read(&QUERY).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{text}");
        }
        assert!(Replies::new(io::repeat(b'x')).read(&QUERY).is_err());
    }
}
