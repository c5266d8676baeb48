//! `run-all`: runs many commands, a few at a time.

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bast_examples::options::seconds;
use bast_examples::os::{raise_open_files, requests_to_end, wait_for};
use bast_examples::run_all::child::Line;
use bast_examples::run_all::job::{Form, Job, parse};
use bast_examples::run_all::report::{End, Report, Summary};
use bast_examples::run_all::{Plan, Stop, run};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

/// Runs the commands that stand in the lines of a file or of stdin, a few at a time.
///
/// Each line is a command; quotes are a shell's, but no shell is needed. If a command is given here, each line is an
/// argument for it instead. What a command prints is kept together and printed when it has ended. The first failure
/// ends all, unless --keep-going is given. Ctrl-C asks what runs to end, and kills what does not; a second one kills
/// at once.
///
/// The exit status is 0 if all succeeded, 1 if not, 2 if nothing was run because of a mistake, and 130 after Ctrl-C.
#[derive(Parser)]
#[command(version, name = "run-all", after_help = EXAMPLES)]
struct Cli {
    /// Where the lines are [default: stdin].
    #[arg(short, long, value_name = "PATH")]
    file: Option<PathBuf>,

    /// How many run at a time [default: one for each core].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,

    /// Seconds that each may take.
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<f64>,

    /// Seconds between asking a command to end (SIGTERM) and killing it.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    grace: f64,

    /// Goes on after failures.
    #[arg(short, long)]
    keep_going: bool,

    /// Gives each line to `sh -c` (on Windows: `cmd /C`).
    #[arg(short, long, conflicts_with = "command")]
    shell: bool,

    /// Prints each line as it comes, after the number of its command.
    #[arg(short, long, conflicts_with = "json")]
    prefix: bool,

    /// Prints an object for each command, and one for all, a line each.
    #[arg(long)]
    json: bool,

    /// A command for each line, which stands for `{}` or comes last.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  run-all -j 8 -f commands.txt              8 at a time
  ls *.log | run-all -j 4 -- gzip -9        gzip -9 FILE, for each
  ls *.wav | run-all -t 60 -k -- lame {} {}.mp3
  run-all --shell --prefix < lines          pipes and redirections
  run-all --json -f commands.txt | jq .end";

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Three descriptors each, and a few.
    raise_open_files();
    let outcome = bast::spawn(move || work(&cli)).join();
    match outcome {
        Ok(Ok(code)) => code,
        Ok(Err(fault)) => {
            eprintln!("run-all: {fault}");
            ExitCode::from(2)
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn work(cli: &Cli) -> Result<ExitCode, String> {
    let text = match &cli.file {
        Some(path) => bast::fs::read_to_string(path)
            .map_err(|fault| format!("{}: {fault}", path.display()))?,
        None => bast::blocking(|| {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map(|_| text)
        })
        .map_err(|fault| format!("stdin: {fault}"))?,
    };
    let form = match &cli.command[..] {
        [] if cli.shell => Form::Shell,
        [] => Form::Commands,
        command => Form::Arguments(command.to_vec()),
    };
    let jobs = parse(&text, &form).map_err(|fault| fault.to_string())?;
    let cores = bast::available_parallelism().map_or(1, usize::from);
    let plan = Plan {
        limit: cli.jobs.map_or(cores, |jobs| jobs as usize),
        timeout: cli.timeout.map(Duration::from_secs_f64),
        grace: Duration::from_secs_f64(cli.grace),
        keep_going: cli.keep_going,
        by_line: cli.prefix,
    };
    let stop = Stop::default();
    let interrupted = listen(&stop).map_err(|fault| format!("signals: {fault}"))?;
    let screen = Screen::new(cli, jobs.len());
    let line = |job: &Job, line: Line<'_>| screen.line(job, line);
    let summary = run(&plan, &stop, jobs, &line, |report| screen.report(report));
    screen.summary(&summary);
    let status = if interrupted.is_cancelled() { 130 } else { u8::from(!summary.is_success()) };
    match screen.fault() {
        Some(fault) => Err(format!("stdout: {fault}")),
        None => Ok(ExitCode::from(status)),
    }
}

/// Ctrl-C, and SIGTERM where there is one. The token tells that there was one.
fn listen(stop: &Stop) -> io::Result<bast::CancelToken> {
    let interrupted = bast::CancelToken::new();
    for request in requests_to_end()? {
        let tokens = [interrupted.clone(), stop.gently.clone(), stop.now.clone()];
        bast::spawn(move || {
            while wait_for(&request).is_ok() {
                if tokens[0].is_cancelled() {
                    tokens[2].cancel();
                }
                tokens[..2].iter().for_each(bast::CancelToken::cancel);
            }
        });
    }
    Ok(interrupted)
}

/// Where all of it is printed.
struct Screen {
    json: bool,
    bar: ProgressBar,
    /// The first fault of stdout: nothing is printed after it.
    fault: Mutex<Option<io::Error>>,
}

impl Screen {
    fn new(cli: &Cli, jobs: usize) -> Screen {
        let bar = if io::stderr().is_terminal() && !cli.json {
            let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {elapsed}");
            ProgressBar::new(jobs as u64).with_style(style.unwrap_or(ProgressStyle::default_bar()))
        } else {
            ProgressBar::hidden()
        };
        Screen { json: cli.json, bar, fault: Mutex::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<io::Error>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(self) -> Option<io::Error> {
        self.fault.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints, on the pool: whoever reads it may be slow. One at a time, as the lock is held there.
    fn print(&self, out: &[u8], err: &[u8]) {
        bast::blocking(|| {
            let mut fault = self.lock();
            if fault.is_some() {
                return;
            }
            self.bar.suspend(|| {
                let mut stdout = io::stdout().lock();
                if let Err(why) = stdout.write_all(out).and_then(|()| stdout.flush()) {
                    *fault = Some(why);
                }
                // Nobody could be told of a fault.
                let _ = io::stderr().lock().write_all(err);
            });
        });
    }

    fn line(&self, job: &Job, line: Line<'_>) {
        let prefixed = |bytes: &[u8]| {
            let mut text = format!("{}: ", job.line).into_bytes();
            text.extend_from_slice(bytes);
            if !bytes.ends_with(b"\n") {
                text.push(b'\n');
            }
            text
        };
        match line {
            Line::Out(bytes) => self.print(&prefixed(bytes), b""),
            Line::Err(bytes) => self.print(b"", &prefixed(bytes)),
        }
    }

    fn report(&self, report: &Report) {
        if self.json {
            self.print(format!("{}\n", report.json()).as_bytes(), b"");
        } else {
            let mut err = report.err.clone();
            if !report.end.is_success() && report.end != End::NotRun {
                err.extend_from_slice(format!("run-all: {report}\n").as_bytes());
            }
            self.print(&report.out, &err);
        }
        self.bar.inc(1);
    }

    fn summary(&self, summary: &Summary) {
        self.bar.finish_and_clear();
        if self.json {
            self.print(format!("{}\n", summary.json()).as_bytes(), b"");
        } else {
            self.print(b"", format!("run-all: {summary}\n").as_bytes());
        }
    }
}
