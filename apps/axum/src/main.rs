//! `axum`: an axum application on bast. HTTP/1.1, and HTTP/2 in clear text for clients that begin with it.
//!
//! ```text
//!   main ── bind, print ── serve(listener, app) ── a task for each connection
//!            Ctrl-C: a fiber waits for it ──────────▶ graceful shutdown, 5 s for what has begun
//! ```

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use bast::future::Wait;
use bast::net::TcpListener;
use bast::signal::CtrlC;
use clap::Parser;

/// An axum application on bast.
#[derive(Parser)]
#[command(name = "axum", version, after_help = EXAMPLES)]
struct Cli {
    /// Where to listen; port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// Connections at once; further ones wait in the kernel's queue.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,

    /// No HTTP/1.
    #[arg(long)]
    http2_only: bool,
}

const EXAMPLES: &str = "\
Examples:
  axum                                                      on http://127.0.0.1:8080/
  BAST_WORKERS=2 BAST_DRIVER=epoll axum --listen 0.0.0.0:80 for the whole network
  curl http://127.0.0.1:8080/sum/20/22                      JSON
  curl -N http://127.0.0.1:8080/ticks/100                   a body that comes bit by bit
  curl --http2-prior-knowledge http://127.0.0.1:8080/peer   HTTP/2
  curl -T big-file http://127.0.0.1:8080/echo -X POST       a body that goes back as it comes

Ctrl-C ends it: requests in flight get 5 seconds.";

/// How long requests in flight may take after Ctrl-C.
const GRACE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("axum: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> io::Result<()> {
    let listener = TcpListener::bind(cli.listen)
        .map_err(|fault| io::Error::new(fault.kind(), format!("{}: {fault}", cli.listen)))?;
    // Before the address is told: whoever reads it may press Ctrl-C at once.
    let ctrl_c = CtrlC::new()?;
    println!("axum: http://{}/", listener.local_addr()?);
    let pressed = bast::spawn(move || ctrl_c.wait());
    let serve = bast_hyper::serve(listener, bast_axum_app::app());
    let serve = if cli.http2_only { serve.http2_only() } else { serve };
    serve
        .max_connections(cli.max_connections as usize)
        .with_graceful_shutdown(async move { drop(pressed.await) })
        .grace(GRACE)
        .wait()?;
    println!("axum: all requests are answered");
    Ok(())
}
