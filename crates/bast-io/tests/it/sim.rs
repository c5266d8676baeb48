//! The simulator's own promises: the same seed gives the same run, another seed another one, time is
//! virtual, and whatever the seed, the contract holds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bast_io::{DriverKind, Handle, Kind, Op, SockAddr, Wait, c};

use crate::harness::{Dice, PATIENCE, Rig, errno, is_wanted, rounds, sock, watched};

fn rig(seed: u64) -> Rig {
    Rig::seeded(DriverKind::Sim, seed).expect("the simulator is always there")
}

/// A small busy world; what happened in it, in order, with times.
fn run(seed: u64, length: usize) -> Vec<(u64, usize, i32)> {
    let mut rig = rig(seed);
    // The program's own choices are the same in every run.
    let mut dice = Dice::new(99);
    let mut trace = Vec::new();
    let first = {
        let (probe, _) = rig.listener(1);
        probe.as_ref().raw()
    };
    let (listener, addr) = rig.listener(4);
    let clients: Vec<_> = (0..6).map(|_| rig.socket(c::SOCK_STREAM)).collect();
    let connects: Vec<_> = clients.iter().map(|c| rig.start_connect(c, addr)).collect();
    let servers: Vec<_> = (0..6).map(|_| rig.accept(&listener)).collect();
    for ticket in connects {
        assert_eq!(rig.wait(ticket).0, 0);
        trace.push((rig.now(), 0, 0));
    }
    // They arrive in the order of the dice: which client is at the other end of each?
    let names: Vec<_> = clients.iter().map(|c| rig.name(c, false).expect("a name")).collect();
    let peers: Vec<_> = servers
        .iter()
        .map(|s| rig.name(s, true).expect("a peer"))
        .map(|peer| names.iter().position(|&name| name == peer).expect("one of the clients"))
        .collect();
    // What each has sent and received: every byte counted.
    let mut sent: BTreeMap<usize, u64> = BTreeMap::new();
    let mut open = Vec::new();
    let mut got = [0_u64; 6];
    for step in 0..length {
        let who = dice.below(6) as usize;
        // One reader at a time for each connection, so that the order of the bytes is known.
        if !open.iter().any(|&(_, other)| other == who) {
            let ask = 1 + dice.below(3_000) as usize;
            open.push((rig.start_recv(servers[who].as_ref(), ask, 0), who));
        }
        if sent.get(&who).copied().unwrap_or(0) < got[who] + 3_000 {
            let already = sent.get(&who).copied().unwrap_or(0);
            let bytes: Vec<u8> = (0..dice.below(2_000)).map(|i| (already + i) as u8).collect();
            let ticket = rig.start_send(clients[peers[who]].as_ref(), &bytes);
            let n = rig.wait(ticket).into_result().expect("there is room");
            trace.push((rig.now(), step, n as i32));
            *sent.entry(who).or_default() += n as u64;
        }
        if dice.below(5) == 0
            && let Some(&(ticket, _)) = open.first()
        {
            rig.cancel(ticket);
        }
        match dice.below(3) {
            0 => rig.poll(Wait::No),
            1 => rig.poll(Wait::AtMost(Duration::from_micros(dice.below(300)))),
            _ => {}
        }
        let (ready, waiting): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|&(ticket, _)| rig.peek(ticket).is_some());
        open = waiting;
        for (ticket, who) in ready {
            match rig.received(ticket) {
                Ok(bytes) => {
                    for byte in &bytes {
                        assert_eq!(*byte, got[who] as u8, "lost or doubled, seed {seed}");
                        got[who] += 1;
                    }
                    trace.push((rig.now(), step, bytes.len() as i32));
                }
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(c::ECANCELED), "seed {seed}");
                    trace.push((rig.now(), step, -c::ECANCELED));
                }
            }
        }
    }
    for &(ticket, _) in &open {
        rig.cancel(ticket);
    }
    for (ticket, who) in open {
        if let Ok(bytes) = rig.received(ticket) {
            got[who] += bytes.len() as u64;
        }
    }
    drop(clients);
    for (who, server) in servers.iter().enumerate() {
        got[who] += rig.recv_exact(server, 1 << 20).len() as u64;
        assert_eq!(got[who], sent.get(&who).copied().unwrap_or(0), "seed {seed}");
        trace.push((rig.now(), who, servers[who].as_ref().raw() - first));
    }
    assert_eq!(rig.pending(), 0, "seed {seed}");
    trace
}

