//! Preconditions (RFC 9110, 13): whether a request is to be carried out at all, and whether in part. No I/O.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httparse::Header;

use super::range::{self, Wanted};

/// What tells one version of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// With its quotes; weak (`W/"…"`) if the file has only just been changed.
    pub etag: String,
    /// When it was changed, in seconds since 1970.
    pub modified: u64,
    /// How long it is.
    pub len: u64,
}

impl Version {
    /// The version of a file. Within two seconds of a change there may be another of the same length that
    /// the file system's clock does not tell apart, so that its tag promises no equality of bytes.
    #[must_use]
    pub fn new(modified: (i64, u32), inode: u64, len: u64, now: u64) -> Version {
        let (seconds, nanos) = (u64::try_from(modified.0).unwrap_or(0), modified.1);
        let weak = if seconds + 2 > now { "W/" } else { "" };
        Version {
            etag: format!("{weak}\"{seconds:x}.{nanos:x}-{inode:x}-{len:x}\""),
            modified: seconds,
            len,
        }
    }

    fn is_strong(&self) -> bool {
        self.etag.starts_with('"')
    }
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The file is sent, or a part of it.
    Send(Wanted),
    /// 304: the client has it already.
    NotModified,
    /// 412: it is not what the client believes.
    Failed,
}

