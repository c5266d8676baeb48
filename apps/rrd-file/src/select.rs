//! The choice of an archive for a query, and the rows in it: as `rrdtool fetch` chooses.
//!
//! ```text
//!                        oldest row                      newest row
//!   archive                  |==============================|
//!   query     from-------------------------------to
//!   rows      - - - - - - - -+++++++++++++++++++++             - unknown   + in the file
//!
//!   in the file   [ 7 8 9 | 0 1 2 3 4 5 6 ]   a ring: the row after the one written last is the oldest,
//!                   ^^^ 2nd     1st ^^^^^     so that the rows that are wanted are one piece or two
//! ```

use std::ops::Range;

use crate::layout::Layout;
use crate::{Archive, Cf, Error, Header};

/// What to read: as `rrdtool fetch FILE CF -s FROM -e TO -r RESOLUTION`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Query {
    /// The consolidation function.
    pub cf: Cf,
    /// In seconds since the epoch; not before 1980. Rounded down to a whole row.
    pub from: i64,
    /// In seconds since the epoch. Rounded up to a whole row; one more if it is one.
    pub to: i64,
    /// The wanted distance of the rows in seconds; the finest if there is none. What covers the whole time
    /// is preferred to what has this distance.
    pub resolution: Option<u64>,
}

impl Query {
    /// A query for the finest resolution.
    pub fn new(cf: Cf, from: i64, to: i64) -> Query {
        Query { cf, from, to, resolution: None }
    }

    /// rrdtool refuses what begins before: ten years of 365 days.
    const FIRST: i64 = 10 * 365 * 24 * 3600;

    fn check(&self) -> Result<(), Error> {
        let fault = if self.from < Query::FIRST {
            format!("the first entry to fetch should be after 1980, not {}", self.from)
        } else if self.to < self.from {
            format!("start ({}) should be less than end ({})", self.from, self.to)
        } else if self.resolution == Some(0) {
            "a resolution of 0 seconds".into()
        } else {
            return Ok(());
        };
        Err(Error::BadQuery(fault))
    }
}

/// So many unknown values may be asked for beyond those of the archive: 128 MiB.
const MAX_UNKNOWN: u64 = 1 << 24;

/// The rows that answer a query, and where they are.
#[derive(Clone, Debug)]
pub struct Selection {
    archive: usize,
    start: i64,
    step: u64,
    sources: Vec<String>,
    layout: Layout,
    /// Rows before those in the file, and after them.
    unknown: [u64; 2],
    ranges: [Range<u64>; 2],
    pieces: usize,
}

impl Header {
    /// Which archive answers a query, and with which rows.
    ///
    /// # Errors
    ///
    /// If the query cannot be answered by any file, or not by this one.
    pub fn select(&self, query: &Query) -> Result<Selection, Error> {
        query.check()?;
        let index = self.choose(query).ok_or(Error::NoArchive(query.cf))?;
        let archive = &self.archives[index];
        let (rows, sources) = (i128::from(archive.rows), self.sources.len() as u64);
        let step = i128::from(self.seconds(archive));
        let (from, to) = (i128::from(query.from), i128::from(query.to));
        let start = from - from % step;
        let end = to + step - to % step;
        let wanted = (end - start) / step;
        // The oldest row is number 0, that of the last update is number rows - 1.
        let last = i128::from(self.last_update).div_euclid(step) * step;
        let first = (start + step - last) / step + rows - 1;
        let stored = first.clamp(0, rows)..(first + wanted).clamp(0, rows);

        let values = (wanted as u128) * u128::from(sources);
        let most = u128::from(archive.rows * sources + MAX_UNKNOWN);
        if values > most || end > i128::from(i64::MAX) {
            let what = format!(
                "{wanted} rows of {step} seconds are asked for, and the archive has {rows}: \
                 ask for less time, or for a coarser resolution"
            );
            return Err(Error::BadQuery(what));
        }
        let count = (stored.end - stored.start) as u64;
        let before = (-first).clamp(0, wanted) as u64;
        let unknown = [before, wanted as u64 - before - count];

        // A pointer beyond the end is taken as rrdtool takes it.
        let begin = (archive.current % archive.rows + 1 + stored.start as u64) % archive.rows;
        let until_wrap = count.min(archive.rows - begin);
        let bytes = |row: u64, count: u64| {
            let row_len = sources * 8;
            archive.at + row * row_len..archive.at + (row + count) * row_len
        };
        let ranges = [bytes(begin, until_wrap), bytes(0, count - until_wrap)];
        Ok(Selection {
            archive: index,
            start: start as i64,
            step: step as u64,
            sources: self.sources.iter().map(|source| source.name.clone()).collect(),
            layout: self.layout,
            unknown,
            pieces: ranges.iter().take_while(|range| !range.is_empty()).count(),
            ranges,
        })
    }