#[test]
fn the_same_seed_gives_the_same_run() {
    if !is_wanted(DriverKind::Sim) {
        return;
    }
    watched("sim", PATIENCE, || {
        let mut runs = Vec::new();
        let seeds = (rounds(20_000) as u64 / 1_000).max(2);
        for seed in 0..seeds {
            let one = run(seed, 300);
            assert_eq!(one, run(seed, 300), "seed {seed}");
            // From another thread too.
            let there = std::thread::spawn(move || run(seed, 300)).join().expect("the other run");
            assert_eq!(one, there, "seed {seed}");
            runs.push(one);
        }
        runs.sort();
        runs.dedup();
        assert_eq!(runs.len() as u64, seeds, "different seeds give different runs");
    });
}

#[test]
fn every_seed_keeps_the_contract() {
    if !is_wanted(DriverKind::Sim) {
        return;
    }
    watched("sim", PATIENCE, || {
        let mut total = 0;
        for seed in 1_000..1_000 + rounds(20_000) as u64 / 60 {
            total += run(seed, 60).len();
        }
        println!("{total} events");
    });
}

#[test]
fn time_is_virtual() {
    if !is_wanted(DriverKind::Sim) {
        return;
    }
    watched("sim", PATIENCE, || {
        let mut rig = rig(1);
        let real = Instant::now();
        let before = rig.now();
        rig.poll(Wait::AtMost(Duration::from_secs(86_400)));
        assert_eq!(rig.now() - before, 86_400_000_000_000);
        // Polling without waiting takes time too, or a program that only polls would stop the clock.
        let before = rig.now();
        (0..100).for_each(|_| rig.poll(Wait::No));
        assert!(rig.now() > before && rig.now() - before < 1_000_000);
        // A wake ends the poll before the clock jumps.
        rig.driver().waker().wake();
        let before = rig.now();
        rig.poll(Wait::AtMost(Duration::from_secs(5)));
        assert!(rig.now() - before < 10_000);
        assert!(real.elapsed() < Duration::from_secs(30));
    });
}

#[test]
fn retrying_brings_what_is_under_way() {
    if !is_wanted(DriverKind::Sim) {
        return;
    }
    watched("sim", PATIENCE, || {
        for seed in 0..20 {
            let mut rig = rig(seed);
            let (a, b) = rig.pair();
            let sent = rig.start_send(b.as_ref(), b"x");
            assert_eq!(rig.wait(sent).0, 1);
            // Each try ends at once, so no poll ever has to wait, and each says that it would.
            let arrived = (0..100_000).any(|_| {
                let ticket = rig.start_recv(a.as_ref(), 1, c::MSG_DONTWAIT);
                while rig.peek(ticket).is_none() {
                    rig.poll(Wait::Forever);
                }
                rig.received(ticket).is_ok_and(|bytes| bytes == b"x")
            });
            assert!(arrived, "seed {seed}");
        }
    });
}

#[test]
fn a_full_backlog_times_out() {
    if !is_wanted(DriverKind::Sim) {
        return;
    }
    watched("sim", PATIENCE, || {
        let mut rig = rig(3);
        let (_listener, addr) = rig.listener(1);
        let _first = rig.connect(addr).expect("connected");
        let before = rig.now();
        assert_eq!(errno(rig.connect(addr)), c::ETIMEDOUT);
        assert!(rig.now() - before > 60_000_000_000, "a minute and more, as in a kernel");
    });
}

#[test]
fn forever_sleeps_until_another_thread_helps() {
    if !is_wanted(DriverKind::Sim) {
        return;
    }
    watched("sim", PATIENCE, || {
        let mut rig = rig(5);
        let (a, b) = rig.pair();
        let waiting = rig.start_recv(a.as_ref(), 1, 0);
        assert!(rig.is_stuck(waiting));
        let cpu = cpu_time();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            // Closing from another thread is an event of this world.
            drop(b);
        });
        assert_eq!(rig.received(waiting).expect("the end"), b"");
        assert!(cpu_time() - cpu < Duration::from_millis(200), "it spun");
        thread.join().expect("the other thread");
    });
}

/// Processor time of this thread.
#[cfg(windows)]
fn cpu_time() -> Duration {
    use windows_sys::Win32::System::Threading::{GetCurrentThread, GetThreadTimes};
    // SAFETY: plain data.
    let mut times: [windows_sys::Win32::Foundation::FILETIME; 4] = unsafe { std::mem::zeroed() };
    let [begun, ended, kernel, user] = times.each_mut().map(std::ptr::from_mut);
    // SAFETY: room for four times.
    assert_ne!(unsafe { GetThreadTimes(GetCurrentThread(), begun, ended, kernel, user) }, 0);
    let hundreds =
        |i: usize| (u64::from(times[i].dwHighDateTime) << 32) | u64::from(times[i].dwLowDateTime);
    Duration::from_nanos(100 * (hundreds(2) + hundreds(3)))
}

