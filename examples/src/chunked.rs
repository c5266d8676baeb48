//! Skips a chunked body: finds its end without keeping any of it.
//!
//! ```text
//!   Size --CR--> SizeLf --LF--> Data(n) --n bytes--> DataCr -> DataLf -> Size
//!    |  ^                          |
//!    +--+ digits, ;extension       +-- n = 0 --> Trailer lines ... empty line: the end
//! ```
//!
//! Every line must end in CR LF. Servers and proxies that took a bare LF, or a bare CR, here have
//! been led to see different requests in the same bytes.

/// The most bytes of chunk extensions in a line, and of trailer fields altogether.
const MAX_LINE: usize = 16 * 1024;

/// Why a chunked body cannot be skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not in the chunked coding.
    Malformed,
    /// An extension or the trailer section is longer than anyone has use for.
    TooLong,
}

/// The state of skipping one chunked body, kept between reads.
#[derive(Debug)]
pub struct Chunked {
    state: State,
    /// The size of the chunk, as far as it has been read.
    size: u64,
    /// Hex digits of the size, or bytes of the extension or the trailer section.
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    /// Space after the size: only more space, an extension or the line's end may follow.
    SizeSpace,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
}

impl Default for Chunked {
    fn default() -> Self {
        Chunked::new()
    }
}

impl Chunked {
    /// At the start of a body.
    pub const fn new() -> Self {
        Chunked { state: State::Size, size: 0, count: 0 }
    }

    /// Skips what it can; returns the bytes used and whether the body is at its end.
    pub fn skip(&mut self, input: &[u8]) -> Result<(usize, bool), Fault> {
        let mut at = 0;
        while at < input.len() {
            if self.state == State::Data {
                let here = usize::try_from(self.size).unwrap_or(usize::MAX).min(input.len() - at);
                at += here;
                self.size -= here as u64;
                if self.size == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            let byte = input[at];
            at += 1;
            let was = self.state;
            self.state = self.next(byte)?;
            if was == State::EndLf {
                return Ok((at, true));
            }
        }
        Ok((at, false))
    }

    /// The state after one byte of framing.
    fn next(&mut self, byte: u8) -> Result<State, Fault> {
        Ok(match (self.state, byte) {
            (State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = match byte {
                    b'0'..=b'9' => byte - b'0',
                    _ => (byte | 0x20) - b'a' + 10,
                };
                self.count += 1;
                // 16 digits fill a u64; leading zeros beyond that are nobody's honest size.
                if self.count > 16 {
                    return Err(Fault::Malformed);
                }
                self.size = self.size << 4 | u64::from(digit);
                State::Size
            }
            (State::Size | State::SizeSpace, _) if self.count == 0 => return Err(Fault::Malformed),
            (State::Size | State::SizeSpace, b' ' | b'\t') => State::SizeSpace,
            (State::Size | State::SizeSpace, b';') => {
                self.count = 1;
                State::Extension
            }
            (State::Size | State::SizeSpace | State::Extension, b'\r') => State::SizeLf,
            (State::Extension, b'\t' | b' '..=0x7e | 0x80..) => self.counted(State::Extension)?,
            (State::SizeLf, b'\n') => {
                self.count = 0;
                if self.size == 0 { State::TrailerStart } else { State::Data }
            }
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size,
            (State::TrailerStart, b'\r') => State::EndLf,
            (State::Trailer, b'\r') => State::TrailerLf,
            (State::TrailerStart, b' ' | b'\t' | b':') => return Err(Fault::Malformed),
            (State::TrailerStart | State::Trailer, b'\t' | b' '..=0x7e | 0x80..) => {
                self.counted(State::Trailer)?
            }
            (State::TrailerLf, b'\n') => State::TrailerStart,
            (State::EndLf, b'\n') => State::EndLf,
            _ => return Err(Fault::Malformed),
        })
    }

    fn counted(&mut self, state: State) -> Result<State, Fault> {
        self.count += 1;
        if self.count > MAX_LINE { Err(Fault::TooLong) } else { Ok(state) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Chunked, Fault, MAX_LINE};

    /// Skips `body` in pieces of `piece` bytes; returns what was used in all and whether it ended.
    fn skip(body: &[u8], piece: usize) -> Result<(usize, bool), Fault> {
        let mut decoder = Chunked::new();
        let mut used = 0;
        for part in body.chunks(piece) {
            let (n, end) = decoder.skip(part)?;
            used += n;
            if end {
                return Ok((used, true));
            }
            assert_eq!(n, part.len(), "all of a part is used unless the end is in it");
        }
        Ok((used, false))
    }

    #[test]
    fn bodies_end_where_they_end() {
        let whole: &[&str] = &[
            "0\r\n\r\n",
            "5\r\nhello\r\n0\r\n\r\n",
            "A\r\n0123456789\r\n00\r\n\r\n",
            "5 \t\r\nhello\r\n0\r\n\r\n",
            "5;name=value;other=\"x\"\r\nhello\r\n0;last\r\n\r\n",
            "2\r\n\r\n\r\n0\r\nTrailer: yes\r\nOther: x\r\n\r\n",
        ];
        for body in whole {
            for piece in 1..=body.len() + 7 {
                let with_next = format!("{body}GET /");
                let result = skip(with_next.as_bytes(), piece);
                assert_eq!(result, Ok((body.len(), true)), "{body:?} in pieces of {piece}");
            }
            for cut in 0..body.len() {
                let result = skip(&body.as_bytes()[..cut], 3);
                assert_eq!(result, Ok((cut, false)), "{body:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_two_parsers_could_read_differently_is_refused() {
        let faulty: &[&str] = &[
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            ";x\r\n",
            "1 1\r\n",
            "1\n",
            "1;x\n",
            "1\rx",
            "1\r\nab",
            "1\r\na\n",
            "1\r\na\rb",
            "0\r\nTrailer: x\n",
            "0\r\nTrailer: x\ry",
            "0\r\n folded\r\n",
            "0\r\n\n",
            "0\r\n\rx",
            "10000000000000000\r\n",
            "00000000000000001\r\n",
        ];
        for body in faulty {
            for piece in 1..=body.len() {
                let result = skip(body.as_bytes(), piece);
                assert_eq!(result, Err(Fault::Malformed), "{body:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn framing_without_end_is_refused() {
        let extension = format!("1;{}", "x".repeat(MAX_LINE));
        assert_eq!(skip(extension.as_bytes(), 1000), Err(Fault::TooLong));
        let trailer = format!("0\r\n{}", "a: b\r\n".repeat(MAX_LINE / 4 + 1));
        assert_eq!(skip(trailer.as_bytes(), 1000), Err(Fault::TooLong));
    }

    #[test]
    fn a_chunk_of_the_largest_size_is_no_overflow() {
        let mut decoder = Chunked::new();
        assert_eq!(decoder.skip(b"ffffffffffffffff\r\n"), Ok((18, false)));
        assert_eq!(decoder.skip(&[0; 4096]), Ok((4096, false)));
    }
}
