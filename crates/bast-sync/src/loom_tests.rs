//! The wait list and the primitives under loom: every interleaving that the memory model allows, of the real code.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p bast-sync --release --lib loom`
//!
//! A lost wake shows as a deadlock, which loom reports. What a lock protects is a [`Place`], whose accesses
//! loom compares. Each model uses its objects once before it starts threads (see `shim`).
//! The models have been seen to fail, each with one of these faults: a waiter that gives up what it was granted; one
//! that gives up and does not pass on its turn; a ticket that may be won twice; `Relaxed` in `settle`.

use bast_rt::Instant;
use bast_rt::wait::{Parked, Reason};
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::crowd::Crowd;
use crate::gate::{Gate, Taken};
use crate::list::{End, List, Node, Ticket, wait_in};
use crate::lock::Lock;
use crate::shim::{Wake, wait};
use crate::*;

/// A number that nobody may touch while somebody writes it.
struct Place(loom::cell::UnsafeCell<usize>);

// SAFETY: loom checks just that.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    fn new() -> Place {
        Place(loom::cell::UnsafeCell::new(0))
    }

    fn add(&self, n: usize) {
        // SAFETY: loom checks it.
        self.0.with_mut(|p| unsafe { *p += n });
    }

    fn get(&self) -> usize {
        // SAFETY: loom checks it.
        self.0.with(|p| unsafe { *p })
    }
}

const SOON: Duration = Duration::from_secs(1);
static WAITING: Reason<'static> = Reason { what: "model", object: std::ptr::null(), holder: None };

fn soon() -> Option<Instant> {
    Some(Instant::now() + SOON)
}

fn spawn<T: Send + Sync + 'static>(
    shared: &Arc<T>,
    body: impl FnOnce(&T) + Send + 'static,
) -> thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || body(&shared))
}

/// A list under its lock, as a primitive has it; `stock` is what nobody waited for.
struct Shop {
    list: List,
    stock: usize,
}

fn shop() -> Arc<Lock<Shop>> {
    let shop = Arc::new(Lock::new(Shop { list: List::new(), stock: 0 }));
    drop(shop.lock());
    shop
}

fn sell(shop: &Lock<Shop>, ware: usize) {
    let mut guard = shop.lock();
    // SAFETY: the slots are numbers on the waiters' stacks.
    let wake = guard.list.grant(|slot| unsafe { *slot.cast::<usize>() = ware });
    if wake.is_none() {
        guard.stock += ware;
    }
    drop(guard);
    drop(wake);
}

fn buy(shop: &Lock<Shop>, deadline: Option<Instant>) -> usize {
    let mut guard = shop.lock();
    let stock = std::mem::take(&mut guard.stock);
    if stock != 0 {
        return stock;
    }
    let mut slot = 0_usize;
    let slot = &raw mut slot;
    let end = wait_in(shop, guard, |shop| &mut shop.list, slot.cast(), &WAITING, deadline);
    // SAFETY: the wait is over.
    let got = unsafe { *slot };
    assert_eq!(got != 0, matches!(end, End::Granted));
    got
}

#[test]
fn loom_a_grant_and_a_deadline_never_both_never_neither() {
    loom::model(|| {
        let shop = shop();
        let buyer = {
            let shop = Arc::clone(&shop);
            thread::spawn(move || buy(&shop, soon()))
        };
        sell(&shop, 1);
        let bought = buyer.join().unwrap();
        assert_eq!(bought + shop.lock().stock, 1);
    });
}

#[test]
fn loom_one_who_gives_up_leaves_the_others_theirs() {
    loom::model(|| {
        let shop = shop();
        let patient = spawn(&shop, |shop| assert_ne!(buy(shop, None), 0));
        let hasty = {
            let shop = Arc::clone(&shop);
            thread::spawn(move || buy(&shop, soon()))
        };
        sell(&shop, 1);
        if hasty.join().unwrap() != 0 {
            sell(&shop, 1);
        }
        patient.join().unwrap();
        assert!(shop.lock().list.is_empty());
    });
}

