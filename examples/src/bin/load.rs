//! `load`: keeps a server busy, and looks at every byte that comes back. It is the client of `pong` and `echo`.
//!
//! ```text
//!   pong   a fiber for each connection: batches of 1 to 32 requests, then connections with one request each
//!   echo   two fibers for each: one sends, the other compares what comes back
//! ```

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use bast::net::TcpStream;
use bast_examples::options::seconds;
use bast_examples::os::raise_open_files;
use clap::{Parser, ValueEnum};

/// Keeps a server busy with many connections, and compares every byte that comes back.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    /// What the server is.
    kind: Kind,

    /// Where it listens.
    addr: SocketAddr,

    /// Connections at once.
    #[arg(short, long, value_name = "N", default_value_t = 100)]
    connections: usize,

    /// Batches of requests on each, or messages.
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    rounds: usize,

    /// Seconds that all of it may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    limit: f64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// Answers each request of HTTP with `Pong!`.
    Pong,
    /// Sends back what it gets.
    Echo,
}

const EXAMPLES: &str = "\
Examples:
  pong --addr 127.0.0.1:8080 &   load pong 127.0.0.1:8080
  echo --addr 127.0.0.1:8081 &   load echo 127.0.0.1:8081 -c 1000 -r 100

BAST_WORKERS=4 and BAST_DRIVER=epoll choose the threads and what waits for the sockets.
The exit status is 1 if anything came back wrong, late, or not at all.";

fn main() -> ExitCode {
    let cli = Cli::parse();
    raise_open_files();
    let failures = bast::scope(|s| {
        let clients: Vec<_> = (0..cli.connections)
            .map(|number| {
                let cli = &cli;
                s.spawn(move || {
                    let limit = Duration::from_secs_f64(cli.limit);
                    let client = || match cli.kind {
                        Kind::Pong => pong(cli, number),
                        Kind::Echo => echo(cli, number),
                    };
                    bast::timeout(limit, client).unwrap_or_else(|late| Err(io::Error::other(late)))
                })
            })
            .collect();
        let (mut done, mut failures) = (0, 0);
        for (number, client) in clients.into_iter().enumerate() {
            match client.join() {
                Ok(Ok(units)) => done += units,
                Ok(Err(fault)) => {
                    failures += 1;
                    eprintln!("load: connection {number}: {fault}");
                }
                Err(_) => failures += 1,
            }
        }
        let unit = match cli.kind {
            Kind::Pong => "answers",
            Kind::Echo => "bytes",
        };
        println!("load: {} connections, {done} {unit}, {failures} failures", cli.connections);
        failures
    });
    ExitCode::from(u8::from(failures > 0))
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// How many answers there were.
fn pong(cli: &Cli, number: usize) -> io::Result<u64> {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const LAST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    // The answer to the last request is the whole of a connection: the others are to be like it.
    let close = || {
        let mut stream = TcpStream::connect(cli.addr)?;
        stream.write_all(LAST)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let is_right = answer.starts_with("HTTP/1.1 200 OK\r\n")
            && answer.contains("\r\nContent-Length: 5\r\n")
            && answer.ends_with("\r\n\r\nPong!");
        if is_right { Ok(answer) } else { Err(wrong(&format!("not Pong!: {answer:?}"))) }
    };
    let expected = close()?.replace("Connection: close\r\n", "").into_bytes();
    let mut answered = 1;
    let mut stream = TcpStream::connect(cli.addr)?;
    let mut answers = Vec::new();
    for round in 0..cli.rounds {
        let depth = [1, 1, 7, 32][(number + round) % 4];
        stream.write_all(&REQUEST.repeat(depth))?;
        answers.resize(expected.len() * depth, 0);
        stream.read_exact(&mut answers)?;
        if answers.chunks(expected.len()).any(|answer| answer != expected) {
            return Err(wrong("an answer differs from the first one"));
        }
        answered += depth as u64;
    }
    for _ in 0..cli.rounds / 4 {
        close()?;
        answered += 1;
    }
    Ok(answered)
}

/// How many bytes came back.
fn echo(cli: &Cli, number: usize) -> io::Result<u64> {
    let stream = TcpStream::connect(cli.addr)?;
    // No two connections have the same bytes, so that a mix-up shows.
    let message = |round: usize| {
        let seed = (number * 131 + round * 7) as u32;
        let len = [1, 100, 2048, 20_000][(number + round) % 4];
        (0..len).map(move |at| ((at ^ seed).wrapping_mul(2_654_435_761) >> 24) as u8)
    };
    bast::group(|g| {
        g.spawn(|| {
            for round in 0..cli.rounds {
                (&stream).write_all(&message(round).collect::<Vec<u8>>())?;
            }
            stream.shutdown(Shutdown::Write)
        });
        let mut compared = 0;
        for round in 0..cli.rounds {
            let wanted: Vec<u8> = message(round).collect();
            let mut back = vec![0; wanted.len()];
            (&stream).read_exact(&mut back)?;
            if back != wanted {
                return Err(wrong("what came back is not what was sent"));
            }
            compared += back.len() as u64;
        }
        match (&stream).read(&mut [0])? {
            0 => Ok(compared),
            _ => Err(wrong("more came back than was sent")),
        }
    })
}
