//! New files: a description, updates as `rrdtool update` does them, and the bytes of a file.
//!
//! ```text
//!   Builder --build--> Database --update(time, readings)--> ... --bytes--> what rrdtool reads and updates
//!                         |
//!                         '- clone: a database without updates is a template for many
//! ```

mod database;
mod encode;
mod ring;

pub use database::Database;

use crate::{Cf, Error};

/// What the readings of a source mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A measured value, as a temperature.
    Gauge,
    /// A count that only grows, and wraps at 32 or 64 bits; stored as the rate per second.
    Counter,
    /// A count that may also fall; stored as the rate per second.
    Derive,
    /// A count since the last reading; stored as the rate per second.
    Absolute,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Gauge => "GAUGE",
            Kind::Counter => "COUNTER",
            Kind::Derive => "DERIVE",
            Kind::Absolute => "ABSOLUTE",
        }
    }
}

/// What has been read from a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// Nothing.
    Unknown,
    /// For gauges and absolutes. NaN is as good as nothing.
    Value(f64),
    /// For counters and derives; for the others too.
    Count(i128),
}

impl From<f64> for Reading {
    fn from(value: f64) -> Reading {
        if value.is_nan() { Reading::Unknown } else { Reading::Value(value) }
    }
}

impl From<u64> for Reading {
    fn from(count: u64) -> Reading {
        Reading::Count(count.into())
    }
}

impl From<i64> for Reading {
    fn from(count: i64) -> Reading {
        Reading::Count(count.into())
    }
}

/// A source of data to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// 1 to 19 letters, digits, `_` and `-` of ASCII.
    pub name: String,
    /// What its readings mean.
    pub kind: Kind,
    /// After so many seconds without a reading the value is unknown.
    pub heartbeat: u64,
    /// Smaller values are unknown; NaN: there is no limit.
    pub min: f64,
    /// Larger values are unknown; NaN: there is no limit.
    pub max: f64,
}

impl Source {
    /// A source without limits.
    pub fn new(kind: Kind, name: &str, heartbeat: u64) -> Source {
        Source { name: name.into(), kind, heartbeat, min: f64::NAN, max: f64::NAN }
    }

    /// A gauge without limits.
    pub fn gauge(name: &str, heartbeat: u64) -> Source {
        Source::new(Kind::Gauge, name, heartbeat)
    }

    /// A counter without limits.
    pub fn counter(name: &str, heartbeat: u64) -> Source {
        Source::new(Kind::Counter, name, heartbeat)
    }
}

/// An archive to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Archive {
    /// One of `AVERAGE`, `MIN`, `MAX` and `LAST`.
    pub cf: Cf,
    /// The part of the steps of a row that may be unknown: from 0, and less than 1.
    pub xff: f64,
    /// Steps in a row.
    pub steps: u64,
    /// Rows in the ring.
    pub rows: u64,
}

impl Archive {
    /// As `RRA:CF:XFF:STEPS:ROWS` of `rrdtool create`.
    pub fn new(cf: Cf, xff: f64, steps: u64, rows: u64) -> Archive {
        Archive { cf, xff, steps, rows }
    }
}

/// Describes a new file.
///
/// ```
/// use rrd_file::Cf;
/// use rrd_file::write::{Archive, Builder, Source};
///
/// let mut rrd = Builder::new(1_700_000_100, 300)
///     .source(Source::counter("in", 600))
///     .source(Source::counter("out", 600))
///     .archive(Archive::new(Cf::Average, 0.5, 1, 288))
///     .archive(Archive::new(Cf::Max, 0.5, 12, 720))
///     .build()?;
/// for minutes in 1..=60 {
///     let time = 1_700_000_100 + minutes as i64 * 300;
///     rrd.update(time, &[(minutes * 30_000).into(), (minutes * 6_000_u64).into()])?;
/// }
/// let file: Vec<u8> = rrd.bytes();
/// # Ok::<(), rrd_file::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    start: i64,
    step: u64,
    sources: Vec<Source>,
    archives: Vec<Archive>,
}

/// So many values may be in a file: 8 GiB of them.
const MAX_VALUES: u64 = 1 << 30;

impl Builder {
    /// As `rrdtool create --start START --step STEP`: updates must be after `start`.
    pub fn new(start: i64, step: u64) -> Builder {
        Builder { start, step, sources: Vec::new(), archives: Vec::new() }
    }

    /// Adds a source.
    #[must_use]
    pub fn source(mut self, source: Source) -> Builder {
        self.sources.push(source);
        self
    }

    /// Adds an archive.
    #[must_use]
    pub fn archive(mut self, archive: Archive) -> Builder {
        self.archives.push(archive);
        self
    }

    /// A database without updates.
    ///
    /// # Errors
    ///
    /// [`Error::BadSpec`] with what rrdtool would refuse.
    pub fn build(self) -> Result<Database, Error> {
        self.check().map_err(Error::BadSpec)?;
        Ok(Database::new(self.start, self.step, self.sources, self.archives))
    }

    fn check(&self) -> Result<(), String> {
        if self.start < 10 * 365 * 24 * 3600 {
            return Err(format!("the start should be after 1980, not {}", self.start));
        }
        if self.step == 0 || self.sources.is_empty() || self.archives.is_empty() {
            return Err("a step, a source and an archive are needed".into());
        }
        for (index, source) in self.sources.iter().enumerate() {
            let name = &source.name;
            let good = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
            if !(1..=19).contains(&name.len()) || !name.bytes().all(good) {
                return Err(format!("source name {name:?}: 1 to 19 of a-z, A-Z, 0-9, _ and -"));
            }
            if self.sources[..index].iter().any(|other| other.name == *name) {
                return Err(format!("there are two sources {name:?}"));
            }
            if source.heartbeat == 0 || source.min >= source.max {
                return Err(format!("source {name:?}: no heartbeat, or min is not below max"));
            }
        }
        let mut values = 0_u64;
        for Archive { cf, xff, steps, rows } in &self.archives {
            if !cf.is_plain() {
                return Err(format!("archives of {cf} can be read, but not written"));
            }
            if !(0.0..1.0).contains(xff) || *steps == 0 || *rows == 0 {
                return Err(format!(
                    "archive {cf}:{xff}:{steps}:{rows}: no steps, no rows or bad xff"
                ));
            }
            values = values.saturating_add(rows.saturating_mul(self.sources.len() as u64));
            let seconds = rows.checked_mul(*steps).and_then(|steps| steps.checked_mul(self.step));
            if values > MAX_VALUES || seconds.is_none_or(|seconds| seconds > i64::MAX as u64 / 2) {
                return Err(format!("archive {cf}:{xff}:{steps}:{rows}: too large"));
            }
        }
        Ok(())
    }
}
