//! `bast::io::send_file`, against what was in the file. std has no such function.

use std::fs;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use bast::fs::{File, OpenOptions};
use bast::io::{PartlySent, Socket, send_file, send_file_with_head};
use bast::os::linux::fs::{FileExt, open_beneath};
use bast::os::unix::net::UnixStream;

use crate::harness::needs_kernel;
use crate::harness::on_bast::{TcpListener, TcpStream, run, sleep, spawn};

/// A file that is removed with the value. Beside the test, as a temporary directory may be kept in memory.
struct Temp(PathBuf);

impl Temp {
    fn new(contents: &[u8]) -> Temp {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("sendfile-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::current_exe().unwrap().with_file_name(name);
        fs::write(&path, contents).unwrap();
        Temp(path)
    }

    /// Has the system write it, and forget it.
    fn chill(&self) {
        let file = fs::OpenOptions::new().write(true).open(&self.0).unwrap();
        file.sync_all().unwrap();
        // Best effort: the test holds for a file that stayed in memory, too. (dd: no `unsafe` here.)
        let of = format!("of={}", self.0.display());
        let dd =
            ["count=0", "oflag=nocache", "conv=notrunc,fdatasync", "status=none", "if=/dev/null"];
        let _ = std::process::Command::new("dd").arg(of).args(dd).status();
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 4096 * 31 + i) as u8).collect()
}

fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn read_all(mut from: impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    from.read_to_end(&mut all).unwrap();
    all
}

fn all_ranges(temp: &Temp, data: &[u8], pair: fn() -> (Box<dyn Read + Send>, Out)) {
    let len = data.len() as u64;
    for (offset, want) in
        [(0, len), (0, 1), (4095, 2), (5, u64::MAX), (len - 1, 1), (len, 10), (len + 5, 10), (7, 0)]
    {
        let (client, server) = pair();
        let reader = spawn(move || read_all(client));
        let file = File::open(&temp.0).unwrap();
        let sent = match &server {
            Out::Tcp(to) => send_file_with_head(b"head", &file, offset, want, to),
            Out::Unix(to) => send_file_with_head(b"head", &file, offset, want, to),
        };
        drop(server);
        let begin = offset.min(len) as usize;
        let end = offset.saturating_add(want).min(len).max(begin as u64) as usize;
        assert_eq!(sent.unwrap(), (end - begin) as u64, "{want} at {offset}");
        let got = reader.join().unwrap();
        assert!(got.starts_with(b"head") && got[4..] == data[begin..end], "{want} at {offset}");
    }
}

enum Out {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[test]
fn ranges_of_a_file_arrive() {
    needs_kernel!();
    run(|| {
        let data = bytes(3_000_000);
        let temp = Temp::new(&data);
        for _ in 0..2 {
            all_ranges(&temp, &data, || {
                let (client, server) = tcp();
                (Box::new(client), Out::Tcp(server))
            });
            all_ranges(&temp, &data, || {
                let (client, server) = UnixStream::pair().unwrap();
                (Box::new(client), Out::Unix(server))
            });
            temp.chill(); // and again, from the disk
        }
    });
}

#[test]
fn a_plain_thread_may_send_too() {
    let data = bytes(1_000_000);
    let temp = Temp::new(&data);
    let (client, server) = tcp();
    let reader = std::thread::spawn(move || read_all(client));
    assert_eq!(send_file(&File::open(&temp.0).unwrap(), 1, u64::MAX, &server).unwrap(), 999_999);
    drop(server);
    assert!(reader.join().unwrap() == data[1..]);
}

#[test]
fn a_cold_file_and_a_slow_reader() {
    needs_kernel!();
    run(|| {
        let data = bytes(8 << 20);
        let temp = Temp::new(&data);
        temp.chill();
        let (mut client, server) = tcp();
        let path = temp.0.clone();
        let sender =
            spawn(move || send_file(&File::open(path).unwrap(), 0, u64::MAX, &server).unwrap());
        let mut got = Vec::new();
        let mut piece = vec![0; 1 << 20];
        loop {
            sleep(Duration::from_millis(2));
            match client.read(&mut piece).unwrap() {
                0 => break,
                n => got.extend_from_slice(&piece[..n]),
            }
        }
        assert_eq!(sender.join().unwrap(), data.len() as u64);
        assert!(got == data);
    });
}

#[test]
fn a_reader_that_does_not_read_is_given_up() {
    needs_kernel!();
    run(|| {
        let data = bytes(16 << 20);
        let temp = Temp::new(&data);
        let (mut client, server) = tcp();
        server.set_write_timeout(Some(Duration::from_millis(30))).unwrap();
        let file = File::open(&temp.0).unwrap();
        let error = send_file_with_head(b"head", &file, 0, u64::MAX, &server).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains("bytes had been sent"), "{error}");
        let sent = error.downcast::<PartlySent>().expect("some was sent").sent;
        drop(server);
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert_eq!(got.len() as u64, sent, "it knows how much");
        assert!(got[4..] == data[..got.len() - 4]);
    });
}

