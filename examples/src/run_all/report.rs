//! What is said about commands.

use std::fmt;

use serde_json::{Value, json};

use super::job::Job;

/// How a command has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Exit(i32),
    /// By this signal, which was not ours.
    Signal(i32),
    /// Its time was up.
    TimedOut,
    /// All were to stop.
    Stopped,
    /// All were to stop before it began.
    NotRun,
    /// For this reason.
    NotStarted(String),
    /// Its output could not be read, or its end not be waited for.
    Lost(String),
}

impl End {
    /// Whether all is well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        *self == End::Exit(0)
    }

    fn name(&self) -> &'static str {
        match self {
            End::Exit(0) => "success",
            End::Exit(_) => "exit",
            End::Signal(_) => "signal",
            End::TimedOut => "timeout",
            End::Stopped => "stopped",
            End::NotRun => "not-run",
            End::NotStarted(_) => "not-started",
            End::Lost(_) => "lost",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exit(code) => write!(f, "exit status {code}"),
            End::Signal(signal) => write!(f, "ended by signal {signal}"),
            End::TimedOut => f.write_str("took too long, and was ended"),
            End::Stopped => f.write_str("was stopped"),
            End::NotRun => f.write_str("was not run"),
            End::NotStarted(why) | End::Lost(why) => f.write_str(why),
        }
    }
}

/// A command's end, and its output if that was kept.
#[derive(Clone, Debug)]
pub struct Report {
    /// The command.
    pub job: Job,
    /// How it has ended.
    pub end: End,
    /// How long it took.
    pub seconds: f64,
    /// Its stdout.
    pub out: Vec<u8>,
    /// Its stderr.
    pub err: Vec<u8>,
}

impl Report {
    pub(super) fn new(job: Job, end: End) -> Report {
        Report { job, end, seconds: 0.0, out: Vec::new(), err: Vec::new() }
    }

    /// One object. What is not UTF-8 is replaced.
    #[must_use]
    pub fn json(&self) -> Value {
        let (mut code, mut signal, mut why) = (Value::Null, Value::Null, Value::Null);
        match &self.end {
            End::Exit(n) => code = json!(n),
            End::Signal(n) => signal = json!(n),
            End::NotStarted(text) | End::Lost(text) => why = json!(text),
            End::TimedOut | End::Stopped | End::NotRun => {}
        }
        json!({
            "line": self.job.line, "command": self.job.text, "end": self.end.name(),
            "code": code, "signal": signal, "error": why, "seconds": self.seconds,
            "stdout": String::from_utf8_lossy(&self.out), "stderr": String::from_utf8_lossy(&self.err),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.job.line, self.job.text, self.end)
    }
}

/// How all have ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// With status 0.
    pub succeeded: usize,
    /// With another, by a signal, or without having begun.
    pub failed: usize,
    /// Because they took too long.
    pub timed_out: usize,
    /// As all were to stop.
    pub stopped: usize,
    /// Never begun, as all were to stop.
    pub not_run: usize,
    /// From the first to the last.
    pub seconds: f64,
}

impl Summary {
    pub(super) fn count(&mut self, end: &End) {
        *match end {
            End::Exit(0) => &mut self.succeeded,
            End::Exit(_) | End::Signal(_) | End::NotStarted(_) | End::Lost(_) => &mut self.failed,
            End::TimedOut => &mut self.timed_out,
            End::Stopped => &mut self.stopped,
            End::NotRun => &mut self.not_run,
        } += 1;
    }

    /// Whether all went well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.failed + self.timed_out + self.stopped + self.not_run == 0
    }

    /// One object.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({ "summary": {
            "succeeded": self.succeeded, "failed": self.failed, "timed_out": self.timed_out,
            "stopped": self.stopped, "not_run": self.not_run, "seconds": self.seconds,
        }})
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.succeeded + self.failed + self.timed_out + self.stopped + self.not_run;
        write!(
            f,
            "{all} commands: {} succeeded, {} failed, {} timed out, {} stopped, {} not run; {:.2} s",
            self.succeeded, self.failed, self.timed_out, self.stopped, self.not_run, self.seconds
        )
    }
}
