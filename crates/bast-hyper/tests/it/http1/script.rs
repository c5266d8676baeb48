//! Plays a script against a server: bytes that are sent, answers that must come. It knows nothing of the server, and
//! reads answers by itself, so that a fault of hyper's cannot hide in hyper's own client.

use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use Step::*;

use crate::servers::read;

/// Nothing here takes a tenth of this.
const PATIENCE: Duration = Duration::from_secs(60);

/// One step of a conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Writes this.
    Send(&'static str),
    /// Writes bytes that are no text.
    Raw(&'static [u8]),
    /// Writes this so many times, in one piece.
    Times(usize, &'static str),
    /// Writes this byte by byte, each in a segment of its own.
    Bytewise(&'static str),
    /// Sends the end of the stream and goes on reading.
    HalfClose,
    /// An answer of this status comes, with this body.
    Answer(u16, &'static str),
    /// So many such answers come.
    Answers(usize, u16, &'static str),
    /// An answer to HEAD comes: it has this length in its head, and no body.
    Headless(u16, &'static str),
    /// The last answer had a date.
    Dated,
    /// The last answer had this field with this value; an empty one: it had no such field.
    Field(&'static str, &'static str),
    /// An answer that is an error (400 to 599), then the end of the stream.
    Refused,
    /// The end of the stream comes, and nothing before it.
    Closed,
    /// The connection is good for another request.
    Open,
    /// One of these continuations fits.
    Either(&'static [Step], &'static [Step]),
}

/// What has come as an answer.
#[derive(Debug, Default)]
struct Reply {
    status: u16,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    /// The body ended with the stream.
    to_the_end: bool,
}

impl Reply {
    fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Plays the script on a new connection.
pub(crate) fn play(server: SocketAddr, script: &[Step]) -> Result<(), String> {
    let stream = TcpStream::connect(server).map_err(|e| e.to_string())?;
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
    Player { stream, read: Vec::new(), last: Reply::default() }.run(script)
}

struct Player {
    stream: TcpStream,
    /// What has been read and is no answer yet.
    read: Vec<u8>,
    last: Reply,
}

impl Player {
    fn run(&mut self, script: &[Step]) -> Result<(), String> {
        for (at, step) in script.iter().enumerate() {
            self.step(step).map_err(|fault| format!("step {at}, {step:?}: {fault}"))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Send(text) => self.send(text.as_bytes()),
            Raw(bytes) => self.send(bytes),
            Times(count, text) => self.send(text.repeat(count).as_bytes()),
            Bytewise(text) => text.as_bytes().iter().try_for_each(|byte| self.send(&[*byte])),
            HalfClose => self.stream.shutdown(Shutdown::Write).map_err(|e| e.to_string()),
            Answer(status, body) => self.answer(status, Some(body)),
            Answers(count, status, body) => {
                (0..count).try_for_each(|_| self.answer(status, Some(body)))
            }
            Headless(status, length) => {
                self.last = self.reply(true)?;
                self.is(status)?;
                self.field("content-length", length)
            }
            Field(name, value) => self.field(name, value),
            Dated => self.last.field("date").map(drop).ok_or("it is not dated".into()),
            Refused => {
                self.last = self.reply(false)?;
                if !(400..600).contains(&self.last.status) {
                    return Err(format!("it answers {:?}", self.last));
                }
                self.closed()
            }
            Closed => self.closed(),
            Open => {
                self.send(b"GET /probe HTTP/1.1\r\nHost: probe\r\n\r\n")?;
                self.answer(200, Some("probe"))
            }
            Either(first, second) => {
                // An answer, and for the rest of the script one of the two: so the answer is looked at before it is taken.
                let Some(Answer(status, _) | Headless(status, _)) = first.first() else {
                    return Err("the script wants an Answer first".into());
                };
                let came = self.status()?;
                self.run(if came == *status { first } else { second })
            }
        }
    }

    /// A server that has refused may have closed already: then the answer tells more than the write.
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        match self.stream.write_all(bytes) {
            Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Ok(())
            }
            result => result.map_err(|e| e.to_string()),
        }
    }

    fn answer(&mut self, status: u16, body: Option<&str>) -> Result<(), String> {
        self.last = self.reply(false)?;
        self.is(status)?;
        match body {
            Some(body) if self.last.body != body.as_bytes() => {
                Err(format!("it answers {:?}", self.last))
            }
            _ => Ok(()),
        }
    }

    fn is(&self, status: u16) -> Result<(), String> {
        if self.last.status == status { Ok(()) } else { Err(format!("it answers {:?}", self.last)) }
    }

    fn field(&self, name: &str, value: &str) -> Result<(), String> {
        match self.last.field(name) {
            Some(found) if found.eq_ignore_ascii_case(value) => Ok(()),
            None if value.is_empty() => Ok(()),
            found => Err(format!("its field {name} is {found:?}")),
        }
    }

    /// The end, or a reset, which is an end with something unread on the other side.
    fn closed(&mut self) -> Result<(), String> {
        let ended = self.last.to_the_end || !self.more()?;
        if ended && self.read.is_empty() {
            return Ok(());
        }
        Err(format!("there is more: {:?}", String::from_utf8_lossy(&self.read)))
    }

    /// The status of what comes next, which stays unread; 0 is the end of the stream.
    fn status(&mut self) -> Result<u16, String> {
        while self.read.len() < 12 {
            if !self.more()? {
                return Ok(0);
            }
        }
        let digits = str::from_utf8(&self.read[9..12]).unwrap_or_default();
        digits.parse().map_err(|_| format!("no status: {:?}", String::from_utf8_lossy(&self.read)))
    }

    fn reply(&mut self, to_head: bool) -> Result<Reply, String> {
        let length = loop {
            if let Some(at) = self.read.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.more()? {
                let read = String::from_utf8_lossy(&self.read);
                return Err(format!("the stream has ended after {read:?}"));
            }
        };
        let head: Vec<u8> = self.read.drain(..length).collect();
        let head = String::from_utf8(head).map_err(|e| e.to_string())?;
        let mut lines = head.trim_end().split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or(format!("no status line: {first:?}"))?;
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.into(), value.trim().into())).collect();
        let mut reply = Reply { status, fields, ..Reply::default() };
        if to_head || status < 200 || status == 204 || status == 304 {
            return Ok(reply);
        }
        if reply.field("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
            self.chunks(&mut reply.body)?;
        } else if let Some(length) = reply.field("content-length") {
            let length = length.parse().map_err(|_| format!("a length of {length:?}"))?;
            reply.body = self.take(length)?;
        } else {
            while self.more()? {}
            reply.body = std::mem::take(&mut self.read);
            reply.to_the_end = true;
        }
        Ok(reply)
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> Result<(), String> {
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16).map_err(|_| format!("no size: {line:?}"))?;
            body.extend(self.take(size)?);
            if !self.line()?.is_empty() {
                return Err("a chunk, or the body, does not end with an empty line".into());
            }
            if size == 0 {
                return Ok(());
            }
        }
    }

    fn line(&mut self) -> Result<String, String> {
        loop {
            if let Some(at) = self.read.windows(2).position(|w| w == b"\r\n") {
                let line = self.take(at + 2)?;
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if !self.more()? {
                return Err("the stream has ended in a line".into());
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>, String> {
        while self.read.len() < count {
            if !self.more()? {
                return Err("the stream has ended in a body".into());
            }
        }
        Ok(self.read.drain(..count).collect())
    }

    fn more(&mut self) -> Result<bool, String> {
        let mut buf = [0; 4096];
        match read(&self.stream, &mut buf) {
            Ok(n) => {
                self.read.extend_from_slice(&buf[..n]);
                Ok(n > 0)
            }
            Err(e) if e.kind() == ErrorKind::ConnectionReset => Ok(false),
            Err(e) => Err(explain(&e)),
        }
    }
}

fn explain(fault: &io::Error) -> String {
    match fault.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("nothing comes within {PATIENCE:?}"),
        _ => fault.to_string(),
    }
}
