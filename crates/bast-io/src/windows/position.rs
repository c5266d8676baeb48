//! Whether a handle has a position.

use windows_sys::Win32::Storage::FileSystem::{
    FILE_APPEND_DATA, FILE_TYPE_DISK, FILE_WRITE_DATA, GetFileType,
};

use crate::{Handle, sys};

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

impl Position {
    /// Asks the kernel, which knows without asking anybody else, a file server say. (An overlapped file has none.)
    #[must_use]
    pub fn of(handle: &Handle) -> Position {
        let file = sys::handle(handle.raw());
        // SAFETY: no memory is involved.
        if handle.is_simulated() || unsafe { GetFileType(file) } != FILE_TYPE_DISK {
            return Position::None;
        }
        let access = sys::access(file);
        if access & FILE_APPEND_DATA != 0 && access & FILE_WRITE_DATA == 0 {
            return Position::Appends;
        }
        Position::Moves
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};

    use super::Position;
    use crate::{Handle, Kind};

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
        assert_eq!(of(File::open("NUL").expect("there").into()), Position::None);
    }
}
