//! Cancels that race with completions, over and over: exactly one completion each (the harness
//! checks that), no byte lost or doubled, no descriptor leaked.
//!
//! `BAST_ROUNDS=1000000` for a longer run.

use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bast_io::{Handle, HandleRef, Interest, Kind, Op, Wait, c};

use crate::harness::{Dice, Rig, in_child, open_descriptors, path, rounds, seed};

on_every_driver!(recv, several_readers, send, accept, connect, files, opens);

/// Polls as the dice say: not at all, without waiting, or for a moment.
fn dawdle(rig: &mut Rig, dice: &mut Dice) {
    match dice.below(6) {
        0 => rig.poll(Wait::No),
        1 => rig.poll(Wait::AtMost(std::time::Duration::from_micros(20))),
        2 => (0..dice.below(200)).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

/// The bytes of one direction, as counted by both ends.
struct Count {
    next: u8,
}

impl Count {
    fn check(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            assert_eq!(byte, self.next, "a byte was lost, doubled or out of order");
            self.next = self.next.wrapping_add(1);
        }
    }
}

fn recv(rig: &mut Rig) {
    race_readers(rig, 1);
}

/// They are served in the order in which they came, whoever of them is cancelled.
fn several_readers(rig: &mut Rig) {
    race_readers(rig, 3);
}

fn race_readers(rig: &mut Rig, most: u64) {
    let mut dice = Dice::new(seed());
    let (a, b) = rig.pair();
    let mut expected = Count { next: 0 };
    let (mut sent, mut cancelled, mut received) = (0_u64, 0, 0_u64);
    let mut open = VecDeque::new();
    for _ in 0..rounds(20_000) {
        // Some readers, a sender before, between and after, a cancel of any of them.
        while open.len() < 1 + dice.below(most) as usize {
            open.push_back(rig.start_recv(a.as_ref(), 1 + dice.below(3) as usize, 0));
        }
        dawdle(rig, &mut dice);
        let ahead = sent - received;
        if ahead < 64 && dice.below(2) == 0 {
            let bytes: Vec<u8> = (0..1 + dice.below(4)).map(|i| (sent + i) as u8).collect();
            sent += rig.send(&b, &bytes).expect("sent") as u64;
        }
        dawdle(rig, &mut dice);
        if dice.below(2) == 0 {
            let victim = open[dice.below(open.len() as u64) as usize];
            rig.cancel(victim);
            if dice.below(4) == 0 {
                rig.cancel(victim);
            }
        }
        dawdle(rig, &mut dice);
        // In the order of the readers, which is the order of the bytes.
        while let Some(&first) = open.front() {
            if rig.peek(first).is_none() {
                break;
            }
            open.pop_front();
            match rig.received(first) {
                Ok(bytes) => {
                    received += bytes.len() as u64;
                    expected.check(&bytes);
                }
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(c::ECANCELED));
                    cancelled += 1;
                }
            }
        }
    }
    // Whoever still waits is cancelled; the rest of the bytes is there.
    for &ticket in &open {
        rig.cancel(ticket);
    }
    for ticket in open {
        match rig.received(ticket) {
            Ok(bytes) => {
                received += bytes.len() as u64;
                expected.check(&bytes);
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(c::ECANCELED)),
        }
    }
    drop(b);
    let rest = rig.recv_exact(&a, usize::from(u16::MAX));
    expected.check(&rest);
    assert_eq!(received + rest.len() as u64, sent);
    assert_eq!(rig.pending(), 0);
    println!("{cancelled} cancelled, {received} bytes received");
    assert!(cancelled > 0 && received > 0, "the race was never a race");
}