    fn seconds(&self, archive: &Archive) -> u64 {
        // Checked when the head was read.
        self.step * archive.steps
    }

    /// The archive that reaches back to the beginning, or else the one that reaches furthest; of those
    /// that are as good, the one whose rows are nearest to the resolution; of those the first.
    fn choose(&self, query: &Query) -> Option<usize> {
        // One step in a row: all plain functions are the same.
        let answers = |archive: &Archive| {
            archive.cf == Some(query.cf)
                || archive.steps == 1 && query.cf.is_plain() && archive.cf.is_some_and(Cf::is_plain)
        };
        let resolution = query.resolution.unwrap_or(1);
        let fitting = self.archives.iter().enumerate().filter(|(_, archive)| answers(archive));
        let rank = |archive: &Archive| {
            let step = self.seconds(archive);
            let last = i128::from(self.last_update);
            let begin = last - last.rem_euclid(step.into()) - i128::from(step * archive.rows);
            // Nobody gains by reaching further back than is asked for.
            let missing = (begin - i128::from(query.from)).max(0);
            (missing, step.abs_diff(resolution))
        };
        fitting.min_by_key(|(_, archive)| rank(archive)).map(|(index, _)| index)
    }
}

impl Selection {
    /// The archive that was chosen: its number in [`Header::archives`].
    pub fn archive(&self) -> usize {
        self.archive
    }

    /// The bytes of the file that are wanted: none, one range or two, not in the order of the file.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges[..self.pieces]
    }

    /// Makes the answer, from the bytes of [`ranges`](Selection::ranges), in their order.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if there are not as many bytes.
    pub fn decode(self, parts: &[&[u8]]) -> Result<Fetched, Error> {
        let width = self.sources.len();
        for (index, range) in self.ranges().iter().enumerate() {
            let has = parts.get(index).map_or(0, |part| part.len() as u64);
            if has != range.end - range.start {
                return Err(Error::Truncated { need: range.end, has: range.start + has });
            }
        }
        let bytes: usize = parts[..self.pieces].iter().map(|part| part.len()).sum();
        let [before, after] = self.unknown.map(|rows| rows as usize * width);
        let mut values = Vec::with_capacity(before + bytes / 8 + after);
        values.resize(before, f64::NAN);
        for part in &parts[..self.pieces] {
            let doubles = part.as_chunks::<8>().0.iter();
            match self.layout.big_endian {
                true => values.extend(doubles.map(|bytes| f64::from_be_bytes(*bytes))),
                false => values.extend(doubles.map(|bytes| f64::from_le_bytes(*bytes))),
            }
        }
        values.resize(values.len() + after, f64::NAN);
        Ok(Fetched { start: self.start, step: self.step, sources: self.sources, values })
    }
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Where the first row begins, in seconds since the epoch.
    pub start: i64,
    /// Seconds between the rows.
    pub step: u64,
    /// The names of the columns.
    pub sources: Vec<String>,
    /// Row by row; NaN is unknown. The first row's time is `start + step`.
    pub values: Vec<f64>,
}

impl Fetched {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.sources.len().max(1)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The rows, each with the time at which it ends.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (i64, &[f64])> {
        let rows = self.values.chunks_exact(self.sources.len().max(1));
        rows.enumerate().map(|(row, values)| {
            (self.start.saturating_add_unsigned((row as u64 + 1).saturating_mul(self.step)), values)
        })
    }
}
