//! Waiting for a change of a file, or of what its name stands for: inotify.
//!
//! The directory is watched for the name, the file for its contents. An inotify descriptor is one of those that
//! bast knows nothing of: `wait_readable` waits for it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bast::os::unix::wait_readable;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// File systems that are also changed from elsewhere report only what is done here: so one looks now and then.
const AT_LEAST: Duration = Duration::from_secs(1);

pub(super) struct Watch {
    inotify: OwnedFd,
    path: PathBuf,
    file: Option<i32>,
}

impl Watch {
    pub(super) fn new(path: &Path) -> io::Result<Watch> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let failed = |error: rustix::io::Errno| {
            let what = format!("{} cannot be watched: {error}", folder.display());
            io::Error::new(io::Error::from(error).kind(), what)
        };
        let inotify =
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(failed)?;
        let names = WatchFlags::CREATE | WatchFlags::MOVE | WatchFlags::DELETE;
        inotify::add_watch(&inotify, folder, names).map_err(failed)?;
        Ok(Watch { inotify, path: path.to_owned(), file: None })
    }

    /// Watches the file that has the name now. If there is none, the directory will tell.
    pub(super) fn renew(&mut self) {
        let contents = WatchFlags::MODIFY | WatchFlags::ATTRIB;
        let new = inotify::add_watch(&self.inotify, &self.path, contents).ok();
        if let Some(old) = self.file.take()
            && new != Some(old)
        {
            // An error: it went with its file.
            let _ = inotify::remove_watch(&self.inotify, old);
        }
        self.file = new;
    }

    /// Forgets what has happened so far.
    pub(super) fn drain(&self) {
        let mut events = [0; 4096];
        while rustix::io::read(&self.inotify, &mut events).is_ok_and(|n| n > 0) {}
    }

    /// Waits for something to happen.
    pub(super) fn wait(&self) -> io::Result<()> {
        bast::timeout(AT_LEAST, || wait_readable(&self.inotify)).unwrap_or(Ok(()))
    }
}