fn accept(rig: &mut Rig) {
    // Counting descriptors needs a process without other tests.
    if crate::harness::in_child(&crate::harness::path("race", rig, "accept")) {
        return;
    }
    let mut dice = Dice::new(seed());
    let (listener, addr) = rig.listener(128);
    let before = open_descriptors();
    let (mut accepted, mut cancelled) = (0, 0);
    let rounds = rounds(20_000) / 10;
    let mut connected = 0;
    for _ in 0..rounds {
        let ticket = rig.start_accept(&listener);
        dawdle(rig, &mut dice);
        let client = if dice.below(2) == 0 {
            connected += 1;
            Some(rig.connect(addr).expect("connected"))
        } else {
            None
        };
        dawdle(rig, &mut dice);
        rig.cancel(ticket);
        dawdle(rig, &mut dice);
        match rig.wait(ticket).into_result() {
            Ok(fd) => {
                accepted += 1;
                // SAFETY: it was made for us.
                drop(unsafe { Handle::from_raw(fd as i32, Kind::Stream) });
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(c::ECANCELED));
                cancelled += 1;
                // Nobody is left in the queue for the next round.
                if client.is_some() {
                    drop(rig.accept(&listener));
                    accepted += 1;
                }
            }
        }
    }
    assert_eq!(accepted, connected);
    println!("{accepted} accepted, {cancelled} cancelled");
    rig.settle();
    assert_eq!(open_descriptors(), before, "descriptors leaked");
    assert_eq!(rig.pending(), 0);
}

fn send(rig: &mut Rig) {
    // Sends that block, are cancelled while the peer makes room, and say how much they sent.
    let mut dice = Dice::new(seed());
    let (a, b) = rig.pair();
    let buffer = 8192_i32;
    let opt = bast_io::SockOpt { level: c::SOL_SOCKET, name: c::SO_SNDBUF };
    let value = (&raw const buffer).cast();
    let _ = rig.run(Op::SetOpt { handle: a.as_ref(), opt, value, len: 4 });
    // A simulated connection holds 64 KiB at most, and runs under several seeds.
    let most = if rig.is_sim() { 10_000 } else { 100_000 };
    let (mut sent, mut cancelled) = (0_usize, 0);
    let mut expected = Count { next: 0 };
    for _ in 0..rounds(20_000) / 10 {
        let size = 1 + dice.below(most) as usize;
        let bytes: Vec<u8> = (0..size).map(|i| (sent + i) as u8).collect();
        let ticket = rig.start_send(a.as_ref(), &bytes);
        dawdle(rig, &mut dice);
        if dice.below(2) == 0 {
            let reading = rig.start_recv(b.as_ref(), 1 + dice.below(60_000) as usize, 0);
            dawdle(rig, &mut dice);
            rig.cancel(ticket);
            rig.cancel(reading);
            if let Ok(bytes) = rig.received(reading) {
                expected.check(&bytes);
            }
        } else {
            rig.cancel(ticket);
        }
        match rig.wait(ticket).into_result() {
            Ok(n) => {
                assert!(n <= size);
                sent += n;
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(c::ECANCELED));
                cancelled += 1;
            }
        }
    }
    drop(a);
    loop {
        let bytes = rig.recv(&b, 64 << 10).expect("received");
        expected.check(&bytes);
        if bytes.is_empty() {
            break;
        }
    }
    assert_eq!(expected.next, sent as u8, "reported as sent and received differ");
    println!("{cancelled} cancelled, {sent} bytes sent");
    assert!(sent > 0 && cancelled > 0, "the race was never a race");
}

fn connect(rig: &mut Rig) {
    if in_child(&path("race", rig, "connect")) {
        return;
    }
    let mut dice = Dice::new(seed());
    let (listener, addr) = rig.listener(128);
    let before = open_descriptors();
    let (mut connected, mut cancelled) = (0, 0);
    for _ in 0..rounds(20_000) / 20 {
        let socket = rig.socket(c::SOCK_STREAM);
        let ticket = rig.start_connect(&socket, addr);
        dawdle(rig, &mut dice);
        rig.cancel(ticket);
        match rig.wait(ticket).into_result() {
            Ok(_) => {
                connected += 1;
                rig.send_all(&socket, b"x");
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(c::ECANCELED));
                cancelled += 1;
            }
        }
        drop(socket);
        // Empty the queue: what was cancelled may have been connected all the same.
        loop {
            let ticket = rig.start_accept(&listener);
            rig.settle();
            rig.cancel(ticket);
            match rig.wait(ticket).into_result() {
                // SAFETY: it was made for us.
                Ok(fd) => drop(unsafe { Handle::from_raw(fd as i32, Kind::Stream) }),
                Err(_) => break,
            }
        }
    }
    println!("{connected} connected, {cancelled} cancelled");
    assert_eq!(open_descriptors(), before, "descriptors leaked");
}

