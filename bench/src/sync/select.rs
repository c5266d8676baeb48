//! A receive from one channel against a receive from either of two, with the same messages.
//!
//! * `recv`, `select`: 1,000 messages lie ready in two channels, and only taking them out is timed.
//! * `recv-sent`, `select-sent`: the same, and sending them is timed as well. A receiver may take many messages
//!   out of the channel at once, so that the next ones cost it next to nothing; that makes the plain `recv` a hard measure.
//! * `recv-wait`, `select-wait`: a round trip to an echo that answers over the two channels in turn, so
//!   each receive has to wait. `recv-wait` knows which it will be.

use super::channel::{BastUnbounded, Chan, CrossbeamUnbounded};
use super::host::{Fibers, Host, Threads};
use super::{READY, not_run};
use crate::micro::{Job, sum};
use crate::stats::Meter;
use bast::select::recv;

/// A channel that can be selected.
trait Either: Chan {
    /// A message from one or the other.
    fn either(a: &Self::Rx, b: &Self::Rx) -> u64;
}

impl Either for CrossbeamUnbounded {
    #[inline]
    fn either(a: &Self::Rx, b: &Self::Rx) -> u64 {
        crossbeam_channel::select! {
            recv(a) -> v => v.expect("a sender lives"),
            recv(b) -> v => v.expect("a sender lives"),
        }
    }
}

impl Either for BastUnbounded {
    #[inline]
    fn either(a: &Self::Rx, b: &Self::Rx) -> u64 {
        bast::select! {
            v = recv(a) => v.expect("a sender lives"),
            v = recv(b) => v.expect("a sender lives"),
        }
    }
}

pub(super) fn run(subject: &str, job: &Job) -> Result<f64, String> {
    match (subject, job.param.ends_with("-wait")) {
        ("bast", false) => ready::<Fibers, BastUnbounded>(job),
        ("bast", true) => waiting::<Fibers, BastUnbounded>(job),
        ("crossbeam", false) => ready::<Threads, CrossbeamUnbounded>(job),
        ("crossbeam", true) => waiting::<Threads, CrossbeamUnbounded>(job),
        _ => not_run(subject, job),
    }
}

fn ready<H: Host, C: Either>(job: &Job) -> Result<f64, String> {
    let mut meter = Meter::fixed(job.span, READY);
    let (selects, sends) = (job.param.starts_with("select"), job.param.ends_with("-sent"));
    H::enter(job, move || {
        let ((a, from_a), (b, from_b)) = (C::make(0), C::make(0));
        while let Some(n) = meter.next() {
            for i in 0..n / 2 {
                C::send(&a, i);
                C::send(&b, i);
            }
            if !sends {
                meter.restart();
            }
            let got: u64 = if selects {
                (0..n).map(|_| C::either(&from_a, &from_b)).sum()
            } else {
                (0..n / 2).map(|_| C::recv(&from_a) + C::recv(&from_b)).sum()
            };
            assert_eq!(got, 2 * sum(n / 2));
        }
        meter.ns()
    })
}

fn waiting<H: Host, C: Either>(job: &Job) -> Result<f64, String> {
    let mut meter = Meter::new(job.span);
    let selects = job.param.starts_with("select");
    H::enter(job, move || {
        let ((a, from_a), (b, from_b), (ask, asked)) = (C::make(0), C::make(0), C::make(0));
        let echo = H::spawn(0, move || {
            loop {
                match C::recv(&asked) {
                    u64::MAX => return,
                    v if v % 2 == 0 => C::send(&a, v),
                    v => C::send(&b, v),
                }
            }
        });
        while let Some(n) = meter.next() {
            for i in 0..n {
                C::send(&ask, i);
                let got = match (selects, i % 2) {
                    (true, _) => C::either(&from_a, &from_b),
                    (false, 0) => C::recv(&from_a),
                    (false, _) => C::recv(&from_b),
                };
                assert_eq!(got, i);
            }
        }
        C::send(&ask, u64::MAX);
        echo();
        meter.ns()
    })
}
