//! What a crawl has found, as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use url::Url;

use super::{Options, Outcome, links};

/// A link that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Where it leads.
    pub link: String,
    /// Why there is nothing.
    pub why: String,
    /// The pages that have it; none if it was where the crawl began.
    pub on: Vec<String>,
}

/// What a crawl has found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Addresses that were asked.
    pub addresses: usize,
    /// Answers of 200 to 299.
    pub pages: usize,
    /// Of all answers, how many of which status.
    pub statuses: BTreeMap<u16, usize>,
    /// No answer.
    pub failed: usize,
    /// Bytes of all pages, as far as they were read.
    pub bytes: u64,
    /// Pages that were longer than what is read.
    pub cut: usize,
    /// Addresses that were not asked: they are on other hosts.
    pub outside: usize,
    /// Nor these: they are too many clicks away, or the crawl was interrupted before.
    pub too_deep: usize,
    /// Nor these: `robots.txt` forbids it.
    pub forbidden: usize,
    /// Links that lead nowhere, by address.
    pub broken: Vec<Broken>,
    /// How long it took.
    pub took: Duration,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

impl Report {
    pub(super) fn new(
        options: &Options,
        outcomes: &BTreeMap<Url, Outcome>,
        took: Duration,
        interrupted: bool,
    ) -> Report {
        let mut report = Report { took, interrupted, ..Report::default() };
        let starts: BTreeSet<Url> = options.start.iter().map(links::bare).collect();
        // Which pages lead to an address; to a start, the command line does.
        let mut on: BTreeMap<&Url, BTreeSet<&Url>> =
            starts.iter().map(|start| (start, BTreeSet::new())).collect();
        for (url, outcome) in outcomes {
            report.count(outcome);
            match outcome {
                Outcome::Answer { links, garbled, .. } => {
                    for link in links {
                        on.entry(link).or_default().insert(url);
                    }
                    for link in garbled {
                        let (link, on) = (link.clone(), vec![url.to_string()]);
                        report.broken.push(Broken { link, why: "no address".into(), on });
                    }
                }
                // Whatever its end, it is no link of a page.
                Outcome::Redirect { to: Some(to), .. } => {
                    on.entry(to).or_default();
                }
                _ => {}
            }
        }
        for (link, on) in &on {
            match (outcomes.contains_key(*link), options.is_inside(link)) {
                (true, _) => {}
                (false, false) => report.outside += 1,
                (false, true) => report.too_deep += 1,
            }
            let is_linked = !on.is_empty() || starts.contains(*link);
            if let (Some(why), true) = (fault(link, outcomes), is_linked) {
                let on = on.iter().map(|page| page.to_string()).collect();
                report.broken.push(Broken { link: link.to_string(), why, on });
            }
        }
        report.broken.sort_by(|a, b| a.link.cmp(&b.link));
        report
    }

    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Answer { status, bytes, cut, .. } => {
                *self.statuses.entry(*status).or_default() += 1;
                self.pages += usize::from((200..300).contains(status));
                self.bytes += bytes;
                self.cut += usize::from(*cut);
            }
            Outcome::Redirect { status, .. } => *self.statuses.entry(*status).or_default() += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Forbidden => {
                self.forbidden += 1;
                return;
            }
        }
        self.addresses += 1;
    }

    /// The report for programs.
    pub fn to_json(&self) -> Value {
        let broken = self.broken.iter().map(|b| json!({"link": b.link, "why": b.why, "on": b.on}));
        json!({
            "addresses": self.addresses,
            "pages": self.pages,
            "statuses": self.statuses,
            "failed": self.failed,
            "bytes": self.bytes,
            "cut": self.cut,
            "outside": self.outside,
            "too_deep": self.too_deep,
            "forbidden": self.forbidden,
            "broken": broken.collect::<Vec<_>>(),
            "seconds": self.took.as_secs_f64(),
            "interrupted": self.interrupted,
        })
    }
}

/// What is wrong with an address, after all its redirects.
fn fault(link: &Url, outcomes: &BTreeMap<Url, Outcome>) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut at = link;
    loop {
        if !seen.insert(at) {
            return Some("redirects in a circle".into());
        }
        let why = match outcomes.get(at)? {
            Outcome::Redirect { to: Some(to), .. } => {
                at = to;
                continue;
            }
            Outcome::Redirect { to: None, .. } => "redirects to what is no address".into(),
            Outcome::Failed(why) => why.clone(),
            Outcome::Answer { status: status @ 400.., .. } => status.to_string(),
            Outcome::Answer { .. } | Outcome::Forbidden => return None,
        };
        return Some(if at == link { why } else { format!("redirects to {at}: {why}") });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redirects: usize = self.statuses.range(300..400).map(|(_, count)| count).sum();
        writeln!(
            f,
            "{} addresses: {} pages, {redirects} redirects, {} failures; {:.1} MiB in {:.1} s",
            self.addresses,
            self.pages,
            self.addresses - self.pages - redirects,
            self.bytes as f64 / f64::from(1 << 20),
            self.took.as_secs_f64()
        )?;
        let mut statuses: Vec<String> =
            self.statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
        if self.failed > 0 {
            statuses.push(format!("no answer: {}", self.failed));
        }
        writeln!(f, "{}", statuses.join(", "))?;
        writeln!(
            f,
            "{} addresses are on other hosts, {} too deep, {} forbidden by robots.txt; {} pages were cut",
            self.outside, self.too_deep, self.forbidden, self.cut
        )?;
        for Broken { link, why, on } in &self.broken {
            write!(f, "broken: {link} ({why})")?;
            match &on[..] {
                [] => writeln!(f)?,
                [page] => writeln!(f, " on {page}")?,
                [page, others @ ..] => writeln!(f, " on {page} and {} more", others.len())?,
            }
        }
        if self.interrupted {
            writeln!(f, "interrupted: this is not all")?;
        }
        Ok(())
    }
}