fn files(rig: &mut Rig) {
    // On the pool or in the ring: a cancelled write has either happened in full or not at all.
    let mut dice = Dice::new(seed());
    let temp = crate::files::Temp::new(rig, "race");
    let file = temp.open(rig, c::O_CREAT | c::O_RDWR | c::O_TRUNC).expect("created");
    let mut now = [0_u8; 16];
    crate::files::write_all(rig, &file, &now, Some(0));
    let mut cancelled = 0;
    for round in 0..rounds(20_000) as u64 / 10 {
        let place = (round % 16) as usize;
        let write = rig.start_write(file.as_ref(), &[round as u8], Some(place as u64));
        dawdle(rig, &mut dice);
        rig.cancel(write);
        match rig.wait(write).into_result() {
            Ok(1) => now[place] = round as u8,
            Ok(n) => panic!("{n} of 1 byte written"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(c::ECANCELED));
                cancelled += 1;
            }
        }
        let read = rig.start_read(file.as_ref(), 16, Some(0));
        if dice.below(4) == 0 {
            rig.cancel(read);
        }
        match rig.received(read) {
            Ok(bytes) => assert_eq!(bytes, now[..bytes.len()]),
            Err(error) => assert_eq!(error.raw_os_error(), Some(c::ECANCELED)),
        }
    }
    println!("{cancelled} cancelled");
}

fn opens(rig: &mut Rig) {
    if in_child(&path("race", rig, "opens")) {
        return;
    }
    // Descriptors that are made while nobody wants them any more.
    let mut dice = Dice::new(seed());
    let temp = crate::files::Temp::new(rig, "opens");
    drop(temp.open(rig, c::O_CREAT | c::O_RDWR).expect("created"));
    let before = open_descriptors();
    let (mut opened, mut cancelled) = (0, 0);
    for _ in 0..rounds(20_000) / 10 {
        let (first, second) = (temp.start_open(rig), temp.start_open(rig));
        dawdle(rig, &mut dice);
        rig.cancel(second);
        rig.cancel(first);
        for ticket in [first, second] {
            match rig.wait(ticket).into_result() {
                Ok(fd) => {
                    opened += 1;
                    // SAFETY: it was made for us.
                    drop(unsafe { Handle::from_raw(fd as i32, Kind::File) });
                }
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(c::ECANCELED));
                    cancelled += 1;
                }
            }
        }
    }
    println!("{opened} opened, {cancelled} cancelled");
    assert_eq!(open_descriptors(), before, "descriptors leaked");
}

/// Races with another thread.
mod threads {
    use super::*;

    on_real_drivers!(recv, poll);

