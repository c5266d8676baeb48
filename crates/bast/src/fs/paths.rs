//! Functions on paths.

use std::fs::{Metadata, Permissions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bast_rt::{mask, run_blocking};

use super::{File, OpenOptions};
use crate::os::system;

macro_rules! on_the_pool {
    ($($name:ident($($path:ident),+ $(; $more:ident: $t:ty)?) -> $result:ty;)*) => {$(
        #[doc = concat!("Same as [`std::fs::", stringify!($name), "`].")]
        ///
        /// # Errors
        /// As std's.
        pub fn $name($($path: impl AsRef<Path>),+ $(, $more: $t)?) -> io::Result<$result> {
            $(let $path = $path.as_ref();)+
            run_blocking(|| std::fs::$name($($path),+ $(, $more)?))
        }
    )*};
}

on_the_pool! {
    canonicalize(path) -> PathBuf;
    create_dir(path) -> ();
    create_dir_all(path) -> ();
    exists(path) -> bool;
    hard_link(original, link) -> ();
    metadata(path) -> Metadata;
    read_link(path) -> PathBuf;
    remove_dir(path) -> ();
    remove_dir_all(path) -> ();
    remove_file(path) -> ();
    rename(from, to) -> ();
    set_permissions(path; permissions: Permissions) -> ();
    symlink_metadata(path) -> Metadata;
}

#[cfg(windows)]
on_the_pool! {
    copy(from, to) -> u64;
}

/// Same as [`std::fs::read`].
///
/// # Errors
/// As std's.
///
/// # Cancellation
/// A suspension point.
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Same as [`std::fs::read_to_string`].
///
/// # Errors
/// As std's.
///
/// # Cancellation
/// A suspension point.
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Same as [`std::fs::write`].
///
/// # Errors
/// As std's.
///
/// # Cancellation
/// A suspension point: the file may then have been written in part. See [`write_atomic`].
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    File::create(path)?.write_all(contents.as_ref())
}

/// Writes a whole file, or leaves what was there: whoever opens `path` finds the old contents or the new ones,
/// also after a crash.
///
/// The contents go to a new file beside `path`, of a name that nobody else uses; that is synced, gets
/// the permissions of the file that it replaces (if there is one), and is renamed. Then the directory is synced.
/// A symbolic link at `path` is replaced, not followed.
///
/// # Errors
/// The kernel's. Nothing has changed then, and the new file is removed; only a sync of the directory that
/// fails comes too late for that.
///
/// # Cancellation
/// A suspension point until the rename. Nothing has changed then.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("bast-atomic-{}", std::process::id()));
/// bast::fs::write_atomic(&path, "all of it, or nothing")?;
/// # std::fs::remove_file(&path)?;
/// # Ok(()) }
/// ```
pub fn write_atomic<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    struct Remove<'a>(&'a Path);
    impl Drop for Remove<'_> {
        fn drop(&mut self) {
            let _ = remove_file(self.0);
        }
    }

    let path = path.as_ref();
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "a path that ends in a file's name is needed")
    })?;
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let (file, temporary) = loop {
        let mut unused = std::ffi::OsString::from(".");
        // Cut, as the whole must not be too long for a name.
        let begins: String = name.to_string_lossy().chars().take(50).collect();
        unused.push(format!("{begins}.{:016x}", bast_rt::wait::turn()));
        let temporary = dir.join(unused);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => break (file, temporary),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    };
    let remove = Remove(&temporary);
    (&file).write_all(contents.as_ref())?;
    match metadata(path) {
        Ok(old) => file.set_permissions(old.permissions())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.sync_all()?;
    drop(file);
    // From the rename on the new contents are there, so a request to cancel comes too late.
    mask(|| {
        rename(&temporary, path)?;
        std::mem::forget(remove);
        system::fs::sync_dir(dir)
    })
}
