//! Whether a handle has a position: by its type and the rights that it was opened with.

use windows_sys::Win32::Storage::FileSystem::{
    FILE_APPEND_DATA, FILE_TYPE_DISK, FILE_WRITE_DATA, GetFileType,
};

use super::Position;
use crate::{Handle, sys};

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
