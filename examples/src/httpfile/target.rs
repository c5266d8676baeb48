//! From a request target to a path beneath the root, or to a refusal. No I/O.
//!
//! ```text
//!   http://host/a%20b/./c/?q ─▶ /a%20b/./c/ ─▶ [ "a b", "c" ] + "it ends in a slash"
//! ```
//!
//! This is the first of two guards: a path that it lets through has no `..`, no NUL and no encoded slash. The
//! second is the kernel's: the path is opened beneath the root (see `disk`), whatever it says.

/// A path beneath the root.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// The names, joined by slashes; `.` for the root.
    pub path: Vec<u8>,
    /// Whether the target says that it is a directory.
    pub is_dir: bool,
    /// Whether one of the names begins with a dot.
    pub is_hidden: bool,
}

/// Why a target is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads the target of a request.
///
/// # Errors
/// It is no path, or a path that nobody asks for in good faith.
pub fn parse(target: &str) -> Result<Target, Malformed> {
    let path = if target.starts_with('/') {
        target
    } else {
        // The absolute form: http://host/path. Which host does not matter: there is one site.
        let (scheme, rest) = target.split_once("://").ok_or(Malformed)?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(Malformed);
        }
        rest.find(['/', '?']).map_or("/", |at| &rest[at..])
    };
    if path.contains('#') {
        return Err(Malformed);
    }
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let mut clean = Vec::with_capacity(path.len());
    let (mut is_dir, mut is_hidden) = (true, false);
    for name in path.split('/') {
        let begin = clean.len();
        if begin > 0 {
            clean.push(b'/');
        }
        decode(name, &mut clean)?;
        let name = &clean[begin + usize::from(begin > 0)..];
        is_dir = matches!(name, b"" | b".");
        match name {
            b"" | b"." => clean.truncate(begin),
            b".." => return Err(Malformed),
            // Where programs look for what is meant for them (RFC 8615).
            b".well-known" => {}
            _ => is_hidden |= name[0] == b'.',
        }
    }
    if clean.is_empty() {
        clean.push(b'.');
    }
    Ok(Target { path: clean, is_dir, is_hidden })
}

/// Undoes the percent-encoding of one name.
fn decode(name: &str, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16)).ok_or(Malformed);
    let mut bytes = name.bytes();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => (digit(bytes.next())? << 4 | digit(bytes.next())?) as u8,
            byte => byte,
        };
        if matches!(byte, 0 | b'/') {
            return Err(Malformed);
        }
        out.push(byte);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned() {
        let cases = [
            ("/", ".", true),
            ("/a", "a", false),
            ("/a/", "a", true),
            ("//a//b", "a/b", false),
            ("/./a/.", "a", true),
            ("/a%20b?x=/../y", "a b", false),
            ("/%e4", "\u{fffd}", false),
            ("/...", "...", false),
            ("http://host", ".", true),
            ("HTTP://host:80/a?b", "a", false),
            ("http://host?b", ".", true),
        ];
        for (target, path, is_dir) in cases {
            let got = parse(target).unwrap_or_else(|_| panic!("{target}"));
            assert_eq!(String::from_utf8_lossy(&got.path), path, "{target}");
            assert_eq!(got.is_dir, is_dir, "{target}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        let cases = [
            "",
            "*",
            "a",
            "/..",
            "/../a",
            "/a/../b",
            "/%2e%2e/a",
            "/.%2E",
            "/a%2fb",
            "/..%2fa",
            "/%00",
            "/a%00.txt",
            "/%",
            "/%4",
            "/%zz",
            "/a#b",
            "ftp://host/a",
            "file:///etc/passwd",
            "//../..",
            "/%2e%2e%2f%2e%2e%2fetc/passwd",
        ];
        for target in cases {
            assert_eq!(parse(target), Err(Malformed), "{target}");
        }
    }

    #[test]
    fn dots_hide_except_the_well_known_ones() {
        for (target, hidden) in
            [("/.git/config", true), ("/a/.b", true), ("/.well-known/x", false), ("/a.b", false)]
        {
            assert_eq!(parse(target).unwrap().is_hidden, hidden, "{target}");
        }
    }
}
