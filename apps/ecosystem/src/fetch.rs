//! Many requests by `reqwest`, with a fiber for each that is under way.

use std::fmt;
use std::time::{Duration, Instant};

use bast::future::Wait;
use reqwest::{Client, StatusCode};

use crate::told;

/// What became of the requests.
#[derive(Debug, Default)]
pub struct Report {
    /// Answered with a success.
    pub answered: usize,
    /// Bytes of these answers.
    pub bytes: usize,
    /// Why the others were not.
    pub faults: Vec<String>,
    /// From the first to the last.
    pub took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { answered, bytes, faults, took } = self;
        let seconds = took.as_secs_f64();
        let rate = *answered as f64 / seconds.max(1e-9);
        write!(f, "{answered} answered, {bytes} bytes, {} failed", faults.len())?;
        write!(f, ", in {seconds:.3} s ({rate:.0} per second)")?;
        faults.first().map_or(Ok(()), |fault| write!(f, "\nthe first that failed: {fault}"))
    }
}

/// One request, waited for by the calling fiber: the status, and the length of the body.
///
/// # Errors
/// Whatever kept the answer from coming.
///
/// # Cancellation
/// A suspension point; the connection of an unfinished request is closed.
pub fn get(client: &Client, url: &str) -> reqwest::Result<(StatusCode, usize)> {
    bast_tokio::run(|| {
        let answer = client.get(url).send().wait()?;
        Ok((answer.status(), answer.bytes().wait()?.len()))
    })
}

/// Asks for a page again and again, from this many fibers at once.
#[must_use]
pub fn fetch(client: &Client, url: &str, requests: usize, fibers: usize) -> Report {
    let begun = Instant::now();
    let outcomes = bast::par_map(0..requests, fibers, |_| get(client, url));
    let mut report = Report::default();
    for outcome in outcomes {
        match outcome {
            Ok((status, bytes)) if status.is_success() => {
                report.answered += 1;
                report.bytes += bytes;
            }
            Ok((status, _)) => report.faults.push(status.to_string()),
            Err(fault) => report.faults.push(told(&fault)),
        }
    }
    report.took = begun.elapsed();
    report
}