/// As `select`: one ticket with a node in each of two lists.
fn buy_either(shops: &[Arc<Lock<Shop>>; 2], deadline: Option<Instant>) -> [usize; 2] {
    let mut slots = [0_usize; 2];
    let base = (&raw mut slots).cast::<usize>();
    let arm = wait(&WAITING, deadline, |wait| {
        let ticket = Ticket::new(wait.waiter(), true);
        let nodes = [0, 1].map(|arm| Node::new(&ticket, arm, base.wrapping_add(arm).cast()));
        for (arm, shop) in shops.iter().enumerate() {
            let mut guard = shop.lock();
            if guard.stock != 0 && ticket.win() {
                guard.stock -= 1;
                // SAFETY: the ticket is won.
                unsafe { *base.add(arm) = 1 };
                ticket.settle(arm);
            }
            if ticket.done().is_some() {
                break;
            }
            // SAFETY: removed below.
            unsafe { guard.list.push(&nodes[arm]) };
        }
        let arm = loop {
            if let Some(arm) = ticket.done() {
                break Some(arm);
            }
            match wait.park() {
                Parked::Look => {}
                _ if ticket.win() => break None,
                _ => break Some(ticket.settled()),
            }
        };
        for (shop, node) in shops.iter().zip(&nodes) {
            // SAFETY: pushed to this list.
            unsafe { shop.lock().list.remove(node) };
        }
        arm
    });
    // SAFETY: the wait is over.
    let slots = unsafe { [*base, *base.add(1)] };
    assert_eq!(arm, slots.iter().position(|&ware| ware != 0));
    slots
}

fn select(deadline: fn() -> Option<Instant>) {
    loom::model(move || {
        let shops = [shop(), shop()];
        let buyer = {
            let shops = shops.clone();
            thread::spawn(move || buy_either(&shops, deadline()))
        };
        let seller = spawn(&shops[0], |shop| sell(shop, 1));
        sell(&shops[1], 1);
        seller.join().unwrap();
        let [a, b] = buyer.join().unwrap();
        assert!(a + b <= 1, "one winner");
        assert!(deadline().is_some() || a + b == 1);
        let stock: usize = shops.iter().map(|shop| shop.lock().stock).sum();
        assert_eq!(stock + a + b, 2, "nothing is lost, nothing given twice");
        assert!(shops.iter().all(|shop| shop.lock().list.is_empty()));
    });
}

#[test]
fn loom_select_has_one_winner() {
    select(|| None);
}

#[test]
fn loom_select_with_a_deadline() {
    select(soon);
}

#[test]
fn loom_mutex() {
    loom::model(|| {
        let shared = Arc::new((Mutex::new(()), Place::new()));
        drop(shared.0.lock());
        let add = |(mutex, place): &(Mutex<()>, Place)| {
            let _guard = mutex.lock().unwrap();
            place.add(1);
        };
        let others = [spawn(&shared, add), spawn(&shared, add)];
        add(&shared);
        others.into_iter().for_each(|other| other.join().unwrap());
        let _guard = shared.0.lock().unwrap();
        assert_eq!(shared.1.get(), 3);
    });
}

#[test]
fn loom_mutex_barging_and_hand_off() {
    loom::model(|| {
        let shared = Arc::new((Mutex::new(()), Place::new()));
        drop(shared.0.lock());
        let waiter = spawn(&shared, |(mutex, place)| {
            let _guard = mutex.lock().unwrap();
            place.add(1);
        });
        for _ in 0..3 {
            let _guard = shared.0.lock().unwrap();
            shared.1.add(1);
        }
        waiter.join().unwrap();
        assert_eq!(shared.1.get(), 4);
    });
}

/// A nudge, or a unit, of one that gives up goes to the next.
#[test]
fn loom_gate_passes_on_what_was_given_up() {
    fn model<const ALL: usize>() {
        loom::model(|| {
            let gate = Arc::new(Gate::<ALL>::new(1));
            let _ = gate.try_take(1);
            let hasty = spawn(&gate, |gate| {
                if let Taken::Yes = gate.take(1, "model", soon()) {
                    gate.put(1);
                }
            });
            let patient = spawn(&gate, |gate| {
                assert!(matches!(gate.take(1, "model", None), Taken::Yes));
                gate.put(1);
            });
            gate.put(1);
            hasty.join().unwrap();
            patient.join().unwrap();
            assert_eq!(gate.free(), 1);
        });
    }
    model::<1>();
    model::<0>();
}

