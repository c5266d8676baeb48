//! One request, answered: what is found, and how it travels.
//!
//! ```text
//!   small (≤ 16 KiB), in memory:  head + bytes ──one send──▶ socket
//!   else:                         head (more to come) + sendfile ──▶ socket
//!   several ranges:               head, then for each: its head + sendfile, then the boundary
//! ```
//!
//! The length is promised in the head. If the file ends before it (somebody has shortened it
//! meanwhile), the connection is closed: the client sees that it did not get all.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bast::fs::File;
use bast::io::send_file_with_head;
use bast::net::TcpStream;
use httparse::Request;

use super::conditions::{self, Verdict, Version};
use super::disk::{self, Facts};
use super::listing::{self, escape};
use super::range::Wanted;
use super::site::{Found, Missing, Site};
use super::target;

/// Up to this many bytes are copied behind their head: one call less, and no pages to pass around.
const SMALL: u64 = 16 << 10;

/// What every client gets in addition to the time that the least rate gives it.
const GRACE: Duration = Duration::from_secs(10);

/// An answer that is being made.
pub(super) struct Answer<'a> {
    pub(super) site: &'a Site,
    pub(super) stream: &'a TcpStream,
    /// Whether the connection is closed afterwards.
    pub(super) last: bool,
    pub(super) is_1_1: bool,
    pub(super) is_head: bool,
    out: Vec<u8>,
    /// The time, in seconds.
    now: u64,
    pub(super) status: u16,
    /// Bytes of the body.
    pub(super) sent: u64,
}

