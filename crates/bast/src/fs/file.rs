//! Open files.

use std::fmt;
use std::fs::{FileTimes, Metadata, Permissions, TryLockError};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bast_io::Handle;
use bast_rt::{ops, run_blocking, sleep};

use super::OpenOptions;
use super::position::Position;
use crate::os::system::with_std_file;

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
/// * Reading, writing, seeking, syncing and opening are suspension points.
/// * [`lock`](File::lock) and [`lock_shared`](File::lock_shared) try again and again, with pauses of up to 20 ms, so that a
///   waiting fiber can be cancelled and holds up nobody.
/// * To open a FIFO for reading does not always wait for a writer; the first read does.
/// * A drop closes on the spot, as in std: on a file system that writes back at that moment (NFS, FUSE) that waits.
///   [`sync_all`](File::sync_all) before it leaves nothing to write.
pub struct File {
    handle: Handle,
    position: Arc<Position>,
}

impl File {
    /// Around a handle that is in the mode of [`Kind::File`](bast_io::Kind::File).
    pub(crate) fn from_handle(handle: Handle) -> File {
        File { handle, position: Arc::default() }
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
        let clone = with_std_file(&self.handle, std::fs::File::try_clone)?;
        Ok(File { position: Arc::clone(&self.position), ..File::from(clone) })
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

    /// How much there is from the current position on, for the buffer; 0 if that is not known.
    fn left(&self) -> usize {
        if self.handle.is_simulated() {
            return 0;
        }
        let length = ops::stat_cached(&self.handle).map_or(0, |stat| stat.len);
        let at = (&*self).stream_position().unwrap_or(0);
        usize::try_from(length.saturating_sub(at)).unwrap_or(0)
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.position.advance(&self.handle, false, |at| ops::read(&self.handle, buf, at))
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.position.advance(&self.handle, false, |at| ops::read_vectored(&self.handle, bufs, at))
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
        self.position.advance(&self.handle, true, |at| ops::write(&self.handle, buf, at))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.position.advance(&self.handle, true, |at| ops::write_vectored(&self.handle, bufs, at))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        let _turn = self.position.turn(&self.handle);
        match pos {
            // Where the end is may have to be asked for over a network.
            SeekFrom::End(_) => self.blocking(|mut file| file.seek(pos)),
            // The kernel moves a number.
            _ => with_std_file(&self.handle, |mut file| file.seek(pos)),
        }
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

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("File").field(&self.handle).finish()
    }
}
