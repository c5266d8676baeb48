//! Devices from a file: values with tabs between them, the columns' names in the first line. `-` is standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::{Devices, Sink};

pub(super) fn read(path: &Path) -> Result<Devices, String> {
    let lines: Box<dyn BufRead> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path);
        Box::new(BufReader::new(
            file.map_err(|error| format!("devices {}: {error}", path.display()))?,
        ))
    };
    parse(lines).map_err(|error| format!("devices {}: {error}", path.display()))
}

fn parse(input: impl BufRead) -> Result<Devices, String> {
    let mut lines = input.lines().enumerate();
    let mut next = || -> Result<Option<(usize, String)>, String> {
        let Some((at, line)) = lines.next() else { return Ok(None) };
        let line = line.map_err(|error| format!("line {}: {error}", at + 1))?;
        Ok(Some((at + 1, line.trim_end_matches('\r').to_owned())))
    };
    let (_, header) =
        next()?.ok_or("it is empty; its first line names the columns: id, name, dc")?;
    let names: Vec<_> =
        header.trim_start_matches('\u{feff}').split('\t').map(str::to_owned).collect();
    let count = names.len();
    let mut sink = Sink::new(names).map_err(|error| format!("{error} (separated by tabs)"))?;
    while let Some((at, line)) = next()? {
        if line.is_empty() {
            continue;
        }
        let found = line.split('\t').count();
        if found != count {
            return Err(format!("line {at}: {found} columns, where the first line has {count}"));
        }
        sink.push(line.split('\t')).map_err(|error| format!("line {at}: {error}"))?;
    }
    sink.finish()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_are_devices() {
        let text = "id\tname\tdc\tsite\r\n7\tseven\tams\tA b\r\n\n8\t\t\t\n";
        let devices: Vec<_> = parse(text.as_bytes()).unwrap().map(Result::unwrap).collect();
        assert_eq!(devices.len(), 2);
        assert_eq!((&*devices[0].id, &*devices[0].name, &*devices[0].dc), ("7", "seven", "ams"));
        assert_eq!(devices[0].get("site"), Some("A b"));
        assert_eq!(devices[1].get("site"), Some(""));
    }

    #[test]
    fn wrong_lines_are_told() {
        for (text, told) in [
            (&b""[..], "it is empty"),
            (b"name\tdc\n", "no column is called id, only: name, dc"),
            (b"id\tdc\n1\tams\n2\n", "line 3: 1 columns, where the first line has 2"),
            (b"id\n\xff\n", "line 2: stream did not contain valid UTF-8"),
            (b"id\tdc\n\tams\n", "line 2: device 1: its id is empty"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
