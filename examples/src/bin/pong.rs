//! `pong`: an HTTP server that answers `Pong!`, written as one would write it with a thread for
//! each connection. It has a fiber for each.
//!
//! ```text
//!   read -> [ buffer ] -> Session::step ... -> all answers of this read -> one write -> read
//!                                        \-> the last answer -> write -> close
//! ```
//!
//! Nothing is allocated for a request: there is one buffer for each connection, it begins small,
//! and a lone answer is sent from the constant that it is.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use bast_examples::http::{Action, MAX_HEAD, Reply, Session};
use bast_examples::options::Options;
use bast_examples::server::{self, Connection, Service};
use clap::Parser;

/// An HTTP server that answers `Pong!`, with one fiber for each connection.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

const EXAMPLES: &str = "\
Examples:
  pong                                      on http://127.0.0.1:8080/, one worker for each core
  pong --addr 0.0.0.0:80 --workers 4        for the whole network
  pong --workers 4 --per-worker             connections stay on the worker that the kernel chooses
  pong --addr 127.0.0.1:0 --driver epoll    on a free port, which is printed
  curl -i http://127.0.0.1:8080/            ask it
  ab -k -c 100 -n 100000 http://127.0.0.1:8080/

Ctrl-C ends it: requests in flight get 5 seconds, then the totals are printed.";

/// The buffer of a connection begins with this many bytes: enough for a request of most clients,
/// and 10,000 waiting connections cost 5 MB.
const FIRST_BUFFER: usize = 512;

/// Answers to pipelined requests are collected up to about this many bytes.
const BATCH: usize = 16 * 1024;

fn main() -> ExitCode {
    let service = Service {
        name: "pong",
        url: |addr| format!("http://{addr}/"),
        unit: "requests",
        handle: serve,
    };
    server::run(service, &Cli::parse().options)
}

fn serve(connection: &Connection) -> io::Result<()> {
    let mut stream = &connection.stream;
    // A peer that neither sends nor takes what is sent to it must not stay for ever.
    stream.set_read_timeout(Some(connection.idle()))?;
    stream.set_write_timeout(Some(connection.idle()))?;
    let mut session = Session::new();
    let mut buffer = vec![0; FIRST_BUFFER];
    let mut batch = Vec::new();
    let mut first = true;
    // buffer[start..end] has been read and is not used yet
    let (mut start, mut end) = (0, 0);
    loop {
        let mut answer: &'static [u8] = &[];
        let mut last: Option<Reply> = None;
        let mut requests = 0;
        while last.is_none() {
            let step = session.step(&buffer[start..end]);
            start += step.used;
            let text = match step.action {
                Action::Read => break,
                Action::Interim(text) => text,
                Action::Reply(reply) => {
                    requests += 1;
                    last = reply.last.then_some(reply);
                    reply.text
                }
            };
            if !answer.is_empty() {
                batch.extend_from_slice(answer);
            }
            answer = text;
            if batch.len() >= BATCH {
                stream.write_all(&batch)?;
                batch.clear();
            }
        }
        if batch.is_empty() {
            stream.write_all(answer)?;
        } else {
            batch.extend_from_slice(answer);
            stream.write_all(&batch)?;
            batch.clear();
        }
        connection.count(requests);
        if let Some(reply) = last {
            if reply.refused || start < end {
                server::linger(stream, &mut buffer)?;
            }
            return Ok(());
        }
        if first && requests > 0 {
            // Only from its second answer on can a connection meet Nagle's delay, so those with a
            // single request are spared the call.
            stream.set_nodelay(true)?;
            first = false;
        }
        make_room(&mut buffer, &mut start, &mut end);
        if !connection.may_wait(start < end || !session.is_between_requests()) {
            return Ok(());
        }
        match stream.read(&mut buffer[end..]) {
            Ok(0) => return Ok(()),
            Ok(n) => end += n,
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(fault) => return Err(fault),
        }
    }
}

/// Moves what is left to the front. A buffer that was full had too little room: it doubles, up to
/// the longest head, beyond which the session never leaves anything unused.
fn make_room(buffer: &mut Vec<u8>, start: &mut usize, end: &mut usize) {
    let was_full = *end == buffer.len();
    buffer.copy_within(*start..*end, 0);
    (*start, *end) = (0, *end - *start);
    if was_full && buffer.len() < MAX_HEAD {
        buffer.resize(buffer.len() * 2, 0);
    }
}
