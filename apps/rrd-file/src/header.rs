//! The head of a file: what its sources and archives are, when it was updated, and where its values lie.
//!
//! Nothing is allocated before the bytes that it is made from are there, and every sum is checked: a corrupted
//! head gives an error, whatever is in it.

use crate::layout::{LAST_DS, Layout, NAME, PAR};
use crate::{Cf, Error, machine};

/// A source of data, as the file describes it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Source {
    /// The name, at most 19 bytes.
    pub name: String,
    /// `GAUGE`, `COUNTER` and so on.
    pub kind: String,
    /// After so many seconds without an update the value is unknown.
    pub heartbeat: u64,
    /// Smaller values are unknown; NaN: there is no limit.
    pub min: f64,
    /// Larger values are unknown; NaN: there is no limit.
    pub max: f64,
    /// The last reading, as it was given.
    pub last: String,
}

/// A ring of rows, each consolidated from the same number of steps.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Archive {
    /// None: one that this library does not know.
    pub cf: Option<Cf>,
    /// The part of the steps of a row that may be unknown.
    pub xff: f64,
    /// Steps in a row.
    pub steps: u64,
    /// Rows in the ring.
    pub rows: u64,
    /// The row written last.
    pub(crate) current: u64,
    /// Where the rows begin in the file.
    pub(crate) at: u64,
}

/// The head of a file.
///
/// ```
/// use rrd_file::{Cf, Error, Header, Query};
/// # use rrd_file::write::{Archive, Builder, Source};
/// # let mut rrd = Builder::new(1_700_000_100, 300)
/// #     .source(Source::gauge("temp", 600))
/// #     .archive(Archive::new(Cf::Average, 0.5, 1, 288))
/// #     .build()?;
/// # rrd.update(1_700_000_400, &[20.0.into()])?;
/// # let file = rrd.bytes();
/// # let read = |from: u64, to: u64| &file[from as usize..to as usize];
/// // `read(from, to)` stands for reading these bytes of the file.
/// let file_len = file.len() as u64;
/// let header = match Header::parse(read(0, 500)) {
///     Err(Error::Truncated { need, .. }) if need <= file_len => Header::parse(read(0, need))?,
///     other => other?,
/// };
/// header.check_len(file_len)?;
/// let selection = header.select(&Query::new(Cf::Average, 1_700_000_100, 1_700_000_399))?;
/// let parts: Vec<&[u8]> = selection.ranges().iter().map(|r| read(r.start, r.end)).collect();
/// assert_eq!(selection.decode(&parts)?.values, [20.0]);
/// # Ok::<(), rrd_file::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Header {
    version: u32,
    pub(crate) layout: Layout,
    pub(crate) step: u64,
    pub(crate) sources: Vec<Source>,
    pub(crate) archives: Vec<Archive>,
    pub(crate) last_update: i64,
    len: u64,
    file_len: u64,
}

/// More than any static head has.
const ENOUGH_TO_BEGIN: usize = 128;

impl Header {
    /// Reads the head of a file from its first bytes, of which there may be more than are needed.
    ///
    /// 4 KiB are enough for most files.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if the head is longer; then `need` is what to read and to try again with,
    /// if the file is not shorter than that. Other errors are final.
    pub fn parse(bytes: &[u8]) -> Result<Header, Error> {
        let magic = &bytes[..bytes.len().min(4)];
        if !b"RRD\0".starts_with(magic) {
            return Err(Error::NotRrd);
        }
        if bytes.len() < ENOUGH_TO_BEGIN {
            let has = bytes.len() as u64;
            return Err(Error::Truncated { need: ENOUGH_TO_BEGIN as u64, has });
        }
        let version = version(&bytes[4..9])?;
        let mut layout = machine::layout(bytes).ok_or(Error::UnknownMachine)?;
        let mut head = Reader { bytes, layout, at: layout.counts_at() };
        let [sources, archives, step] = [(); 3].map(|()| head.unsigned());
        let (sources, archives, step) = (sources?, archives?, step?);
        if sources == 0 || step == 0 {
            return Err(Error::Corrupt("no sources, or a step of no seconds".into()));
        }
        let too_many = || Error::Corrupt(format!("{sources} sources, {archives} archives"));
        let (live, len) = layout.head(version, sources, archives).ok_or_else(too_many)?;
        head.has(len)?;
        layout.time = machine::time_size(bytes, layout, version, live);
        let (_, len) = layout.head(version, sources, archives).ok_or_else(too_many)?;
        head.has(len)?;
        head.layout = layout;

        head.at = layout.static_head();
        let mut header = Header {
            version,
            layout,
            step,
            sources: (0..sources).map(|_| head.source()).collect::<Result<_, _>>()?,
            archives: (0..archives).map(|_| head.archive()).collect::<Result<_, _>>()?,
            last_update: head.signed(layout.time)?,
            len,
            file_len: len,
        };
        head.at += layout.live_head(version) - layout.time;
        for source in &mut header.sources {
            source.last = text(head.take(LAST_DS)?);
            head.at += layout.source_prep() - LAST_DS;
        }
        head.at += sources * archives * layout.archive_prep();
        for archive in &mut header.archives {
            archive.current = head.unsigned()?;
        }
        header.locate()?;
        Ok(header)
    }

