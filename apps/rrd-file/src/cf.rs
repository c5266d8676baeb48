//! Consolidation functions: how many primary values become one row of an archive.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A consolidation function, by the names of rrdtool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cf {
    /// `AVERAGE`
    Average,
    /// `MIN`
    Min,
    /// `MAX`
    Max,
    /// `LAST`
    Last,
    /// `HWPREDICT`: Holt-Winters, as all that follow.
    HwPredict,
    /// `MHWPREDICT`
    MhwPredict,
    /// `SEASONAL`
    Seasonal,
    /// `DEVPREDICT`
    DevPredict,
    /// `DEVSEASONAL`
    DevSeasonal,
    /// `FAILURES`
    Failures,
}

const NAMES: [(Cf, &str); 10] = [
    (Cf::Average, "AVERAGE"),
    (Cf::Min, "MIN"),
    (Cf::Max, "MAX"),
    (Cf::Last, "LAST"),
    (Cf::HwPredict, "HWPREDICT"),
    (Cf::MhwPredict, "MHWPREDICT"),
    (Cf::Seasonal, "SEASONAL"),
    (Cf::DevPredict, "DEVPREDICT"),
    (Cf::DevSeasonal, "DEVSEASONAL"),
    (Cf::Failures, "FAILURES"),
];

impl Cf {
    /// The name in files and on rrdtool's command line.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Whether one primary value is the same under this as under others of its kind.
    pub(crate) fn is_plain(self) -> bool {
        matches!(self, Cf::Average | Cf::Min | Cf::Max | Cf::Last)
    }

    pub(crate) fn from_bytes(name: &[u8]) -> Option<Cf> {
        NAMES.iter().find(|(_, known)| known.as_bytes() == name).map(|(cf, _)| *cf)
    }
}

impl FromStr for Cf {
    type Err = Error;

    fn from_str(name: &str) -> Result<Cf, Error> {
        Cf::from_bytes(name.as_bytes()).ok_or_else(|| Error::UnknownCf(name.into()))
    }
}

impl fmt::Display for Cf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Cf, NAMES};

    #[test]
    fn names_are_in_the_order_of_the_functions() {
        for (cf, name) in NAMES {
            assert_eq!(cf.name(), name);
            assert_eq!(name.parse::<Cf>().unwrap(), cf);
        }
        assert!("average".parse::<Cf>().is_err());
    }
}