    fn recv(rig: &mut Rig) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let mut sender =
            TcpStream::connect(listener.local_addr().expect("a name")).expect("connected");
        let (receiver, _) = listener.accept().expect("accepted");
        let a = Handle::from_owned(receiver.into(), Kind::Stream);
        let goal = rounds(20_000);
        let mut dice = Dice::new(seed());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        sender.set_nodelay(true).expect("no delay");
        let thread = std::thread::spawn(move || {
            let mut dice = Dice::new(77);
            let mut next = 0_u8;
            let mut sent = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                sender.write_all(&[next]).expect("sent");
                next = next.wrapping_add(1);
                sent += 1;
                (0..dice.below(3_000)).for_each(|_| std::hint::spin_loop());
            }
            sent
        });
        let mut expected = Count { next: 0 };
        let (mut cancelled, mut received) = (0, 0_u64);
        for _ in 0..goal {
            let ticket = rig.start_recv(a.as_ref(), 1 + dice.below(4) as usize, 0);
            dawdle(rig, &mut dice);
            rig.cancel(ticket);
            match rig.received(ticket) {
                Ok(bytes) => {
                    expected.check(&bytes);
                    received += bytes.len() as u64;
                }
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(c::ECANCELED));
                    cancelled += 1;
                    // Let some data come, so that the next one is a race again.
                    if dice.below(2) == 0 {
                        let bytes = rig.recv(&a, 64).expect("received");
                        expected.check(&bytes);
                        received += bytes.len() as u64;
                    }
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        let mut rest = 0;
        loop {
            let bytes = rig.recv(&a, 4096).expect("received");
            expected.check(&bytes);
            rest += bytes.len() as u64;
            if bytes.is_empty() {
                break;
            }
        }
        assert_eq!(received + rest, thread.join().expect("the sender"));
        println!("{cancelled} cancelled, {received} bytes received");
    }

    #[cfg(windows)]
    fn poll(rig: &mut Rig) {
        use std::os::windows::io::AsSocket;

        let here = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
        let there = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
        let to = here.local_addr().expect("a name");
        here.set_nonblocking(true).expect("a mode");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut dice = Dice::new(78);
            while !stopped.load(Ordering::Relaxed) {
                let _ = there.send_to(b"x", to);
                (0..dice.below(5_000)).for_each(|_| std::hint::spin_loop());
            }
        });
        let mut dice = Dice::new(seed());
        let (mut ready, mut cancelled) = (0, 0);
        // (The other thread may begin late.)
        while ready == 0 || ready + cancelled < rounds(20_000) {
            let handle = HandleRef::foreign(here.as_socket());
            let ticket = rig.start(Op::Poll { handle, interest: Interest::Readable });
            dawdle(rig, &mut dice);
            rig.cancel(ticket);
            let outcome = rig.wait(ticket);
            if outcome.0 == 0 {
                ready += 1;
                // All that is there, so that the next one may wait.
                here.recv(&mut [0; 8]).expect("it was said to be readable");
                while here.recv(&mut [0; 8]).is_ok() {}
            } else {
                assert!(outcome.is_errno(c::ECANCELED), "{outcome:?}");
                cancelled += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        thread.join().expect("the writer");
        println!("{ready} ready, {cancelled} cancelled");
    }

    #[cfg(unix)]
    fn poll(rig: &mut Rig) {
        use std::io::Read;
        use std::os::fd::AsFd;
        use std::os::unix::net::UnixStream;

        let (mut fd, mut other) = UnixStream::pair().expect("a pair");
        fd.set_nonblocking(true).and(other.set_nonblocking(true)).expect("a mode");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut dice = Dice::new(78);
            while !stopped.load(Ordering::Relaxed) {
                // What has not been read is enough, once there is no room.
                let _ = other.write(b"x");
                (0..dice.below(5_000)).for_each(|_| std::hint::spin_loop());
            }
        });
        let mut dice = Dice::new(seed());
        let (mut ready, mut cancelled) = (0, 0);
        // (The other thread may begin late.)
        while ready == 0 || ready + cancelled < rounds(20_000) {
            let handle = HandleRef::foreign(fd.as_fd());
            let ticket = rig.start(Op::Poll { handle, interest: Interest::Readable });
            dawdle(rig, &mut dice);
            rig.cancel(ticket);
            let outcome = rig.wait(ticket);
            if outcome.0 == 0 {
                ready += 1;
                let n = fd.read(&mut [0; 4096]);
                assert!(n.is_ok(), "it was said to be readable, and nobody else reads it");
            } else {
                assert!(outcome.is_errno(c::ECANCELED), "{outcome:?}");
                cancelled += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        thread.join().expect("the writer");
        println!("{ready} ready, {cancelled} cancelled");
    }
}
