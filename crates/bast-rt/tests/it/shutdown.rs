//! The end of a runtime: everything is cancelled, unwound and reported, and nothing hangs.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use bast_rt::{
    Builder, JoinHandle, Sleep, mask, park, run_blocking, sleep, spawn, task, yield_now,
};

use crate::cancel::waits;
use crate::support::{
    Drops, OnDrop, is_cancelled, message, runtime, scaled, slowed, tests, until, workers,
};

tests! {
    fn fibers_in_each_kind_of_wait_are_unwound() {
        for count in [1, 2, 8] {
            let runtime = workers(count);
            let (drops, begun) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
            let fibers: Vec<_> = (0..3).flat_map(|_| waits()).map(|(name, body)| {
                let (token, begins) = (drops.token(), Arc::clone(&begun));
                (name, runtime.spawn(move || {
                    let _token = token;
                    begins.fetch_add(1, SeqCst);
                    body();
                }))
            }).collect();
            until("all begun", || begun.load(SeqCst) == fibers.len());
            thread::sleep(Duration::from_millis(60));
            // A scope whose children wait for ever, until they are cancelled as well.
            let scoped = runtime.spawn(|| bast_rt::scope(|s| { let _ = s.spawn(park).join();
                    park() }));
            // Plain threads that wait for some of them meanwhile.
            let parked = runtime.spawn(park);
            let joiner = thread::spawn(move || is_cancelled(&parked.join()));
            thread::sleep(Duration::from_millis(2));
            drop(runtime);
            assert_eq!(drops.get(), fibers.len());
            for (name, fiber) in fibers {
                assert!(is_cancelled(&fiber.join()), "{name}");
            }
            assert!(joiner.join().unwrap());
            assert!(is_cancelled(&scoped.join()));
        }
    }

    /// A destructor that looks a host up, say, while its runtime ends: that has to run like everything that is held off.
    fn calls_that_can_be_abandoned_are_made_in_destructors() {
        for count in [1, 2] {
            let runtime = workers(count);
            let ran = Arc::new(AtomicUsize::new(0));
            let counts = Arc::clone(&ran);
            let call = move || {
                let counts = Arc::clone(&counts);
                bast_rt::run_abandonable(move || counts.fetch_add(1, SeqCst));
            };
            let (begun, begins) = (Arc::new(AtomicBool::new(false)), call.clone());
            let tell = Arc::clone(&begun);
            let fiber = runtime.spawn(move || {
                let _call = OnDrop(call);
                let _masked = OnDrop(move || mask(&begins));
                tell.store(true, SeqCst);
                park();
            });
            until("begun", || begun.load(SeqCst));
            drop(runtime);
            assert!(is_cancelled(&fiber.join()));
            assert_eq!(ran.load(SeqCst), 2);
        }
    }

    fn fibers_that_never_ran_drop_their_closures() {
        for count in [1, 2, 8] {
            let runtime = workers(count);
            let (drops, go) = (Drops::default(), Arc::new(AtomicBool::new(false)));
            // Hogs on all workers, so that nothing else starts.
            let begun = Arc::new(AtomicUsize::new(0));
            let hogs: Vec<_> = (0..count).map(|index| {
                let (go, begins) = (Arc::clone(&go), Arc::clone(&begun));
                runtime.run(move || Builder::new().worker(index).spawn(move || {
                    begins.fetch_add(1, SeqCst);
                    while !go.load(SeqCst) { thread::yield_now() }
                }).unwrap())
            }).collect();
            until("the hogs", || begun.load(SeqCst) == count);
            let fibers: Vec<JoinHandle<()>> = (0..200).map(|_| {
                let token = drops.token();
                runtime.spawn(move || {
                    let _token = token;
                    park();
                })
            }).collect();
            let dropper = thread::spawn(move || drop(runtime));
            thread::sleep(Duration::from_millis(20));
            go.store(true, SeqCst);
            dropper.join().unwrap();
            assert_eq!(drops.get(), 200);
            fibers.into_iter().for_each(|fiber| assert!(is_cancelled(&fiber.join())));
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
        }
    }

    /// A closure that never ran may wait when it is dropped, even for a fiber of the same worker.
    fn closures_that_never_ran_may_wait_in_their_destructors() {
        for count in [1, 2] {
            let runtime = workers(count);
            let (drops, go) = (Drops::default(), Arc::new(AtomicBool::new(false)));
            let (goes, count_drops) = (Arc::clone(&go), drops.clone());
            let begun = Arc::new(AtomicUsize::new(0));
            let begins = Arc::clone(&begun);
            let main = runtime.spawn(move || {
                for index in 0..count {
                    let (go, begins) = (Arc::clone(&goes), Arc::clone(&begins));
                    let partner = Builder::new().worker(index).spawn(|| {
                        mask(|| sleep(Duration::from_millis(40)));
                    }).unwrap();
                    let drops = count_drops.clone();
                    Builder::new().worker(index).spawn(move || {
                        let mut partner = Some(partner);
                        let guard = OnDrop(move || {
                            drop(partner.take().map(JoinHandle::join));
                            sleep(Duration::from_micros(100));
                            yield_now();
                            assert_eq!(run_blocking(|| 3), 3);
                            drop(drops.token());
                        });
                        // More than one round of the loop starts.
                        for _ in 0..200 {
                            drop(Builder::new().worker(index).spawn(park).unwrap());
                        }
                        drop(Builder::new().worker(index).spawn(move || {
                            let _guard = guard;
                            unreachable!("the runtime had stopped before");
                        }).unwrap());
                        begins.fetch_add(1, SeqCst);
                        while !go.load(SeqCst) { thread::yield_now() }
                    }).unwrap();
                }
            });
            until("the hogs", || begun.load(SeqCst) == count);
            let begin = Instant::now();
            let dropper = thread::spawn(move || drop(runtime));
            thread::sleep(Duration::from_millis(20));
            go.store(true, SeqCst);
            dropper.join().unwrap();
            drop(main.join());
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
            assert_eq!(drops.get(), count);
        }
    }

    fn masked_fibers_finish_first() {
        let runtime = runtime();
        let (drops, begun) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        let fibers: Vec<_> = (0..50).map(|i| {
            let (drops, begins) = (drops.clone(), Arc::clone(&begun));
            runtime.spawn(move || {
                mask(|| {
                    begins.fetch_add(1, SeqCst);
                    for _ in 0..10 { sleep(Duration::from_micros(i * 20)) }
                    drop(drops.token());
                });
                park();
            })
        }).collect();
        until("all begun", || begun.load(SeqCst) == 50);
        drop(runtime);
        assert_eq!(drops.get(), 50);
        fibers.into_iter().for_each(|fiber| assert!(is_cancelled(&fiber.join())));
    }

    /// Destructors that wait, spawn (nothing new starts any more) and panic.
    fn destructors_do_what_they_like() {
        for count in [1, 2, 3, 8] {
            for round in 0..scaled(30).max(3) {
                let runtime = workers(count);
                let (drops, begun) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
                let fibers: Vec<_> = (0..40).map(|i| {
                    let (drops, begins) = (drops.clone(), Arc::clone(&begun));
                    runtime.spawn(move || {
                        let _guard = OnDrop(move || {
                            let _token = drops.token();
                            match i % 5 {
                                0 => sleep(Duration::from_micros(300)),
                                1 => drop(spawn(park).join()),
                                2 => {
                                    // One for every worker, also for those that have nothing left.
                                    for index in 0..count {
                                        let fiber = Builder::new().worker(index).spawn(park);
                                        drop(fiber.unwrap().join());
                                    }
                                }
                                3 => assert!(catch_unwind(|| panic!("in a destructor")).is_err()),
                                _ => {
                                    let fibers: Vec<_> = (0..10).map(|_| spawn(yield_now)).collect();
                                    yield_now();
                                    fibers.into_iter().for_each(|fiber| drop(fiber.join()));
                                }
                            }
                        });
                        begins.fetch_add(1, SeqCst);
                        park();
                    })
                }).collect();
                until("all begun", || begun.load(SeqCst) == 40);
                let begin = Instant::now();
                drop(runtime);
                assert!(begin.elapsed() < Duration::from_secs(60), "round {round}: {:?}", begin.elapsed());
                assert_eq!(drops.get(), 40);
                fibers.into_iter().for_each(|fiber| assert!(is_cancelled(&fiber.join())));
            }
        }
    }

    fn a_fiber_may_end_by_itself_while_the_runtime_stops() {
        for _ in 0..scaled(300) {
            let runtime = workers(2);
            let fibers: Vec<_> = (0..10).map(|i| runtime.spawn(move || {
                (0..i).for_each(|_| yield_now());
                i
            })).collect();
            runtime.shutdown(Duration::from_secs(60)).unwrap();
            for (i, fiber) in fibers.into_iter().enumerate() {
                match fiber.join() {
                    Ok(value) => assert_eq!(value, i),
                    result => assert!(is_cancelled(&result)),
                }
            }
        }
    }

    fn a_fiber_that_panics_as_it_is_unwound_says_so() {
        let runtime = runtime();
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        let fiber = runtime.spawn(move || {
            begins.store(true, SeqCst);
            if catch_unwind(AssertUnwindSafe(park)).is_err() { panic!("instead") }
        });
        until("begun", || begun.load(SeqCst));
        drop(runtime);
        assert_eq!(message(&*fiber.join().unwrap_err()), "instead");
    }

    /// The last fiber of one worker sends one to the other, which had nothing left, and that one sends one back and waits
    /// for it: nobody may have gone.
    fn workers_end_together() {
        for _ in 0..scaled(200) {
            let runtime = workers(2);
            let begun = Arc::new(AtomicBool::new(false));
            let (begins, drops) = (Arc::clone(&begun), Drops::default());
            let mut token = Some(drops.token());
            let at = |worker| Builder::new().worker(worker);
            let last = runtime.run(move || at(0).spawn(move || {
                let _last = OnDrop(move || {
                    let mut token = token.take();
                    let back = OnDrop(move || {
                        let token = token.take();
                        at(0).spawn(|| drop(token)).unwrap().join().unwrap_err();
                    });
                    drop(at(1).spawn(move || drop(back)).unwrap());
                });
                begins.store(true, SeqCst);
                park();
            }).unwrap());
            until("the beginning", || begun.load(SeqCst));
            runtime.shutdown(Duration::from_secs(60)).unwrap();
            assert!(is_cancelled(&last.join()));
            assert_eq!(drops.get(), 1);
        }
    }

    /// A worker that had nothing left looks for the fibers that another one starts, and comes too late.
    fn a_worker_that_comes_too_late_ends_as_well() {
        for _ in 0..scaled(200) {
            let runtime = workers(2);
            let begun = Arc::new(AtomicBool::new(false));
            let begins = Arc::clone(&begun);
            let fiber = runtime.spawn(move || {
                let _starts = OnDrop(|| for _ in 0..10 { drop(spawn(yield_now).join()) });
                begins.store(true, SeqCst);
                park();
            });
            until("the beginning", || begun.load(SeqCst));
            runtime.shutdown(Duration::from_secs(60)).unwrap();
            assert!(is_cancelled(&fiber.join()));
        }
    }

    /// A task is polled by a worker that has found nothing left but its timer: it may do what it likes, too, even after
    /// its future is gone. What it panicked with sends a fiber to the other worker, and waits.
    fn a_task_that_only_had_a_timer_may_send_fibers() {
        for _ in 0..scaled(20).max(2) {
            let runtime = workers(2);
            let (begun, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let drops = Drops::default();
            let at = |worker| Builder::new().worker(worker);
            let mut token = Some(drops.token());
            let (begins, goes) = (Arc::clone(&begun), Arc::clone(&go));
            let end = OnDrop(move || {
                goes.store(true, SeqCst);
                let mut token = token.take();
                panic_any(OnDrop(move || {
                    // Time for the other worker to go.
                    thread::sleep(Duration::from_millis(20));
                    let mut token = token.take();
                    let waits = OnDrop(move || {
                        let token = token.take();
                        at(0).spawn(|| drop(token)).unwrap().join().unwrap_err();
                    });
                    drop(at(1).spawn(move || drop(waits)).unwrap());
                }));
            });
            // The other worker takes the task, and is left with its timer, while this one is held.
            let hog = runtime.run(move || at(0).spawn(move || {
                drop(task::spawn(async move {
                    let _end = end;
                    begins.store(true, SeqCst);
                    Sleep::new(Duration::from_secs(3600)).await;
                }));
                while !go.load(SeqCst) { thread::yield_now() }
            }).unwrap());
            until("the task", || begun.load(SeqCst));
            runtime.shutdown(Duration::from_secs(60)).unwrap();
            drop(hog.join());
            assert_eq!(drops.get(), 1);
        }
    }

    fn shutdown_reports_what_does_not_end() {
        let runtime = workers(2);
        let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (stops, begins) = (Arc::clone(&stop), Arc::clone(&begun));
        let hog = runtime.spawn(move || {
            begins.store(true, SeqCst);
            while !stops.load(SeqCst) { thread::yield_now() }
        });
        let parked = runtime.spawn(park);
        until("the hog", || begun.load(SeqCst));
        let begin = Instant::now();
        let left = runtime.shutdown(Duration::from_millis(200)).unwrap_err();
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(200), "{took:?}");
        assert!(slowed() || took < Duration::from_secs(60), "{took:?}");
        assert!(left.fibers().iter().sum::<usize>() >= 1, "{left}");
        assert!(left.to_string().contains("have not ended"), "{left}");
        // It goes on ending by itself.
        stop.store(true, SeqCst);
        hog.join().unwrap();
        assert!(is_cancelled(&parked.join()));
    }

    fn shutdown_of_an_idle_runtime_is_immediate() {
        for count in [1, 2, 8] {
            let runtime = workers(count);
            runtime.run(yield_now);
            runtime.shutdown(Duration::from_secs(60)).unwrap();
        }
    }

    fn spawns_from_outside_race_the_end() {
        for _ in 0..scaled(50) {
            let runtime = Arc::new(workers(2));
            let drops = Drops::default();
            let other = Arc::clone(&runtime);
            let count = drops.clone();
            let spawner = thread::spawn(move || {
                let fibers: Vec<_> = (0..200).map(|_| {
                    let token = count.token();
                    other.spawn(move || { let _token = token; yield_now() })
                }).collect();
                drop(other);
                fibers
            });
            drop(runtime);
            for fiber in spawner.join().unwrap() {
                match fiber.join() {
                    Ok(()) => {}
                    result => assert!(is_cancelled(&result)),
                }
            }
            assert_eq!(drops.get(), 200);
        }
    }
}
