//! Micro-benchmarks of bast, each with its rivals in the same run.
//!
//! ```text
//! registry -> plan -> run: round by round, subject by subject -> report: table, JSON lines
//!                          |  child: one process per measurement
//!                          |    micro/<runtime>.rs   one function per benchmark
//!                          |    sync/<mechanism>.rs  locks, channels, select, timeouts, cancellation
//!                          |    diet/                 people who are fed (a grid and a plan of its own)
//!                          |    delimcc/<style>.rs  waits in a loop and under recursion
//!                          |    export/               RRD files into one CSV
//!                          |    udp.rs               datagrams, singly and in batches
//!                          |    serve/<runtime>.rs   servers; echo.rs, proxy.rs, pong.rs load them
//! ```

mod child;
mod children;
mod delimcc;
mod diet;
mod echo;
mod export;
mod files;
mod go;
mod httpfile;
mod ldc;
mod micro;
mod ocaml;
mod plot;
mod pong;
mod proc;
mod proxy;
mod registry;
mod report;
mod run;
mod serve;
mod stats;
mod sync;
#[allow(unsafe_code)]
mod sys;
mod targets;
mod udp;

use clap::{Parser, Subcommand};
use registry::{BENCHES, Filter, Kind};
use run::Effort;
use stats::Span;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Descriptors for 10,000 connections, with room.
const DESCRIPTORS: u64 = 20_000;

/// Micro-benchmarks of bast with rivals in the same run: std threads, tokio, may, Go.
#[derive(Parser)]
#[command(version, about, after_help = HELP)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

const HELP: &str = "\
Each measurement is a child process of its own. Subjects take turns, round by round; the table
gives the median and the least value over the rounds, and the ratio of the medians to bast's
(`~`: bast by another mechanism). With one worker the whole process is pinned to core 1; `@2` is two
workers on cores 0 and 1. Servers run on core 0, their clients on core 1.

Examples:
  bast-bench list
  bast-bench run micro --quick
  bast-bench run yield spawn-join --subject bast,tokio,go --json out.json
  bast-bench run yield --param 100 --repeat 9
  bast-bench run echo pong
  bast-bench run httpfile --param ab-100-1k,wrk-64-1m
  bast-bench diet --quick --out report
  bast-bench run delimcc --curves report    (basic, recurse and recurse2)

`pong` and `httpfile` need ab and wrk (apt-get install -y apache2-utils wrk); the subject go needs a
Go toolchain, nginx needs nginx (apt-get install -y nginx-light),
rrd-export needs rrdtool (apt-get install -y rrdtool) and builds apps/rrd-export when it is run;
lwt needs OCaml (apt-get install -y ocaml-nox ocaml-findlib liblwt-ocaml-dev). What is missing is skipped with a note. Progress goes to stderr. The exit status is 1
if a subject failed.";

#[derive(Subcommand)]
enum Action {
    /// Lists the benchmarks with their parameters, units and subjects
    List,
    /// Runs benchmarks
    Run {
        /// Names as in `list`; `micro` is all that need no network, `delimcc` those of the delimited
        /// continuations, `all` is all
        #[arg(required = true)]
        names: Vec<String>,
        /// Short: under a minute for each name, and for all of `micro`
        #[arg(long)]
        quick: bool,
        /// Writes one JSON object a line: bench, param, subject, unit, median, min, n
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Writes the curves of `delimcc` and `rrd-export` into this folder, each as .csv, .json and .html
        #[arg(long, value_name = "DIR")]
        curves: Option<PathBuf>,
        /// Only these subjects; `tokio` and `bast` take all of their family
        #[arg(long, value_delimiter = ',', value_name = "S,...")]
        subject: Vec<String>,
        /// Only these parameters
        #[arg(long, value_delimiter = ',', value_name = "P,...")]
        param: Vec<String>,
        /// Rounds (default: 5 or 3, fewer with --quick)
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        repeat: Option<u16>,
    },
    /// Feeds people with threads, fibers and both: a table, and diet.csv, diet.json and diet.html
    Diet {
        #[command(flatten)]
        options: diet::Options,
    },
    /// One measurement in this process
    #[command(hide = true)]
    Subject { bench: String, param: String, subject: String, warm_ms: u64, measure_ms: u64 },
    /// A server, until killed
    #[command(hide = true)]
    Serve { service: String, subject: String, addr: SocketAddr },
}

