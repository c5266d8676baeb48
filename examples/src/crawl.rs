//! A crawler that looks for broken links: `ureq`, a blocking HTTP client, with a thousand requests
//! waiting at once.
//!
//! ```text
//!   start --> round: par_map_unordered(urls, concurrency, visit) --> pages --> new links: next round
//!                                                     |                  \--> redirects: one more at
//!              host's place? robots.txt? get, parse --+                       this depth
//! ```
//!
//! Breadth first, so a page's depth is the number of clicks that lead to it, and a crawl of a site that
//! does not change gives the same report each time. A redirect costs no click. No address is asked twice;
//! that ends loops of links, and of redirects.
//!
//! ```text
//! $ crawl https://example.org/ --depth 2 --concurrency 50
//! 107 addresses: 98 pages, 6 redirects, 3 failures; 2.1 MiB in 3.4 s
//! 200: 98, 301: 6, 404: 2, no answer: 1
//! 61 addresses are on other hosts, 12 too deep, 0 forbidden by robots.txt; 0 pages were cut
//! broken: https://example.org/old (404) on https://example.org/ and 4 more
//! broken: https://example.org/slow (no answer in 10s) on https://example.org/news
//! ```
//!
//! Thread-locals (SOUNDNESS.md): ureq, html5gum and robotstxt have none. But ureq's pool asks a connection
//! whether it is open *while it holds a std mutex*, and its resolver starts a thread for each look-up that has a
//! limit: [`transport`] says what it does about both.

pub mod links;
pub mod report;
pub mod transport;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bast::group::par_map_unordered;
use bast::sync::{OnceLock, Semaphore};
use bast::{CancelToken, Cancelled};
use robotstxt::DefaultMatcher;
use ureq::Agent;
use url::Url;

use report::Report;

/// Bytes of a `robots.txt` that are heeded. Matching takes time by its length and the address's.
const MAX_ROBOTS: u64 = 64 * 1024;

/// How the crawler calls itself, also to `robots.txt`.
const NAME: &str = "bast-crawl";

/// What to crawl, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to begin.
    pub start: Vec<Url>,
    /// Clicks from there, at most.
    pub depth: u32,
    /// Requests at once.
    pub concurrency: usize,
    /// Of these to one host.
    pub per_host: usize,
    /// For a request, from the look-up of the name to the last byte.
    pub timeout: Duration,
    /// Bytes of a page that are read.
    pub max_body: u64,
    /// Whether to leave the hosts of `start`.
    pub anywhere: bool,
    /// Whether to heed `robots.txt`.
    pub robots: bool,
}

/// What there is at an address.
enum Outcome {
    /// An answer that is no redirect, and what its links lead to: addresses, and what is none.
    Answer { status: u16, bytes: u64, cut: bool, links: BTreeSet<Url>, garbled: BTreeSet<String> },
    /// A redirect, to an address if it is one.
    Redirect { status: u16, to: Option<Url> },
    /// No answer.
    Failed(String),
    /// `robots.txt` says no.
    Forbidden,
}

/// How far a crawl has come; for who looks on from elsewhere.
#[derive(Debug, Default)]
pub struct Progress {
    /// Addresses that are known, and not excluded.
    pub known: AtomicU64,
    /// Those that have been visited.
    pub visited: AtomicU64,
    /// Bytes read.
    pub bytes: AtomicU64,
}

/// What is known of a host.
struct Host {
    places: Semaphore,
    /// Its `robots.txt`, got once: whoever comes meanwhile waits.
    robots: OnceLock<String>,
}

struct Crawl<'a> {
    options: &'a Options,
    agent: &'a Agent,
    progress: &'a Progress,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
}

/// Crawls until there is nothing new, or `stop` is cancelled: then the report is of what there was so far.
pub fn crawl(options: &Options, agent: &Agent, progress: &Progress, stop: &CancelToken) -> Report {
    let begin = Instant::now();
    let crawl = Crawl { options, agent, progress, hosts: Mutex::default() };
    let mut outcomes = BTreeMap::new();
    let complete = stop.run(|| crawl.run(&mut outcomes));
    Report::new(options, &outcomes, begin.elapsed(), matches!(complete, Err(Cancelled { .. })))
}

