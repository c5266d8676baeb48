//! `crawl`: looks for broken links, with a fiber for each request.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use bast::CancelToken;
use bast_examples::accept::until_ctrl_c;
use bast_examples::crawl::report::Report;
use bast_examples::crawl::transport::agent;
use bast_examples::crawl::{Options, Progress, crawl};
use bast_examples::https::certs::certificates;
use bast_examples::options::seconds;
use clap::Parser;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use url::Url;

/// Crawls sites, and reports what is there and which links are broken.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    /// Where to begin.
    #[arg(required = true, value_name = "URL", value_parser = address)]
    start: Vec<Url>,

    /// Clicks from there, at most.
    #[arg(long, value_name = "N", default_value_t = 5)]
    depth: u32,

    /// Requests at once.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,

    /// Of these to one host.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    per_host: u32,

    /// Seconds that a request may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    timeout: f64,

    /// Bytes of a page that are read.
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20)]
    max_body: u32,

    /// Follow links to other hosts, too.
    #[arg(long)]
    anywhere: bool,

    /// Do not ask for robots.txt.
    #[arg(long)]
    no_robots: bool,

    /// Believe those for whom a certificate of this PEM file vouches.
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    ca: PathBuf,

    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  crawl https://example.org/                the site, 5 clicks deep
  crawl http://127.0.0.1:8080/ --per-host 1000 --concurrency 1000
  crawl https://example.org/ --json | jq '.broken[].link'

BAST_WORKERS=4 and BAST_DRIVER=epoll choose the threads and what waits for the sockets.
Ctrl-C ends it early, with a report of what there was so far. The status is 0 if no link is broken.";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let progress = Progress::default();
    let outcome = thread::scope(|scope| {
        // The bar has a thread of its own: a terminal may block whoever writes to it.
        let (done, finished) = channel::<()>();
        scope.spawn(|| draw(&progress, finished));
        let outcome = until_ctrl_c(|stop| run(&cli, &progress, stop));
        drop(done);
        outcome
    });
    let text = |report: &Report| match cli.json {
        true => format!("{:#}\n", report.to_json()),
        false => report.to_string(),
    };
    match outcome {
        Ok(report) => match io::stdout().write_all(text(&report).as_bytes()) {
            Ok(()) if report.broken.is_empty() && !report.interrupted => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        },
        Err(fault) => {
            eprintln!("crawl: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli, progress: &Progress, stop: &CancelToken) -> io::Result<Report> {
    let options = Options {
        start: cli.start.clone(),
        depth: cli.depth,
        concurrency: cli.concurrency as usize,
        per_host: cli.per_host as usize,
        timeout: Duration::from_secs_f64(cli.timeout),
        max_body: cli.max_body.into(),
        anywhere: cli.anywhere,
        robots: !cli.no_robots,
    };
    // Without https nobody has to be believed.
    let needs_roots = cli.anywhere || cli.start.iter().any(|url| url.scheme() == "https");
    let roots = if needs_roots { certificates(&cli.ca).map_err(io::Error::other)? } else { vec![] };
    let agent = agent(options.timeout, options.per_host, &roots);
    Ok(crawl(&options, &agent, progress, stop))
}

/// Shows how far the crawl has come, if there is a terminal to show it on.
fn draw(progress: &Progress, finished: Receiver<()>) {
    let style = "{spinner} {pos} of {len} addresses, {msg} [{wide_bar}] {elapsed}";
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template(style).expect("the template is valid"));
    while finished.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
        bar.set_length(progress.known.load(Relaxed));
        bar.set_position(progress.visited.load(Relaxed));
        bar.set_message(HumanBytes(progress.bytes.load(Relaxed)).to_string());
    }
    bar.finish_and_clear();
}

fn address(text: &str) -> Result<Url, String> {
    match text.parse::<Url>() {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        Ok(_) => Err("http://… or https://… is needed".into()),
        Err(fault) => Err(format!("{fault}; http://… or https://… is needed")),
    }
}