    /// Finds out where the rows of each archive lie, and checks that they can be where they should.
    fn locate(&mut self) -> Result<(), Error> {
        let sources = self.sources.len() as u64;
        for (index, archive) in self.archives.iter_mut().enumerate() {
            archive.at = self.file_len;
            if archive.rows == 0 || archive.steps == 0 {
                return Err(Error::Corrupt(format!("archive {index} has no rows, or no steps")));
            }
            let bytes = archive.rows.checked_mul(sources).and_then(|values| values.checked_mul(8));
            let end = bytes.and_then(|bytes| self.file_len.checked_add(bytes));
            let seconds = archive.steps.checked_mul(self.step);
            let seconds = seconds.and_then(|seconds| seconds.checked_mul(archive.rows));
            let (Some(end), Some(_)) = (end, seconds.filter(|s| *s <= i64::MAX as u64)) else {
                let what = format!("archive {index} has {} rows", archive.rows);
                return Err(Error::Corrupt(what));
            };
            self.file_len = end;
        }
        Ok(())
    }

    /// The version, 1 to 5.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Seconds between two primary values.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// When the file was updated last, in seconds since the epoch.
    pub fn last_update(&self) -> i64 {
        self.last_update
    }

    /// The sources, in the order of the values in a row.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The archives.
    pub fn archives(&self) -> &[Archive] {
        &self.archives
    }

    /// So many bytes is the head itself.
    pub fn head_len(&self) -> u64 {
        self.len
    }

    /// So many bytes the file must have. It may have more.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Whether a file of so many bytes is whole.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if it is not. rrdtool refuses such a file, whatever is asked of it.
    pub fn check_len(&self, file_len: u64) -> Result<(), Error> {
        match file_len < self.file_len {
            true => Err(Error::Truncated { need: self.file_len, has: file_len }),
            false => Ok(()),
        }
    }
}

/// The version, from the digits in the file.
fn version(digits: &[u8]) -> Result<u32, Error> {
    let name = text(digits);
    let known = name.len() == 4 && name.bytes().all(|digit| digit.is_ascii_digit());
    let number = name.parse().ok().filter(|number| known && (1..=5).contains(number));
    number.ok_or_else(|| Error::UnknownVersion(name.escape_debug().to_string()))
}

/// The text in a field, which ends with a zero byte unless it fills the field.
fn until_zero(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(until_zero(field)).into_owned()
}

/// Takes the fields one after the other.
struct Reader<'a> {
    bytes: &'a [u8],
    layout: Layout,
    at: u64,
}

impl<'a> Reader<'a> {
    /// Whether there are so many bytes.
    fn has(&self, need: u64) -> Result<(), Error> {
        let has = self.bytes.len() as u64;
        if need > has { Err(Error::Truncated { need, has }) } else { Ok(()) }
    }

    fn take(&mut self, n: u64) -> Result<&'a [u8], Error> {
        let end = self.at.saturating_add(n);
        self.has(end)?;
        let bytes = &self.bytes[self.at as usize..end as usize];
        self.at = end;
        Ok(bytes)
    }

    fn unsigned(&mut self) -> Result<u64, Error> {
        Ok(self.layout.unsigned(self.take(self.layout.long)?))
    }

    fn signed(&mut self, size: u64) -> Result<i64, Error> {
        Ok(self.layout.signed(self.take(size)?))
    }

    /// A parameter that is a `long`: in the first bytes of the union.
    fn par_unsigned(&mut self) -> Result<u64, Error> {
        let par = self.take(PAR)?;
        Ok(self.layout.unsigned(&par[..self.layout.long as usize]))
    }

    fn par_double(&mut self) -> Result<f64, Error> {
        let par = self.take(PAR)?;
        Ok(self.layout.double(par.try_into().unwrap_or_default()))
    }

    fn source(&mut self) -> Result<Source, Error> {
        let end = self.at + self.layout.source();
        let source = Source {
            name: text(self.take(NAME)?),
            kind: text(self.take(NAME)?),
            heartbeat: self.par_unsigned()?,
            min: self.par_double()?,
            max: self.par_double()?,
            last: String::new(),
        };
        self.at = end;
        Ok(source)
    }

    fn archive(&mut self) -> Result<Archive, Error> {
        let begin = self.at;
        let cf = Cf::from_bytes(until_zero(self.take(NAME)?));
        self.at = begin + self.layout.archive_longs_at();
        let (rows, steps) = (self.unsigned()?, self.unsigned()?);
        self.at = begin + self.layout.archive_pars_at();
        let xff = self.par_double()?;
        self.at = begin + self.layout.archive();
        Ok(Archive { cf, xff, steps, rows, current: 0, at: 0 })
    }
}
