//! `chat`: a WebSocket chat, with two fibers for each guest.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use bast::CancelToken;
use bast::net::TcpListener;
use bast_examples::accept::until_ctrl_c;
use bast_examples::chat::{Limits, serve};
use bast_examples::options::seconds;
use clap::Parser;

/// A WebSocket chat with one room, and a page to open in a browser.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    /// Where to listen; port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,

    /// Connections at once; others wait.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,

    /// Messages that a slow guest may be behind by before some are lost to him.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    backlog: u32,

    /// Bytes of the longest message.
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    message: u32,

    /// Seconds after which a guest that does not even answer a ping is parted with.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    idle: f64,
}

const EXAMPLES: &str = "\
Examples:
  chat                                      open http://127.0.0.1:8090/ in two browser windows
  chat --listen 0.0.0.0:8090                for the whole network
  websocat ws://127.0.0.1:8090/chat?name=Anna

BAST_WORKERS=4 and BAST_DRIVER=epoll choose the threads and what waits for the sockets.
Ctrl-C ends it: all guests are told, then the totals are printed.";

fn main() -> ExitCode {
    let cli = Cli::parse();
    match until_ctrl_c(|stop| run(&cli, stop)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("chat: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli, stop: &CancelToken) -> io::Result<()> {
    let listener = TcpListener::bind(cli.listen)
        .map_err(|fault| io::Error::new(fault.kind(), format!("{}: {fault}", cli.listen)))?;
    let limits = Limits {
        connections: cli.connections as usize,
        backlog: cli.backlog as usize,
        message: cli.message as usize,
        idle: Duration::from_secs_f64(cli.idle),
    };
    println!("chat: http://{}/", listener.local_addr()?);
    let totals = serve(&listener, &limits, stop);
    println!(
        "chat: {} guests, {} messages, {} faults",
        totals.guests, totals.messages, totals.faults
    );
    Ok(())
}
