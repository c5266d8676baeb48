//! `proxy`: relays TCP connections to one or several upstreams, with two fibers for each.

use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use bast::signal::CtrlC;
use bast::{DriverKind, Runtime};
use bast_examples::options::{driver, runs_on, seconds};
use bast_examples::os;
use bast_examples::proxy::{Config, Proxy};
use clap::Parser;

/// A TCP proxy: relays each connection to an upstream, byte by byte, both ways.
///
/// What is a stream is spliced in the kernel; what are messages is copied. Each direction ends by itself
/// (half-close), and a reset is passed on.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    /// Where to listen; port 0 takes a free one, which is printed.
    #[arg(long, alias = "addr", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// Where connections go. Several take turns, and one that does not answer is passed over.
    #[arg(long, required = true, value_name = "HOST:PORT")]
    to: Vec<String>,

    /// Connections at once, if there are two descriptors for each; more of them wait to be accepted.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,

    /// Seconds that connecting to one upstream may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    connect_timeout: f64,

    /// Seconds after which a connection is closed on which nothing moves, neither way (Windows cannot tell).
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0, value_parser = seconds)]
    idle_timeout: f64,

    /// Seconds that connections may take to end after Ctrl-C.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    grace: f64,

    /// Say on standard error how each connection has ended.
    #[arg(long)]
    log: bool,

    /// Tell upstreams who the client is: a line of the PROXY protocol, version 1, comes first.
    #[arg(long)]
    proxy_header: bool,

    /// Worker threads [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,

    /// What waits for the sockets: uring or epoll [default: uring where the kernel allows it].
    #[arg(long, value_name = "KIND", value_parser = driver)]
    driver: Option<DriverKind>,
}

const EXAMPLES: &str = "\
Examples:
  proxy --to 127.0.0.1:9000                               from 127.0.0.1:8080
  proxy --to app1:9000 --to app2:9000 --log               in turn; whoever refuses is passed over
  proxy --listen 0.0.0.0:443 --to 10.0.0.2:443 --proxy-header
  kill -USR1 $(pidof proxy)                               prints a line of figures (not on Windows)

A connection needs two descriptors, and two more for each direction in which much is under way.

Ctrl-C stops accepting; connections get --grace seconds, then they are closed and the totals are
printed. A second Ctrl-C ends it at once.";

fn main() -> ExitCode {
    let cli = Cli::parse();
    os::raise_open_files();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("proxy: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> io::Result<()> {
    let mut to = Vec::new();
    for name in &cli.to {
        let about = |fault| io::Error::other(format!("--to {name}: {fault}"));
        to.extend(name.to_socket_addrs().map_err(about)?);
    }
    let config = Config {
        to,
        max_connections: room(cli.max_connections),
        connect_timeout: Duration::from_secs_f64(cli.connect_timeout),
        idle_timeout: Duration::from_secs_f64(cli.idle_timeout),
        log: cli.log,
        header: cli.proxy_header,
    };
    let mut builder = Runtime::builder();
    if let Some(workers) = cli.workers {
        builder = builder.workers(workers.into());
    }
    if let Some(driver) = cli.driver {
        builder = builder.driver(driver);
    }
    let runtime = builder.build()?;
    let runs_on = runs_on(&runtime);
    let (listen, grace) = (cli.listen, Duration::from_secs_f64(cli.grace));
    let outcome = runtime.run(move || serve(listen, config, grace, &runs_on));
    if runtime.shutdown(Duration::from_secs(1)).is_err() {
        eprintln!("proxy: some fibers did not end in time");
    }
    outcome
}

fn serve(listen: SocketAddr, config: Config, grace: Duration, runs_on: &str) -> io::Result<()> {
    let upstreams: Vec<String> = config.to.iter().map(ToString::to_string).collect();
    let proxy = Proxy::bind(listen, config)
        .map_err(|fault| io::Error::new(fault.kind(), format!("{listen}: {fault}")))?;
    // From here on no signal is missed: whoever reads the line below may send one at once.
    let (ctrl_c, figures) = (CtrlC::new()?, os::requests_for_figures()?);
    say(&format!("{} to {} on {runs_on}", proxy.local_addr()?, upstreams.join(", ")))?;
    let start = |f: fn(&Proxy)| {
        let proxy = proxy.clone();
        bast::spawn(move || f(&proxy))
    };
    let (accepting, watching) = (start(Proxy::serve), start(Proxy::watch));
    let reporting = figures.map(|asked| {
        let proxy = proxy.clone();
        bast::spawn(move || {
            while os::wait_for(&asked).is_ok() {
                let _ = say(&proxy.metrics().to_string());
            }
        })
    });
    ctrl_c.wait()?;
    // Whoever is in a hurry presses it again.
    drop(bast::spawn(move || {
        if ctrl_c.wait().is_ok() {
            std::process::exit(130);
        }
    }));
    accepting.cancel();
    if let Err(payload) = accepting.join()
        && !payload.is::<bast::Cancelled>()
    {
        eprintln!("proxy: the accepting fiber panicked");
    }
    if !proxy.drain(grace) {
        eprintln!("proxy: some connections did not end");
    }
    watching.cancel();
    reporting.iter().for_each(|fiber| fiber.cancel());
    let metrics = proxy.metrics();
    say(&metrics.to_string())?;
    say(&format!("{} connections, {} bytes", metrics.connections, metrics.up + metrics.down))
}

/// As many connections as were asked for, or as have two descriptors each: were more accepted, there would be none
/// left to reach an upstream with, and nobody would get any further.
fn room(asked: u32) -> usize {
    const OURS: u64 = 32;
    let most = (os::open_files().saturating_sub(OURS) / 2).max(1);
    usize::try_from(most).unwrap_or(usize::MAX).min(asked as usize)
}

/// On the pool: nobody knows how slow the reader is.
fn say(line: &str) -> io::Result<()> {
    bast::blocking(|| {
        let mut out = io::stdout().lock();
        writeln!(out, "proxy: {line}")?;
        out.flush()
    })
}