impl<'a> Answer<'a> {
    pub(super) fn new(site: &'a Site, stream: &'a TcpStream) -> Answer<'a> {
        let out = site.buffer();
        let (last, is_1_1, is_head) = (true, true, false);
        Answer { site, stream, last, is_1_1, is_head, out, now: 0, status: 0, sent: 0 }
    }

    /// When it was answered.
    pub(super) fn date(&self) -> String {
        conditions::date(self.now)
    }

    /// Answers one request.
    pub(super) fn answer(&mut self, request: &Request<'_, '_>) -> io::Result<()> {
        let method = request.method.unwrap_or_default();
        self.is_head = method == "HEAD";
        match method {
            "GET" | "HEAD" => {}
            "OPTIONS" => return self.plain("204 No Content", ALLOW, ""),
            "POST" | "PUT" | "DELETE" | "PATCH" | "TRACE" | "CONNECT" => {
                let text = "Only GET and HEAD are possible: files are served here.\n";
                return self.plain("405 Method Not Allowed", ALLOW, text);
            }
            _ => return self.plain("501 Not Implemented", "", "This method is not known.\n"),
        }
        let asked = request.path.unwrap_or_default();
        let Ok(target) = target::parse(asked) else {
            return self.plain("400 Bad Request", "", "This is not the path of a file.\n");
        };
        match self.site.find(&target) {
            Ok(Found::File { file, facts, mime }) => self.file(request, &file, facts, mime),
            Ok(Found::Directory(dir)) => {
                match listing::page(&dir, &target.path, self.site.rules.hidden) {
                    Ok(page) => self.text("200 OK", "text/html", "", &page),
                    Err(_) => self.missing(Missing::Broken),
                }
            }
            Ok(Found::Redirect) => {
                // Built from the cleaned path: "//host" is a path here, and no other site.
                let query = asked.split_once('?').map_or("", |(_, query)| query);
                let mark = if query.is_empty() { "" } else { "?" };
                let url = format!("/{}/{mark}{query}", listing::url(&target.path));
                let page = format!("It is <a href=\"{0}\">{0}</a>.\n", escape(url.as_bytes()));
                let field = format!("Location: {url}\r\n");
                self.text("301 Moved Permanently", "text/html", &field, &page)
            }
            Err(missing) => self.missing(missing),
        }
    }

    fn missing(&mut self, missing: Missing) -> io::Result<()> {
        match missing {
            Missing::NotFound => self.plain("404 Not Found", "", "There is no such file.\n"),
            Missing::Forbidden => self.plain("403 Forbidden", "", "This may not be read.\n"),
            Missing::Busy => {
                let text = "The server has no more files to open. Try again soon.\n";
                self.plain("503 Service Unavailable", "Retry-After: 1\r\n", text)
            }
            Missing::Broken => {
                self.plain("500 Internal Server Error", "", "The file cannot be read.\n")
            }
        }
    }

    /// A short answer. `fields` are further fields, each with its line's end.
    pub(super) fn plain(&mut self, status: &str, fields: &str, text: &str) -> io::Result<()> {
        self.text(status, "text/plain", fields, text)
    }

    fn text(&mut self, status: &str, mime: &str, fields: &str, text: &str) -> io::Result<()> {
        self.begin(status);
        let out = &mut self.out;
        if self.status != 204 {
            write!(
                out,
                "Content-Type: {mime}; charset=utf-8\r\nContent-Length: {}\r\n",
                text.len()
            )?;
        }
        out.extend_from_slice(fields.as_bytes());
        out.extend_from_slice(b"\r\n");
        if !self.is_head {
            out.extend_from_slice(text.as_bytes());
            self.sent = text.len() as u64;
        }
        self.send_out()
    }

    /// The first lines of every head.
    fn begin(&mut self, status: &str) {
        self.status = status[..3].parse().unwrap_or(0);
        let out = &mut self.out;
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(status.as_bytes());
        out.extend_from_slice(b"\r\nDate: ");
        self.now = self.site.now(out);
        out.extend_from_slice(match (self.last, self.is_1_1) {
            (true, _) => b"\r\nConnection: close\r\n",
            (false, false) => b"\r\nConnection: keep-alive\r\n",
            (false, true) => b"\r\n",
        });
    }

    fn file(
        &mut self,
        request: &Request<'_, '_>,
        file: &File,
        facts: Facts,
        mime: &str,
    ) -> io::Result<()> {
        let begin = self.out.len();
        let now = self.site.now(&mut self.out);
        self.out.truncate(begin);
        let version = Version::new(facts.modified, facts.inode, facts.len, now);
        let len = facts.len;
        let wanted = match conditions::weigh(request.headers, &version, !self.is_head) {
            Verdict::Send(wanted) => wanted,
            Verdict::NotModified => {
                self.begin("304 Not Modified");
                self.validators(&version)?;
                self.out.extend_from_slice(b"\r\n");
                return self.send_out();
            }
            Verdict::Failed => {
                let text = "The file is not the one that was meant.\n";
                return self.plain("412 Precondition Failed", "", text);
            }
        };
        match wanted {
            Wanted::Whole => {
                self.begin("200 OK");
                self.validators(&version)?;
                kind(&mut self.out, mime)?;
                write!(self.out, "Content-Length: {len}\r\nAccept-Ranges: bytes\r\n\r\n")?;
                self.send(file, 0..len)
            }
            Wanted::Parts(parts) => match &parts[..] {
                [part] => {
                    self.begin("206 Partial Content");
                    self.validators(&version)?;
                    kind(&mut self.out, mime)?;
                    let (first, last, some) = (part.start, part.end - 1, part.end - part.start);
                    write!(
                        self.out,
                        "Content-Range: bytes {first}-{last}/{len}\r\nContent-Length: {some}\r\n\r\n"
                    )?;
                    self.send(file, part.clone())
                }
                parts => self.parts(file, parts, &version, mime),
            },
            Wanted::Nothing => {
                let field = format!("Content-Range: bytes */{len}\r\n");
                let text = "The file is not so long.\n";
                self.plain("416 Range Not Satisfiable", &field, text)
            }
        }
    }

    fn validators(&mut self, version: &Version) -> io::Result<()> {
        let modified = conditions::date(version.modified);
        write!(self.out, "Last-Modified: {modified}\r\nETag: {}\r\n", version.etag)
    }

    /// Several ranges in one answer.
    fn parts(
        &mut self,
        file: &File,
        parts: &[Range<u64>],
        version: &Version,
        mime: &str,
    ) -> io::Result<()> {
        /// Makes boundaries differ. It guards nothing: Relaxed.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let boundary = format!("bast-{:x}-{:x}", version.modified, NEXT.fetch_add(1, Relaxed));
        let mut heads = Vec::with_capacity(parts.len());
        for part in parts {
            let mut head = Vec::new();
            write!(head, "\r\n--{boundary}\r\n")?;
            kind(&mut head, mime)?;
            let (first, last) = (part.start, part.end - 1);
            write!(head, "Content-Range: bytes {first}-{last}/{}\r\n\r\n", version.len)?;
            heads.push(head);
        }
        let end = format!("\r\n--{boundary}--\r\n");
        let lengths = heads.iter().zip(parts).map(|(h, p)| h.len() as u64 + (p.end - p.start));
        let total = lengths.sum::<u64>() + end.len() as u64;
        self.begin("206 Partial Content");
        self.validators(version)?;
        write!(
            self.out,
            "Content-Type: multipart/byteranges; boundary={boundary}\r\nContent-Length: {total}\r\n\r\n"
        )?;
        for (head, part) in heads.iter().zip(parts) {
            self.out.extend_from_slice(head);
            self.send(file, part.clone())?;
            self.out.clear();
        }
        self.out.extend_from_slice(end.as_bytes());
        self.sent = total;
        self.send_out()
    }

    /// Sends what is in `out`, and then a range of the file.
    fn send(&mut self, file: &File, range: Range<u64>) -> io::Result<()> {
        let len = range.end - range.start;
        if self.is_head || len == 0 {
            return self.send_out();
        }
        self.sent += len;
        if len <= SMALL {
            let begin = self.out.len();
            self.out.resize(begin + len as usize, 0);
            match disk::read_cached(file, &mut self.out[begin..], range.start) {
                Ok(Some(n)) if n as u64 == len => return self.send_out(),
                // In part in memory, or shortened. The other way sees to all that.
                _ => self.out.truncate(begin),
            }
        }
        let (head, stream) = (&self.out, self.stream);
        let sent =
            self.in_time(len, || send_file_with_head(head, file, range.start, len, stream))?;
        if sent < len {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
        }
        Ok(())
    }

    fn send_out(&mut self) -> io::Result<()> {
        let (out, mut stream) = (&self.out, self.stream);
        self.in_time(out.len() as u64, || stream.write_all(out))
    }

    /// What is sent has to be taken at the least rate.
    fn in_time<T>(&self, len: u64, send: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let time = GRACE + Duration::from_secs(len / self.site.rules.least_rate.max(1));
        let slow = || io::Error::new(io::ErrorKind::TimedOut, "the client is too slow");
        bast::timeout(time, send).unwrap_or_else(|_| Err(slow()))
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        self.site.recycle(std::mem::take(&mut self.out));
    }
}

const ALLOW: &str = "Allow: GET, HEAD, OPTIONS\r\n";

fn kind(out: &mut Vec<u8>, mime: &str) -> io::Result<()> {
    let charset = if mime.starts_with("text/") { "; charset=utf-8" } else { "" };
    write!(out, "Content-Type: {mime}{charset}\r\n")
}
