//! What rrdtool is asked, as a line for a daemon or as arguments of a child.
//!
//! A daemon splits its line at spaces; `'…'` and `"…"` keep them, next to each other they are one word, and nothing
//! escapes anything (`CreateArgs` in `rrd_tool.c`). So a quote goes into quotes of the other kind:
//!
//! ```text
//!   it's "up".rrd  ─▶  './it'"'"'s "up".rrd'
//! ```
//!
//! A newline would end the line. Such a name, and one that is no UTF-8, goes to a child of its own.

use std::ffi::OsString;
use std::path::Path;

use rrd_file::Query;

/// The path as it cannot be taken for an option, nor for one of rrdtool's own sources (`cb//`).
fn plain(path: &Path) -> OsString {
    if path.is_absolute() { path.into() } else { Path::new(".").join(path).into() }
}

/// The line that asks a daemon for a file; `None` if no line can.
pub(super) fn line(path: &Path, query: &Query) -> Option<Vec<u8>> {
    let path = plain(path).into_string().ok()?;
    if path.contains(['\n', '\r', '\0']) {
        return None;
    }
    let mut line = String::from("fetch '");
    for piece in path.split_inclusive('\'') {
        match piece.strip_suffix('\'') {
            Some(before) => {
                line += before;
                line += "'\"'\"'";
            }
            None => line += piece,
        }
    }
    line.push('\'');
    for word in options(query) {
        line.push(' ');
        line += &word;
    }
    line.push('\n');
    Some(line.into_bytes())
}

/// The arguments that make a child fetch a file.
pub(super) fn arguments(path: &Path, query: &Query) -> Vec<OsString> {
    let words = options(query).into_iter().map(OsString::from);
    [OsString::from("fetch"), plain(path)].into_iter().chain(words).collect()
}

fn options(query: &Query) -> Vec<String> {
    let mut words = vec![
        query.cf.to_string(),
        "--start".into(),
        query.from.to_string(),
        "--end".into(),
        query.to.to_string(),
    ];
    if let Some(resolution) = query.resolution {
        words.extend(["--resolution".into(), resolution.to_string()]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use rrd_file::Cf;
    use std::os::unix::ffi::OsStrExt;

    fn query() -> Query {
        Query { cf: Cf::Average, from: 100, to: 700, resolution: None }
    }

    fn text(path: &str) -> String {
        String::from_utf8(line(Path::new(path), &query()).unwrap()).unwrap()
    }

    #[test]
    fn names_are_one_word() {
        assert_eq!(text("/a b.rrd"), "fetch '/a b.rrd' AVERAGE --start 100 --end 700\n");
        assert!(text("/it's").starts_with("fetch '/it'\"'\"'s' "));
        assert!(text("/'").starts_with("fetch '/'\"'\"'' "));
        assert!(text("-s").starts_with("fetch './-s' "));
        assert!(text("/\"").starts_with("fetch '/\"' "));
    }

    #[test]
    fn what_no_line_can_say_goes_to_a_child() {
        for name in [&b"/a\nquit"[..], b"/a\r", b"/\xff\xfe"] {
            let path = Path::new(std::ffi::OsStr::from_bytes(name));
            assert_eq!(line(path, &query()), None);
            assert_eq!(arguments(path, &query())[1].as_bytes(), name);
        }
    }

    #[test]
    fn the_resolution_is_asked_for() {
        let query = Query { resolution: Some(3600), ..query() };
        let line = line(Path::new("/x"), &query).unwrap();
        assert!(line.ends_with(b" --end 700 --resolution 3600\n"));
    }
}
