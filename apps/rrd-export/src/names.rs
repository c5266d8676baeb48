//! Metric names for people: a file that maps sources to what they are called in the output.
//!
//! ```text
//!   # two columns with a tab between them
//!   if_octets/rx<TAB>bytes in       the source rx of files called if_octets.rrd
//!   traffic_in<TAB>Inbound          the source traffic_in of any other file
//! ```

use std::collections::HashMap;
use std::path::Path;

/// The mapping; by default each source keeps its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    map: HashMap<String, String>,
}

impl Names {
    /// Reads a mapping file.
    ///
    /// # Errors
    /// It cannot be read, or has a line that is no mapping or maps something a second time.
    pub fn read(path: &Path) -> Result<Names, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("names {}: {error}", path.display()))?;
        Names::parse(&text).map_err(|error| format!("names {}: {error}", path.display()))
    }

    fn parse(text: &str) -> Result<Names, String> {
        let mut map = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |what: &str| format!("line {}: {what}: {line:?}", at + 1);
            let (source, name) = line
                .split_once('\t')
                .ok_or_else(|| wrong("needs a source, a tab and what it is called"))?;
            let name = name.trim().to_owned();
            if source.is_empty() || name.is_empty() {
                return Err(wrong("half of it is empty"));
            }
            if map.insert(source.to_owned(), name).is_some() {
                return Err(wrong("there is a name for this already"));
            }
        }
        Ok(Names { map })
    }

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

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn the_precise_one_wins() {
        let names = Names::parse("# collectd\nrx\treceived\n\nif_octets/rx\tbytes in\n").unwrap();
        assert_eq!(names.metric("if_octets", "rx"), "bytes in");
        assert_eq!(names.metric("if_packets", "rx"), "received");
        assert_eq!(names.metric("if_octets", "tx"), "tx");
    }

    #[test]
    fn what_is_no_mapping_is_told() {
        for (text, told) in [
            ("rx\treceived\nrx received\n", "line 2: needs a source, a tab"),
            ("rx\t\n", "line 1: needs"),
            ("\trx\n", "half of it"),
            ("rx\ta\nrx\tb", "line 2: there is a name"),
        ] {
            let error = Names::parse(text).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
