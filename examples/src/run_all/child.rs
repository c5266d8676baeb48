//! One command, from its start to its end.
//!
//! The child leads a group of its own: so Ctrl-C reaches it by us only, and what it has started ends with it. Its output is
//! read until both pipes are at their ends, but no longer than the grace after its own: a daemon that it leaves behind may
//! keep them open for ever.

use std::io::{self, BufRead, BufReader, Read};
use std::process::ExitStatus;
use std::time::Instant;

use bast::Cancelled;
use bast::process::{Child, Command, Stdio};
use bast::sync::{Mutex, WaitGroup};

use super::job::Job;
use super::report::{End, Report};
use super::{Plan, Stop};
use crate::os;

/// A piece of output: a line with its end, if it has one.
#[derive(Clone, Copy, Debug)]
pub enum Line<'a> {
    /// Of stdout.
    Out(&'a [u8]),
    /// Of stderr.
    Err(&'a [u8]),
}

/// Longer lines are given in pieces.
const LONGEST: u64 = 1 << 20;

pub(super) fn run(
    plan: &Plan,
    stop: &Stop,
    job: Job,
    line: &(dyn Fn(&Job, Line<'_>) + Sync),
) -> Report {
    let begun = Instant::now();
    let mut command = Command::new(&job.words[0]);
    command.args(&job.words[1..]).kill_on_drop(true);
    os::lead_a_group(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(fault) => {
            let why = match fault.kind() {
                io::ErrorKind::NotFound => format!("{}: command not found", job.words[0]),
                _ => format!("{}: {fault}", job.words[0]),
            };
            return Report::new(job, End::NotStarted(why));
        }
    };
    let (out, err) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let pipes = (child.stdout.take(), child.stderr.take());
    let mut end = End::Stopped;
    let read = bast::group(|g| {
        let readers = WaitGroup::new();
        let (mine, job) = (readers.clone(), &job);
        g.spawn(|| {
            let _mine = mine;
            read(pipes.0, &out, plan.by_line, |bytes| line(job, Line::Out(bytes)))
        });
        let mine = readers.clone();
        g.spawn(|| {
            let _mine = mine;
            read(pipes.1, &err, plan.by_line, |bytes| line(job, Line::Err(bytes)))
        });
        end = wait(plan, stop, &mut child)?;
        if !readers.wait_timeout(plan.grace) {
            g.cancel();
        }
        Ok::<(), Fault>(())
    });
    if let Err(Fault::Io(fault)) = read {
        end = End::Lost(fault.to_string());
    }
    let mut report = Report::new(job, end);
    report.seconds = begun.elapsed().as_secs_f64();
    report.out = out.into_inner().unwrap_or_default();
    report.err = err.into_inner().unwrap_or_default();
    report
}

enum Fault {
    Io(io::Error),
    Cancelled,
}

impl From<io::Error> for Fault {
    fn from(fault: io::Error) -> Fault {
        Fault::Io(fault)
    }
}

impl From<Cancelled> for Fault {
    fn from(_: Cancelled) -> Fault {
        Fault::Cancelled
    }
}

/// Waits for the child's end, and brings it about when it is time.
fn wait(plan: &Plan, stop: &Stop, child: &mut Child) -> io::Result<End> {
    let status = stop.gently.run(|| match plan.timeout {
        None => Ok(child.wait()),
        Some(limit) => bast::timeout(limit, || child.wait()),
    });
    let why = match status {
        Ok(Ok(status)) => return Ok(end_of(status?)),
        Ok(Err(_)) => End::TimedOut,
        Err(_) => End::Stopped,
    };
    match stop.now.run(|| child.terminate(plan.grace)) {
        Ok(ended) => drop(ended?),
        Err(_) => drop(child.terminate(std::time::Duration::ZERO)?),
    }
    Ok(why)
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), os::signal_of(status)) {
        (Some(code), _) => End::Exit(code),
        (None, signal) => End::Signal(signal.unwrap_or(0)),
    }
}

fn read(
    pipe: Option<impl Read>,
    all: &Mutex<Vec<u8>>,
    by_line: bool,
    line: impl Fn(&[u8]),
) -> Result<(), Fault> {
    let Some(pipe) = pipe else { return Ok(()) };
    let mut pipe = BufReader::with_capacity(1 << 16, pipe);
    loop {
        if by_line {
            let mut text = Vec::new();
            pipe.by_ref().take(LONGEST).read_until(b'\n', &mut text)?;
            if text.is_empty() {
                return Ok(());
            }
            line(&text);
        } else {
            let bytes = pipe.fill_buf()?;
            if bytes.is_empty() {
                return Ok(());
            }
            all.lock().unwrap_or_else(|poison| poison.into_inner()).extend_from_slice(bytes);
            let length = bytes.len();
            pipe.consume(length);
        }
    }
}
