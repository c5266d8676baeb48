//! Twins: files and directories.

use std::io::{
    BufRead, BufReader, BufWriter, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write,
};
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use crate::harness::{needs_kernel, std_differs_on_windows, twins};

/// A directory of this test's own, removed at its end.
pub(crate) struct Temp(PathBuf);

impl Temp {
    pub(crate) fn new() -> Temp {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("bast-it-{}-{n}", std::process::id()));
            match std::fs::create_dir(&path) {
                // Left by a process that had the same number and was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Temp(path)).unwrap(),
            }
        }
    }
}

impl std::ops::Deref for Temp {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

twins! {
    fn a_file_is_written_and_read() {
        needs_kernel!();
        std_differs_on_windows!("it writes one piece at a time");
        let dir = Temp::new();
        let path = dir.join("file");
        let mut file = fs::File::create(&path).unwrap();
        assert_eq!(file.write(b"one ").unwrap(), 4);
        let pieces = [IoSlice::new(b"two "), IoSlice::new(b"three")];
        assert_eq!(file.write_vectored(&pieces).unwrap(), 9);
        file.flush().unwrap();
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        assert!(file.read(&mut [0; 4]).is_err());
        drop(file);
        let mut file = fs::File::open(&path).unwrap();
        let (mut a, mut b) = ([0; 4], [0; 4]);
        assert_eq!(file.read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)]).unwrap(), 8);
        assert_eq!((&a, &b), (b"one ", b"two "));
        let mut rest = String::new();
        assert_eq!(file.read_to_string(&mut rest).unwrap(), 5);
        assert_eq!(rest, "three");
        assert_eq!(file.read(&mut a).unwrap(), 0);
        assert!(file.write(b"x").is_err());
    }

    fn positions() {
        needs_kernel!();
        let dir = Temp::new();
        let mut file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(dir.join("f")).unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(file.stream_position().unwrap(), 10);
        assert_eq!(file.seek(SeekFrom::End(-3)).unwrap(), 7);
        let mut two = [0; 2];
        file.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"78");
        assert_eq!(file.seek(SeekFrom::Current(-4)).unwrap(), 5);
        assert!(file.seek(SeekFrom::Current(-6)).is_err());
        file.rewind().unwrap();
        file.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"01");
        assert_eq!(file.read_exact(&mut [0; 20]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[cfg(unix)]
    fn at_offsets() {
        needs_kernel!();
        let dir = Temp::new();
        let file = fs::File::create_new(dir.join("f")).unwrap();
        file.write_all_at(b"hello", 3).unwrap();
        assert_eq!(file.write_at(b"J", 3).unwrap(), 1);
        let mut all = [1; 8];
        file.read_exact_at(&mut all, 0).unwrap();
        assert_eq!(&all, b"\0\0\0Jello");
        assert_eq!(file.read_at(&mut all, 6).unwrap(), 2);
        assert_eq!(file.read_exact_at(&mut all, 6).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!((&file).stream_position().unwrap(), 0);
    }

    fn options_and_their_rules() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("f");
        let kind = |options: &fs::OpenOptions| options.open(&path).map(drop).map_err(|e| e.kind());
        assert_eq!(kind(fs::OpenOptions::new().read(true)), Err(ErrorKind::NotFound));
        assert_eq!(kind(&fs::OpenOptions::new()), Err(ErrorKind::InvalidInput));
        assert_eq!(kind(fs::OpenOptions::new().read(true).create(true)), Err(ErrorKind::InvalidInput));
        assert_eq!(kind(fs::OpenOptions::new().read(true).truncate(true)), Err(ErrorKind::InvalidInput));
        assert_eq!(kind(fs::OpenOptions::new().append(true).truncate(true)), Err(ErrorKind::InvalidInput));
        let mut new = fs::OpenOptions::new();
        #[cfg(unix)]
        new.mode(0o600);
        assert_eq!(kind(new.write(true).create_new(true)), Ok(()));
        assert_eq!(kind(fs::OpenOptions::new().write(true).create_new(true)), Err(ErrorKind::AlreadyExists));
        #[cfg(unix)]
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
        log.write_all(b"ab").unwrap();
        log.seek(SeekFrom::Start(0)).unwrap();
        log.write_all(b"cd").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abcd");
        fs::OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        assert_eq!(fs::File::open("nul\0byte").unwrap_err().kind(), ErrorKind::InvalidInput);
        let [below, over] = if cfg!(unix) {
            [ErrorKind::NotADirectory, ErrorKind::IsADirectory]
        } else {
            [ErrorKind::NotFound, ErrorKind::PermissionDenied]
        };
        assert_eq!(fs::File::open(dir.join("f/g")).unwrap_err().kind(), below);
        assert_eq!(fs::File::create(&*dir).unwrap_err().kind(), over);
    }

    fn length_times_permissions() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("f");
        let file = fs::File::create(&path).unwrap();
        file.set_len(1000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1000);
        let when = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        file.set_modified(when).unwrap();
        assert_eq!(file.metadata().unwrap().modified().unwrap(), when);
        file.set_times(fs::FileTimes::new().set_accessed(when)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().accessed().unwrap(), when);
        let mut permissions = file.metadata().unwrap().permissions();
        permissions.set_readonly(true);
        file.set_permissions(permissions.clone()).unwrap();
        assert!(fs::metadata(&path).unwrap().permissions().readonly());
        #[cfg(unix)]
        permissions.set_mode(0o640);
        #[cfg(windows)]
        #[allow(clippy::permissions_set_readonly_false)]
        permissions.set_readonly(false);
        fs::set_permissions(&path, permissions).unwrap();
        assert!(!fs::metadata(&path).unwrap().permissions().readonly());
        #[cfg(unix)]
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    fn clones_share_the_position() {
        needs_kernel!();
        let dir = Temp::new();
        let mut file = fs::File::create_new(dir.join("f")).unwrap();
        let mut clone = file.try_clone().unwrap();
        file.write_all(b"abc").unwrap();
        clone.write_all(b"def").unwrap();
        clone.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abcdef");
    }

    fn locks() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("f");
        let open = || fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let (first, second) = (open(), open());
        first.lock().unwrap();
        assert!(matches!(second.try_lock(), Err(fs::TryLockError::WouldBlock)));
        assert!(matches!(second.try_lock_shared(), Err(fs::TryLockError::WouldBlock)));
        let waiter = spawn(move || {
            second.lock_shared().unwrap();
            second
        });
        sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        drop(first);
        let second = waiter.join().unwrap();
        let third = open();
        third.try_lock_shared().unwrap();
        assert!(matches!(open().try_lock(), Err(fs::TryLockError::WouldBlock)));
        drop((second, third));
        open().lock().unwrap();
    }

    #[cfg_attr(windows, ignore = "Wine: UnlockFile of what is not locked says ERROR_LOCK_VIOLATION, which std's `unlock` does not expect")]
    fn unlocking() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("f");
        let open = || fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let (first, second) = (open(), open());
        for _ in 0..2 {
            first.lock().unwrap();
            assert!(matches!(second.try_lock_shared(), Err(fs::TryLockError::WouldBlock)));
            first.unlock().unwrap();
            second.try_lock_shared().unwrap();
            second.unlock().unwrap();
        }
    }

    fn directories() {
        needs_kernel!();
        let dir = Temp::new();
        assert!(fs::exists(&*dir).unwrap());
        fs::create_dir(dir.join("a")).unwrap();
        assert_eq!(fs::create_dir(dir.join("a")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::create_dir(dir.join("x/y")).unwrap_err().kind(), ErrorKind::NotFound);
        fs::create_dir_all(dir.join("a/b/c")).unwrap();
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        builder.mode(0o700);
        builder.recursive(true).create(dir.join("d/e")).unwrap();
        fs::write(dir.join("a/file"), "text").unwrap();
        let mut names: Vec<_> = fs::read_dir(dir.join("a")).unwrap().map(|entry| {
            let entry = entry.unwrap();
            assert_eq!(entry.path(), dir.join("a").join(entry.file_name()));
            assert_eq!(entry.metadata().unwrap().is_dir(), entry.file_type().unwrap().is_dir());
            (entry.file_name().into_string().unwrap(), entry.file_type().unwrap().is_file())
        }).collect();
        names.sort();
        assert_eq!(names, [("b".to_owned(), false), ("file".to_owned(), true)]);
        assert_eq!(fs::remove_dir(dir.join("a")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        fs::remove_file(dir.join("a/file")).unwrap();
        fs::remove_dir_all(dir.join("a")).unwrap();
        assert!(!fs::exists(dir.join("a")).unwrap());
        assert_eq!(fs::read_dir(dir.join("a")).map(drop).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::remove_file(dir.join("a")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    fn many_entries() {
        needs_kernel!();
        let dir = Temp::new();
        for n in 0..600 {
            std::fs::write(dir.join(n.to_string()), "").unwrap();
        }
        let mut all: Vec<u32> = fs::read_dir(&*dir).unwrap()
            .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..600));
    }

    #[cfg(unix)]
    fn links_and_names() {
        needs_kernel!();
        let dir = Temp::new();
        let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
        fs::write(&a, "text").unwrap();
        fs::hard_link(&a, &b).unwrap();
        assert_eq!(fs::read(&b).unwrap(), b"text");
        std::os::unix::fs::symlink("a", &c).unwrap();
        assert_eq!(fs::read_link(&c).unwrap(), Path::new("a"));
        assert!(fs::symlink_metadata(&c).unwrap().file_type().is_symlink());
        assert!(fs::metadata(&c).unwrap().is_file());
        assert_eq!(fs::canonicalize(&c).unwrap(), fs::canonicalize(&a).unwrap());
        fs::rename(&a, dir.join("d")).unwrap();
        assert_eq!(fs::metadata(&c).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::copy(dir.join("d"), &a).unwrap(), 4);
        assert_eq!(fs::read_to_string(&c).unwrap(), "text");
        assert_eq!(fs::copy(dir.join("none"), &a).unwrap_err().kind(), ErrorKind::NotFound);
        std::os::unix::fs::symlink("loop", dir.join("loop")).unwrap();
        assert!(fs::File::open(dir.join("loop")).is_err());
    }

    fn buffers_and_large_files() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("f");
        let mut out = BufWriter::new(fs::File::create(&path).unwrap());
        for n in 0..100_000 {
            writeln!(out, "line {n}").unwrap();
        }
        out.into_inner().unwrap().sync_all().unwrap();
        let lines = BufReader::new(fs::File::open(&path).unwrap()).lines();
        for (n, line) in lines.enumerate() {
            assert_eq!(line.unwrap(), format!("line {n}"));
        }
        let all = fs::read(&path).unwrap();
        assert_eq!(all.len() as u64, fs::metadata(&path).unwrap().len());
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[cfg(unix)]
    fn devices() {
        needs_kernel!();
        let mut zeroes = [1; 100];
        fs::File::open("/dev/zero").unwrap().read_exact(&mut zeroes).unwrap();
        assert_eq!(zeroes, [0; 100]);
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!((&full).write(b"x").unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(fs::read("/dev/null").unwrap(), b"");
        assert!(fs::read_to_string("/proc/self/status").unwrap().contains("Threads"));
    }

    #[cfg(unix)]
    fn a_fifo_waits_for_its_peer() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reader = spawn({
            let path = path.clone();
            move || fs::read_to_string(path).unwrap()
        });
        sleep(Duration::from_millis(20));
        assert!(!reader.is_finished());
        let mut writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
        writer.write_all(b"through the pipe").unwrap();
        drop(writer);
        assert_eq!(reader.join().unwrap(), "through the pipe");
    }

    #[cfg(unix)]
    fn a_fifo_that_is_written_waits_for_its_reader() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let writer = spawn({
            let path = path.clone();
            move || fs::OpenOptions::new().write(true).open(path).unwrap().write_all(b"hello").unwrap()
        });
        sleep(Duration::from_millis(20));
        assert!(!writer.is_finished());
        assert_eq!(fs::read(&path).unwrap(), b"hello");
        writer.join().unwrap();
    }
}
