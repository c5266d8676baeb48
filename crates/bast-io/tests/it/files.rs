//! Files: the same program on a disk and in the simulator's memory.

use std::ffi::CString;

use bast_io::{Handle, Kind, Op, c};

use crate::harness::{Rig, errno};

on_every_driver!(
    write_and_read,
    own_position,
    append_and_truncate,
    exclusive,
    vectored,
    statx,
    fsync,
    sendfile,
    what_has_ended_takes_no_room,
    many_at_once,
);

/// A path of our own; the simulator does not mind that it is long.
pub struct Temp(CString);

impl Temp {
    pub fn new(rig: &Rig, name: &str) -> Temp {
        let dir = std::env::temp_dir();
        let path = dir.join(format!("bast-io-{}-{:?}-{name}", std::process::id(), rig.kind));
        Temp(CString::new(path.into_os_string().into_encoded_bytes()).expect("no NUL"))
    }

    /// Starts to open it for reading.
    pub fn start_open(&self, rig: &mut Rig) -> crate::harness::Ticket {
        let flags = c::O_RDONLY | c::O_CLOEXEC;
        rig.start(Op::Open { path: self.0.as_ptr(), flags, mode: 0 })
    }

    pub fn open(&self, rig: &mut Rig, flags: i32) -> std::io::Result<Handle> {
        let op = Op::Open { path: self.0.as_ptr(), flags: flags | c::O_CLOEXEC, mode: 0o600 };
        let fd = rig.run(op).into_result()? as i32;
        // SAFETY: it was made for us.
        Ok(unsafe { Handle::from_raw(fd, Kind::File) })
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // In the simulator there is no such file, and that is no matter.
        let _ = std::fs::remove_file(self.0.to_str().expect("a path of ours"));
    }
}

const NEW: i32 = c::O_CREAT | c::O_RDWR | c::O_TRUNC;

/// Reads until `n` bytes or the end.
pub fn read_all(rig: &mut Rig, file: &Handle, n: usize, mut at: Option<u64>) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < n {
        let ticket = rig.start_read(file.as_ref(), n - all.len(), at);
        let part = rig.received(ticket).expect("read");
        if part.is_empty() {
            break;
        }
        at = at.map(|at| at + part.len() as u64);
        all.extend(part);
    }
    all
}

pub fn write_all(rig: &mut Rig, file: &Handle, mut bytes: &[u8], mut at: Option<u64>) {
    while !bytes.is_empty() {
        let ticket = rig.start_write(file.as_ref(), bytes, at);
        let n = rig.wait(ticket).into_result().expect("written");
        assert!(n > 0);
        at = at.map(|at| at + n as u64);
        bytes = &bytes[n..];
    }
}

fn write_and_read(rig: &mut Rig) {
    let temp = Temp::new(rig, "write_and_read");
    let file = temp.open(rig, NEW).expect("created");
    let data: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    write_all(rig, &file, &data, Some(0));
    assert!(read_all(rig, &file, data.len() + 5, Some(0)) == data);
    assert_eq!(read_all(rig, &file, 3, Some(251 * 100 + 7)), [7, 8, 9]);
    assert_eq!(read_all(rig, &file, 10, Some(1 << 40)), b"");
    // A gap is zeros.
    write_all(rig, &file, b"x", Some(300_010));
    assert_eq!(read_all(rig, &file, 99, Some(300_000)), b"\0\0\0\0\0\0\0\0\0\0x");
    // Without write access nothing is written, and the other way round.
    let denied = if cfg!(windows) && !rig.is_sim() { c::EPERM } else { c::EBADF };
    let reader = temp.open(rig, c::O_RDONLY).expect("opened");
    let ticket = rig.start_write(reader.as_ref(), b"no", Some(0));
    assert_eq!(errno(rig.wait(ticket).into_result()), denied);
    let writer = temp.open(rig, c::O_WRONLY).expect("opened");
    let ticket = rig.start_read(writer.as_ref(), 1, Some(0));
    assert_eq!(errno(rig.received(ticket)), denied);
}

fn own_position(rig: &mut Rig) {
    let temp = Temp::new(rig, "own_position");
    let file = temp.open(rig, NEW).expect("created");
    write_all(rig, &file, b"hello ", None);
    write_all(rig, &file, b"world", None);
    // Reading at an offset moves nothing.
    assert_eq!(read_all(rig, &file, 5, Some(6)), b"world");
    write_all(rig, &file, b"!", None);
    let again = temp.open(rig, c::O_RDONLY).expect("opened");
    assert_eq!(read_all(rig, &again, 6, None), b"hello ");
    assert_eq!(read_all(rig, &again, 100, None), b"world!");
    assert_eq!(read_all(rig, &again, 100, None), b"");
}

fn append_and_truncate(rig: &mut Rig) {
    let temp = Temp::new(rig, "append");
    let file = temp.open(rig, NEW).expect("created");
    write_all(rig, &file, b"one", None);
    let appender = temp.open(rig, c::O_WRONLY | c::O_APPEND).expect("opened");
    write_all(rig, &appender, b"two", None);
    assert_eq!(read_all(rig, &file, 99, Some(0)), b"onetwo");
    drop(temp.open(rig, c::O_WRONLY | c::O_TRUNC).expect("opened"));
    assert_eq!(read_all(rig, &file, 99, Some(0)), b"");
}

