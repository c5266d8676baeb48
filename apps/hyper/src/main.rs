//! `hyper`: plain hyper on bast, put together by hand. Who wants less to write takes `bast_hyper::serve`, as `axum` does.
//!
//! ```text
//!   main ── bind ── accept ──▶ a task for each connection ── hyper ── Io, BastExecutor, BastTimer
//! ```

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use bast::net::TcpListener;
use bast_hyper::{BastExecutor, BastTimer, Io};
use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::server::conn::auto;

/// Plain hyper on bast.
#[derive(Parser)]
#[command(name = "hyper", version, after_help = EXAMPLES)]
struct Cli {
    /// Where to listen; port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// No HTTP/1.
    #[arg(long)]
    http2_only: bool,
}

const EXAMPLES: &str = "\
Examples:
  hyper                                                  on http://127.0.0.1:8080/
  BAST_DRIVER=epoll hyper --listen 127.0.0.1:0           on a free port, which is printed
  curl -i http://127.0.0.1:8080/                         HTTP/1.1
  curl -i --http2-prior-knowledge http://127.0.0.1:8080/ HTTP/2

Ctrl-C ends it at once.";

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// More than this nobody may send.
const LONGEST_BODY: usize = 64 * 1024;

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("hyper: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> io::Result<()> {
    let listener = TcpListener::bind(cli.listen)
        .map_err(|fault| io::Error::new(fault.kind(), format!("{}: {fault}", cli.listen)))?;
    // Before the address is told: whoever reads it may press Ctrl-C at once.
    let ctrl_c = bast::signal::CtrlC::new()?;
    println!("hyper: http://{}/", listener.local_addr()?);
    let mut http = auto::Builder::new(BastExecutor::new());
    http.http1().timer(BastTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    http.http2().timer(BastTimer::new());
    let http = if cli.http2_only { http.http2_only() } else { http };
    let accepting = bast::spawn(move || accept_all(&listener, &http));
    ctrl_c.wait()?;
    accepting.cancel();
    println!("hyper: stopped");
    Ok(())
}

fn accept_all(listener: &TcpListener, http: &auto::Builder<BastExecutor>) {
    loop {
        // `accept` itself waits a little when there are no descriptors.
        let Ok((stream, _)) = listener.accept() else { continue };
        if stream.set_nodelay(true).is_err() {
            continue; // The peer is gone.
        }
        let http = http.clone();
        drop(bast::task::spawn(async move {
            // What the client has done wrong it has been told.
            let _ = http.serve_connection(Io::new(stream), service_fn(hello)).await;
        }));
    }
}

/// Reads what it is sent, up to a limit, before it answers: so that a client learns what is wrong with it.
async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match Limited::new(request.into_body(), LONGEST_BODY).collect().await {
        Ok(_) => (StatusCode::OK, "Hello from a task.\n"),
        Err(_) => (StatusCode::BAD_REQUEST, "The body is too long, or broken.\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    Ok(response)
}
