//! A directory as a page.

use std::fmt::Write;
use std::fs::FileType;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::conditions;
use super::disk::{self, Dir};

/// More entries than this are counted and not shown.
const MOST: usize = 10_000;

/// What needs no escape in a path (RFC 3986, `pchar`), apart from what HTML would have to escape.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b'!')
    .remove(b'$')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}\
    table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .8rem .2rem 0}\
    td:nth-child(n+2),th:nth-child(n+2){text-align:right;white-space:nowrap;color:#666}\
    tr:hover td{background:#8881}a{text-decoration:none}\
    :root{color-scheme:light dark}";

struct Entry {
    name: Vec<u8>,
    is_dir: bool,
    is_link: bool,
    len: u64,
    modified: u64,
}

/// A path as it is written in a URL.
pub(super) fn url(path: &[u8]) -> String {
    percent_encode(path, PATH).to_string()
}

/// The page of an open directory, which is at `path` beneath the root.
pub(super) fn page(dir: &Dir, path: &[u8], hidden: bool) -> io::Result<String> {
    // One trip to the pool for all.
    let (mut entries, left_out) = bast::blocking(|| read(&dir.place(), hidden))?;
    entries.sort_by(|a, b| b.is_dir.cmp(&a.is_dir).then_with(|| a.name.cmp(&b.name)));
    Ok(render(path, &entries, left_out))
}

fn read(place: &Path, hidden: bool) -> io::Result<(Vec<Entry>, usize)> {
    let (mut entries, mut left_out) = (Vec::new(), 0);
    for entry in std::fs::read_dir(place)? {
        let entry = entry?;
        let name = disk::name(&entry.file_name());
        if !hidden && name[0] == b'.' {
            continue;
        }
        // Of the entry itself: a link may lead where nobody may look. Gone meanwhile: not shown.
        let Ok(data) = entry.metadata() else { continue };
        let kind: FileType = data.file_type();
        if !(kind.is_file() || kind.is_dir() || kind.is_symlink()) {
            continue;
        }
        if entries.len() == MOST {
            left_out += 1;
            continue;
        }
        let modified = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        entries.push(Entry {
            name,
            is_dir: kind.is_dir(),
            is_link: kind.is_symlink(),
            len: data.len(),
            modified: modified.map_or(0, |time| time.as_secs()),
        });
    }
    Ok((entries, left_out))
}

fn render(path: &[u8], entries: &[Entry], left_out: usize) -> String {
    let path = if path == b"." { &b""[..] } else { path };
    let shown = escape(path);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>/{shown}</title>\
         <style>{STYLE}</style></head>\n<body><h1>/{shown}</h1>\n\
         <table><tr><th>Name</th><th>Size</th><th>Changed</th></tr>\n"
    );
    if !path.is_empty() {
        page += "<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n";
    }
    for Entry { name, is_dir, is_link, len, modified } in entries {
        let slash = if *is_dir { "/" } else { "" };
        let arrow = if *is_link { " \u{2192}" } else { "" };
        let size = if *is_dir || *is_link { String::new() } else { human(*len) };
        // "./" so that a name with a colon is not taken for a scheme.
        let _ = writeln!(
            page,
            "<tr><td><a href=\"./{}{slash}\">{}{slash}</a>{arrow}</td><td>{size}</td><td>{}</td></tr>",
            url(name),
            escape(name),
            conditions::date(*modified)
        );
    }
    page += "</table>\n";
    if left_out > 0 {
        let _ = writeln!(page, "<p>… and {left_out} more, which are not shown.</p>");
    }
    page += "</body></html>\n";
    page
}

/// Text as HTML shows it.
pub(super) fn escape(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in String::from_utf8_lossy(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn human(len: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if len < 1024 {
        return format!("{len} B");
    }
    let power = (len.ilog2() / 10) as usize;
    format!("{:.1} {}", len as f64 / 1024f64.powi(power as i32), UNITS[power - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let name = b"<b>\"'&\n\xff c:d".to_vec();
        let entry =
            Entry { name, is_dir: false, is_link: false, len: 1536, modified: 1_000_000_000 };
        let page = render(b"a&b", &[entry], 3);
        assert!(page.contains("<h1>/a&amp;b</h1>"), "{page}");
        assert!(page.contains("href=\"./%3Cb%3E%22%27%26%0A%FF%20c%3Ad\""), "{page}");
        assert!(page.contains(">&lt;b&gt;&quot;&#39;&amp;\u{fffd}\u{fffd} c:d</a>"), "{page}");
        assert!(page.contains("<td>1.5 KiB</td>") && page.contains("and 3 more"), "{page}");
        assert!(!render(b".", &[], 0).contains("../"));
    }

    #[test]
    fn sizes_are_for_people() {
        for (len, text) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 30, "3.0 GiB")] {
            assert_eq!(human(len), text);
        }
        assert_eq!(human(u64::MAX), "16.0 EiB");
    }
}
