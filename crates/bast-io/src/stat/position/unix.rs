//! Whether a descriptor has a position: by its type and its flags.

use super::Position;
use crate::Handle;
use crate::stat::Answer;
use crate::sys::c;

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
