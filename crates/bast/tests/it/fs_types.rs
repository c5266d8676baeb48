//! Twins: the rest of what std's files and directories do, type by type: what they convert to, what the extensions of
//! Unix add, and the corners of the functions.

use std::io::{BufRead, BufReader, ErrorKind, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{
    DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::fs::Temp;
use crate::harness::{needs_kernel, twins};

/// Flags of `open(2)`: direct, a directory, no link.
const FLAGS: [i32; 3] = if cfg!(any(target_arch = "aarch64", target_arch = "arm")) {
    [0o200_000, 0o40_000, 0o100_000]
} else {
    [0o40_000, 0o200_000, 0o400_000]
};

/// All that a file is to generic code.
fn is_a_file<F>(file: F) -> F
where
    F: Read + Write + Seek + FileExt + AsFd + AsRawFd + IntoRawFd + FromRawFd + Send + Sync,
    F: From<OwnedFd> + Into<OwnedFd> + Into<std::process::Stdio> + std::fmt::Debug + Unpin,
    F: std::panic::UnwindSafe + std::panic::RefUnwindSafe + 'static,
    for<'a> &'a F: Read + Write + Seek,
{
    file
}

twins! {
    fn a_file_in_generic_code() {
        needs_kernel!();
        let dir = Temp::new();
        let file = is_a_file(fs::File::create_new(dir.join("f")).unwrap());
        writeln!(&file, "one\ntwo").unwrap();
        (&file).rewind().unwrap();
        let mut lines = BufReader::new(&file).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "one");
        (&file).seek(SeekFrom::Start(2)).unwrap();
        (&file).seek_relative(2).unwrap();
        let mut text = String::new();
        Read::by_ref(&mut &file).take(2).chain(&b"!"[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, "tw!");
        let shared = std::sync::Arc::new(file);
        assert!(!shared.as_fd().is_terminal());
        assert_eq!(shared.metadata().unwrap().len(), 8);
    }

    #[allow(clippy::useless_conversion)]
    fn conversions() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("f");
        let mut file = fs::File::from(std::fs::File::create_new(&path).unwrap());
        file.write_all(b"a").unwrap();
        let number = file.as_raw_fd();
        let fd = OwnedFd::from(file);
        assert_eq!(fd.as_raw_fd(), number);
        let mut file = fs::File::from(fd);
        file.write_all(b"b").unwrap();
        assert_eq!(file.as_fd().as_raw_fd(), number);
        let mut file = std::fs::File::from(file);
        file.write_all(b"c").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        // As a child's output, and its input.
        let out = fs::File::create(dir.join("out")).unwrap();
        let status = Command::new("cat").stdin(fs::File::open(&path).unwrap()).stdout(out).status();
        assert!(status.unwrap().success());
        assert_eq!(fs::read_to_string(dir.join("out")).unwrap(), "abc");
    }

    fn extensions_of_unix() {
        needs_kernel!();
        let dir = Temp::new();
        let (path, link) = (dir.join("f"), dir.join("link"));
        let options = fs::File::options().write(true).create_new(true).mode(0o604).clone();
        let file = options.open(&path).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o604);
        os_fs::symlink("f", &link).unwrap();
        assert_eq!(os_fs::symlink("f", &link).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let mut nofollow = fs::OpenOptions::new();
        nofollow.read(true).custom_flags(FLAGS[2]);
        assert!(nofollow.open(&path).is_ok() && nofollow.open(&link).is_err());
        let mut directory = fs::OpenOptions::new();
        directory.read(true).custom_flags(FLAGS[1]);
        assert!(directory.open(&*dir).is_ok());
        assert_eq!(directory.open(&path).unwrap_err().kind(), ErrorKind::NotADirectory);
        let metadata = fs::symlink_metadata(&link).unwrap();
        assert!(metadata.file_type().is_symlink() && !metadata.file_type().is_fifo());
        let (uid, gid) = (metadata.uid(), metadata.gid());
        os_fs::chown(&path, Some(uid), None).unwrap();
        os_fs::fchown(&file, None, Some(gid)).unwrap();
        os_fs::lchown(&link, Some(uid), Some(gid)).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(os_fs::chown(&link, None, None).unwrap_err().kind(), ErrorKind::NotFound);
        os_fs::lchown(&link, None, None).unwrap();
        assert!(os_fs::chroot(dir.join("none")).is_err());
        let inodes: Vec<u64> = fs::read_dir(&*dir).unwrap().map(|entry| entry.unwrap().ino()).collect();
        assert_eq!(inodes, [metadata.ino()]);
    }

    fn builders_of_directories() {
        needs_kernel!();
        let dir = Temp::new();
        fs::write(dir.join("file"), "").unwrap();
        let (mut one, mut all) = (fs::DirBuilder::new(), fs::DirBuilder::new());
        one.mode(0o711);
        all.recursive(true).mode(0o700);
        assert_eq!(one.create(dir.join("a/b")).unwrap_err().kind(), ErrorKind::NotFound);
        one.create(dir.join("a")).unwrap();
        assert_eq!(fs::metadata(dir.join("a")).unwrap().mode() & 0o777, 0o711);
        assert_eq!(one.create(dir.join("a")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        all.create(dir.join("a/b/c")).unwrap();
        all.create(dir.join("a/b/c")).unwrap();
        assert_eq!(all.create(dir.join("file")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(all.create(dir.join("file/x")).unwrap_err().kind(), ErrorKind::NotADirectory);
        assert_eq!(fs::create_dir_all("").map_err(|e| e.kind()), Ok(()));
        assert_eq!(fs::create_dir("").unwrap_err().kind(), ErrorKind::NotFound);
    }

    fn renaming_and_removing() {
        needs_kernel!();
        let dir = Temp::new();
        let at = |name: &str| dir.join(name);
        fs::create_dir_all(at("full/inside")).unwrap();
        fs::create_dir(at("empty")).unwrap();
        fs::write(at("file"), "x").unwrap();
        assert_eq!(fs::rename(at("empty"), at("full")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        assert_eq!(fs::rename(at("file"), at("empty")).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(fs::rename(at("empty"), at("file")).unwrap_err().kind(), ErrorKind::NotADirectory);
        assert_eq!(fs::rename(at("full"), at("full/inside/x")).unwrap_err().kind(), ErrorKind::InvalidInput);
        fs::rename(at("full"), at("empty")).unwrap();
        assert!(fs::exists(at("empty/inside")).unwrap() && !fs::exists(at("full")).unwrap());
        assert_eq!(fs::remove_dir(at("file")).unwrap_err().kind(), ErrorKind::NotADirectory);
        assert!(fs::remove_file(at("empty")).is_err());
        assert_eq!(fs::remove_dir_all(at("none")).unwrap_err().kind(), ErrorKind::NotFound);
        // Links are removed, not followed.
        os_fs::symlink(at("empty"), at("link")).unwrap();
        fs::create_dir(at("links")).unwrap();
        os_fs::symlink(at("empty"), at("links/one")).unwrap();
        fs::remove_dir_all(at("links")).unwrap();
        assert!(fs::exists(at("empty/inside")).unwrap());
        os_fs::symlink(at("nowhere"), at("broken")).unwrap();
        assert!(!fs::exists(at("broken")).unwrap());
        assert_eq!(fs::hard_link(at("none"), at("l")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::canonicalize(at("empty/inside/../../file")).unwrap(), fs::canonicalize(at("file")).unwrap());
        assert_eq!(fs::read_link(at("file")).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    fn copies() {
        needs_kernel!();
        let dir = Temp::new();
        let (from, to) = (dir.join("from"), dir.join("to"));
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| n as u8).collect();
        fs::write(&from, &bytes).unwrap();
        fs::set_permissions(&from, fs::Permissions::from_mode(0o750)).unwrap();
        fs::write(&to, vec![1; 4_000_000]).unwrap();
        assert_eq!(fs::copy(&from, &to).unwrap(), 3_000_000);
        assert_eq!(fs::read(&to).unwrap(), bytes);
        assert_eq!(fs::metadata(&to).unwrap().mode() & 0o777, 0o750);
        assert!(fs::copy(&*dir, dir.join("x")).is_err());
        assert_eq!(fs::copy("/proc/self/cmdline", &to).unwrap(), fs::metadata(&to).unwrap().len());
        assert_eq!(fs::read(&*dir).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(fs::read_dir(&to).map(drop).unwrap_err().kind(), ErrorKind::NotADirectory);
    }

    fn lengths_positions_times() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("f");
        let mut file = fs::File::create_new(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        file.set_len(4).unwrap();
        file.write_all(b"x").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"0123\0\0\0\0\0\0x");
        file.rewind().unwrap();
        assert_eq!(file.read(&mut []).unwrap(), 0);
        assert_eq!(file.write(&[]).unwrap(), 0);
        assert_eq!(fs::read(&path).unwrap().len(), 11);
        let mut both = fs::OpenOptions::new().read(true).append(true).open(&path).unwrap();
        both.write_all(b"end").unwrap();
        let mut byte = [0];
        assert_eq!(both.read(&mut byte).unwrap(), 0);
        both.seek(SeekFrom::End(-3)).unwrap();
        both.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"e");
        let (a, b) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + Duration::from_nanos(1_234_567_890));
        file.set_times(fs::FileTimes::new().set_accessed(a).set_modified(b)).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.accessed().unwrap(), metadata.modified().unwrap()), (a, b));
        let read_only = fs::File::open(&path).unwrap();
        assert_eq!(read_only.set_len(1).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    fn many_write_to_one_file_and_its_clones() {
        needs_kernel!();
        let dir = Temp::new();
        for append in [false, true] {
            let path = dir.join(append.to_string());
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).append(append);
            let file = options.open(&path).unwrap();
            scope(|s| {
                for n in 0..8_u8 {
                    let (file, clone) = (&file, file.try_clone().unwrap());
                    s.spawn(move || {
                        for turn in 0..250 {
                            let mut to = if turn % 2 == 0 { file } else { &clone };
                            to.write_all(&[n; 10]).unwrap();
                            yield_now();
                        }
                    });
                }
            });
            let bytes = fs::read(&path).unwrap();
            assert!(bytes.chunks(10).all(|chunk| chunk == [chunk[0]; 10]));
            let count = |n| bytes.iter().filter(|byte| **byte == n).count();
            assert!((0..8).all(|n| count(n) == 2500), "nobody's bytes are lost");
        }
    }

    fn many_read_one_file() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("f");
        let bytes: Vec<u8> = (0..4_000_u32).flat_map(u32::to_le_bytes).collect();
        fs::write(&path, &bytes).unwrap();
        let file = fs::File::open(&path).unwrap();
        let all = std::sync::Mutex::new(Vec::new());
        scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    let mut four = [0; 4];
                    while (&file).read(&mut four).unwrap() == 4 {
                        all.lock().unwrap().push(u32::from_le_bytes(four));
                    }
                });
            }
        });
        let mut all = all.into_inner().unwrap();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..4_000), "each is read once");
    }

    fn direct_reads_move_on() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("f");
        let bytes: Vec<u8> = (0..16_384_u32).map(|n| (n / 4096) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        // Not every file system can.
        let Ok(mut file) = fs::OpenOptions::new().read(true).custom_flags(FLAGS[0]).open(&path) else { return };
        let mut room = [0; 8192];
        let aligned = room.as_ptr().align_offset(4096);
        let page = &mut room[aligned..aligned + 4096];
        for n in 0..4 {
            assert_eq!((file.read(page).unwrap(), page[0]), (4096, n));
        }
        assert_eq!(file.read(page).unwrap(), 0);
    }

    fn entries_of_every_kind() {
        needs_kernel!();
        let dir = Temp::new();
        fs::create_dir(dir.join("d")).unwrap();
        fs::write(dir.join("f"), "").unwrap();
        os_fs::symlink("nowhere", dir.join("l")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.join("s")).unwrap();
        let mut kinds: Vec<(String, [bool; 4])> = fs::read_dir(&*dir).unwrap().map(|entry| {
            let entry = entry.unwrap();
            let (kind, of_metadata) = (entry.file_type().unwrap(), entry.metadata().unwrap().file_type());
            assert_eq!(kind, of_metadata);
            assert_eq!(format!("{entry:?}"), format!("DirEntry({:?})", entry.path()));
            let kinds = [kind.is_dir(), kind.is_file(), kind.is_symlink(), kind.is_socket()];
            (entry.file_name().into_string().unwrap(), kinds)
        }).collect();
        kinds.sort();
        for (at, (name, kinds)) in ["d", "f", "l", "s"].iter().zip(kinds).enumerate() {
            let mut expected = [false; 4];
            expected[at] = true;
            assert_eq!((*name, expected), (&*kinds.0, kinds.1));
        }
        let mut entries = fs::read_dir(Path::new(&*dir)).unwrap();
        assert_eq!(entries.by_ref().count(), 4);
        assert!(entries.next().is_none() && entries.next().is_none());
        assert!(format!("{entries:?}").starts_with("ReadDir"));
    }
}
