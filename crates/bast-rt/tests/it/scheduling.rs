//! Who runs where, and when: placement, theft, fairness.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use bast_rt::{Builder, ops, park, perform, sleep, spawn, spawn_local, yield_now};

use crate::sockets::Pair;
use crate::support::{
    message, panic_of, runtime, scaled, slowed, tests, until, workers, yield_until,
};

/// Burns the processor without a suspension point until `done` says so.
fn hog(done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(100);
    while !done() {
        assert!(Instant::now() < end, "the hog waited in vain");
        thread::yield_now(); // the machine may have one core only
    }
}

#[allow(unsafe_code)]
fn nop() -> bast_io::Outcome {
    // SAFETY: no memory.
    unsafe { perform(bast_io::Op::Nop, None) }
}

fn a_fiber_stays(count: usize) {
    let runtime = workers(count);
    let fibers: Vec<_> = (0..200u64)
        .map(|i| {
            runtime.spawn(move || {
                let home = thread::current().id();
                for round in 0..20 {
                    match (i + round) % 3 {
                        0 => yield_now(),
                        1 => sleep(Duration::from_micros(50)),
                        _ => assert_eq!(spawn(|| 1).join().unwrap(), 1),
                    }
                    assert_eq!(thread::current().id(), home);
                }
            })
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

tests! {
    fn a_fiber_stays_on_the_thread_that_first_ran_it() {
        a_fiber_stays(1);
        a_fiber_stays(2);
        a_fiber_stays(8);
    }

    /// A hog holds worker 0; what it spawned beforehand runs elsewhere meanwhile.
    fn fresh_fibers_are_stolen_from_a_busy_worker() {
        for count in [2, 3, 8] {
            let runtime = workers(count);
            runtime.run(|| {
                Builder::new().worker(0).spawn(|| {
                    let home = thread::current().id();
                    let ran = Arc::new(AtomicUsize::new(0));
                    let fibers: Vec<_> = (0..100).map(|_| {
                        let ran = Arc::clone(&ran);
                        spawn(move || {
                            assert_ne!(thread::current().id(), home);
                            ran.fetch_add(1, SeqCst);
                        })
                    }).collect();
                    hog(|| ran.load(SeqCst) == 100);
                    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
                }).unwrap().join().unwrap();
            });
        }
    }

    /// The same with a hog that came from outside, so that its worker was woken to look for work: it
    /// must not count as a searcher while it is busy with what it found.
    fn a_worker_that_was_woken_for_a_hog_does_not_strand_its_children() {
        for count in [2, 3, 8] {
            for _ in 0..30 {
                let runtime = workers(count);
                // Let all of them fall asleep.
                thread::sleep(Duration::from_millis(5));
                let fiber = runtime.spawn(|| {
                    let ran = Arc::new(AtomicUsize::new(0));
                    for _ in 0..20 {
                        let ran = Arc::clone(&ran);
                        spawn(move || ran.fetch_add(1, SeqCst));
                    }
                    hog(|| ran.load(SeqCst) == 20);
                });
                fiber.join().unwrap();
            }
        }
    }

    /// A worker with many fibers leaves new ones to those with few, but not to a hog.
    fn a_worker_with_many_fibers_takes_over_from_a_hog() {
        let runtime = workers(2);
        runtime.run(|| {
            let parked: Vec<_> =
                (0..1000).map(|_| Builder::new().worker(1).spawn(park).unwrap()).collect();
            Builder::new().worker(0).spawn(|| {
                let ran = Arc::new(AtomicUsize::new(0));
                let fibers: Vec<_> = (0..100).map(|_| {
                    let ran = Arc::clone(&ran);
                    spawn(move || ran.fetch_add(1, SeqCst))
                }).collect();
                hog(|| ran.load(SeqCst) == 100);
                fibers.into_iter().for_each(|fiber| assert!(fiber.join().unwrap() < 100));
            }).unwrap().join().unwrap();
            parked.iter().for_each(|fiber| fiber.cancel());
        });
    }

    /// Hogs on all workers but one: whatever is spawned, from inside and outside, ends up there.
    fn one_free_worker_does_all_the_work() {
        let runtime = workers(3);
        let stop = Arc::new(AtomicBool::new(false));
        let hogs: Vec<_> = (0..2).map(|_| {
            let stop = Arc::clone(&stop);
            let running = Arc::new(AtomicBool::new(false));
            let runs = Arc::clone(&running);
            let fiber = runtime.spawn(move || { runs.store(true, SeqCst); hog(|| stop.load(SeqCst)) });
            until("the hog", || running.load(SeqCst));
            fiber
        }).collect();
        for round in 0..50u32 {
            let sum = runtime.run(move || (0..20).map(|i| spawn(move || i + round)).collect::<Vec<_>>()
                .into_iter().map(|fiber| fiber.join().unwrap()).sum::<u32>());
            assert_eq!(sum, 190 + 20 * round);
        }
        stop.store(true, SeqCst);
        hogs.into_iter().for_each(|fiber| fiber.join().unwrap());
    }

    fn sleeping_fibers_are_spread() {
        for count in [2, 8] {
            let total = scaled(10_000);
            // What a worker leaves lying for a millisecond, another may take. On a machine with more
            // threads than cores a worker may well not run for that long: the best of twenty.
            let most: Vec<_> = (0..20)
                .map(|_| most_on_one_worker(count, total))
                .take_while(|most| most * 100 > total * 65)
                .collect();
            assert!(most.len() < 20, "{most:?} of {total} on one of {count} workers");
        }
    }

    fn yielding_fibers_advance_together() {
        workers(1).run(|| {
            const FIBERS: usize = 200;
            let steps: Rc<Vec<Cell<usize>>> = Rc::new((0..FIBERS).map(|_| Cell::new(0)).collect());
            let fibers: Vec<_> = (0..FIBERS).map(|i| {
                let steps = Rc::clone(&steps);
                spawn_local(move || {
                    for step in 1..=200 {
                        steps[i].set(step);
                        // All have begun once this one is at its second step.
                        let least = steps.iter().map(Cell::get).min().unwrap();
                        assert!(step - least <= 2, "step {step}, the slowest is at {least}");
                        yield_now();
                    }
                })
            }).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    }

    /// Operations that complete at once starve neither a neighbour nor a timer.
    fn inline_completions_starve_nobody() {
        workers(1).run(|| {
            let stop = Rc::new(Cell::new(false));
            let count = Rc::new(Cell::new(0u64));
            let (stops, counts) = (Rc::clone(&stop), Rc::clone(&count));
            let busy = spawn_local(move || {
                let pair = Pair::new();
                while !stops.get() {
                    assert_eq!(nop(), bast_io::Outcome(0));
                    assert_eq!(ops::send(&pair.0, b"x", 0, None).unwrap(), 1);
                    assert_eq!(ops::recv(&pair.1, &mut [0; 8], 0, None).unwrap(), 1);
                    counts.set(counts.get() + 1);
                }
            });
            let neighbour = spawn_local(|| (0..1000).for_each(|_| yield_now()));
            neighbour.join().unwrap();
            let begin = Instant::now();
            for _ in 0..20 {
                sleep(Duration::from_millis(1));
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
            assert!(count.get() > 20, "the busy one ran meanwhile");
            stop.set(true);
            busy.join().unwrap();
        });
    }

    /// A sleep of no time is a turn for the others: for fibers that are ready, timers, and I/O that has to be waited for.
    fn sleeps_of_no_time_starve_nobody() {
        workers(1).run(|| {
            let stop = Rc::new(Cell::new(false));
            let stops = Rc::clone(&stop);
            let busy = spawn_local(move || while !stops.get() { sleep(Duration::ZERO) });
            (0..1000).for_each(|_| yield_now());
            (0..5).for_each(|_| sleep(Duration::from_millis(1)));
            let pair = Pair::new();
            thread::scope(|s| {
                s.spawn(|| {
                    thread::sleep(Duration::from_millis(2));
                    assert_eq!(ops::send(&pair.0, b"x", 0, None).unwrap(), 1);
                });
                assert_eq!(ops::recv(&pair.1, &mut [0; 8], 0, None).unwrap(), 1);
            });
            stop.set(true);
            busy.join().unwrap();
        });
    }

    /// A fiber that yields in a loop delays a timer of 1 ms by less than 1 ms at the median.
    fn a_yielding_hog_does_not_delay_timers() {
        if slowed() {
            return;
        }
        workers(1).run(|| {
            let stop = Rc::new(Cell::new(false));
            let stops = Rc::clone(&stop);
            let hog = spawn_local(move || while !stops.get() { yield_now() });
            // The machine is shared: the best of fifty medians.
            let late: Vec<_> = (0..50).map(|_| {
                let mut late: Vec<_> = (0..64).map(|_| {
                    let begin = Instant::now();
                    sleep(Duration::from_millis(1));
                    begin.elapsed().checked_sub(Duration::from_millis(1)).expect("never early")
                }).collect();
                late.sort();
                late[32]
            }).take_while(|median| *median >= Duration::from_millis(1)).collect();
            stop.set(true);
            hog.join().unwrap();
            assert!(late.len() < 50, "late at the median: {late:?}");
        });
    }

    fn fresh_fibers_start_although_the_ready_queue_never_empties() {
        for count in [1, 2] {
            workers(count).run(move || {
                let stop = Arc::new(AtomicBool::new(false));
                // Far more than the credit of a round, on every worker.
                let busy: Vec<_> = (0..500).map(|i| {
                    let stop = Arc::clone(&stop);
                    Builder::new().worker(i % count)
                        .spawn(move || while !stop.load(Relaxed) { yield_now() }).unwrap()
                }).collect();
                for _ in 0..50 {
                    assert_eq!(spawn(|| 3).join().unwrap(), 3);
                }
                stop.store(true, Relaxed);
                busy.into_iter().for_each(|fiber| fiber.join().unwrap());
            });
        }
    }

    fn a_fiber_goes_to_the_worker_that_its_builder_names() {
        let runtime = workers(3);
        let threads: Vec<_> = (0..3).map(|index| runtime.run(move || {
            let on = |index| Builder::new().worker(index).spawn(|| {
                let thread = thread::current();
                yield_now();
                (thread.id(), thread.name().map(str::to_owned))
            }).unwrap().join().unwrap();
            assert_eq!(on(index), on(index));
            on(index)
        })).collect();
        for (index, (id, name)) in threads.iter().enumerate() {
            assert_eq!(name.as_deref(), Some(&*format!("bast-{index}")));
            assert_eq!(threads.iter().filter(|(other, _)| other == id).count(), 1);
        }
        runtime.run(|| {
            let error = Builder::new().worker(3).spawn(|| ()).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("worker 3: the runtime has 3"), "{error}");
            assert!(Builder::new().worker(0).spawn_local(|| ()).is_err());
        });
    }

    fn local_fibers_stay_with_their_parent_and_need_no_send() {
        let runtime = runtime();
        runtime.run(|| {
            let shared = Rc::new(Cell::new(0));
            let home = thread::current().id();
            let fibers: Vec<_> = (0..100).map(|i| {
                let shared = Rc::clone(&shared);
                spawn_local(move || {
                    for _ in 0..3 {
                        shared.set(shared.get() + i);
                        yield_now();
                    }
                    assert_eq!(thread::current().id(), home);
                    shared
                })
            }).collect();
            for fiber in fibers {
                assert!(Rc::ptr_eq(&fiber.join().unwrap(), &shared));
            }
            assert_eq!(shared.get(), 3 * 4950);
            assert_eq!(Rc::strong_count(&shared), 1);
        });
        let outside = panic_of(|| spawn_local(|| ()));
        assert!(message(&*outside).contains("outside a fiber"), "{}", message(&*outside));
    }
}

/// Spawns `total` fibers from one, and tells how many of them the fullest worker got.
fn most_on_one_worker(count: usize, total: usize) -> usize {
    let runtime = workers(count);
    let places: Arc<Mutex<HashMap<ThreadId, usize>>> = Arc::default();
    let here = Arc::clone(&places);
    runtime.run(move || {
        let fibers: Vec<_> = (0..total)
            .map(|i| {
                let here = Arc::clone(&here);
                // As an acceptor would: something happens between two of them.
                if i % 16 == 0 {
                    yield_now();
                }
                spawn(move || {
                    *here.lock().unwrap().entry(thread::current().id()).or_default() += 1;
                    park();
                })
            })
            .collect();
        yield_until("all started", || here.lock().unwrap().values().sum::<usize>() == total);
        fibers.iter().for_each(|fiber| fiber.fiber().unpark());
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
    let places = places.lock().unwrap();
    *places.values().max().unwrap()
}
