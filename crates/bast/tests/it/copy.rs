//! Twins: `io::copy` and `fs::copy` between everything that has a descriptor, and what has none.

#[cfg(unix)]
use std::io::{BufReader, BufWriter};
use std::io::{Cursor, ErrorKind, Read, Seek, SeekFrom, Write};
#[cfg(unix)]
use std::os::{fd::AsFd, unix::fs::PermissionsExt};
use std::time::Duration;

use crate::fs::Temp;
use crate::harness::{OVERDUE, needs_kernel, twins};

/// More than any buffer or pipe on the way, of an odd length, with no period that would hide a swap.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

const LENGTH: usize = 3_000_017;

twins! {
    fn between_files() {
        needs_kernel!();
        let dir = Temp::new();
        let data = bytes(LENGTH);
        std::fs::write(dir.join("from"), &data).unwrap();
        let mut from = fs::File::open(dir.join("from")).unwrap();
        let mut to = fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(dir.join("to")).unwrap();
        from.seek(SeekFrom::Start(17)).unwrap();
        to.write_all(b"head").unwrap();
        assert_eq!(io::copy(&mut (&from).take(1000), &mut to).unwrap(), 1000);
        assert_eq!(from.stream_position().unwrap(), 1017);
        assert_eq!(io::copy(&mut from, &mut &to).unwrap(), LENGTH as u64 - 1017);
        assert_eq!(io::copy(&mut from, &mut to).unwrap(), 0);
        let written = std::fs::read(dir.join("to")).unwrap();
        assert!(written.starts_with(b"head") && written[4..] == data[17..]);
        // The kernel refuses to copy to the end of a file.
        let mut log = fs::OpenOptions::new().append(true).open(dir.join("to")).unwrap();
        from.rewind().unwrap();
        assert_eq!(io::copy(&mut from.take(9), &mut log).unwrap(), 9);
        assert_eq!(log.metadata().unwrap().len(), (4 + LENGTH - 17 + 9) as u64);
        // Not readable, not writable.
        let mut from = fs::File::open(dir.join("from")).unwrap();
        assert!(io::copy(&mut log, &mut &from).is_err());
        assert!(io::copy(&mut from, &mut fs::File::open(dir.join("to")).unwrap()).is_err());
    }

    #[cfg(unix)]
    fn files_of_the_kernel() {
        needs_kernel!();
        let dir = Temp::new();
        let (mut reader, mut writer) = pipe().unwrap();
        // They say that they are empty.
        let mut status = fs::File::open("/proc/self/status").unwrap();
        assert!(io::copy(&mut status, &mut writer).unwrap() > 100);
        status.rewind().unwrap();
        let mut copy = fs::File::create(dir.join("copy")).unwrap();
        assert!(io::copy(&mut status, &mut copy).unwrap() > 100);
        status.rewind().unwrap();
        let (client, server) = UnixStream::pair().unwrap();
        assert!(io::copy(&mut status, &mut &client).unwrap() > 100);
        drop((writer, client));
        for text in [std::io::read_to_string(&mut reader), std::io::read_to_string(&server)] {
            assert!(text.unwrap().contains("Threads:"));
        }
        let mut zero = fs::File::open("/dev/zero").unwrap();
        let mut null = fs::File::options().write(true).open("/dev/null").unwrap();
        assert_eq!(io::copy(&mut (&mut zero).take(1 << 20), &mut null).unwrap(), 1 << 20);
        assert!(fs::copy("/proc/self/status", dir.join("status")).unwrap() > 100);
    }

    fn a_file_to_a_stream_and_back() {
        needs_kernel!();
        let dir = Temp::new();
        let data = bytes(LENGTH);
        std::fs::write(dir.join("from"), &data).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let path = dir.join("to");
        let receiver = spawn(move || {
            let mut to = fs::File::create(&path).unwrap();
            io::copy(&mut &server, &mut to).unwrap()
        });
        let mut from = fs::File::open(dir.join("from")).unwrap();
        from.seek(SeekFrom::Start(3)).unwrap();
        assert_eq!(io::copy(&mut from, &mut client).unwrap(), LENGTH as u64 - 3);
        assert_eq!(from.stream_position().unwrap(), LENGTH as u64);
        drop(client);
        assert_eq!(receiver.join().unwrap(), LENGTH as u64 - 3);
        assert!(std::fs::read(dir.join("to")).unwrap() == data[3..]);
    }

    #[cfg(unix)]
    fn along_a_chain() {
        needs_kernel!();
        // file -> pipe -> Unix stream -> TCP stream -> pipe -> TCP stream -> memory, all at once.
        let dir = Temp::new();
        let data = bytes(LENGTH);
        std::fs::write(dir.join("from"), &data).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let tcp = || (TcpStream::connect(addr).unwrap(), listener.accept().unwrap().0);
        let (mut pipe_out, mut pipe_in) = pipe().unwrap();
        let (mut unix_in, unix_out) = UnixStream::pair().unwrap();
        let (mut tcp_in, mut tcp_out) = tcp();
        let (mut second_out, mut second_in) = pipe().unwrap();
        let (mut last_in, mut last_out) = tcp();
        let mut file = fs::File::open(dir.join("from")).unwrap();
        let steps = [
            spawn(move || io::copy(&mut file, &mut pipe_in).unwrap()),
            spawn(move || io::copy(&mut pipe_out, &mut unix_in).unwrap()),
            spawn(move || io::copy(&mut &unix_out, &mut tcp_in).unwrap()),
            spawn(move || io::copy(&mut BufReader::new(&mut tcp_out), &mut second_in).unwrap()),
            spawn(move || io::copy(&mut second_out, &mut BufWriter::new(&mut last_in)).unwrap()),
        ];
        let mut memory = Vec::new();
        assert_eq!(io::copy(&mut last_out, &mut memory).unwrap(), LENGTH as u64);
        assert!(memory == data);
        for step in steps {
            assert_eq!(step.join().unwrap(), LENGTH as u64);
        }
    }

    #[cfg(unix)]
    fn what_is_in_buffers_comes_first() {
        needs_kernel!();
        let (mut a, b) = UnixStream::pair().unwrap();
        let (mut c, d) = UnixStream::pair().unwrap();
        a.write_all(b"first second third").unwrap();
        let mut reader = BufReader::new(&b);
        let mut first = [0; 6];
        reader.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"first ");
        let mut writer = BufWriter::new(&d);
        writer.write_all(b"zeroth ").unwrap();
        drop(a);
        assert_eq!(io::copy(&mut reader, &mut writer).unwrap(), 12);
        writer.flush().unwrap();
        drop(writer);
        drop(d);
        let mut all = String::new();
        c.read_to_string(&mut all).unwrap();
        assert_eq!(all, "zeroth second third");
    }

    fn no_more_than_was_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let echo = spawn(move || {
            let mut part = (&server).take(100_000);
            let n = io::copy(&mut part, &mut &server).unwrap();
            assert_eq!((n, part.limit()), (100_000, 0));
            assert_eq!(io::copy(&mut part, &mut &server).unwrap(), 0);
            let mut more = (&server).take(1 << 40);
            assert_eq!(io::copy(&mut more, &mut &server).unwrap(), 5);
            assert_eq!(more.limit(), (1 << 40) - 5);
        });
        let data = bytes(100_000);
        let (mut writer, sent) = (client.try_clone().unwrap(), data.clone());
        let writer = spawn(move || writer.write_all(&sent));
        let mut back = vec![0; data.len()];
        client.read_exact(&mut back).unwrap();
        assert!(back == data);
        writer.join().unwrap().unwrap();
        client.write_all(b"after").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut rest = String::new();
        client.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "after");
        echo.join().unwrap();
    }

    fn what_has_no_descriptor() {
        let mut out = Cursor::new(Vec::new());
        let dynamic: &mut dyn Read = &mut &b"in memory"[..];
        assert_eq!(io::copy(dynamic, &mut out).unwrap(), 9);
        assert_eq!(io::copy(&mut std::io::empty(), &mut out).unwrap(), 0);
        assert_eq!(out.into_inner(), b"in memory");
    }

    #[cfg(unix)] // `cat`
    fn a_child_in_the_middle() {
        needs_kernel!();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let dir = Temp::new();
        let data = bytes(LENGTH);
        std::fs::write(dir.join("from"), &data).unwrap();
        let mut from = fs::File::open(dir.join("from")).unwrap();
        let feeder = spawn(move || io::copy(&mut from, &mut stdin).unwrap());
        let mut to = fs::File::create(dir.join("to")).unwrap();
        assert_eq!(io::copy(&mut stdout, &mut to).unwrap(), LENGTH as u64);
        assert_eq!(feeder.join().unwrap(), LENGTH as u64);
        assert!(child.wait().unwrap().success());
        assert!(std::fs::read(dir.join("to")).unwrap() == data);
    }

    #[cfg_attr(windows, ignore = "Wine: a reset is read as the end")]
    fn errors_are_said() {
        needs_kernel!();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let tcp = || (TcpStream::connect(addr).unwrap(), listener.accept().unwrap().0);
        let (mut feed, mut from) = tcp();
        let data = bytes(400_000);
        // Nobody reads the pipe.
        let (reader, mut writer) = pipe().unwrap();
        drop(reader);
        feed.write_all(&data).unwrap();
        assert_eq!(io::copy(&mut from, &mut writer).unwrap_err().kind(), ErrorKind::BrokenPipe);
        // The peer has closed with data unread: a reset.
        let (mut feed, mut from) = tcp();
        let (gone, mut to) = tcp();
        (&to).write_all(b"unread").unwrap();
        (&gone).read_exact(&mut [0]).unwrap();
        drop(gone);
        // The reset is told once; from then on writing fails.
        assert_eq!((&to).read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        feed.write_all(&data).unwrap();
        let kind = io::copy(&mut from, &mut to).unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{kind}");
        // The source is reset.
        let (feed, mut from) = tcp();
        let (_end, mut to) = tcp();
        (&from).write_all(b"unread").unwrap();
        (&feed).read_exact(&mut [0]).unwrap();
        drop(feed);
        let kind = io::copy(&mut from, &mut to).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::ConnectionReset);
    }

    fn timeouts_and_modes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let tcp = || (TcpStream::connect(addr).unwrap(), listener.accept().unwrap().0);
        let (mut feed, mut from) = tcp();
        let (mut end, mut to) = tcp();
        feed.write_all(b"some").unwrap();
        let mut got = [0; 4];
        from.peek(&mut got).unwrap();
        from.set_nonblocking(true).unwrap();
        assert_eq!(io::copy(&mut from, &mut to).unwrap_err().kind(), ErrorKind::WouldBlock);
        end.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"some");
        from.set_nonblocking(false).unwrap();
        from.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
        let data = bytes(40_000);
        let sent = data.clone();
        let feeder = spawn(move || feed.write_all(&sent).map(|()| feed));
        let reader = spawn(move || {
            let mut back = vec![0; 40_000];
            end.read_exact(&mut back).map(|()| (end, back))
        });
        // It is given up when nothing comes for a while, as when the feeder is held up.
        while !reader.is_finished() {
            assert_eq!(io::copy(&mut from, &mut to).unwrap_err().kind(), OVERDUE);
        }
        // What was read before has been written.
        let (_end, back) = reader.join().unwrap().unwrap();
        assert!(back == data);
        let mut feed = feeder.join().unwrap().unwrap();
        // Nobody reads what is written.
        from.set_read_timeout(None).unwrap();
        to.set_write_timeout(Some(Duration::from_millis(30))).unwrap();
        let feeder = spawn(move || while feed.write(&[7; 65_536]).is_ok() {});
        assert_eq!(io::copy(&mut from, &mut to).unwrap_err().kind(), OVERDUE);
        drop(from);
        feeder.join().unwrap();
    }

    #[cfg(unix)]
    fn a_file_is_copied_with_its_mode() {
        needs_kernel!();
        let dir = Temp::new();
        let data = bytes(100_001);
        std::fs::write(dir.join("a"), &data).unwrap();
        std::fs::set_permissions(dir.join("a"), std::fs::Permissions::from_mode(0o751)).unwrap();
        assert_eq!(fs::copy(dir.join("a"), dir.join("b")).unwrap(), 100_001);
        assert!(std::fs::read(dir.join("b")).unwrap() == data);
        let mode = std::fs::metadata(dir.join("b")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o751);
        assert_eq!(fs::copy(&*dir, dir.join("c")).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(fs::copy(dir.join("a"), &*dir).is_err());
    }

    #[cfg(unix)]
    fn sparse_and_huge() {
        needs_kernel!();
        let dir = Temp::new();
        let from = fs::File::create(dir.join("a")).unwrap();
        // 5 GiB of nothing, with an end.
        from.set_len(5 << 30).unwrap();
        (&from).seek(SeekFrom::End(0)).unwrap();
        (&from).write_all(b"the end").unwrap();
        let mut from = fs::File::open(dir.join("a")).unwrap();
        from.seek(SeekFrom::Start((5 << 30) - 100_000)).unwrap();
        let (client, server) = UnixStream::pair().unwrap();
        let copying = spawn(move || io::copy(&mut from, &mut &client).unwrap());
        let mut all = Vec::new();
        (&server).read_to_end(&mut all).unwrap();
        assert_eq!(copying.join().unwrap(), 100_007);
        assert!(all.len() == 100_007 && all.ends_with(b"\0the end"));
        assert!(server.as_fd().try_clone_to_owned().is_ok());
    }
}
