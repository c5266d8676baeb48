//! Twins: files under bad conditions. Where the condition is one of the whole process (a limit, another user, a
//! full file system), a child runs the twin again under it.
//!
//! ```text
//!   #[test] ─▶ sh -c 'ulimit …; exec THIS_TEST_PROGRAM --exact fs_hostile::on_bast::… --ignored'
//!                                     └─ the ignored twin, with its directory in BAST_TEST_DIR
//! ```

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use crate::fs::Temp;
use crate::harness::{needs_kernel, twins};

/// `errno`s without a stable `ErrorKind`.
const EMFILE: Option<i32> = Some(24);
const ELOOP: Option<i32> = Some(40);

const DIR: &str = "BAST_TEST_DIR";

/// The directory that the parent of a child's test has made; `None` if there is no parent.
fn given() -> Option<PathBuf> {
    std::env::var_os(DIR).map(PathBuf::from)
}

/// Runs ignored twins in a child, on std and on bast, by a script of the shell that ends with `exec "$@"`. One that the
/// system does not permit exits with 77. The directory has a file and a directory that are closed to anybody but root.
fn under(script: &str, name: &str, user: Option<u32>) {
    needs_kernel!();
    for side in ["on_std", "on_bast"] {
        let dir = Temp::new();
        let closed = |name: &str, mode| {
            std::fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).unwrap();
        };
        std::fs::write(dir.join("secret"), "").unwrap();
        std::fs::create_dir_all(dir.join("closed/inner")).unwrap();
        closed("secret", 0);
        closed("closed", 0);
        closed("", if user.is_some() { 0o555 } else { 0o755 });
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, "sh"]).args(crate::harness::runner());
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("fs_hostile::{side}::{name}"), "--ignored"]);
        command.env(DIR, &*dir);
        if let Some(id) = user.filter(|_| std::fs::metadata("/proc/self").unwrap().uid() == 0) {
            command.uid(id).gid(id);
        }
        let output = command.output().unwrap();
        closed("", 0o755);
        closed("closed", 0o755);
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        if matches!(output.status.code(), Some(77 | 126)) {
            println!("skipped: this system does not permit {script:?}: {text}");
            return;
        }
        assert!(output.status.success() && text.contains("1 passed"), "{side}: {text}");
    }
}

#[test]
fn descriptors_run_out() {
    under("ulimit -n 128; exec \"$@\"", "child_without_descriptors", None);
}

#[test]
fn files_are_limited_in_size() {
    under("trap '' XFSZ; ulimit -f 64; exec \"$@\"", "child_with_small_files", None);
}

#[test]
fn the_disk_is_full() {
    let mount = "mount -t tmpfs -o size=256k none $BAST_TEST_DIR || exit 77; exec \"$@\"";
    let script = format!("unshare -m true || exit 77; exec unshare -m sh -c '{mount}' sh \"$@\"");
    under(&script, "child_on_a_full_disk", None);
}

#[test]
fn permission_is_denied() {
    under("exec \"$@\"", "child_without_permission", Some(65534));
}

