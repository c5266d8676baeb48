//! The lines of a journal: words between tabs, and a checksum.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;

use super::Entry;
use super::list::Done;

pub(super) const HEAD: &str = "rrd-export journal 1";

pub(super) enum Line {
    Option(String, String),
    Entry(Entry),
    Done(Done),
    Complete,
}

/// Gives the good lines up to `end`, each with where it ends; false if that is no journal.
pub(super) fn lines(
    file: impl Read,
    end: u64,
    mut each: impl FnMut(Line, u64) -> io::Result<()>,
) -> io::Result<bool> {
    let mut file = BufReader::with_capacity(1 << 16, file);
    let (mut raw, mut at, mut headed) = (Vec::new(), 0, false);
    while at < end {
        raw.clear();
        at += file.read_until(b'\n', &mut raw)? as u64;
        let Some(words) = words(&raw) else { break };
        if !headed {
            headed = words[0] == HEAD.as_bytes();
            if !headed {
                break;
            }
            continue;
        }
        let Some(line) = parse(&words) else { break };
        each(line, at)?;
    }
    Ok(headed)
}

/// The words of a line whose checksum is right.
fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let line = line.strip_suffix(b"\n")?;
    let (text, sum) = line.split_at_checked(line.len().checked_sub(9)?)?;
    if sum != format!("\t{:08x}", crc32fast::hash(text)).as_bytes() {
        return None;
    }
    text.split(|byte| *byte == b'\t').map(unescape).collect()
}

fn parse(words: &[Vec<u8>]) -> Option<Line> {
    let text = |word: &Vec<u8>| String::from_utf8(word.clone()).ok();
    let number = |word: &Vec<u8>| text(word)?.parse::<u64>().ok();
    Some(match words {
        [kind, name, value] if kind == b"option" => Line::Option(text(name)?, text(value)?),
        [kind, seq, path, why] if kind == b"failed" => {
            let path = OsString::from_vec(path.clone()).into();
            Line::Entry(Entry::Failed { seq: number(seq)?, path, why: text(why)? })
        }
        [kind, bytes] if kind == b"note" => Line::Entry(Entry::Note(bytes.clone())),
        [kind, a, b, c, d, e] if kind == b"done" => Line::Done(Done::from_numbers([
            number(a)?,
            number(b)?,
            number(c)?,
            number(d)?,
            number(e)?,
        ])),
        [kind] if kind == b"complete" => Line::Complete,
        _ => return None,
    })
}

/// Appends a line.
pub(super) fn put(words: &[&[u8]], out: &mut Vec<u8>) {
    let begin = out.len();
    for (place, word) in words.iter().enumerate() {
        if place > 0 {
            out.push(b'\t');
        }
        escape(word, out);
    }
    let sum = crc32fast::hash(&out[begin..]);
    out.extend_from_slice(format!("\t{sum:08x}\n").as_bytes());
}

fn escape(word: &[u8], out: &mut Vec<u8>) {
    for byte in word {
        match byte {
            0..b' ' | b'%' | 0x7f => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
}

fn unescape(word: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(word.len());
    let mut pieces = word.split(|byte| *byte == b'%');
    out.extend_from_slice(pieces.next()?);
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        out.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
        out.extend_from_slice(rest);
    }
    Some(out)
}