impl Crawl<'_> {
    fn run(&self, outcomes: &mut BTreeMap<Url, Outcome>) {
        let mut known = BTreeSet::new();
        let mut level = self.news(self.options.start.iter().map(links::bare), &mut known);
        for _ in 0..=self.options.depth {
            let mut found = BTreeSet::new();
            let mut round = level;
            while !round.is_empty() {
                self.progress.known.store(known.len() as u64, Relaxed);
                let mut redirects = Vec::new();
                let visit = |url: Url| (self.visit(&url), url);
                par_map_unordered(round, self.options.concurrency, visit, |(outcome, url)| {
                    match &outcome {
                        Outcome::Answer { links, .. } => found.extend(links.iter().cloned()),
                        Outcome::Redirect { to: Some(to), .. } => redirects.push(to.clone()),
                        _ => {}
                    }
                    self.progress.visited.fetch_add(1, Relaxed);
                    outcomes.insert(url, outcome);
                });
                round = self.news(redirects, &mut known);
            }
            level = self.news(found, &mut known);
        }
    }

    /// Those that are to be visited and have not been.
    fn news(&self, urls: impl IntoIterator<Item = Url>, known: &mut BTreeSet<Url>) -> Vec<Url> {
        let is_new = |url: &Url| self.options.is_inside(url) && known.insert(url.clone());
        urls.into_iter().filter(is_new).collect()
    }

    fn visit(&self, url: &Url) -> Outcome {
        let host = self.host(url);
        let _place = host.places.acquire().expect("nobody closes it");
        if self.options.robots {
            // bast's OnceLock: this waits, and with std's the worker would.
            let robots = host.robots.get_or_init(|| self.robots(url));
            let mut matcher = DefaultMatcher::default();
            if !matcher.one_agent_allowed_by_robots(robots, NAME, url.as_str()) {
                return Outcome::Forbidden;
            }
        }
        self.get(url).unwrap_or_else(|fault| {
            Outcome::Failed(match fault {
                ureq::Error::Timeout(_) => format!("no answer in {:?}", self.options.timeout),
                fault => fault.to_string(),
            })
        })
    }

    fn host(&self, url: &Url) -> Arc<Host> {
        // Nothing suspends under this lock.
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let (places, robots) = (Semaphore::new(self.options.per_host), OnceLock::new());
            Arc::new(Host { places, robots })
        };
        Arc::clone(hosts.entry(url.authority().to_owned()).or_insert_with(new))
    }

    /// The host's `robots.txt`. Where there is none all is allowed.
    fn robots(&self, url: &Url) -> String {
        let text = url.join("/robots.txt").ok().and_then(|url| {
            let response = self.agent.get(url.as_str()).call().ok()?;
            if response.status() != 200 {
                return None;
            }
            let mut text = Vec::new();
            let mut body = response.into_body().into_reader().take(MAX_ROBOTS);
            body.read_to_end(&mut text).ok()?;
            Some(String::from_utf8_lossy(&text).into_owned())
        });
        text.unwrap_or_default()
    }

    fn get(&self, url: &Url) -> Result<Outcome, ureq::Error> {
        let response = self.agent.get(url.as_str()).call()?;
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        if status.is_redirection()
            && let Some(to) = header("location")
        {
            let to = links::address(url, to);
            return Ok(Outcome::Redirect { status: status.as_u16(), to });
        }
        // The pages of errors have links for readers.
        let is_html = status.is_success()
            && header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
        // One byte more tells whether that is all. What is left unread closes the connection.
        let mut text = Vec::new();
        let mut body = response.into_body().into_reader().take(self.options.max_body + 1);
        body.read_to_end(&mut text)?;
        let cut = text.len() as u64 > self.options.max_body;
        text.truncate(self.options.max_body as usize);
        self.progress.bytes.fetch_add(text.len() as u64, Relaxed);
        let (links, garbled) = if is_html { links::links(&text, url) } else { Default::default() };
        let (status, bytes) = (status.as_u16(), text.len() as u64);
        Ok(Outcome::Answer { status, bytes, cut, links, garbled })
    }
}

impl Options {
    /// Whether this is a page of a host to be crawled.
    pub fn is_inside(&self, url: &Url) -> bool {
        self.anywhere || self.start.iter().any(|start| start.authority() == url.authority())
    }
}
