//! `io::copy` under cancellation, and by fibers that share one worker.

use std::io::{Read, Write};
use std::time::Duration;

use bast::net::{Shutdown, TcpListener, TcpStream};

use crate::fs::Temp;
use crate::harness::needs_kernel;
use crate::harness::on_bast::run;

fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
    (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0)
}

#[test]
fn cancelled_anywhere_it_ends_and_what_has_arrived_is_a_prefix() {
    run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for round in 0..30_u64 {
            let (mut feed, from) = pair(&listener);
            let (end, to) = pair(&listener);
            let feeder = bast::spawn(move || {
                let data: Vec<u8> = (0..300_000_u32).map(|n| (n / 251) as u8).collect();
                let _ = feed.write_all(&data).and_then(|()| feed.shutdown(Shutdown::Write));
            });
            let copying = bast::spawn(move || bast::io::copy(&mut &from, &mut &to));
            let reader = bast::spawn(move || {
                let (mut all, mut part) = (Vec::new(), [0; 3000]);
                while let Ok(n @ 1..) = (&end).read(&mut part) {
                    all.extend_from_slice(&part[..n]);
                }
                all
            });
            bast::sleep(Duration::from_micros(round * 30));
            copying.cancel();
            match copying.join() {
                Ok(copied) => assert_eq!(copied.unwrap(), 300_000),
                Err(payload) => assert!(payload.is::<bast::Cancelled>()),
            }
            feeder.join().unwrap();
            let all = reader.join().unwrap();
            assert!(all.iter().zip(0u32..).all(|(byte, n)| *byte == (n / 251) as u8));
        }
    });
}

#[test]
fn a_copy_that_waits_holds_up_nobody() {
    let runtime = bast::Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut feed, from) = pair(&listener);
        let (mut end, to) = pair(&listener);
        let copying = bast::spawn(move || bast::io::copy(&mut &from, &mut &to).unwrap());
        // A stream first, so that it splices; then silence; then messages; nobody reads for a while.
        let feeder = bast::spawn(move || {
            feed.write_all(&[1; 2_000_000]).unwrap();
            for _ in 0..10 {
                bast::sleep(Duration::from_millis(1));
                feed.write_all(&[2; 100]).unwrap();
            }
        });
        bast::sleep(Duration::from_millis(20));
        let mut all = Vec::new();
        end.read_to_end(&mut all).unwrap();
        feeder.join().unwrap();
        assert_eq!(copying.join().unwrap(), 2_001_000);
        assert!(all.len() == 2_001_000 && all[1_999_999..2_000_001] == [1, 2]);
    });
}

#[test]
fn from_plain_threads_and_back() {
    needs_kernel!();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut feed, first) = pair(&listener);
    let (second, third) = pair(&listener);
    let (mut end, last) = pair(&listener);
    let data: Vec<u8> = (0..400_000_u32).map(|n| (n / 253) as u8).collect();
    let expected = data.clone();
    // A thread copies to a fiber, and that to a thread; the timeout has the thread poll.
    first.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
    let thread = std::thread::spawn(move || bast::io::copy(&mut &first, &mut &second).unwrap());
    let fiber = bast::spawn(move || bast::io::copy(&mut &third, &mut &last).unwrap());
    let feeder = std::thread::spawn(move || feed.write_all(&data).unwrap());
    let mut all = Vec::new();
    end.read_to_end(&mut all).unwrap();
    feeder.join().unwrap();
    assert_eq!((thread.join().unwrap(), fiber.join().unwrap()), (400_000, 400_000));
    assert!(all == expected);
}

#[test]
fn a_spliced_socket_given_to_std_blocks() {
    needs_kernel!();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut feed, from) = pair(&listener);
    let (end, to) = pair(&listener);
    let reader = std::thread::spawn(move || (&end).read_exact(&mut vec![0; 500_000]).map(|()| end));
    let writer = std::thread::spawn(move || feed.write_all(&[1; 500_000]).map(|()| feed));
    let copied = bast::spawn(move || {
        bast::io::copy(&mut (&from).take(500_000), &mut &to).unwrap();
        from
    });
    let (from, mut feed) = (copied.join().unwrap(), writer.join().unwrap().unwrap());
    reader.join().unwrap().unwrap();
    let mut std = std::net::TcpStream::from(from);
    let waiting = std::thread::spawn(move || {
        let mut byte = [0];
        std.read_exact(&mut byte).map(|()| byte)
    });
    std::thread::sleep(Duration::from_millis(30));
    feed.write_all(b"!").unwrap();
    assert_eq!(&waiting.join().unwrap().unwrap(), b"!");
}

#[test]
fn a_great_file_can_be_given_up() {
    needs_kernel!();
    let dir = Temp::new();
    let (from, to) = (dir.join("from"), dir.join("to"));
    std::fs::File::create(&from).unwrap().set_len(1 << 40).unwrap();
    let copying = bast::spawn({
        let (from, to) = (from.clone(), to.clone());
        move || {
            // Not `fs::copy`, which may be done at once where blocks are shared.
            let mut to = bast::fs::OpenOptions::new().append(true).create(true).open(to).unwrap();
            let mut from = bast::fs::File::open(from).unwrap();
            bast::timeout(Duration::from_millis(30), || bast::io::copy(&mut from, &mut to))
        }
    });
    let outcome = copying.join().unwrap();
    // The time was up; or the disk was full before.
    assert!(outcome.is_err() || outcome.unwrap().is_err());
    assert!(std::fs::metadata(to).unwrap().len() < 1 << 40);
}
