//! Open files.

use std::fmt;
use std::fs::{FileTimes, Metadata, Permissions, TryLockError};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use bast_io::Handle;
use bast_rt::{ops, run_blocking, sleep};

use super::OpenOptions;
use crate::os::unix::with_std_file;

/// How long [`File::lock`] waits between two tries, at first and at most. (A call that waits for the lock would
/// hold a thread of the pool. As many waiters as there are threads would leave none for whoever has the
/// lock, who may need one before it can unlock.)
const LOCK_TRIES: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(20)];

/// Same as [`std::fs::File`].
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("bast-file-{}", std::process::id()));
/// use bast::fs::File;
/// use std::io::{Read, Seek, Write};
///
/// let mut file = File::create_new(&path)?;
/// file.write_all(b"some bytes")?;
/// let mut file = File::open(&path)?;
/// file.seek(std::io::SeekFrom::Start(5))?;
/// let mut text = String::new();
/// file.read_to_string(&mut text)?;
/// assert_eq!(text, "bytes");
/// # std::fs::remove_file(&path)?;
/// # Ok(()) }
/// ```
///
/// # Differences from std
/// * Reading, writing, syncing and opening are suspension points.
/// * [`lock`](File::lock) and [`lock_shared`](File::lock_shared) try again and again, with pauses of up to 20 ms, so that a
///   waiting fiber can be cancelled and holds up nobody.
/// * The methods of [`std::os::unix::fs::FileExt`] are inherent.
pub struct File {
    handle: Handle,
}

impl File {
    /// Around a handle that is in the mode of [`Kind::File`](bast_io::Kind::File).
    pub(crate) fn from_handle(handle: Handle) -> File {
        File { handle }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn into_handle(self) -> Handle {
        self.handle
    }

    /// Calls std, on the pool.
    fn blocking<R: Send>(&self, f: impl FnOnce(&std::fs::File) -> R + Send) -> R {
        run_blocking(|| with_std_file(&self.handle, f))
    }

    /// Same as [`std::fs::File::open`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Same as [`std::fs::File::create`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Same as [`std::fs::File::create_new`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// Same as [`std::fs::File::options`].
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Same as [`std::fs::File::sync_all`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn sync_all(&self) -> io::Result<()> {
        ops::fsync(&self.handle, false)
    }

    /// Same as [`std::fs::File::sync_data`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn sync_data(&self) -> io::Result<()> {
        ops::fsync(&self.handle, true)
    }

    /// Same as [`std::fs::File::set_len`].
    ///
    /// # Errors
    /// As std's.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.blocking(|file| file.set_len(size))
    }

    /// Same as [`std::fs::File::metadata`].
    ///
    /// # Errors
    /// As std's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.blocking(std::fs::File::metadata)
    }

    /// Same as [`std::fs::File::set_permissions`].
    ///
    /// # Errors
    /// As std's.
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.blocking(|file| file.set_permissions(permissions))
    }

    /// Same as [`std::fs::File::set_times`].
    ///
    /// # Errors
    /// As std's.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.blocking(|file| file.set_times(times))
    }

    /// Same as [`std::fs::File::set_modified`].
    ///
    /// # Errors
    /// As std's.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time))
    }

    /// Same as [`std::fs::File::try_clone`].
    ///
    /// # Errors
    /// As std's.
    pub fn try_clone(&self) -> io::Result<File> {
        // Duplicating a descriptor waits for nothing.
        with_std_file(&self.handle, std::fs::File::try_clone).map(File::from)
    }

    /// Same as [`std::fs::File::lock`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn lock(&self) -> io::Result<()> {
        self.lock_by(File::try_lock)
    }

    /// Same as [`std::fs::File::lock_shared`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point.
    pub fn lock_shared(&self) -> io::Result<()> {
        self.lock_by(File::try_lock_shared)
    }

    fn lock_by(&self, attempt: fn(&File) -> Result<(), TryLockError>) -> io::Result<()> {
        let [mut pause, longest] = LOCK_TRIES;
        loop {
            match attempt(self) {
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => sleep(pause),
            }
            pause = (pause * 2).min(longest);
        }
    }

    /// Same as [`std::fs::File::try_lock`].
    ///
    /// # Errors
    /// As std's.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.blocking(std::fs::File::try_lock)
    }

    /// Same as [`std::fs::File::try_lock_shared`].
    ///
    /// # Errors
    /// As std's.
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.blocking(std::fs::File::try_lock_shared)
    }

    /// Same as [`std::fs::File::unlock`].
    ///
    /// # Errors
    /// As std's.
    pub fn unlock(&self) -> io::Result<()> {
        self.blocking(std::fs::File::unlock)
    }

    /// Same as [`std::os::unix::fs::FileExt::read_at`].
    ///
    /// # Errors
    /// As std's.
    ///
    /// # Cancellation
    /// A suspension point, as the other methods that take an offset.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        ops::read(&self.handle, buf, Some(offset))
    }

    /// Same as [`std::os::unix::fs::FileExt::read_exact_at`].
    ///
    /// # Errors
    /// As std's.
    pub fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(buf, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    buf = &mut buf[n..];
                    offset += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Same as [`std::os::unix::fs::FileExt::write_at`].
    ///
    /// # Errors
    /// As std's.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        ops::write(&self.handle, buf, Some(offset))
    }

    /// Same as [`std::os::unix::fs::FileExt::write_all_at`].
    ///
    /// # Errors
    /// As std's.
    pub fn write_all_at(&self, mut buf: &[u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.write_at(buf, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    buf = &buf[n..];
                    offset += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// How much there is from the current position on, for the buffer; 0 if that is not known.
    fn left(&self) -> usize {
        let length = ops::stat(&self.handle).map_or(0, |stat| stat.len);
        let at = (&*self).stream_position().unwrap_or(0);
        usize::try_from(length.saturating_sub(at)).unwrap_or(0)
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        ops::read(&self.handle, buf, None)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        ops::read_vectored(&self.handle, bufs, None)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        buf.try_reserve(self.left())?;
        Plain(self).read_to_end(buf)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        buf.try_reserve(self.left())?;
        Plain(self).read_to_string(buf)
    }
}

/// A file without its own `read_to_end`: the trait's does the rest.
struct Plain<'a>(&'a File);

impl Read for Plain<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for &File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        ops::write(&self.handle, buf, None)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        ops::write_vectored(&self.handle, bufs, None)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        // The kernel moves a number.
        with_std_file(&self.handle, |mut file| file.seek(pos))
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(buf)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(buf)
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        (&*self).seek(pos)
    }
}

impl From<std::fs::File> for File {
    fn from(std: std::fs::File) -> File {
        File::from_handle(Handle::from_owned(std.into(), bast_io::Kind::File))
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("File").field(&self.handle).finish()
    }
}
