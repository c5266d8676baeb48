//! Many selects at once, with arms that lose, timeouts and cancellations at random: every message is
//! accounted for.
//!
//! Each message is counted by whoever is told that it was sent, and by whoever received it; what came back
//! or was dropped unsent is not sent. A fiber that is cancelled is so between two operations of its own,
//! as far as its books are concerned: an operation has happened or it has not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use bast_rt::JoinHandle;
use bast_sync::select::{Select, after, join, recv, send, send_from};
use bast_sync::{mpmc, select};

use super::{Alive, Random, Token, is_cancelled, on_both, on_fiber, on_thread, until};

#[derive(Default)]
struct Books {
    sent: AtomicU64,
    sent_sum: AtomicU64,
    received: AtomicU64,
    received_sum: AtomicU64,
    next: AtomicU64,
    stop: AtomicBool,
}

impl Books {
    fn got(&self, token: Token) {
        self.received.fetch_add(1, SeqCst);
        self.received_sum.fetch_add(token.id, SeqCst);
    }

    fn gave(&self, id: u64) {
        self.sent.fetch_add(1, SeqCst);
        self.sent_sum.fetch_add(id, SeqCst);
    }
}

type Ends = (mpmc::Sender<Token>, mpmc::Receiver<Token>);

/// One that selects among all, as long as it may.
fn player(channels: &[Ends; 3], books: &Books, alive: &Alive, random: &mut Random) {
    let [a, b, c] = channels;
    while !books.stop.load(SeqCst) {
        let id = books.next.fetch_add(1, SeqCst);
        match random.below(6) {
            0 => select! {
                got = recv(&a.1) => books.got(got.unwrap()),
                got = recv(&b.1) => books.got(got.unwrap()),
                sent = send(&c.0, alive.token(id)) => { sent.unwrap(); books.gave(id) }
            },
            1 => select! {
                got = recv(&c.1) => books.got(got.unwrap()),
                sent = send(&a.0, alive.token(id)) => { sent.unwrap(); books.gave(id) }
                sent = send(&b.0, alive.token(id)) => { sent.unwrap(); books.gave(id) }
            },
            2 => select! {
                got = recv(&a.1) => books.got(got.unwrap()),
                sent = send(&a.0, alive.token(id)) => { sent.unwrap(); books.gave(id) }
                () = after(Duration::from_micros(random.below(60))) => {}
            },
            3 => {
                let mut value = Some(alive.token(id));
                let mut set = Select::new();
                for (tx, rx) in [a, b, c] {
                    let _ = tx;
                    set = set.on(recv(rx), |got| books.got(got.unwrap()));
                }
                let set = set.on(send_from(&b.0, &mut value), |sent| {
                    sent.unwrap();
                    books.gave(id);
                });
                let _ = set.wait_timeout(Duration::from_micros(random.below(60)));
            }
            4 => select! {
                got = recv(&b.1) => books.got(got.unwrap()),
                sent = send(&a.0, alive.token(id)) => { sent.unwrap(); books.gave(id) }
                default => bast_rt::yield_now(),
            },
            // And without select.
            _ => match random.below(3) {
                0 => {
                    if let Ok(token) = c.1.recv_timeout(Duration::from_micros(random.below(60))) {
                        books.got(token);
                    }
                }
                1 => {
                    if c.0.try_send(alive.token(id)).is_ok() {
                        books.gave(id);
                    }
                }
                _ => {
                    let timeout = Duration::from_micros(random.below(60));
                    let sent = bast_rt::timeout(timeout, || a.0.send(alive.token(id)).unwrap());
                    if sent.is_ok() {
                        books.gave(id);
                    }
                }
            },
        }
    }
}