fn exclusive(rig: &mut Rig) {
    let temp = Temp::new(rig, "exclusive");
    assert_eq!(errno(temp.open(rig, c::O_RDWR)), c::ENOENT);
    let flags = c::O_CREAT | c::O_EXCL | c::O_RDWR;
    drop(temp.open(rig, flags).expect("created"));
    assert_eq!(errno(temp.open(rig, flags)), c::EEXIST);
}

fn vectored(rig: &mut Rig) {
    let temp = Temp::new(rig, "vectored");
    let file = temp.open(rig, NEW).expect("created");
    let (one, two) = (*b"abc", *b"defgh");
    let mut written = 0;
    while written < 8 {
        let rest = [&one[written.min(3)..], &two[written.saturating_sub(3)..]];
        let iov = rest.map(|part| c::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len() as _,
        });
        let offset = Some(written as u64);
        let op = Op::WriteV { handle: file.as_ref(), iov: iov.as_ptr(), count: 2, offset };
        written += rig.run(op).into_result().expect("written");
    }
    let mut all = Vec::new();
    while all.len() < 8 {
        let (mut x, mut y) = ([0_u8; 1], [0_u8; 20]);
        let iov = [
            c::iovec { iov_base: x.as_mut_ptr().cast(), iov_len: 1 },
            c::iovec { iov_base: y.as_mut_ptr().cast(), iov_len: 20 },
        ];
        let offset = Some(all.len() as u64);
        let op = Op::ReadV { handle: file.as_ref(), iov: iov.as_ptr(), count: 2, offset };
        let n = rig.run(op).into_result().expect("read");
        assert!(n > 0);
        all.extend_from_slice(&[&x[..], &y[..]].concat()[..n]);
    }
    assert_eq!(all, b"abcdefgh");
}

fn statx(rig: &mut Rig) {
    let temp = Temp::new(rig, "statx");
    let file = temp.open(rig, NEW).expect("created");
    write_all(rig, &file, &[1; 1234], Some(0));
    let by_handle = (file.as_ref().raw(), CString::default(), c::AT_EMPTY_PATH);
    let by_path = (c::AT_FDCWD, temp.0.clone(), 0);
    for (dir, path, flags) in [by_handle, by_path] {
        // SAFETY: all its fields are integers.
        let mut out: c::statx = unsafe { std::mem::zeroed() };
        let mask = c::STATX_BASIC_STATS;
        let op = Op::Statx { dir, path: path.as_ptr(), flags, mask, out: &raw mut out };
        assert_eq!(rig.run(op).0, 0);
        assert_eq!(out.stx_size, 1234);
        assert_eq!(u32::from(out.stx_mode) & c::S_IFMT, c::S_IFREG);
    }
    // SAFETY: all its fields are integers.
    let mut out: c::statx = unsafe { std::mem::zeroed() };
    let path = c"/nonexistent/for/bast".as_ptr();
    let op = Op::Statx { dir: c::AT_FDCWD, path, flags: 0, mask: 0, out: &raw mut out };
    let error = rig.run(op).into_result().expect_err("nothing there");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

fn fsync(rig: &mut Rig) {
    let temp = Temp::new(rig, "fsync");
    let file = temp.open(rig, NEW).expect("created");
    write_all(rig, &file, b"durable", Some(0));
    for data_only in [false, true] {
        assert_eq!(rig.run(Op::Fsync { handle: file.as_ref(), data_only }).0, 0);
    }
    let socket = rig.socket(c::SOCK_STREAM);
    let op = Op::Fsync { handle: socket.as_ref(), data_only: false };
    let outcome = rig.run(op);
    // (Windows has another word for it, and Wine none.)
    assert!(outcome.is_errno(c::EINVAL) || cfg!(windows) && !rig.is_sim(), "{outcome:?}");
}

fn sendfile(rig: &mut Rig) {
    let temp = Temp::new(rig, "sendfile");
    let file = temp.open(rig, NEW).expect("created");
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 253) as u8).collect();
    write_all(rig, &file, &data, Some(0));
    let (a, b) = rig.pair();
    let mut got = Vec::new();
    let mut offset = 100_u64;
    let mut recv = None;
    while (offset as usize) < data.len() {
        // More than the socket takes: the rest waits for the reader.
        let len = data.len() - offset as usize;
        let op = Op::SendFile { to: a.as_ref(), file: file.as_ref(), offset, len };
        let sending = rig.start(op);
        while rig.peek(sending).is_none() {
            let reading = *recv.get_or_insert_with(|| rig.start_recv(b.as_ref(), 64 << 10, 0));
            if rig.peek(reading).is_some() {
                got.extend(rig.received(reading).expect("received"));
                recv = None;
            } else {
                rig.poll(bast_io::Wait::Forever);
            }
        }
        let n = rig.wait(sending).into_result().expect("sent");
        assert!(n > 0);
        offset += n as u64;
    }
    // There is nothing to send at the end, nor behind it.
    for offset in [offset, offset + 5] {
        let op = Op::SendFile { to: a.as_ref(), file: file.as_ref(), offset, len: 9 };
        assert_eq!(rig.run(op).0, 0);
    }
    drop(a);
    if let Some(reading) = recv {
        got.extend(rig.received(reading).expect("received"));
    }
    got.extend(rig.recv_exact(&b, data.len()));
    assert!(got == data[100..], "{} of {}", got.len(), data.len() - 100);
}

