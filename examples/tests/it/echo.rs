//! `echo` over real sockets.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;

use crate::process::{DRIVERS, Server};

#[test]
fn everything_comes_back() {
    const LENGTH: usize = 3_000_001;
    const CLIENTS: usize = 10;
    for driver in DRIVERS {
        let server = Server::echo(driver, &[]);
        let sent: Vec<u8> = (0..LENGTH).map(|n| (n * n / 255) as u8).collect();
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let (stream, sent) = (server.connect(), &sent);
                scope.spawn(move || {
                    let writing = scope.spawn({
                        let mut writer = stream.try_clone().unwrap();
                        move || {
                            writer.write_all(sent).unwrap();
                            writer.shutdown(Shutdown::Write).unwrap();
                        }
                    });
                    let mut back = Vec::new();
                    (&stream).read_to_end(&mut back).unwrap();
                    writing.join().unwrap();
                    assert!(&back == sent, "{driver}: {} bytes came back", back.len());
                });
            }
        });
        let (connections, bytes, complaints) = server.stop();
        assert_eq!((connections, bytes), (CLIENTS as u64, (CLIENTS * LENGTH) as u64));
        assert_eq!(complaints, Vec::<String>::new());
    }
}
