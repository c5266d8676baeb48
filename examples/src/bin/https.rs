//! `https`: an HTTPS server and a client, rustls' blocking API on fibers.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bast::CancelToken;
use bast::net::TcpListener;
use bast_examples::accept::until_ctrl_c;
use bast_examples::https::certs::{Identity, fingerprint};
use bast_examples::https::client::{self, Trust};
use bast_examples::https::{Limits, serve};
use bast_examples::options::seconds;
use clap::Parser;
use url::Url;

/// An HTTPS server that shows a page and echoes what is posted, with one fiber for each connection;
/// or, with --get, a client.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    /// Where to listen; port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443")]
    listen: SocketAddr,

    /// The certificate and its chain, in PEM [default: one is made, and its fingerprint printed].
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,

    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// Connections at once; others wait.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,

    /// Seconds that a handshake may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    handshake: f64,

    /// Seconds after which a silent connection is closed.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    idle: f64,

    /// Be a client: get this page, and print the answer.
    #[arg(long, value_name = "URL", conflicts_with_all = ["cert", "listen"])]
    get: Option<Url>,

    /// For --get: believe those for whom a certificate of this PEM file vouches.
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    ca: PathBuf,

    /// For --get: believe the server with this fingerprint (SHA-256), and no other.
    #[arg(long, value_name = "HEX", conflicts_with = "ca")]
    pin: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  https                                     on https://127.0.0.1:8443/, with a certificate of its own
  https --cert chain.pem --key key.pem      with yours
  curl -k https://127.0.0.1:8443/           ask it
  curl -k -d text https://127.0.0.1:8443/   have it echo
  https --get https://127.0.0.1:8443/ --pin FINGERPRINT
  https --get https://example.org/ | less   believes what the system believes

BAST_WORKERS=4 and BAST_DRIVER=epoll choose the threads and what waits for the sockets.
Ctrl-C ends it: requests in flight get 5 seconds, then the totals are printed.";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = until_ctrl_c(|stop| match &cli.get {
        Some(url) => get(&cli, url, stop),
        None => server(&cli, stop),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("https: {fault}");
            if fault.to_string().contains("peer certificate") {
                eprintln!("https: --ca FILE or --pin FINGERPRINT say whom to believe");
            }
            ExitCode::FAILURE
        }
    }
}

fn server(cli: &Cli, stop: &CancelToken) -> io::Result<()> {
    let identity = match (&cli.cert, &cli.key) {
        (Some(cert), Some(key)) => Identity::load(cert, key),
        _ => Identity::self_signed(&["localhost".into(), cli.listen.ip().to_string()]),
    };
    let identity = identity.map_err(io::Error::other)?;
    let pin = fingerprint(&identity.chain[0]);
    let config = identity.into_config().map_err(io::Error::other)?;
    let listener = TcpListener::bind(cli.listen)
        .map_err(|fault| io::Error::new(fault.kind(), format!("{}: {fault}", cli.listen)))?;
    let limits = Limits {
        connections: cli.connections as usize,
        handshake: Duration::from_secs_f64(cli.handshake),
        idle: Duration::from_secs_f64(cli.idle),
        ..Limits::default()
    };
    if cli.cert.is_none() {
        println!("https: made a certificate for localhost and {}; --pin {pin}", cli.listen.ip());
    }
    println!("https: https://{}/", listener.local_addr()?);
    let totals = serve(&listener, &config, &limits, stop);
    println!(
        "https: {} connections, {} requests, {} failed",
        totals.connections, totals.requests, totals.failed
    );
    Ok(())
}

fn get(cli: &Cli, url: &Url, stop: &CancelToken) -> io::Result<()> {
    let trust = cli.pin.clone().map_or_else(|| Trust::Roots(cli.ca.clone()), Trust::Pin);
    let config = trust.into_config().map_err(io::Error::other)?;
    let mut page = Vec::new();
    let limit = Duration::from_secs(30);
    let got = stop.run(|| client::get(url, &config, limit, &mut page));
    // What has come is shown, also if it is not all.
    io::Write::write_all(&mut io::stdout(), &page)?;
    match got {
        Ok(got) => got.map(drop),
        Err(_cancelled) => Err(io::ErrorKind::Interrupted.into()),
    }
}