fn main() -> ExitCode {
    match act(Cli::parse().command) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("bast-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

fn act(action: Action) -> Result<ExitCode, String> {
    match action {
        Action::List => list(),
        Action::Run { names, quick, json, curves, subject, param, repeat } => {
            let filter = Filter { subjects: subject, params: param, quick };
            let cases = registry::plan(&names, &filter)?;
            // Opened first: a wrong path should not cost a run.
            let json = json.map(|path| (File::create(&path), path));
            let json = match json {
                Some((Err(e), path)) => return Err(format!("{}: {e}", path.display())),
                Some((Ok(file), _)) => Some(file),
                None => None,
            };
            let descriptors = sys::raise_nofile(DESCRIPTORS).map_err(|e| e.to_string())?;
            if descriptors < DESCRIPTORS
                && cases.iter().any(|c| matches!(c.bench.kind, Kind::Pong | Kind::Files))
            {
                eprintln!("only {descriptors} descriptors: 10,000 connections need {DESCRIPTORS}");
            }
            let effort = Effort { quick, repeat: repeat.map(usize::from) };
            let outcome = run::run(&cases, &effort);
            let written = json.map_or(Ok(()), |file| write_json(file, &outcome.records));
            print(&report::table(&outcome.records))?;
            for more in [targets::table(&outcome.records), delimcc::table(&outcome.records)] {
                if !more.is_empty() {
                    print(&format!("\n{more}"))?;
                }
            }
            written?;
            if let Some(folder) = curves {
                let studies = [
                    ("delimcc", delimcc::study(&outcome.records)),
                    ("rrd-export", export::study(&outcome.records)),
                ];
                let measured = studies.into_iter().filter_map(|(name, study)| Some((name, study?)));
                let measured: Vec<_> = measured.collect();
                if measured.is_empty() {
                    return Err("no curve was measured".to_owned());
                }
                for (name, study) in measured {
                    for path in study.write(&folder, name)? {
                        eprintln!("written: {}", path.display());
                    }
                }
            }
            if outcome.disturbed > 0 {
                let (some, all) = (outcome.disturbed, cases.len());
                eprintln!("{some} of {all} groups began while the machine had other work");
            }
            Ok(if outcome.failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Action::Diet { options } => {
            let (failures, table) = diet::run_grid(&options)?;
            print(&table)?;
            Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Action::Subject { bench, param, subject, warm_ms, measure_ms } => {
            let span = Span {
                warm: Duration::from_millis(warm_ms),
                measure: Duration::from_millis(measure_ms),
            };
            let values = micro::run(&subject, &micro::Job::new(&bench, &param, span))?;
            let lines: String = values.iter().map(|(unit, v)| format!("{unit}\t{v}\n")).collect();
            print(&lines)?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Serve { service, subject, addr } => {
            serve::run(&service, &subject, addr)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list() -> Result<ExitCode, String> {
    let mut text = String::new();
    for bench in BENCHES {
        text += &format!("{}: {}\n  units: {}\n", bench.name, bench.about, bench.units.join(", "));
        for param in bench.params {
            text += &format!("  {:<15} {}\n", param.name, param.subjects.join(" "));
        }
        text.push('\n');
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn write_json(file: File, records: &[report::Record]) -> Result<(), String> {
    let mut out = BufWriter::new(file);
    for record in records {
        writeln!(out, "{}", record.json()).map_err(|e| e.to_string())?;
    }
    out.flush().map_err(|e| e.to_string())
}

/// Prints to stdout; a reader that has gone away is an error and not a panic.
fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| e.to_string())
}
