//! The `Range` field (RFC 9110, 14.2): which bytes of a file are asked for. No I/O.

use std::ops::Range;

/// More ranges than this are not what a reader of a document asks for; then it gets all of it.
const MOST: usize = 32;

/// What a `Range` field amounts to.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Everything: there is no such field, or one that is to be ignored.
    Whole,
    /// These ranges, at least one and none of them empty, in the order in which they were asked for.
    Parts(Vec<Range<u64>>),
    /// Nothing that the file has.
    Nothing,
}

/// Reads the field's value for a file of `len` bytes. What is malformed, of an unknown unit, of too many ranges, or
/// asks for more than the whole (ranges that overlap, to wear out the server) is ignored.
#[must_use]
pub fn parse(value: &[u8], len: u64) -> Wanted {
    let Some(list) = std::str::from_utf8(value).ok().and_then(|value| {
        let (unit, list) = value.trim().split_once('=')?;
        unit.trim_end().eq_ignore_ascii_case("bytes").then_some(list)
    }) else {
        return Wanted::Whole;
    };
    let mut parts = Vec::new();
    let (mut specs, mut total) = (0, 0u64);
    for spec in list.split(',').map(str::trim).filter(|spec| !spec.is_empty()) {
        specs += 1;
        let Some(part) = range(spec, len) else { return Wanted::Whole };
        total = total.saturating_add(part.end - part.start);
        if specs > MOST || (specs > 1 && total > len) {
            return Wanted::Whole;
        }
        if !part.is_empty() {
            parts.push(part);
        }
    }
    match (specs, parts.is_empty()) {
        (0, _) => Wanted::Whole,
        (_, true) => Wanted::Nothing,
        (_, false) => Wanted::Parts(parts),
    }
}

/// `first-last`, `first-` or `-length`; empty if the file has nothing of it, `None` if it is none of these.
fn range(spec: &str, len: u64) -> Option<Range<u64>> {
    let number = |digits: &str| {
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        // More digits than fit: beyond the end of every file.
        Some(digits.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = spec.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        return Some(len.saturating_sub(number(last)?)..len);
    }
    let first = number(first)?;
    let end = if last.is_empty() { len } else { number(last)?.saturating_add(1) };
    if end <= first && !last.is_empty() {
        return None;
    }
    if first >= len {
        return Some(0..0);
    }
    Some(first..end.min(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let parts = |list: &[(u64, u64)]| Wanted::Parts(list.iter().map(|&(a, b)| a..b).collect());
        let cases = [
            ("bytes=0-499", parts(&[(0, 500)])),
            ("bytes=9500-", parts(&[(9500, 10_000)])),
            ("bytes=-500", parts(&[(9500, 10_000)])),
            ("bytes=-20000", parts(&[(0, 10_000)])),
            ("bytes=0-0,-1", parts(&[(0, 1), (9999, 10_000)])),
            ("Bytes = 0-0 , ,9-9,", parts(&[(0, 1), (9, 10)])),
            ("bytes=9999-99999999999999999999999", parts(&[(9999, 10_000)])),
            ("bytes=500-600,20000-", parts(&[(500, 601)])),
            ("bytes=10000-", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=5-4", Wanted::Whole),
            ("bytes=a-4", Wanted::Whole),
            ("bytes=+1-4", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=", Wanted::Whole),
            ("bytes", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
            ("bytes=0-,0-", Wanted::Whole),
        ];
        for (value, want) in cases {
            assert_eq!(parse(value.as_bytes(), 10_000), want, "{value}");
        }
        assert_eq!(parse(b"bytes=0-", 0), Wanted::Nothing);
        assert_eq!(parse(b"bytes=-5", 0), Wanted::Nothing);
        let many = format!("bytes={}", ["1-1"; MOST + 1].join(","));
        assert_eq!(parse(many.as_bytes(), 10_000), Wanted::Whole);
    }
}