/// Processor time of this thread.
#[cfg(unix)]
fn cpu_time() -> Duration {
    let mut time = c::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: plain data.
    unsafe { c::clock_gettime(c::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn worlds_are_apart() {
    if !is_wanted(DriverKind::Sim) {
        return;
    }
    watched("sim", PATIENCE, || {
        let (mut one, mut two) = (rig(1), rig(1));
        let (a, b) = one.pair();
        assert!(a.is_simulated());
        // Another world's descriptors, and a kernel's, are nobody's here.
        let ticket = two.start_recv(a.as_ref(), 1, 0);
        assert_eq!(errno(two.received(ticket)), c::EBADF);
        let real = Handle::from_owned(
            std::net::UdpSocket::bind("127.0.0.1:0").expect("bound").into(),
            Kind::Datagram,
        );
        let ticket = two.start_recv(real.as_ref(), 1, 0);
        assert_eq!(errno(two.received(ticket)), c::EBADF);
        // The same port in both.
        let (listener, addr) = one.listener(1);
        let socket = two.socket(c::SOCK_STREAM);
        two.bind(&socket, &addr.to_string()).expect("free in this world");
        drop((listener, socket));
        // Descriptors may outlive their driver; their numbers are not given to another world.
        drop(one);
        let three = rig(2).listener(1).0;
        assert_ne!(three.as_ref().raw() >> 22, a.as_ref().raw() >> 22);
        drop((a, b));
    });
}

#[test]
fn worlds_end_with_their_descriptors() {
    if !is_wanted(DriverKind::Sim) {
        return;
    }
    watched("sim", PATIENCE, || {
        // There can be 256 worlds at once: a thousand of them one after another are possible only if
        // what an operation made for nobody is closed with its driver (contract io 2).
        for seed in 0..1_000 {
            let mut rig = rig(seed);
            let (listener, addr) = rig.listener(1);
            let client = rig.connect(addr).expect("connected");
            // Accepted or not, collected or not.
            let ticket = rig.start_accept(&listener);
            if rig.peek(ticket).is_none() {
                rig.cancel(ticket);
            }
            drop((listener, client));
            let op = Op::Open { path: c"x".as_ptr(), flags: c::O_CREAT, mode: 0 };
            let _ = rig.start(op);
        }
    });
}

#[test]
fn closing_under_an_operation_cancels_it() {
    if !is_wanted(DriverKind::Sim) {
        return;
    }
    watched("sim", PATIENCE, || {
        for seed in 0..50 {
            let mut rig = rig(seed);
            let (a, b) = rig.pair();
            let waiting = rig.start_recv(a.as_ref(), 1, 0);
            rig.settle();
            drop(a);
            // The number is used again at once; the operation is not confused by it.
            let (c, d) = rig.pair();
            rig.send_all(&d, b"x");
            assert_eq!(errno(rig.received(waiting)), c::ECANCELED);
            assert_eq!(rig.recv(&c, 1).expect("received"), b"x");
            drop(b);
        }
    });
}

#[test]
fn what_it_does_not_have_is_refused() {
    if !is_wanted(DriverKind::Sim) {
        return;
    }
    watched("sim", PATIENCE, || {
        let mut rig = rig(1);
        let unix = Op::Socket { domain: c::AF_UNIX, kind: c::SOCK_STREAM, protocol: 0 };
        assert!(rig.run(unix).is_errno(c::EAFNOSUPPORT));
        let (a, b) = rig.pair();
        let op = Op::Splice {
            from: a.as_ref(),
            from_offset: None,
            to: b.as_ref(),
            to_offset: None,
            len: 1,
        };
        assert!(rig.run(op).is_errno(c::EINVAL));
        // Version 6 works as version 4 does.
        let op = Op::Socket { domain: c::AF_INET6, kind: c::SOCK_STREAM, protocol: 0 };
        let fd = rig.run(op).into_result().expect("a socket") as i32;
        // SAFETY: it was made for us.
        let six = unsafe { Handle::from_raw(fd, Kind::Stream) };
        let addr: SockAddr = sock("[::1]:80".parse().expect("an address"));
        assert_eq!(rig.run(Op::Bind { handle: six.as_ref(), addr: &raw const addr }).0, 0);
        assert_eq!(rig.name(&six, false).expect("a name").to_string(), "[::1]:80");
    });
}
