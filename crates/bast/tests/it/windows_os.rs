//! What `bast::os::windows` adds: conversions, and what Windows knows of files.

use std::io::{ErrorKind, Read, Write};
use std::os::windows::io::{AsHandle, AsRawSocket, AsSocket, OwnedHandle, OwnedSocket};
use std::time::Duration;

use bast::fs::{File, OpenOptions};
use bast::net::{TcpListener, TcpStream, UdpSocket};
use bast::os::windows::fs::{FileExt, MetadataExt, OpenOptionsExt};

use crate::fs::Temp;
use crate::harness::needs_kernel;
use crate::harness::on_bast::run;

const FILE_FLAG_OVERLAPPED: u32 = 0x4000_0000;
const FILE_ATTRIBUTE_HIDDEN: u32 = 2;

#[test]
fn sockets_there_and_back_with_their_timeouts() {
    needs_kernel!();
    run(|| {
        let limit = Some(Duration::from_secs(7));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(addr).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.set_read_timeout(limit).unwrap();
        // Used before, so that it belongs to a driver's port.
        client.write_all(b"one").unwrap();
        let raw = client.as_raw_socket();
        let mut std = std::net::TcpStream::from(client);
        assert_eq!((std.as_raw_socket(), std.read_timeout().unwrap()), (raw, limit));
        std.write_all(b"two").unwrap();
        let mut client = TcpStream::from(OwnedSocket::from(std));
        assert_eq!(client.read_timeout().unwrap(), limit);
        client.write_all(b"three").unwrap();
        let mut all = [0; 11];
        server.read_exact(&mut all).unwrap();
        assert_eq!(&all, b"onetwothree");
        // In blocking mode outside.
        let mut std = std::net::TcpStream::from(client);
        let thread = std::thread::spawn(move || {
            let mut five = [0; 5];
            std.read_exact(&mut five).map(|()| five)
        });
        bast::sleep(Duration::from_millis(20));
        server.write_all(b"hello").unwrap();
        assert_eq!(&thread.join().unwrap().unwrap(), b"hello");
        // A clone stays, and its duplicate is another.
        let clone = server.try_clone().unwrap();
        let std = std::net::TcpStream::from(server);
        assert_ne!(std.as_raw_socket(), clone.as_raw_socket());
        assert_eq!(clone.peer_addr().unwrap(), std.peer_addr().unwrap());
        let listener = TcpListener::from(std::net::TcpListener::from(listener));
        let client = bast::spawn(move || TcpStream::connect(addr).unwrap());
        listener.accept().unwrap();
        assert!(client.join().unwrap().as_socket().try_clone_to_owned().is_ok());
        let udp = std::net::UdpSocket::from(UdpSocket::bind("127.0.0.1:0").unwrap());
        udp.send_to(b"x", udp.local_addr().unwrap()).unwrap();
        assert_eq!(UdpSocket::from(udp).recv(&mut [0; 4]).unwrap(), 1);
    });
}

#[test]
fn offsets_and_options_of_files() {
    needs_kernel!();
    run(|| {
        let dir = Temp::new();
        let path = dir.join("f");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.share_mode(0).attributes(FILE_ATTRIBUTE_HIDDEN).open(&path).unwrap();
        assert!(File::open(&path).is_err(), "nobody else may have it");
        assert_eq!(file.seek_write(b"later", 10).unwrap(), 5);
        let mut five = [0; 5];
        assert_eq!(file.seek_read(&mut five, 10).unwrap(), 5);
        assert_eq!(&five, b"later");
        assert_eq!(file.seek_read(&mut five, 15).unwrap(), 0);
        let metadata = file.metadata().unwrap();
        assert_eq!(metadata.file_size(), 15);
        assert_ne!(metadata.file_attributes() & FILE_ATTRIBUTE_HIDDEN, 0);
        let std = std::fs::File::from(OwnedHandle::from(file));
        assert_eq!(File::from(std).metadata().unwrap().len(), 15);
        let error = OpenOptions::new().access_mode(0x8000_0000).open(dir.join("none")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn an_overlapped_file_is_read_at_offsets() {
    needs_kernel!();
    run(|| {
        let dir = Temp::new();
        let path = dir.join("f");
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        bast::fs::write(&path, &bytes).unwrap();
        let file = OpenOptions::new().read(true).custom_flags(FILE_FLAG_OVERLAPPED).open(&path);
        let file = file.unwrap();
        bast::scope(|s| {
            for part in 0..10_u64 {
                let (file, bytes) = (&file, &bytes);
                s.spawn(move || {
                    let mut some = [0; 1000];
                    let at = part * 10_000;
                    assert_eq!(file.seek_read(&mut some, at).unwrap(), 1000);
                    assert!(bytes[at as usize..].starts_with(&some));
                });
            }
        });
        assert_eq!(file.seek_read(&mut [0; 8], 100_000).unwrap(), 0);
    });
}

#[test]
fn pipes_are_cancelled_and_go_on() {
    needs_kernel!();
    run(|| {
        let (mut reader, mut writer) = bast::io::pipe().unwrap();
        let read = bast::timeout(Duration::from_millis(5), || reader.read(&mut [0; 8]));
        assert!(read.is_err());
        writer.write_all(b"late").unwrap();
        let mut four = [0; 4];
        reader.read_exact(&mut four).unwrap();
        assert_eq!(&four, b"late");
        // Full: a writer waits, and is cancelled as well.
        let filler = bast::timeout(Duration::from_millis(50), || writer.write_all(&[7; 1 << 20]));
        assert!(filler.is_err());
        assert!(reader.as_handle().try_clone_to_owned().is_ok());
        drop(writer);
        assert!(reader.read_to_end(&mut Vec::new()).unwrap() < 1 << 20);
        let (reader, mut writer) = bast::io::pipe().unwrap();
        drop(reader);
        assert_eq!(writer.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}
