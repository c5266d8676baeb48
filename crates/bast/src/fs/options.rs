//! How to open a file.

use std::ffi::CString;
use std::io;
use std::path::Path;

use bast_io::OpenHow;

use super::File;
use crate::os::system;

/// Same as [`std::fs::OpenOptions`].
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("bast-options-{}", std::process::id()));
/// use std::io::Write;
/// let mut log = bast::fs::OpenOptions::new().append(true).create(true).open(&path)?;
/// writeln!(log, "one more line")?;
/// # std::fs::remove_file(&path)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(crate) how: OpenHow,
    /// What only Windows knows.
    #[cfg(windows)]
    pub(crate) more: crate::os::windows::fs::More,
}

macro_rules! setters {
    ($($name:ident),*) => {$(
        #[doc = concat!("Same as [`std::fs::OpenOptions::", stringify!($name), "`].")]
        pub fn $name(&mut self, $name: bool) -> &mut Self {
            self.how.$name = $name;
            self
        }
    )*};
}

impl OpenOptions {
    /// Same as [`std::fs::OpenOptions::new`].
    #[must_use]
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    setters!(read, write, append, truncate, create, create_new);

    /// Same as [`std::fs::OpenOptions::open`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        system::fs::open(path.as_ref(), self).map(File::from_handle)
    }
}

/// A path as an operation takes it.
pub(crate) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "file name contained an unexpected NUL byte")
    })
}
