//! The format of RRD files, without I/O: what `rrdtool fetch` says of a file, from its bytes, and a writer.
//!
//! ```text
//!   bytes --Header::parse--> Header --select(Query)--> Selection --decode--> Fetched
//!     |                        |                           |
//!     |                        file_len(): how long        ranges(): the bytes that are wanted,
//!     |                        the file must be            at most two pieces, as archives are rings
//!     '- the head of a file is enough; Truncated says how much
//! ```
//!
//! The whole file at once:
//!
//! ```
//! use rrd_file::write::{Archive, Builder, Source};
//! use rrd_file::{Cf, Query, fetch};
//!
//! let mut rrd = Builder::new(1_700_000_100, 300)
//!     .source(Source::gauge("temp", 600))
//!     .archive(Archive::new(Cf::Average, 0.5, 1, 288))
//!     .build()?;
//! rrd.update(1_700_000_400, &[20.0.into()])?;
//! rrd.update(1_700_000_700, &[22.5.into()])?;
//!
//! let query = Query::new(Cf::Average, 1_700_000_100, 1_700_000_699);
//! let fetched = fetch(&rrd.bytes(), &query)?;
//! let rows: Vec<(i64, &[f64])> = fetched.rows().collect();
//! assert_eq!(rows, [(1_700_000_400, &[20.0][..]), (1_700_000_700, &[22.5][..])]);
//! # Ok::<(), rrd_file::Error>(())
//! ```
//!
//! And by parts, as a program that reads only what it needs does: see [`Header`].

mod cf;
mod error;
mod header;
mod layout;
mod machine;
mod number;
mod powers;
mod select;
pub mod write;

use std::ops::Range;

pub use cf::Cf;
pub use error::Error;
pub use header::{Archive, Header, Source};
pub use number::{format_time, format_value};
pub use select::{Fetched, Query, Selection};

/// What `rrdtool fetch` prints for a whole file, in memory or mapped.
///
/// # Errors
///
/// What is wrong with the file or the query; see [`Error`].
pub fn fetch(file: &[u8], query: &Query) -> Result<Fetched, Error> {
    let header = Header::parse(file)?;
    header.check_len(file.len() as u64)?;
    let selection = header.select(query)?;
    // Within the file, whose length has been checked.
    let part = |range: &Range<u64>| &file[range.start as usize..range.end as usize];
    let parts: Vec<&[u8]> = selection.ranges().iter().map(part).collect();
    selection.decode(&parts)
}
