//! A wake from another thread before, during or after a wait: it ends that wait or the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bast_io::Wait;

use crate::harness::{Dice, Rig, rounds, seed};

on_every_driver!(before, during, does_not_linger, ping_pong, from_many_threads);

fn before(rig: &mut Rig) {
    let waker = rig.driver().waker();
    for _ in 0..100 {
        waker.wake();
        // The watchdog sees to it that this returns.
        rig.poll(Wait::Forever);
    }
}

fn during(rig: &mut Rig) {
    let waker = rig.driver().waker();
    for ms in [1, 5, 30] {
        let waker = waker.clone();
        let told = Arc::new(AtomicUsize::new(0));
        let tell = Arc::clone(&told);
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(ms));
            tell.store(1, Ordering::Release);
            waker.wake();
        });
        // A wait may end early, but the wake must not be missed.
        while told.load(Ordering::Acquire) == 0 {
            rig.poll(Wait::Forever);
        }
        thread.join().expect("the waker");
    }
}

fn does_not_linger(rig: &mut Rig) {
    // However many wakes came while nobody waited: they end a wait or two, not a thousand.
    let waker = rig.driver().waker();
    for _ in 0..1_000 {
        waker.wake();
    }
    rig.poll(Wait::No);
    rig.poll(Wait::No);
    let start = rig.now();
    for _ in 0..3 {
        rig.poll(Wait::AtMost(Duration::from_millis(20)));
    }
    assert!(rig.now() - start >= 18_000_000, "woken by wakes of the past");
}

fn ping_pong(rig: &mut Rig) {
    // The simulator runs this under several seeds.
    let goal = rounds(if rig.is_sim() { 25_000 } else { 100_000 });
    let (asked, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let waker = rig.driver().waker();
    let (ask, answer) = (Arc::clone(&asked), Arc::clone(&answered));
    let thread = std::thread::spawn(move || {
        let mut dice = Dice::new(5);
        for round in 1..=goal {
            ask.store(round, Ordering::Release);
            waker.wake();
            if dice.below(8) == 0 {
                waker.wake();
            }
            // Wait for the answer; one core may have to run both.
            let mut spins = 0_u32;
            while answer.load(Ordering::Acquire) < round {
                spins += 1;
                if spins > 200 {
                    std::thread::yield_now();
                } else {
                    std::hint::spin_loop();
                }
            }
            (0..dice.below(300)).for_each(|_| std::hint::spin_loop());
        }
    });
    let mut dice = Dice::new(seed());
    for round in 1..=goal {
        while asked.load(Ordering::Acquire) < round {
            match dice.below(16) {
                0 => rig.poll(Wait::No),
                _ => rig.poll(Wait::Forever),
            }
        }
        answered.store(round, Ordering::Release);
    }
    thread.join().expect("the waker");
}

fn from_many_threads(rig: &mut Rig) {
    const THREADS: usize = 4;
    let each = rounds(100_000) / 20;
    let count = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (count, waker) = (Arc::clone(&count), rig.driver().waker());
            std::thread::spawn(move || {
                for _ in 0..each {
                    count.fetch_add(1, Ordering::Release);
                    waker.wake();
                }
            })
        })
        .collect();
    while count.load(Ordering::Acquire) < THREADS * each {
        rig.poll(Wait::Forever);
    }
    for thread in threads {
        thread.join().expect("a waker");
    }
    // A waker may outlive its driver.
    let waker = rig.driver().waker();
    std::thread::spawn(move || waker.wake()).join().expect("the last waker");
    println!("{:?}", start.elapsed());
}
