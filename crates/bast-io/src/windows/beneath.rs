//! Opening what lies beneath a directory, and nothing else.
//!
//! ```text
//!   name by name: no "..", no drive, no stream ─▶ opened ─▶ where is it really? ─beneath─▶ handle
//!                                                                  └─ elsewhere (a link) ─▶ EXDEV
//! ```
//!
//! Windows resolves links by itself; where the file that it has opened lies is asked of the handle, which no rename
//! can change under our hands.

use std::ffi::{CStr, OsString};
use std::io;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Component, PathBuf};

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_BACKUP_SEMANTICS, GetFinalPathNameByHandleW,
};

use crate::handle::Owned;
pub use crate::open::Patience;
use crate::sys::{self, c};
use crate::{Handle, Op};

/// Opens the relative `path` so that it cannot lead out of the directory `dir`: neither by `..`, nor by a link.
/// Links that stay within are followed. A file that is truncated or made by this is so before it is known to be
/// beneath, so `flags` must not ask for either.
///
/// # Errors
/// `EXDEV` for a path that leads out, `EAGAIN` if it may not wait, `EINVAL` for flags that change something; else as
/// an open.
pub fn open_beneath(
    dir: &Handle,
    path: &CStr,
    flags: i32,
    mode: u32,
    patience: Patience,
) -> io::Result<Owned> {
    let error = |code| Err(io::Error::from_raw_os_error(code));
    if patience == Patience::None {
        return error(c::EAGAIN);
    }
    if flags & (c::O_CREAT | c::O_TRUNC) != 0 {
        return error(c::EINVAL);
    }
    // SAFETY: a path.
    let Some(relative) = (unsafe { sys::decode(path.as_ptr()) }) else { return error(c::ENOENT) };
    let plain = relative.components().all(|part| match part {
        Component::CurDir => true,
        // A colon would name another stream of the file.
        Component::Normal(name) => !name.as_encoded_bytes().contains(&b':'),
        _ => false,
    });
    if !plain {
        return error(c::EXDEV);
    }
    let root = place(dir.as_raw_handle())?;
    let whole = root.join(&relative);
    let whole = std::ffi::CString::new(whole.into_os_string().into_encoded_bytes())?;
    let mode = mode | FILE_FLAG_BACKUP_SEMANTICS;
    let op = Op::Open { path: whole.as_ptr(), flags, mode };
    // SAFETY: the path outlives the call; the handle is new.
    let opened = unsafe {
        let opened = sys::call(&op, sys::Mode::Block).into_result()?;
        OwnedHandle::from_raw_handle(sys::handle(opened as i32))
    };
    if place(opened.as_raw_handle())?.starts_with(&root) {
        Ok(opened.into())
    } else {
        error(c::EXDEV)
    }
}

/// Where an open file lies, all links followed.
fn place(file: HANDLE) -> io::Result<PathBuf> {
    let mut name = vec![0u16; 512];
    loop {
        // SAFETY: room for as many units as it says.
        let len = unsafe {
            GetFinalPathNameByHandleW(file, name.as_mut_ptr(), name.len() as u32, 0) as usize
        };
        match len {
            0 => return Err(io::Error::last_os_error()),
            _ if len < name.len() => return Ok(OsString::from_wide(&name[..len]).into()),
            _ => name.resize(len + 1, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::windows::fs::OpenOptionsExt;

    use super::*;
    use crate::Kind;

    #[test]
    fn what_leads_out_is_refused() {
        let root = std::env::temp_dir().join(format!("bast-beneath-{}", std::process::id()));
        std::fs::create_dir_all(root.join("in")).expect("a directory");
        std::fs::write(root.join("in/file"), b"x").expect("a file");
        let dir = std::fs::File::options()
            .read(true)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS)
            .open(root.join("in"))
            .expect("the directory");
        let dir = Handle::from_owned(dir.into(), Kind::File);
        let open = |path| open_beneath(&dir, path, c::O_RDONLY, 0, Patience::Disk);
        assert!(open(c"file").is_ok() && open(c"./file").is_ok());
        for out in [c"../in/file", c"/file", c"C:\\windows", c"file:stream"] {
            assert_eq!(open(out).expect_err("out").raw_os_error(), Some(c::EXDEV), "{out:?}");
        }
        assert_eq!(open(c"none").expect_err("none").kind(), io::ErrorKind::NotFound);
        drop(dir);
        std::fs::remove_dir_all(root).expect("ours");
    }
}
