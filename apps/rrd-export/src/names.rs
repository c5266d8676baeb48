//! Metric names for people: a file that maps sources to what they are called in the output.
//!
//! ```text
//!   # two columns, tab between them; the first line that fits wins
//!   if_octets/rx<TAB>bytes in       a source of files with this name
//!   traffic_in<TAB>Inbound          a source of any file
//! ```

use std::collections::HashMap;

/// The mapping; by default each source keeps its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    map: HashMap<String, String>,
}

impl Names {
    /// What a source of a file (by its [`iface`](crate::job::FileJob::iface)) is called.
    #[must_use]
    pub fn metric<'a>(&'a self, iface: &str, source: &'a str) -> &'a str {
        if self.map.is_empty() {
            return source;
        }
        let precise = self.map.get(&format!("{iface}/{source}"));
        precise.or_else(|| self.map.get(source)).map_or(source, |name| name)
    }
}
