//! Whether a handle has a position.

#[cfg_attr(windows, path = "position/windows.rs")]
#[cfg_attr(unix, path = "position/unix.rs")]
mod own;

/// Whether reads and writes without an offset move a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// There is none, or the device's own: pipes, terminals, devices that are no disks.
    None,
    /// It is moved by what is read and written.
    Moves,
    /// It is moved; but writes go to the end (append).
    Appends,
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};

    use super::Position;
    use crate::{Handle, Kind};

    const DEVICE: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

    #[test]
    fn files_have_a_position_and_pipes_have_none() {
        let of = |fd| Position::of(&Handle::from_owned(fd, Kind::File));
        let path = std::env::temp_dir().join(format!("bast-io-position-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        assert_eq!(of(file.into()), Position::Moves);
        let log = OpenOptions::new().append(true).open(&path).expect("a file");
        assert_eq!(of(log.into()), Position::Appends);
        std::fs::remove_file(&path).expect("ours");
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        assert_eq!(of(reader.into()), Position::None);
        assert_eq!(of(File::open(DEVICE).expect("there").into()), Position::None);
    }
}