#[test]
fn loom_rwlock() {
    loom::model(|| {
        let shared = Arc::new((RwLock::new(()), Place::new()));
        drop(shared.0.write());
        let writer = spawn(&shared, |(lock, place)| {
            let guard = lock.write().unwrap();
            place.add(1);
            let _guard = RwLockWriteGuard::downgrade(guard);
            assert_eq!(place.get(), 1);
        });
        let reader = spawn(&shared, |(lock, place)| {
            let _guard = lock.read().unwrap();
            assert!(place.get() <= 1);
        });
        {
            let _guard = shared.0.read().unwrap();
            assert!(shared.1.get() <= 1);
        }
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(shared.1.get(), 1);
    });
}

#[test]
fn loom_semaphore_many_and_few() {
    loom::model(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        drop(semaphore.try_acquire());
        // Gives up, and must not keep from the other what it waited for.
        let many = spawn(&semaphore, |s| drop(s.acquire_many_timeout(2, SOON)));
        let few = spawn(&semaphore, |s| drop(s.acquire()));
        semaphore.add_permits(1);
        many.join().unwrap();
        few.join().unwrap();
        assert_eq!(semaphore.available_permits(), 1);
    });
}

#[test]
fn loom_semaphore_close() {
    loom::model(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        drop(semaphore.try_acquire());
        let waiter = spawn(&semaphore, |s| assert!(s.acquire().is_err()));
        semaphore.close();
        waiter.join().unwrap();
    });
}

#[test]
fn loom_condvar() {
    loom::model(|| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        drop(shared.0.lock());
        shared.1.notify_one();
        let waiter = spawn(&shared, |(mutex, condvar)| {
            let guard = condvar.wait_while(mutex.lock().unwrap(), |n| *n == 0).unwrap();
            assert_eq!(*guard, 1);
        });
        *shared.0.lock().unwrap() = 1;
        shared.1.notify_one();
        waiter.join().unwrap();
    });
}

#[test]
fn loom_condvar_notify_and_a_deadline() {
    loom::model(|| {
        let condvar = Arc::new((Mutex::new(()), Condvar::new(), AtomicUsize::new(0)));
        drop(condvar.0.lock());
        condvar.1.notify_one();
        let patient = spawn(&condvar, |(mutex, condvar, _)| {
            drop(condvar.wait(mutex.lock().unwrap()).unwrap());
        });
        let hasty = spawn(&condvar, |(mutex, condvar, notified)| {
            let (_guard, result) = condvar.wait_timeout(mutex.lock().unwrap(), SOON).unwrap();
            notified.fetch_add(usize::from(!result.timed_out()), Relaxed);
        });
        // Until somebody is notified who stays so.
        hasty.join().unwrap();
        loop {
            let wake = condvar.1.notify();
            if wake {
                break;
            }
            thread::yield_now();
        }
        patient.join().unwrap();
        assert_eq!(condvar.2.load(Relaxed), 0, "nobody has notified it");
    });
}

