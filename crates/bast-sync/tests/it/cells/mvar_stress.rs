//! `MVar`: all operations at once, cut short at random, and each value accounted for.
//!
//! Every value has a number of its own. Who puts one notes that after `put` has returned, who takes one
//! notes that too. An operation that is cut short has happened or it has not, so in the end what was put is what was
//! taken and what is left.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bast_sync::select::{after, put, read, take};
use bast_sync::{MVar, select};

use super::{Alive, Random, Token, everywhere, is_cancelled, simulated};

#[derive(Default)]
struct Books {
    put: Mutex<BTreeSet<u64>>,
    taken: Mutex<BTreeSet<u64>>,
    next: AtomicU64,
}

impl Books {
    fn came(&self, id: u64) {
        assert!(self.put.lock().unwrap().insert(id), "{id} was put twice");
    }

    fn went(&self, token: &Token) {
        assert!(self.taken.lock().unwrap().insert(token.id), "{} was taken twice", token.id);
    }
}

struct Table {
    boxes: [MVar<Token>; 2],
    books: Books,
    alive: Alive,
}

impl Table {
    fn play(&self, random: &mut Random) {
        let mvar = &self.boxes[random.below(2) as usize];
        let other = &self.boxes[random.below(2) as usize];
        let id = self.books.next.fetch_add(1, SeqCst);
        let new = || self.alive.token(id);
        let time = Duration::from_micros(random.below(200));
        match random.below(14) {
            0 => self.books.went(&mvar.take()),
            1 => {
                mvar.put(new());
                self.books.came(id);
            }
            2 | 3 => {
                if let Some(token) = mvar.take_timeout(time) {
                    self.books.went(&token);
                }
            }
            4 | 5 => match mvar.put_timeout(new(), time) {
                Ok(()) => self.books.came(id),
                Err(token) => assert_eq!(token.id, id),
            },
            6 => drop(mvar.read_timeout(time)),
            7 => {
                // Atomic: in and out at once.
                let swapped = bast_rt::timeout(time, || {
                    let old = mvar.swap(new());
                    self.books.came(id);
                    self.books.went(&old);
                });
                let _ = swapped;
            }
            8 => {
                // Interrupted inside or while it waits; the value is back in each case.
                let worked = bast_rt::timeout(time, || {
                    mvar.modify(|token| {
                        let before = token.id;
                        (0..3).for_each(|_| bast_rt::yield_now());
                        assert_eq!(token.id, before);
                    });
                });
                let _ = worked;
            }
            9 => {
                if let Some(token) = mvar.try_take() {
                    self.books.went(&token);
                }
            }
            10 => {
                if mvar.try_put(new()).is_ok() {
                    self.books.came(id);
                }
            }
            11 => select! {
                token = take(mvar) => self.books.went(&token),
                _ = read(other) => {}
                _ = after(time) => {}
            },
            12 => select! {
                token = take(mvar) => self.books.went(&token),
                () = put(other, new()) => self.books.came(id),
            },
            _ => select! {
                () = put(mvar, new()) => self.books.came(id),
                () = put(other, self.alive.token(u64::MAX - id)) => self.books.came(u64::MAX - id),
                _ = after(time) => {}
            },
        }
    }
}

/// Plays with fibers, some of which are cancelled, and `threads` plain threads.
fn game(seed: u64, threads: u64) {
    const FIBERS: u64 = 40;
    let alive = Alive::default();
    let table = Arc::new(Table {
        boxes: [MVar::new_empty(), MVar::new_empty()],
        books: Books::default(),
        alive: alive.clone(),
    });
    let mut random = Random::new(seed);
    let player = |seed: u64, rounds: u64| {
        let table = Arc::clone(&table);
        move || {
            let mut random = Random::new(seed);
            (0..rounds).for_each(|_| table.play(&mut random));
        }
    };
    let mut fibers: Vec<_> =
        (0..FIBERS).map(|i| bast_rt::spawn(player(seed * 1000 + i, 200))).collect();
    let threads: Vec<_> = (0..threads)
        .map(|i| {
            let table = Arc::clone(&table);
            let seed = seed * 1000 + 500 + i;
            // It ends also if nobody is left who would serve it.
            thread::spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..300 {
                    let _ = bast_rt::timeout(Duration::from_millis(2), || table.play(&mut random));
                }
            })
        })
        .collect();
    for _ in 0..FIBERS {
        bast_rt::sleep(Duration::from_micros(random.below(500)));
        let at = random.below(fibers.len() as u64) as usize;
        let fiber =
            std::mem::replace(&mut fibers[at], bast_rt::spawn(player(random.below(1 << 40), 50)));
        fiber.cancel();
        let result = fiber.join();
        assert!(result.is_ok() || is_cancelled(&result), "{result:?}");
    }
    // Those who still wait may wait for ever.
    for fiber in fibers {
        fiber.cancel();
        let result = fiber.join();
        assert!(result.is_ok() || is_cancelled(&result), "{result:?}");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for token in table.boxes.iter().filter_map(MVar::try_take) {
        table.books.went(&token);
    }
    assert_eq!(alive.count(), 0);
    assert_eq!(*table.books.put.lock().unwrap(), *table.books.taken.lock().unwrap());
}

#[test]
fn every_value_is_accounted_for() {
    everywhere(|| (1..4).for_each(|seed| game(seed, 2)));
}

#[test]
fn every_value_is_accounted_for_on_the_simulator() {
    simulated(40, |seed| game(seed, 0));
}

#[test]
fn as_a_lock_with_many_fibers_and_threads() {
    everywhere(|| {
        let mvar = Arc::new(MVar::new(0_u64));
        let work = |rounds: u64| {
            let mvar = Arc::clone(&mvar);
            move || {
                for i in 0..rounds {
                    if i % 2 == 0 {
                        let value = mvar.take();
                        if i % 16 == 0 {
                            bast_rt::yield_now();
                        }
                        mvar.put(value + 1);
                    } else {
                        mvar.modify(|value| *value += 1);
                    }
                }
            }
        };
        let fibers: Vec<_> = (0..100).map(|_| bast_rt::spawn(work(200))).collect();
        let threads: Vec<_> = (0..3).map(|_| thread::spawn(work(500))).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(mvar.take(), 100 * 200 + 3 * 500);
    });
}
