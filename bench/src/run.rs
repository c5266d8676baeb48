//! Carries out a plan: for each case, rounds; in each round, every subject in turn.

use crate::child;
use crate::micro::Values;
use crate::registry::{Case, Kind};
use crate::report::Record;
use crate::stats::Span;
use crate::{echo, export, go, httpfile, ocaml, pong, proc, proxy};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long and how often.
pub(crate) struct Effort {
    pub(crate) quick: bool,
    pub(crate) repeat: Option<usize>,
}

impl Effort {
    fn rounds(&self, case: &Case) -> usize {
        let default = match (case.bench.name, self.quick) {
            ("sleepers" | "pong" | "httpfile" | "rrd-export", true) => 1,
            ("timer-delay" | "echo" | "proxy", true) => 2,
            (_, true) => 3,
            ("sleepers" | "echo" | "pong" | "proxy", false) => 3,
            _ if case.bench.kind == Kind::Curve => 3,
            (_, false) => 5,
        };
        self.repeat.unwrap_or(default)
    }

    fn span(&self, kind: Kind) -> Span {
        let (warm, measure) = match (kind, self.quick) {
            (Kind::Micro, true) => (30, 80),
            (Kind::Curve, true) => (10, 30),
            (Kind::Curve, false) => (50, 150),
            (Kind::Micro, false) => (300, 1000),
            (_, true) => (150, 600),
            (_, false) => (500, 3000),
        };
        Span { warm: Duration::from_millis(warm), measure: Duration::from_millis(measure) }
    }
}

/// What came out, and whether anything that should have run did not.
pub(crate) struct Outcome {
    pub(crate) records: Vec<Record>,
    pub(crate) failures: usize,
    /// Cases that began while the machine had other work.
    pub(crate) disturbed: usize,
}

/// Runs every case; progress and notes go to stderr.
pub(crate) fn run(cases: &[Case], effort: &Effort) -> Outcome {
    let mut outcome = Outcome { records: Vec::new(), failures: 0, disturbed: 0 };
    let mut noted = BTreeSet::new();
    let lwt_missing = cases
        .iter()
        .any(|c| c.subjects.iter().any(|s| ocaml::is(s)))
        .then(ocaml::missing)
        .flatten();
    let go_missing = cases.iter().any(|c| c.subjects.iter().any(|s| go::is(s))) && go::missing();
    for (i, case) in cases.iter().enumerate() {
        let at = format!("[{}/{}] {} {}", i + 1, cases.len(), case.bench.name, case.param);
        if matches!(case.bench.kind, Kind::Pong | Kind::Files)
            && let Some(hint) = pong::missing(case.param)
        {
            eprintln!("{at}: skipped: {hint}");
            continue;
        }
        if case.bench.kind == Kind::Export
            && let Some(hint) = export::missing(case.param)
        {
            eprintln!("{at}: skipped: {hint}");
            continue;
        }
        let others = proc::others_running();
        if others > 0 {
            eprintln!("{at}: {others} other tasks are running on this machine: expect noise");
            outcome.disturbed += 1;
        }
        let mut subjects = case.subjects.clone();
        if go_missing && subjects.iter().any(|s| go::is(s)) {
            subjects.retain(|s| !go::is(s));
            if noted.insert("go") {
                eprintln!("{at}: subject go is skipped: there is no `go` on the PATH");
            }
        }
        if let Some(hint) = lwt_missing
            && subjects.iter().any(|s| ocaml::is(s))
        {
            subjects.retain(|s| !ocaml::is(s));
            if noted.insert("lwt") {
                eprintln!("{at}: subject lwt is skipped: {hint}");
            }
        }
        subjects.retain(|subject| {
            let hint = httpfile::missing(subject);
            if let Some(hint) = hint
                && noted.insert("nginx")
            {
                eprintln!("{at}: subject {subject} is skipped: {hint}");
            }
            hint.is_none()
        });
        rounds(case, &at, subjects, effort, &mut outcome);
    }
    outcome
}

fn rounds(case: &Case, at: &str, subjects: Vec<&str>, effort: &Effort, outcome: &mut Outcome) {
    let rounds = effort.rounds(case);
    let mut samples: Vec<Vec<(&str, f64)>> = vec![Vec::new(); subjects.len()];
    let mut broken = vec![false; subjects.len()];
    for round in 0..rounds {
        for (i, subject) in subjects.iter().enumerate() {
            if broken[i] {
                continue;
            }
            match measure(case, subject, effort) {
                Ok(values) => {
                    let shown: Vec<_> =
                        values.iter().map(|(unit, v)| format!("{v:.2} {unit}")).collect();
                    let shown = shown.join(", ");
                    eprintln!("{at} {subject} (round {} of {rounds}): {shown}", round + 1);
                    samples[i].extend(values);
                }
                Err(e) => {
                    eprintln!("{at} {subject} FAILED: {e}");
                    broken[i] = true;
                    outcome.failures += 1;
                }
            }
        }
    }
    for unit in case.bench.units {
        for (subject, samples) in subjects.iter().zip(&samples) {
            let of_unit: Vec<_> =
                samples.iter().filter(|(u, _)| u == unit).map(|(_, v)| *v).collect();
            let place = [case.bench.name, case.param, subject, unit];
            outcome.records.extend(Record::new(place, &of_unit));
        }
    }
}

fn measure(case: &Case, subject: &str, effort: &Effort) -> Result<Values, String> {
    let span = effort.span(case.bench.kind);
    match case.bench.kind {
        Kind::Micro | Kind::Curve => child::measure(case.bench, case.param, subject, span),
        Kind::Echo => {
            let count = case.param.parse().map_err(|_| format!("no number: {}", case.param))?;
            echo::measure(subject, count, span)
        }
        Kind::Export => export::measure(subject, case.param, effort.quick),
        Kind::Proxy => proxy::measure(subject, case.param, span),
        Kind::Pong => pong::measure(subject, case.param, effort.quick),
        Kind::Files => httpfile::measure(subject, case.param, effort.quick),
    }
}
