//! What Haskell makes of MVars, as in the documentation of `MVar`: an unbounded channel and a semaphore,
//! under load and cancellation.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::thread;

use bast_sync::MVar;

use super::{Alive, Random, SHORT, Token, everywhere, is_cancelled, simulated};

type Hole<T> = Arc<MVar<Item<T>>>;
struct Item<T>(T, Hole<T>);

struct Chan<T> {
    first: MVar<Hole<T>>,
    last: MVar<Hole<T>>,
}

impl<T> Chan<T> {
    fn new() -> Chan<T> {
        let hole = Hole::new(MVar::new_empty());
        Chan { first: MVar::new(hole.clone()), last: MVar::new(hole) }
    }

    fn send(&self, value: T) {
        self.last.modify(|last| {
            let hole = Hole::new(MVar::new_empty());
            last.put(Item(value, hole.clone()));
            *last = hole;
        });
    }

    fn recv(&self) -> T {
        self.first.modify(|first| {
            let Item(value, next) = first.take();
            *first = next;
            value
        })
    }
}

impl<T> Drop for Chan<T> {
    fn drop(&mut self) {
        while let Some(Item(_, next)) = self.first.with(|first| first.try_take()) {
            self.first.modify(|first| *first = next);
        }
    }
}

#[test]
fn a_channel_loses_nothing_when_receivers_are_cancelled() {
    everywhere(|| {
        const SENDERS: u64 = 4;
        const EACH: u64 = 2000;
        let alive = Alive::default();
        let chan = Arc::new(Chan::new());
        let sum = Arc::new(AtomicUsize::new(0));
        let count = Arc::new(AtomicUsize::new(0));
        let receive = || {
            let (chan, sum, count) = (Arc::clone(&chan), Arc::clone(&sum), Arc::clone(&count));
            move || {
                loop {
                    let token: Token = chan.recv();
                    sum.fetch_add(token.id as usize, SeqCst);
                    count.fetch_add(1, SeqCst);
                }
            }
        };
        let mut receivers: VecDeque<_> = (0..4).map(|_| bast_rt::spawn(receive())).collect();
        let send = |from: u64| {
            let (chan, alive) = (Arc::clone(&chan), alive.clone());
            move || {
                for i in 0..EACH {
                    chan.send(alive.token(from * EACH + i));
                    if i % 100 == 0 {
                        bast_rt::sleep(SHORT / 50);
                    }
                }
            }
        };
        let senders: Vec<_> = (1..SENDERS).map(|from| bast_rt::spawn(send(from))).collect();
        let thread = thread::spawn(send(0));
        // Receivers come and go meanwhile.
        while senders.iter().any(|sender| !sender.is_finished()) || !thread.is_finished() {
            bast_rt::sleep(SHORT / 10);
            receivers.push_back(bast_rt::spawn(receive()));
            let Some(oldest) = receivers.pop_front() else { unreachable!("one was added") };
            oldest.cancel();
            assert!(is_cancelled(&oldest.join()));
        }
        thread.join().unwrap();
        super::until("all messages", || count.load(SeqCst) as u64 == SENDERS * EACH);
        let all = SENDERS * EACH;
        assert_eq!(sum.load(SeqCst) as u64, all * (all - 1) / 2);
        assert_eq!(alive.count(), 0);
        for receiver in receivers {
            receiver.cancel();
            assert!(is_cancelled(&receiver.join()));
        }
        // What nobody receives goes with the channel, however much it is.
        (0..100_000).for_each(|i| chan.send(alive.token(i)));
        drop(chan);
        assert_eq!(alive.count(), 0);
    });
}

struct QSem(MVar<(usize, VecDeque<Arc<MVar<()>>>)>);

impl QSem {
    fn new(units: usize) -> QSem {
        QSem(MVar::new((units, VecDeque::new())))
    }

    fn wait(&self) {
        let turn = self.0.modify(|(units, queue)| {
            if *units > 0 {
                *units -= 1;
                return None;
            }
            queue.push_back(Arc::new(MVar::new_empty()));
            queue.back().cloned()
        });
        if let Some(turn) = turn {
            let waiting = Waiting { sem: self, turn: &turn };
            turn.take();
            std::mem::forget(waiting);
        }
    }

    fn signal(&self) {
        self.0.modify(|(units, queue)| match queue.pop_front() {
            Some(turn) => turn.put(()),
            None => *units += 1,
        });
    }
}

struct Waiting<'a> {
    sem: &'a QSem,
    turn: &'a Arc<MVar<()>>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.sem.0.modify(|(_, queue)| queue.retain(|turn| !Arc::ptr_eq(turn, self.turn)));
        if self.turn.try_take().is_some() {
            self.sem.signal();
        }
    }
}

/// A unit, given back also when its holder is cancelled.
struct Unit<'a>(&'a QSem, &'a AtomicIsize);

impl<'a> Unit<'a> {
    fn get(sem: &'a QSem, inside: &'a AtomicIsize) -> Unit<'a> {
        sem.wait();
        let now = inside.fetch_add(1, SeqCst) + 1;
        assert!(now <= 3, "{now} have a unit");
        Unit(sem, inside)
    }
}

impl Drop for Unit<'_> {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
        bast_rt::mask(|| self.0.signal());
    }
}

fn semaphore(seed: u64) {
    let sem = Arc::new(QSem::new(3));
    let inside = Arc::new(AtomicIsize::new(0));
    let mut random = Random::new(seed);
    let users: Vec<_> = (0..200)
        .map(|_| {
            let (sem, inside) = (Arc::clone(&sem), Arc::clone(&inside));
            let pauses = random.below(5);
            bast_rt::spawn(move || {
                for _ in 0..10 {
                    let _unit = Unit::get(&sem, &inside);
                    (0..pauses).for_each(|_| bast_rt::yield_now());
                }
            })
        })
        .collect();
    for (i, user) in users.iter().enumerate() {
        if i % 3 == 0 {
            (0..random.below(20)).for_each(|_| bast_rt::yield_now());
            user.cancel();
        }
    }
    for user in users {
        let result = user.join();
        assert!(result.is_ok() || is_cancelled(&result), "{result:?}");
    }
    assert_eq!(inside.load(SeqCst), 0);
    sem.0.with(|(units, queue)| assert_eq!((*units, queue.len()), (3, 0)));
}

#[test]
fn a_semaphore_keeps_its_units_when_users_are_cancelled() {
    everywhere(|| semaphore(1));
    simulated(20, semaphore);
}
