//! Whether a handle has a position.

use super::Answer;
use crate::Handle;
use crate::sys::c;

/// Whether reads and writes without an offset move a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// There is none, or the device's own: pipes, terminals, devices that are no disks.
    None,
    /// It is moved by what is read and written.
    Moves,
    /// It is moved; but writes go to the end (`O_APPEND`).
    Appends,
}

impl Position {
    /// Asks the kernel, which knows without asking anybody else, a file server say.
    #[must_use]
    pub fn of(handle: &Handle) -> Position {
        let (mut answer, fd) = (Answer::new(), handle.as_ref().raw);
        let flags = c::AT_EMPTY_PATH | c::AT_STATX_DONT_SYNC;
        // SAFETY: an empty path, and room for the answer.
        unsafe { c::statx(fd, c"".as_ptr(), flags, c::STATX_TYPE, &raw mut answer.0) };
        let stat = answer.get();
        if !stat.is_file() && !stat.is(c::S_IFBLK) {
            return Position::None;
        }
        // SAFETY: a descriptor's flags, by number.
        match unsafe { c::fcntl(fd, c::F_GETFL) } & c::O_APPEND {
            0 => Position::Moves,
            _ => Position::Appends,
        }
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
        assert_eq!(of(File::open("/dev/null").expect("there").into()), Position::None);
    }
}