#[test]
fn loom_crowd_lets_all_go() {
    loom::model(|| {
        let crowd = Arc::new(Lock::new((Crowd::new(), false)));
        drop(crowd.lock());
        let wait = |lock: &Lock<(Crowd, bool)>| {
            let guard = lock.lock();
            if !guard.1 {
                let end = Crowd::wait(lock, guard, |s| &mut s.0, || (), &WAITING, None);
                assert!(matches!(end, End::Granted));
                assert!(lock.lock().1);
            }
        };
        let others = [spawn(&crowd, wait), spawn(&crowd, wait)];
        crowd.lock().1 = true;
        Crowd::release(&crowd, |s| &mut s.0);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

fn touch(once: &Once) {
    assert!(!once.is_completed());
    let _ = catch_unwind(AssertUnwindSafe(|| {
        once.call_once(|| std::panic::resume_unwind(Box::new(())))
    }));
}

#[test]
fn loom_once() {
    loom::model(|| {
        let shared = Arc::new((Once::new(), Place::new()));
        touch(&shared.0);
        let call = |(once, place): &(Once, Place)| {
            once.call_once_force(|_| place.add(1));
            assert_eq!(place.get(), 1);
        };
        let caller = spawn(&shared, call);
        let waiter = spawn(&shared, |(once, place)| {
            once.wait_force();
            assert_eq!(place.get(), 1);
        });
        call(&shared);
        caller.join().unwrap();
        waiter.join().unwrap();
    });
}

#[test]
fn loom_once_that_fails_lets_another_try() {
    loom::model(|| {
        let shared = Arc::new((Once::new(), Place::new(), AtomicUsize::new(0)));
        touch(&shared.0);
        let call = |(once, place, runs): &(Once, Place, AtomicUsize)| {
            let _ = catch_unwind(AssertUnwindSafe(|| {
                once.call_once_force(|state| {
                    assert!(state.is_poisoned());
                    if runs.fetch_add(1, Relaxed) == 0 {
                        std::panic::resume_unwind(Box::new(()));
                    }
                    place.add(1);
                });
            }));
        };
        let other = spawn(&shared, call);
        call(&shared);
        other.join().unwrap();
        call(&shared);
        assert!(shared.0.is_completed());
        assert_eq!((shared.1.get(), shared.2.load(Relaxed)), (1, 2));
    });
}

#[test]
fn loom_barrier() {
    loom::model(|| {
        let shared = Arc::new((Barrier::new(2), AtomicUsize::new(0)));
        let meet = |(barrier, leaders): &(Barrier, AtomicUsize)| {
            for _ in 0..2 {
                leaders.fetch_add(usize::from(barrier.wait().is_leader()), Relaxed);
            }
        };
        shared.0.touch();
        let other = spawn(&shared, meet);
        meet(&shared);
        other.join().unwrap();
        assert_eq!(shared.1.load(Relaxed), 2);
    });
}

/// More come than meet: who comes while the first two are let go waits for a fourth.
#[test]
fn loom_barrier_keeps_who_comes_for_the_next_round() {
    loom::model(|| {
        let shared = Arc::new((Barrier::new(2), AtomicUsize::new(0), AtomicUsize::new(0)));
        let meet = |(barrier, come, gone): &(Barrier, AtomicUsize, AtomicUsize)| {
            come.fetch_add(1, Relaxed);
            barrier.wait();
            let gone = gone.fetch_add(1, Relaxed) + 1;
            assert!(gone <= come.load(Relaxed) / 2 * 2, "somebody went alone");
        };
        shared.0.touch();
        let others = [spawn(&shared, meet), spawn(&shared, meet), spawn(&shared, meet)];
        meet(&shared);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn loom_notify() {
    loom::model(|| {
        let notify = Arc::new(Notify::new());
        notify.notify_one();
        notify.wait();
        let waiter = spawn(&notify, Notify::wait);
        // Takes the permit, or is notified, or neither: then the permit is the waiter's.
        let hasty = {
            let notify = Arc::clone(&notify);
            thread::spawn(move || notify.wait_timeout(SOON))
        };
        notify.notify_one();
        if hasty.join().unwrap() {
            notify.notify_one();
        }
        waiter.join().unwrap();
        assert!(!notify.wait_timeout(SOON));
    });
}

#[test]
fn loom_wait_group() {
    loom::model(|| {
        let place = Arc::new(Place::new());
        let group = WaitGroup::new();
        drop(group.clone());
        let share = group.clone();
        let worker = spawn(&place, move |place| {
            place.add(1);
            drop(share);
        });
        group.wait();
        assert_eq!(place.get(), 1);
        worker.join().unwrap();
    });
}

/// A wake that nobody drops would be one that nobody gets.
#[test]
fn loom_a_wake_before_the_park_counts() {
    loom::model(|| {
        let shop = shop();
        let buyer = spawn(&shop, |shop| assert_eq!(buy(shop, None), 1));
        let wake: Option<Wake> = loop {
            let mut guard = shop.lock();
            // SAFETY: as in `sell`.
            let wake = guard.list.grant(|slot| unsafe { *slot.cast::<usize>() = 1 });
            if wake.is_some() {
                break wake;
            }
            drop(guard);
            thread::yield_now();
        };
        drop(wake);
        buyer.join().unwrap();
    });
}
