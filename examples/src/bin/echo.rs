//! `echo`: sends back whatever it gets, with one fiber for each connection.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use bast_examples::options::Options;
use bast_examples::server::{self, Connection, Service};
use clap::Parser;

/// A TCP server that sends back what it gets, with one fiber for each connection.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

const EXAMPLES: &str = "\
Examples:
  echo                                      on 127.0.0.1:8080, one worker for each core
  echo --addr 127.0.0.1:0 --driver epoll    on a free port, which is printed
  nc 127.0.0.1 8080                         talk to it

Ctrl-C ends it, and the totals are printed.";

/// Small, for the sake of many connections; messages of more bytes take more turns.
const BUFFER: usize = 2048;

fn main() -> ExitCode {
    let service =
        Service { name: "echo", url: |addr| addr.to_string(), unit: "bytes", handle: serve };
    server::run(service, &Cli::parse().options)
}

fn serve(connection: &Connection) -> io::Result<()> {
    let mut stream = &connection.stream;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(connection.idle()))?;
    stream.set_write_timeout(Some(connection.idle()))?;
    let mut buffer = vec![0; BUFFER];
    while connection.may_wait(false) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                stream.write_all(&buffer[..n])?;
                connection.count(n as u64);
            }
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}