/// Weighs the fields in the order of RFC 9110, 13.2.2.
#[must_use]
pub fn weigh(headers: &[Header<'_>], version: &Version, is_get: bool) -> Verdict {
    let mut fields = Fields::default();
    for Header { name, value } in headers {
        // The length tells the few names that matter apart from nearly all that do not.
        let place = match name.len() {
            5 if name.eq_ignore_ascii_case("range") => &mut fields.range,
            8 if name.eq_ignore_ascii_case("if-range") => &mut fields.if_range,
            8 if name.eq_ignore_ascii_case("if-match") => &mut fields.matches,
            13 if name.eq_ignore_ascii_case("if-none-match") => &mut fields.none_match,
            17 if name.eq_ignore_ascii_case("if-modified-since") => &mut fields.modified_since,
            19 if name.eq_ignore_ascii_case("if-unmodified-since") => &mut fields.unmodified_since,
            _ => continue,
        };
        *place = (place.0 + 1, value.trim_ascii());
        // A list may be spread over several fields: what each holds is looked at.
        if name.eq_ignore_ascii_case("if-match") {
            fields.any_match |= is_listed(value, version, true);
        } else if name.eq_ignore_ascii_case("if-none-match") {
            fields.any_none_match |= is_listed(value, version, false);
        }
    }
    fields.verdict(version, is_get)
}

/// How often each field is there, and its last value.
#[derive(Default)]
struct Fields<'a> {
    range: (u32, &'a [u8]),
    if_range: (u32, &'a [u8]),
    matches: (u32, &'a [u8]),
    none_match: (u32, &'a [u8]),
    modified_since: (u32, &'a [u8]),
    unmodified_since: (u32, &'a [u8]),
    any_match: bool,
    any_none_match: bool,
}

impl Fields<'_> {
    fn verdict(&self, version: &Version, is_get: bool) -> Verdict {
        // A date that is none, or that is there twice, is no condition.
        let date = |field: (u32, &[u8])| (field.0 == 1).then(|| seconds(field.1)).flatten();
        if self.matches.0 > 0 {
            if !self.any_match {
                return Verdict::Failed;
            }
        } else if date(self.unmodified_since).is_some_and(|date| version.modified > date) {
            return Verdict::Failed;
        }
        if self.none_match.0 > 0 {
            if self.any_none_match {
                return Verdict::NotModified;
            }
        } else if date(self.modified_since).is_some_and(|date| version.modified <= date) {
            return Verdict::NotModified;
        }
        if !is_get || self.range.0 != 1 {
            return Verdict::Send(Wanted::Whole);
        }
        let is_same = match self.if_range {
            (0, _) => true,
            (1, tag) if tag.starts_with(b"\"") => version.etag.as_bytes() == tag,
            // The date must be the very same, and say enough (8.8.2.2): else a change went unseen.
            (1, date) => version.is_strong() && seconds(date) == Some(version.modified),
            _ => false,
        };
        Verdict::Send(if is_same { range::parse(self.range.1, version.len) } else { Wanted::Whole })
    }
}

/// Whether a list of entity tags has that of this version, or is `*`.
fn is_listed(list: &[u8], version: &Version, strongly: bool) -> bool {
    let list = list.trim_ascii();
    if list == b"*" {
        return true;
    }
    let opaque = |tag: &'_ [u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
    let ours = version.etag.as_bytes();
    // (Our tags have no comma in them; a foreign one that has falls into pieces that equal none of ours.)
    list.split(|b| *b == b',').map(<[u8]>::trim_ascii).any(|tag| {
        if strongly { version.is_strong() && tag == ours } else { opaque(tag) == opaque(ours) }
    })
}

fn seconds(date: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(date).ok()?).ok()?;
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

/// A time as HTTP writes it.
#[must_use]
pub fn date(seconds: u64) -> String {
    // Later than it can write (the year 9999) is as good as then.
    let time: SystemTime = UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799));
    httpdate::fmt_http_date(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGED: u64 = 1_000_000_000;

    fn version() -> Version {
        Version::new((CHANGED as i64, 5), 7, 100, CHANGED + 1000)
    }

    fn judge(fields: &[(&str, &str)], version: &Version) -> Verdict {
        let headers: Vec<_> =
            fields.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
        weigh(&headers, version, true)
    }

    #[test]
    fn the_rfcs_table() {
        let version = version();
        let etag = version.etag.as_str();
        let weak = &format!("W/{etag}");
        let list = &format!("\"a\", {etag} ,\"b\"");
        let (same, before, after) = (&date(CHANGED), &date(CHANGED - 1), &date(CHANGED + 1));
        let whole = || Verdict::Send(Wanted::Whole);
        let part = || Verdict::Send(Wanted::Parts(std::iter::once(0..10).collect()));
        let cases: Vec<(Vec<(&str, &str)>, Verdict)> = vec![
            (vec![], whole()),
            (vec![("If-None-Match", etag)], Verdict::NotModified),
            (vec![("if-none-match", weak)], Verdict::NotModified),
            (vec![("If-None-Match", list)], Verdict::NotModified),
            (vec![("If-None-Match", "*")], Verdict::NotModified),
            (vec![("If-None-Match", "\"a\""), ("If-None-Match", etag)], Verdict::NotModified),
            (vec![("If-None-Match", "\"a\"")], whole()),
            (vec![("If-None-Match", "\"a\""), ("If-Modified-Since", same)], whole()),
            (vec![("If-Modified-Since", same)], Verdict::NotModified),
            (vec![("If-Modified-Since", after)], Verdict::NotModified),
            (vec![("If-Modified-Since", before)], whole()),
            (vec![("If-Modified-Since", "yesterday")], whole()),
            (vec![("If-Match", etag)], whole()),
            (vec![("If-Match", "*")], whole()),
            (vec![("If-Match", list)], whole()),
            (vec![("If-Match", weak)], Verdict::Failed),
            (vec![("If-Match", "\"a\"")], Verdict::Failed),
            (vec![("If-Match", etag), ("If-Unmodified-Since", before)], whole()),
            (vec![("If-Unmodified-Since", before)], Verdict::Failed),
            (vec![("If-Unmodified-Since", same)], whole()),
            (vec![("If-Match", etag), ("If-None-Match", etag)], Verdict::NotModified),
            (vec![("Range", "bytes=0-9")], part()),
            (vec![("Range", "bytes=0-9"), ("Range", "bytes=0-9")], whole()),
            (vec![("Range", "bytes=0-9"), ("If-Range", etag)], part()),
            (vec![("Range", "bytes=0-9"), ("If-Range", weak)], whole()),
            (vec![("Range", "bytes=0-9"), ("If-Range", "\"a\"")], whole()),
            (vec![("Range", "bytes=0-9"), ("If-Range", same)], part()),
            (vec![("Range", "bytes=0-9"), ("If-Range", after)], whole()),
            (vec![("Range", "bytes=0-9"), ("If-None-Match", etag)], Verdict::NotModified),
            (vec![("Range", "bytes=100-")], Verdict::Send(Wanted::Nothing)),
        ];
        for (fields, want) in cases {
            assert_eq!(judge(&fields, &version), want, "{fields:?}");
        }
    }

    #[test]
    fn a_fresh_file_has_a_weak_tag() {
        let fresh = Version::new((CHANGED as i64, 5), 7, 100, CHANGED + 1);
        assert!(fresh.etag.starts_with("W/\""));
        let etag = fresh.etag.clone();
        assert_eq!(judge(&[("If-None-Match", &etag)], &fresh), Verdict::NotModified);
        assert_eq!(judge(&[("If-Match", &etag)], &fresh), Verdict::Failed);
        let ranged = [("Range", "bytes=0-9"), ("If-Range", &date(CHANGED))];
        assert_eq!(judge(&ranged, &fresh), Verdict::Send(Wanted::Whole));
    }
}
