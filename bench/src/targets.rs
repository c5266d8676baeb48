//! What bast has set itself as targets, and whether the run that just ended met them.
//!
//! A target is a ratio of two medians of one run, or a plain limit. Targets of which the run has no
//! figures are not shown.

use crate::registry::BENCHES;
use crate::report::Record;
use std::fmt::Write;

/// `bench param subject`, of which the benchmark's first unit is meant; a subject that ends in `*` is the fastest of a family.
type Which = (&'static str, &'static str, &'static str);

enum Test {
    /// The first takes at most so many times what the second takes.
    AtMost(Which, f64, Which),
    /// The first takes at least so many times what the second takes.
    AtLeast(Which, f64, Which),
    /// At most so many nanoseconds.
    Ns(Which, f64),
}

struct Target {
    what: &'static str,
    test: Test,
}

const fn times_tokio(
    what: &'static str,
    bench: &'static str,
    param: &'static str,
    times: f64,
) -> Target {
    Target { what, test: Test::AtLeast((bench, param, "tokio*"), times, (bench, param, "bast")) }
}

const TARGETS: &[Target] = &[
    Target {
        what: "lock and unlock, to std's",
        test: Test::AtMost(("lock", "mutex", "bast"), 1.5, ("lock", "mutex", "threads")),
    },
    times_tokio("a mutex that 1,000 want, tokio's to ours", "contended", "held-1000", 5.0),
    times_tokio("unbounded channel, tokio's to ours", "channel", "unbounded", 3.0),
    times_tokio("bounded channel, tokio's to ours", "channel", "bounded", 3.0),
    times_tokio("unbounded, 4 producers", "channel", "unbounded-4p", 3.0),
    times_tokio("bounded, 4 producers", "channel", "bounded-4p", 3.0),
    times_tokio("unbounded, across workers", "channel", "unbounded@2", 1.0),
    times_tokio("bounded, across workers", "channel", "bounded@2", 1.0),
    times_tokio("unbounded, 4 producers, across workers", "channel", "unbounded-4p@2", 1.0),
    times_tokio("bounded, 4 producers, across workers", "channel", "bounded-4p@2", 1.0),
    Target {
        what: "select of two ready, to recv",
        test: Test::AtMost(("select", "select", "bast"), 3.0, ("select", "recv", "bast")),
    },
    Target {
        what: "select of two ready, sends included",
        test: Test::AtMost(("select", "select-sent", "bast"), 3.0, ("select", "recv-sent", "bast")),
    },
    Target {
        what: "select of two that waits, to recv",
        test: Test::AtMost(("select", "select-wait", "bast"), 3.0, ("select", "recv-wait", "bast")),
    },
    Target {
        what: "timeout around what is ready, ns",
        test: Test::Ns(("timeout", "ready", "bast"), 60.0),
    },
    Target {
        what: "a future that a neighbour wakes, ns",
        test: Test::Ns(("await", "woken", "bast"), 40.0),
    },
    Target {
        what: "a task that a fiber wakes, ns",
        test: Test::Ns(("await", "task-woken", "bast"), 40.0),
    },
    Target {
        what: "cached file reads, to a plain io_uring loop's",
        test: Test::AtMost(
            ("file-read", "cached", "bast-uring"),
            1.15,
            ("file-read", "cached", "plain-uring"),
        ),
    },
    Target {
        what: "file reads past the cache, to the same",
        test: Test::AtMost(
            ("file-read", "direct", "bast-uring"),
            1.15,
            ("file-read", "direct", "plain-uring"),
        ),
    },
    Target {
        what: "10,000 small files, tokio::fs's to ours",
        test: Test::AtLeast(
            ("small-files", "10000@2", "tokio*"),
            2.0,
            ("small-files", "10000@2", "bast-uring"),
        ),
    },
];

/// hyper's CPU for a request on bast, to that on tokio.
macro_rules! hyper {
    ($($param:literal,)*) => {
        &[$(
            Target {
                what: concat!("hyper on uring, ", $param, ", to tokio"),
                test: Test::AtMost(
                    ("pong", $param, "hyper-bast-uring"), 1.0, ("pong", $param, "hyper-tokio"),
                ),
            },
            Target {
                what: concat!("hyper on epoll, ", $param, ", to tokio"),
                test: Test::AtMost(
                    ("pong", $param, "hyper-bast-epoll"), 1.0, ("pong", $param, "hyper-tokio"),
                ),
            },
        )*]
    };
}

const HYPER: &[Target] = hyper!["ab-10", "ab-100", "ab-1000", "ab-10000", "wrk-64", "wrk-1024",];

/// The server's CPU for a request: `times` that of nginx, and once that of the others.
macro_rules! files {
    ($($param:literal: $times:literal,)*) => {
        &[$(
            Target {
                what: concat!("httpfile ", $param, ", to nginx"),
                test: Test::AtMost(
                    ("httpfile", $param, "bast-uring"), $times, ("httpfile", $param, "nginx"),
                ),
            },
            Target {
                what: concat!("httpfile ", $param, ", to Go"),
                test: Test::AtMost(
                    ("httpfile", $param, "bast-uring"), 1.0, ("httpfile", $param, "go"),
                ),
            },
            Target {
                what: concat!("httpfile ", $param, ", to axum"),
                test: Test::AtMost(
                    ("httpfile", $param, "bast-uring"), 1.0, ("httpfile", $param, "axum"),
                ),
            },
        )*]
    };
}

const FILES: &[Target] = files! {
    "ab-10-1k": 1.1,
    "ab-100-1k": 1.1,
    "ab-1000-1k": 1.1,
    "ab-10000-1k": 1.1,
    "abk-100-1k": 1.1,
    "wrk-64-1k": 1.1,
    "wrk-1024-1k": 1.1,
    "ab-10-64k": 1.1,
    "ab-100-64k": 1.1,
    "ab-1000-64k": 1.1,
    "ab-10000-64k": 1.1,
    "abk-100-64k": 1.1,
    "wrk-64-64k": 1.1,
    "wrk-1024-64k": 1.1,
    "ab-10-1m": 1.0,
    "ab-100-1m": 1.0,
    "ab-1000-1m": 1.0,
    "ab-10000-1m": 1.0,
    "abk-100-1m": 1.0,
    "wrk-64-1m": 1.0,
    "wrk-1024-1m": 1.0,
};

fn median((bench, param, subject): Which, records: &[Record]) -> Option<f64> {
    let named = |name: &str| match subject.strip_suffix('*') {
        Some(family) => name.starts_with(family),
        None => name == subject,
    };
    records
        .iter()
        .filter(|r| r.bench == bench && r.param == param && named(&r.subject))
        // Of several figures the first that the benchmark names.
        .filter(|r| BENCHES.iter().any(|b| b.name == bench && b.units[0] == r.unit))
        .map(|r| r.median)
        .min_by(f64::total_cmp)
}

/// A line for each target of which `records` has the figures; empty if there is none.
pub(crate) fn table(records: &[Record]) -> String {
    let mut out = String::new();
    for Target { what, test } in TARGETS.iter().chain(HYPER).chain(FILES) {
        let ratio = |a, b| Some(median(a, records)? / median(b, records)?);
        let (figure, sign, limit) = match *test {
            Test::AtMost(a, limit, b) => (ratio(a, b), "<=", limit),
            Test::AtLeast(a, limit, b) => (ratio(a, b), ">=", limit),
            Test::Ns(a, limit) => (median(a, records), "<=", limit),
        };
        let Some(figure) = figure else { continue };
        let met = if sign == "<=" { figure <= limit } else { figure >= limit };
        if out.is_empty() {
            let _ = writeln!(out, "{:<42} {:>8} {:>8}", "target", "figure", "limit");
        }
        let verdict = if met { "met" } else { "MISSED" };
        let _ = writeln!(out, "{what:<42} {figure:>8.2} {sign:>3} {limit:<5} {verdict}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record((bench, param, subject): Which, ns: f64) -> Record {
        Record::new([bench, param, subject, "ns"], &[ns]).unwrap()
    }

    #[test]
    fn ratios_take_the_fastest_rival() {
        let records = [
            record(("channel", "bounded", "bast"), 10.0),
            record(("channel", "bounded", "tokio-current"), 40.0),
            record(("channel", "bounded", "tokio-multi"), 25.0),
            record(("timeout", "ready", "bast"), 59.0),
        ];
        let table = table(&records);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        assert!(lines[1].contains("2.50") && lines[1].ends_with("MISSED"), "{table}");
        assert!(lines[2].contains("59.00") && lines[2].ends_with(" met"), "{table}");
        assert_eq!(super::table(&[]), "");
    }

    #[test]
    fn targets_name_what_the_registry_has() {
        for target in TARGETS.iter().chain(HYPER).chain(FILES) {
            let sides = match target.test {
                Test::AtMost(a, _, b) | Test::AtLeast(a, _, b) => [a, b],
                Test::Ns(a, _) => [a, a],
            };
            for (bench, param, subject) in sides {
                let bench = BENCHES.iter().find(|b| b.name == bench).unwrap();
                let param = bench.params.iter().find(|p| p.name == param).unwrap();
                let family = subject.trim_end_matches('*');
                assert!(param.subjects.iter().any(|s| s.starts_with(family)), "{}", target.what);
            }
        }
    }
}