#[test]
fn a_socket_in_nonblocking_mode_says_so() {
    needs_kernel!();
    run(|| {
        let temp = Temp::new(&bytes(16 << 20));
        let (_client, server) = tcp();
        server.set_nonblocking(true).unwrap();
        let error = send_file(&File::open(&temp.0).unwrap(), 0, u64::MAX, &server).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    });
}

#[test]
fn a_peer_that_is_gone_is_an_error() {
    needs_kernel!();
    run(|| {
        let temp = Temp::new(&bytes(1 << 20));
        let file = File::open(&temp.0).unwrap();
        let (client, server) = tcp();
        drop(client);
        let fault = (0..100).find_map(|_| {
            sleep(Duration::from_millis(1));
            send_file(&file, 0, u64::MAX, &server).err()
        });
        let kind = fault.expect("it is told in the end").kind();
        assert!(
            matches!(kind, io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
            "{kind}"
        );
    });
}

#[test]
fn a_sender_is_cancelled_and_the_socket_goes_on_reading() {
    needs_kernel!();
    run(|| {
        let temp = Temp::new(&bytes(16 << 20));
        let (mut client, server) = tcp();
        let (path, to) = (temp.0.clone(), server.try_clone().unwrap());
        let sender = spawn(move || send_file(&File::open(path).unwrap(), 0, u64::MAX, &to));
        sleep(Duration::from_millis(20));
        sender.cancel();
        assert!(sender.join().unwrap_err().is::<bast::Cancelled>());
        // The other direction, of a socket that is in non-blocking mode now, waits as ever.
        let reader = spawn(move || {
            let mut five = [0; 5];
            (&server).read_exact(&mut five).unwrap();
            five
        });
        sleep(Duration::from_millis(10));
        client.write_all(b"alive").unwrap();
        assert_eq!(&reader.join().unwrap(), b"alive");
    });
}

#[test]
fn many_send_at_once() {
    needs_kernel!();
    run(|| {
        fn send(file: &File, to: &impl Socket) -> u64 {
            send_file(file, 0, u64::MAX, to).unwrap()
        }
        let data = std::sync::Arc::new(bytes(700_000));
        let temp = Temp::new(&data);
        temp.chill();
        let file = std::sync::Arc::new(File::open(&temp.0).unwrap());
        let all: Vec<_> = (0..40)
            .map(|_| {
                let (client, server) = tcp();
                let (data, file) = (data.clone(), file.clone());
                let sender = spawn(move || send(&file, &server));
                (sender, spawn(move || read_all(client) == *data))
            })
            .collect();
        for (sender, reader) in all {
            assert_eq!(sender.join().unwrap(), 700_000);
            assert!(reader.join().unwrap());
        }
    });
}

#[test]
fn what_is_in_memory_is_had_at_once() {
    needs_kernel!();
    run(|| {
        let data = bytes(10_000);
        let temp = Temp::new(&data);
        let dir = File::open(temp.0.parent().unwrap()).unwrap();
        let options = OpenOptions::new().read(true).clone();
        let file = open_beneath(&dir, temp.0.file_name().unwrap(), &options).unwrap();
        let stat = file.cached_stat().unwrap();
        let meta = file.metadata().unwrap();
        use std::os::unix::fs::MetadataExt;
        assert_eq!((stat.len, stat.modified.0, stat.inode), (10_000, meta.mtime(), meta.ino()));
        let mut some = [0; 100];
        if let Some(n) = file.read_cached_at(&mut some, 9_950).unwrap() {
            assert!(n == 50 && some[..50] == data[9_950..]);
        }
        for out in ["..", "../x", "/etc/passwd"] {
            assert!(open_beneath(&dir, out, &options).is_err(), "{out}");
        }
    });
}
