//! Our own reader, and rrdtool for the files that it does not know.
//!
//! rrdtool is asked only where it may know more: a version or a machine that came later than this program, a head that
//! we hold for corrupt. What is not there, is no RRD file or has no fitting archive is the same for both. Without
//! rrdtool on this machine our own verdict stands.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rrd_file::{Error, Fetched, Query};

use super::native::Native;
use super::{ReadError, Reader};
use crate::progress::add;

/// Native, then another.
pub struct Auto<R> {
    native: Native,
    other: R,
    fallbacks: Arc<AtomicU64>,
}

impl<R: Reader> Auto<R> {
    /// `other` gets the files that we do not know; `fallbacks` counts those that it could read.
    pub fn new(other: R, fallbacks: Arc<AtomicU64>) -> Auto<R> {
        Auto { native: Native, other, fallbacks }
    }
}

impl<R: Reader> Reader for Auto<R> {
    fn fetch(&self, path: &Path, query: &Query) -> Result<Fetched, ReadError> {
        let error = match self.native.fetch(path, query) {
            Err(ReadError::Format(error)) if may_be_known(&error) => error,
            result => return result,
        };
        match self.other.fetch(path, query) {
            Ok(fetched) => {
                add(&self.fallbacks, 1);
                Ok(fetched)
            }
            Err(ReadError::Fatal(_)) => Err(ReadError::Format(error)),
            Err(other) => Err(ReadError::Rrdtool(format!("{error}; rrdtool: {other}"))),
        }
    }
}

fn may_be_known(error: &Error) -> bool {
    matches!(
        error,
        Error::UnknownVersion(_) | Error::UnknownMachine | Error::Corrupt(_) | Error::UnknownCf(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rrd_file::Cf;
    use std::sync::atomic::Ordering;

    struct Other(fn() -> Result<Fetched, ReadError>);

    impl Reader for Other {
        fn fetch(&self, _: &Path, _: &Query) -> Result<Fetched, ReadError> {
            (self.0)()
        }
    }

    fn fetch(bytes: &[u8], other: fn() -> Result<Fetched, ReadError>) -> (String, u64) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let fallbacks = Arc::default();
        let auto = Auto::new(Other(other), Arc::clone(&fallbacks));
        let query = Query::new(Cf::Average, 1_700_000_000, 1_700_003_600);
        let result = auto
            .fetch(file.path(), &query)
            .map_or_else(|e| e.to_string(), |f| f.sources[0].clone());
        (result, fallbacks.load(Ordering::Relaxed))
    }

    #[test]
    fn only_what_another_may_know_is_left_to_it() {
        let mut later = b"RRD\x000006\0".to_vec();
        later.resize(256, 0);
        let known = || Ok(Fetched { start: 0, step: 1, sources: vec!["x".into()], values: vec![] });
        assert_eq!(fetch(&later, known), ("x".into(), 1));
        let (error, count) = fetch(&later, || Err(ReadError::Rrdtool("no idea".into())));
        assert!(error.contains("0006") && error.contains("rrdtool: no idea"), "{error}");
        assert_eq!(count, 0);
        let (error, _) = fetch(&later, || Err(ReadError::Fatal("not installed".into())));
        assert!(error.contains("0006") && !error.contains("installed"), "{error}");
        let (error, _) =
            fetch(b"no such format, whatever rrdtool would say of it", || panic!("asked"));
        assert_eq!(error, "not an RRD file");
    }
}
