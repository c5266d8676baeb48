//! `httpfile`: serves the files of a directory over HTTP. The parts are in `bast_examples::httpfile`.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bast_examples::httpfile::log::Log;
use bast_examples::httpfile::serve;
use bast_examples::httpfile::site::{Rules, Site};
use bast_examples::options::{Options, seconds};
use bast_examples::server::{self, Connection, Service};
use clap::Parser;

/// Serves the files of a directory over HTTP, with one fiber for each connection.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    /// The directory.
    #[arg(default_value = ".")]
    root: PathBuf,

    #[command(flatten)]
    options: Options,

    /// Directories without an index.html are not listed (403).
    #[arg(long)]
    no_listing: bool,

    /// Serves names that begin with a dot, too (.well-known always is).
    #[arg(long)]
    hidden: bool,

    /// Follows symbolic links that lead out of the directory; others always are followed.
    #[arg(long)]
    follow_links: bool,

    /// Writes a line for each request to standard output.
    #[arg(long)]
    log: bool,

    /// Seconds that the head of a request may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0, value_parser = seconds)]
    head_timeout: f64,

    /// Bytes a second that a client has to take at least, 10 seconds after its request.
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    least_rate: u64,
}

const EXAMPLES: &str = "\
Examples:
  httpfile                                   this directory, on http://127.0.0.1:8080/
  httpfile /srv/www --addr 0.0.0.0:80        a site, for the whole network
  httpfile --log --no-listing public         with a log, and no listings
  curl -i -H 'Range: bytes=0-99' http://127.0.0.1:8080/some/file
  wrk -c 64 http://127.0.0.1:8080/some/file

It has ranges, conditional requests, types by the name's ending, index.html, and listings. Nothing outside of
the directory is served: not by `..`, and not by a symbolic link unless --follow-links is given.
Ctrl-C ends it: answers under way get 5 seconds, then the totals are printed.";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let site = match site(&cli) {
        Ok(site) => Arc::new(site),
        Err(fault) => {
            eprintln!("httpfile: {fault}");
            return ExitCode::FAILURE;
        }
    };
    let service = Service {
        name: "httpfile",
        url: |addr| format!("http://{addr}/"),
        unit: "requests",
        handle: move |connection: &Connection| serve(connection, &site),
    };
    server::run(service, &cli.options)
}

fn site(cli: &Cli) -> io::Result<Site> {
    let rules = Rules {
        listing: !cli.no_listing,
        hidden: cli.hidden,
        follow_links: cli.follow_links,
        head: Duration::from_secs_f64(cli.head_timeout),
        least_rate: cli.least_rate,
    };
    let log = if cli.log { Some(Log::to_stdout()?) } else { None };
    Site::new(&cli.root, rules, log)
}