fn play(fibers: usize, threads: usize, cancels: usize, rounds: usize, seed: u64) {
    let (books, alive) = (Arc::new(Books::default()), Alive::default());
    let channels: [Ends; 3] = [mpmc::sync_channel(0), mpmc::sync_channel(2), mpmc::sync_channel(0)];
    let start = |seed: u64| {
        let channels = [0, 1, 2].map(|n: usize| (channels[n].0.clone(), channels[n].1.clone()));
        let (books, alive) = (Arc::clone(&books), alive.clone());
        move || player(&channels, &books, &alive, &mut Random(seed | 1))
    };
    let simulated = std::env::var("BAST_DRIVER").is_ok_and(|driver| driver == "sim");
    // All tests share the one worker of the simulator, and wait for each other there.
    let rounds = if simulated { rounds / 4 } else { rounds };
    let mut random = Random(seed);
    let mut all: Vec<JoinHandle<()>> =
        (0..fibers as u64).map(|n| bast_rt::spawn(start(seed + 2 * n))).collect();
    let plain: Vec<_> =
        (0..threads as u64).map(|n| std::thread::spawn(start(seed + 1000 + 2 * n))).collect();
    let wait = || {
        if simulated {
            // There the clock stands while anybody has something to do, and the players always may.
            (0..20).for_each(|_| bast_rt::yield_now());
        } else {
            bast_rt::sleep(Duration::from_micros(500));
        }
    };
    for round in 0..rounds {
        wait();
        for _ in 0..cancels {
            let at = random.below(all.len() as u64) as usize;
            let fiber =
                std::mem::replace(&mut all[at], bast_rt::spawn(start(seed + 5000 + round as u64)));
            fiber.cancel();
            assert!(is_cancelled(&fiber.join()));
        }
    }
    // Something has to happen first, however long the threads of the players were stopped.
    while books.received.load(SeqCst) <= rounds as u64 {
        wait();
    }
    // Let everybody go who waits: one after the other gets something, or its timeout.
    books.stop.store(true, SeqCst);
    let drain = || {
        while !all.iter().all(JoinHandle::is_finished)
            || !plain.iter().all(std::thread::JoinHandle::is_finished)
        {
            for (tx, rx) in &channels {
                if let Ok(token) = rx.try_recv() {
                    books.got(token);
                }
                let id = books.next.fetch_add(1, SeqCst);
                if tx.try_send(alive.token(id)).is_ok() {
                    books.gave(id);
                }
            }
            bast_rt::sleep(Duration::from_micros(50));
        }
    };
    drain();
    all.into_iter().for_each(|fiber| fiber.join().unwrap());
    plain.into_iter().for_each(|thread| thread.join().unwrap());
    for (tx, rx) in channels {
        drop(tx);
        rx.iter().for_each(|token| books.got(token));
    }
    let (sent, received) = (books.sent.load(SeqCst), books.received.load(SeqCst));
    // A cancelled player may have been told of a message and unwound before it wrote that down? No: what
    // was chosen is returned, and its body does not suspend before it has counted.
    assert_eq!(sent, received, "seed {seed}");
    assert_eq!(books.sent_sum.load(SeqCst), books.received_sum.load(SeqCst), "seed {seed}");
    assert_eq!(alive.count(), 0, "seed {seed}");
}

fn seed() -> u64 {
    std::env::var("BAST_TEST_SEED").map_or_else(
        |_| u64::from(std::process::id()) * 7919 + 1,
        |seed| seed.parse().expect("a number"),
    )
}

#[test]
fn many_fibers() {
    on_fiber(|| play(20, 0, 0, 200, seed()));
}

#[test]
fn cancelled_at_random() {
    on_fiber(|| play(20, 0, 2, 300, seed()));
}

#[test]
fn fibers_and_threads() {
    on_thread(|| play(10, 4, 1, 200, seed()));
}

/// The end of a fiber races with the joiner's leaving, as its other arms are chosen: the result comes once.
#[test]
fn joins_race_with_timeouts() {
    on_both(|| {
        let alive = Alive::default();
        let mut given_up = 0;
        for round in 0..2000_u64 {
            let mut random = Random(round * 77 + 1);
            let (nap, token) = (random.below(40), alive.token(round));
            let mut fiber = bast_rt::spawn(move || {
                if nap % 4 != 0 {
                    bast_rt::sleep(Duration::from_micros(nap));
                }
                token
            });
            loop {
                let result = select! {
                    ended = join(&mut fiber) => Some(ended.unwrap()),
                    () = after(Duration::from_micros(1 + random.below(40))) => None,
                };
                match result {
                    Some(token) => break assert_eq!(token.id, round),
                    None if random.below(8) == 0 => break drop(fiber),
                    None if random.below(8) == 0 => {
                        break assert_eq!(fiber.join().unwrap().id, round);
                    }
                    None => given_up += 1,
                }
            }
        }
        assert!(given_up > 0);
        until("those who were left alone have ended", || alive.count() == 0);
    });
}