twins! {
    #[ignore = "run in a child by descriptors_run_out"]
    fn child_without_descriptors() {
        let Some(dir) = given() else { return };
        fs::write(dir.join("file"), "text").unwrap();
        for _ in 0..3 {
            let mut open = Vec::new();
            let error = loop {
                match fs::File::open(dir.join("file")) {
                    Ok(file) => open.push(file),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.raw_os_error(), EMFILE);
            assert!(open.len() > 10);
            assert_eq!(fs::read_dir(&dir).map(drop).unwrap_err().raw_os_error(), EMFILE);
            assert_eq!(fs::read(dir.join("file")).unwrap_err().raw_os_error(), EMFILE);
            assert_eq!(fs::write(dir.join("new"), "x").unwrap_err().raw_os_error(), EMFILE);
            assert_eq!(fs::copy(dir.join("file"), dir.join("new")).unwrap_err().raw_os_error(), EMFILE);
            assert_eq!(open[0].try_clone().unwrap_err().raw_os_error(), EMFILE);
            assert_eq!(fs::metadata(dir.join("file")).unwrap().len(), 4);
            // What is open goes on, and what is closed can be opened again.
            assert_eq!(open[0].read_at(&mut [0; 9], 0).unwrap(), 4);
            drop(open);
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
        }
    }

    #[ignore = "run in a child by files_are_limited_in_size"]
    fn child_with_small_files() {
        let Some(dir) = given() else { return };
        let path = dir.join("file");
        let mut file = fs::File::create(&path).unwrap();
        let error = file.write_all(&[1; 1_000_000]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        let len = fs::metadata(&path).unwrap().len();
        assert!(len > 0 && len < 1_000_000 && file.stream_position().unwrap() == len);
        assert_eq!(file.write(b"x").unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(file.write_at(b"x", 2_000_000).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(file.set_len(1_000_000).unwrap_err().kind(), ErrorKind::FileTooLarge);
        file.write_all_at(b"within", 0).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), len);
    }

    #[ignore = "run in a child by the_disk_is_full"]
    fn child_on_a_full_disk() {
        let Some(dir) = given() else { return };
        let path = dir.join("file");
        let mut file = fs::File::create(&path).unwrap();
        let mut written = 0;
        let error = loop {
            match file.write(&[7; 10_000]) {
                Ok(n) => written += n,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        // What was acknowledged is there.
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.len() == written && bytes.iter().all(|byte| *byte == 7) && written > 100_000);
        assert_eq!(fs::write(dir.join("b"), [1; 5000]).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(fs::copy(&path, dir.join("c")).unwrap_err().kind(), ErrorKind::StorageFull);
        let mut out = BufWriter::new(fs::File::create(dir.join("d")).unwrap());
        out.write_all(b"a little").unwrap();
        let error = out.into_inner().unwrap_err();
        assert_eq!(error.error().kind(), ErrorKind::StorageFull);
        drop(error.into_parts().1.into_parts());
        // Nothing half made takes the place of what there was.
        bast::fs::write_atomic(dir.join("b"), [2; 9000]).unwrap_err();
        assert!(fs::read(dir.join("b")).unwrap().iter().all(|byte| *byte == 1));
        let names = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().all(|name| !name.as_bytes().starts_with(b".")));
        // Room again.
        file.set_len(0).unwrap();
        fs::write(dir.join("b"), [1; 5000]).unwrap();
        file.write_at(b"x", 0).unwrap();
        file.sync_all().unwrap();
    }

    #[ignore = "run in a child by permission_is_denied"]
    fn child_without_permission() {
        let Some(dir) = given() else { return };
        let denied = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let (secret, closed, new) = (dir.join("secret"), dir.join("closed"), dir.join("new"));
        denied(fs::File::open(&secret).unwrap_err());
        denied(fs::write(&secret, "x").unwrap_err());
        denied(fs::read_dir(&closed).map(drop).unwrap_err());
        denied(fs::metadata(closed.join("inner")).unwrap_err());
        denied(fs::exists(closed.join("inner")).unwrap_err());
        denied(fs::canonicalize(closed.join("inner")).unwrap_err());
        denied(fs::remove_dir_all(&closed).unwrap_err());
        denied(fs::File::create(&new).unwrap_err());
        denied(fs::create_dir(&new).unwrap_err());
        denied(fs::create_dir_all(new.join("x")).unwrap_err());
        denied(fs::rename(&secret, &new).unwrap_err());
        denied(fs::remove_file(&secret).unwrap_err());
        denied(os_fs::symlink("x", &new).unwrap_err());
        denied(fs::copy(&secret, "/dev/null").unwrap_err());
        assert_eq!(fs::metadata(&secret).unwrap().len(), 0);
    }

    fn a_device_that_is_full() {
        needs_kernel!();
        let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let is_full = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::StorageFull);
        is_full(full().write_all(b"x").unwrap_err());
        is_full(full().write_at(b"x", 0).unwrap_err());
        is_full(full().write_vectored(&[IoSlice::new(b"x")]).unwrap_err());
        is_full(fs::write("/dev/full", "x").unwrap_err());
        is_full(fs::copy("/proc/self/status", "/dev/full").unwrap_err());
        is_full(std::io::copy(&mut &[1; 9][..], &mut full()).unwrap_err());
        let mut out = BufWriter::new(full());
        out.write_all(b"x").unwrap();
        is_full(out.flush().unwrap_err());
        drop(out.into_parts());
    }

    fn a_file_that_shrinks_while_it_is_read() {
        needs_kernel!();
        let dir = Temp::new();
        let path = dir.join("f");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        let mut file = fs::File::open(&path).unwrap();
        let writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.read_exact(&mut [0; 4096]).unwrap();
        writer.set_len(10_000).unwrap();
        let mut rest = Vec::new();
        assert_eq!(file.read_to_end(&mut rest).unwrap(), 10_000 - 4096);
        writer.set_len(100).unwrap();
        assert_eq!(file.read(&mut [0; 9]).unwrap(), 0);
        file.seek(SeekFrom::Start(50)).unwrap();
        assert_eq!(file.read_exact(&mut [0; 51]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(file.read_exact_at(&mut [0; 51], 50).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let mut lines = BufReader::new(&file);
        lines.seek(SeekFrom::Start(0)).unwrap();
        assert_eq!(lines.fill_buf().unwrap().len(), 100);
        writer.set_len(0).unwrap();
        lines.consume(100);
        assert!(lines.fill_buf().unwrap().is_empty());
        // All the time by another: what is read is a part of what there was.
        let shrinker = spawn(move || {
            for n in (0..200).rev().cycle().take(500) {
                writer.set_len(n * 1000).unwrap();
            }
        });
        while !shrinker.is_finished() {
            assert!(fs::read(&path).unwrap().len() <= 199_000);
        }
        shrinker.join().unwrap();
    }

    fn loops_of_links() {
        needs_kernel!();
        let dir = Temp::new();
        let at = |name: &str| dir.join(name);
        os_fs::symlink("b", at("a")).unwrap();
        os_fs::symlink("a", at("b")).unwrap();
        let is_loop = |error: std::io::Error| assert_eq!(error.raw_os_error(), ELOOP);
        is_loop(fs::File::open(at("a")).unwrap_err());
        is_loop(fs::File::create(at("a")).unwrap_err());
        is_loop(fs::metadata(at("a")).unwrap_err());
        is_loop(fs::canonicalize(at("a/x")).unwrap_err());
        is_loop(fs::read_dir(at("a")).map(drop).unwrap_err());
        is_loop(fs::exists(at("a")).unwrap_err());
        assert!(fs::symlink_metadata(at("a")).unwrap().is_symlink());
        // A directory in itself: a walk that follows links ends when the kernel has had enough.
        fs::create_dir(at("d")).unwrap();
        os_fs::symlink("../d", at("d/again")).unwrap();
        let (mut path, mut depth) = (at("d"), 0);
        let error = loop {
            match fs::read_dir(&path) {
                Ok(entries) => {
                    let names: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
                    assert_eq!(names, ["again"]);
                    path.push("again");
                    depth += 1;
                }
                Err(error) => break error,
            }
        };
        is_loop(error);
        assert_eq!(depth, 41);
        fs::remove_dir_all(at("d")).unwrap();
    }

    fn a_directory_that_changes_while_it_is_read() {
        needs_kernel!();
        let dir = Temp::new();
        for n in 0..400 {
            std::fs::write(dir.join(format!("stays-{n}")), "").unwrap();
            std::fs::write(dir.join(format!("goes-{n}")), "").unwrap();
        }
        let changer = spawn({
            let dir = dir.to_path_buf();
            move || {
                for n in 0..400 {
                    fs::remove_file(dir.join(format!("goes-{n}"))).unwrap();
                    fs::write(dir.join(format!("comes-{n}")), "").unwrap();
                }
            }
        });
        let mut last = false;
        loop {
            let mut stays = HashSet::new();
            for entry in fs::read_dir(&*dir).unwrap() {
                let entry = entry.unwrap();
                if let Err(error) = entry.metadata() {
                    assert_eq!(error.kind(), ErrorKind::NotFound);
                }
                let name = entry.file_name().into_string().unwrap();
                if name.starts_with("stays") {
                    assert!(stays.insert(name), "an entry comes once");
                }
            }
            assert_eq!(stays.len(), 400);
            if last {
                break;
            }
            last = changer.is_finished();
        }
        changer.join().unwrap();
        let entries = fs::read_dir(&*dir).unwrap();
        std::fs::remove_dir_all(&*dir).unwrap();
        assert!(entries.count() <= 800);
        std::fs::create_dir(&*dir).unwrap();
    }

    fn names_of_any_bytes() {
        needs_kernel!();
        let dir = Temp::new();
        let names: [&[u8]; 5] = [b"\xff\xfe", b"new\nline", b" ", b"caf\xe9", b"-rf"];
        for name in names {
            let path = dir.join(OsStr::from_bytes(name));
            fs::write(&path, name).unwrap();
            assert_eq!(fs::read(&path).unwrap(), name);
            assert_eq!(fs::canonicalize(&path).unwrap().file_name().unwrap().as_bytes(), name);
        }
        let mut seen: Vec<Vec<u8>> = fs::read_dir(&*dir).unwrap().map(|entry| {
            let entry = entry.unwrap();
            assert_eq!(entry.path().file_name(), Some(&*entry.file_name()));
            entry.file_name().as_bytes().to_vec()
        }).collect();
        seen.sort();
        let mut expected = names.map(<[u8]>::to_vec);
        expected.sort();
        assert_eq!(seen, expected);
        os_fs::symlink(OsStr::from_bytes(b"\xff\xfe"), dir.join("l")).unwrap();
        assert_eq!(fs::read_link(dir.join("l")).unwrap().as_os_str().as_bytes(), b"\xff\xfe");
        for nul in [fs::metadata("a\0b").err(), fs::write("a\0b", "").err(), fs::rename("a\0b", "c").err()] {
            assert_eq!(nul.unwrap().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(fs::File::open("").unwrap_err().kind(), ErrorKind::NotFound);
    }

    fn names_that_are_too_long() {
        needs_kernel!();
        let dir = Temp::new();
        let too_long = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::InvalidFilename);
        let just = dir.join("x".repeat(255));
        fs::write(&just, "fits").unwrap();
        assert_eq!(fs::read(&just).unwrap(), b"fits");
        let name = dir.join("x".repeat(256));
        too_long(fs::File::open(&name).unwrap_err());
        too_long(fs::File::create(&name).unwrap_err());
        too_long(fs::create_dir(&name).unwrap_err());
        too_long(fs::rename(&just, &name).unwrap_err());
        too_long(fs::metadata(&name).unwrap_err());
        too_long(os_fs::symlink("x", &name).unwrap_err());
        let path = dir.join("d/".repeat(3000));
        too_long(fs::create_dir_all(&path).unwrap_err());
        too_long(fs::File::open(&path).unwrap_err());
        // Deep, and away with it.
        let deep = dir.join("d/".repeat(200));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("f"), "").unwrap();
        fs::remove_dir_all(dir.join("d")).unwrap();
    }

    fn a_line_of_64_mib() {
        needs_kernel!();
        const LENGTH: usize = 64 << 20;
        let dir = Temp::new();
        let path = dir.join("f");
        std::fs::write(&path, "a".repeat(LENGTH) + "\nend").unwrap();
        let mut lines = BufReader::new(fs::File::open(&path).unwrap());
        let mut line = String::new();
        assert_eq!(lines.read_line(&mut line).unwrap(), LENGTH + 1);
        assert!(line.ends_with("a\n") && line.len() == LENGTH + 1);
        line.clear();
        assert_eq!(lines.read_line(&mut line).unwrap(), 3);
        assert_eq!(lines.read_line(&mut line).unwrap(), 0);
        assert_eq!(line, "end");
    }

    fn files_with_holes_and_far_offsets() {
        needs_kernel!();
        const FAR: u64 = (4 << 30) + 3;
        let dir = Temp::new();
        let path = dir.join("f");
        let mut file = fs::File::create_new(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        file.set_len(5 << 30).unwrap();
        file.write_all_at(b"far", FAR).unwrap();
        let mut five = [1; 5];
        file.read_exact_at(&mut five, FAR - 1).unwrap();
        assert_eq!(&five, b"\0far\0");
        assert_eq!(file.seek(SeekFrom::Start(FAR)).unwrap(), FAR);
        file.read_exact(&mut five[..3]).unwrap();
        assert_eq!((&five[..3], file.stream_position().unwrap()), (&b"far"[..], FAR + 3));
        assert_eq!(file.seek(SeekFrom::End(-1)).unwrap(), (5 << 30) - 1);
        assert_eq!(file.seek(SeekFrom::Current(-(4 << 30))).unwrap(), (1 << 30) - 1);
        assert_eq!(fs::metadata(&path).unwrap().len(), 5 << 30);
        // Beyond what any file has. (All ones is io_uring's own way to say "where the file is".)
        file.rewind().unwrap();
        for offset in [1 << 63, u64::MAX - 1, u64::MAX] {
            let read = file.read_at(&mut five, offset).unwrap_err();
            let write = file.write_at(b"x", offset).unwrap_err();
            assert_eq!((read.kind(), write.kind()), (ErrorKind::InvalidInput, ErrorKind::InvalidInput));
            assert_eq!(file.seek(SeekFrom::Start(offset)).unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(file.set_len(offset).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(file.read_at(&mut five, i64::MAX as u64 - 5).unwrap(), 0);
        assert!(file.write_at(b"x", i64::MAX as u64 - 5).is_err());
        assert_eq!(file.stream_position().unwrap(), 0);
        assert_eq!(file.seek(SeekFrom::Current(-1)).unwrap_err().kind(), ErrorKind::InvalidInput);
        file.read_exact(&mut five).unwrap();
        assert_eq!(&five, b"01234");
    }
}