fn what_has_ended_takes_no_room(rig: &mut Rig) {
    let temp = Temp::new(rig, "ended");
    let file = temp.open(rig, NEW).expect("created");
    write_all(rig, &file, b"short", Some(0));
    let (a, b) = rig.pair();
    // Full, and nobody reads.
    let (blocked, sent) = rig.fill(&a);
    rig.cancel(blocked);
    let sent = sent + rig.wait(blocked).into_result().unwrap_or(0);
    for offset in [5, 5000] {
        let op = Op::SendFile { to: a.as_ref(), file: file.as_ref(), offset, len: 9 };
        assert_eq!(rig.run(op).0, 0);
    }
    drop(a);
    assert_eq!(rig.recv_exact(&b, sent + 1).len(), sent);
}

fn many_at_once(rig: &mut Rig) {
    // More than the pool has threads and the ring has entries.
    let temp = Temp::new(rig, "many");
    let file = temp.open(rig, NEW).expect("created");
    let writes: Vec<_> =
        (0..200_u64).map(|i| rig.start_write(file.as_ref(), &[i as u8], Some(i))).collect();
    for ticket in writes {
        assert_eq!(rig.wait(ticket).0, 1);
    }
    let reads: Vec<_> = (0..200_u64).map(|i| rig.start_read(file.as_ref(), 1, Some(i))).collect();
    for (i, ticket) in reads.into_iter().enumerate() {
        assert_eq!(rig.received(ticket).expect("read"), [i as u8]);
    }
}

/// Pipes that a splice leads through, and memory that must not grow, are Linux'.
#[cfg(all(target_os = "linux", not(bast_kqueue)))]
mod with_a_kernel {
    use super::*;
    use crate::cancel::pipe_ends;

    on_real_drivers!(splice, splice_waits, a_short_write_moves_the_file);

    fn splice(rig: &mut Rig) {
        let temp = Temp::new(rig, "splice");
        let file = temp.open(rig, NEW).expect("created");
        write_all(rig, &file, b"0123456789", Some(0));
        let (reader, writer) = pipe_ends();
        let op = Op::Splice {
            from: file.as_ref(),
            from_offset: Some(3),
            to: writer.as_ref(),
            to_offset: None,
            len: 4,
        };
        assert_eq!(rig.run(op).0, 4);
        let (a, b) = rig.pair();
        let op = Op::Splice {
            from: reader.as_ref(),
            from_offset: None,
            to: a.as_ref(),
            to_offset: None,
            len: 100,
        };
        assert_eq!(rig.run(op).0, 4);
        assert_eq!(rig.recv_exact(&b, 4), b"3456");
    }

    fn a_short_write_moves_the_file(rig: &mut Rig) {
        // As on a disk that gets full, without a disk: memory that must not grow. A kernel that has huge pages refuses
        // a whole one of them at once, so that each part is as large.
        const PART: usize = 2 << 20;
        const SIZE: usize = 3 * PART;
        // SAFETY: a NUL-terminated name; the descriptor is new, and nobody else's.
        let file = unsafe {
            let fd = c::memfd_create(c"short".as_ptr(), c::MFD_ALLOW_SEALING);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            Handle::from_raw(fd, Kind::File)
        };
        write_all(rig, &file, &[0; SIZE], None);
        // SAFETY: no memory is involved.
        unsafe {
            let fd = file.as_ref().raw();
            assert_eq!(c::fcntl(fd, c::F_ADD_SEALS, c::F_SEAL_GROW), 0);
            assert_eq!(c::lseek(fd, PART as i64, c::SEEK_SET), PART as i64);
        }
        let ticket = rig.start_write(file.as_ref(), &[1; SIZE], None);
        assert_eq!(rig.wait(ticket).0, 2 * PART as i32);
        // SAFETY: as above.
        assert_eq!(unsafe { c::lseek(file.as_ref().raw(), 0, c::SEEK_CUR) }, SIZE as i64);
    }

    fn splice_waits(rig: &mut Rig) {
        // From an empty pipe: it waits for a writer, and the driver stays usable meanwhile.
        let (reader, writer) = pipe_ends();
        let (a, b) = rig.pair();
        let op = Op::Splice {
            from: reader.as_ref(),
            from_offset: None,
            to: a.as_ref(),
            to_offset: None,
            len: 100,
        };
        let waiting = rig.start(op);
        assert!(rig.is_stuck(waiting));
        let write = rig.start_write(writer.as_ref(), b"late", None);
        assert_eq!(rig.wait(write).0, 4);
        assert_eq!(rig.wait(waiting).0, 4);
        assert_eq!(rig.recv_exact(&b, 4), b"late");
    }
}
