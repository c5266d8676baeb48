//! What a fiber is: panics, names, ids, stacks, thread-locals, numbers.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bast_rt::{
    Builder, JoinHandle, current, mask, park, scope, sleep, spawn, spawn_local, yield_now,
};

use crate::support::{
    Drops, OnDrop, message, panic_of, runtime, scaled, tests, until, workers, yield_until,
};

/// Recurses until `bytes` of stack are in use, suspends there, and comes back; how deep it was.
#[inline(never)]
fn recurse(bytes: usize, top: usize) -> usize {
    let room = std::hint::black_box([0u8; 512]);
    let here = room.as_ptr().addr();
    let top = if top == 0 { here } else { top };
    // AddressSanitizer keeps locals elsewhere: no address says how deep it is.
    let below = if !crate::support::slowed() && top - here < bytes {
        recurse(bytes, top)
    } else {
        yield_now();
        sleep(Duration::from_micros(100));
        0
    };
    below + 1 + usize::from(std::hint::black_box(room)[0])
}

tests! {
    fn panics_end_the_fiber_and_not_the_worker() {
        workers(1).run(|| {
            let text = spawn(|| -> () { panic!("number {}", 7) }).join().unwrap_err();
            assert_eq!(message(&*text), "number 7");
            let payload = spawn(|| -> () { std::panic::panic_any(42u64) }).join().unwrap_err();
            assert_eq!(*payload.downcast::<u64>().unwrap(), 42);
            let late = spawn(|| { yield_now(); sleep(Duration::from_micros(10)); panic!("late") });
            let error: Result<(), _> = late.join();
            assert_eq!(message(&*error.unwrap_err()), "late");
            // Detached ones.
            for _ in 0..5 {
                drop(spawn(|| panic!("nobody asks")));
            }
            yield_now();
            assert_eq!(spawn(|| 1).join().unwrap(), 1);
        });
    }

    /// Destructors that panic: of the closure, of the result that nobody takes, in unwinding's wake.
    fn panics_in_destructors() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                if !std::thread::panicking() { panic!("the bomb") }
            }
        }
        for count in [1, 2] {
            let runtime = workers(count);
            for _ in 0..20 {
                runtime.run(|| {
                    let bomb = Bomb;
                    let captured = spawn(move || { let _bomb = bomb; 1 }).join().unwrap_err();
                    assert_eq!(message(&*captured), "the bomb");
                    drop(spawn(|| { yield_now(); Bomb }));
                    let kept = spawn(|| Bomb);
                    yield_until("the result", || kept.is_finished());
                    drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(kept))));
                    std::mem::forget(spawn(|| Bomb).join());
                    let unstarted = spawn(|| ());
                    drop(unstarted);
                });
            }
            assert_eq!(runtime.run(|| spawn(|| 1).join().unwrap()), 1);
        }
    }

    fn names_and_identities() {
        runtime().run(|| {
            assert_eq!(current().name(), None);
            let named = || Builder::new().name("a name".into());
            let (id, name) = named().spawn(|| {
                let me = current();
                yield_now();
                assert_eq!(me.id(), current().id());
                (me.id(), me.name().map(str::to_owned))
            }).unwrap().join().unwrap();
            assert_eq!(name.as_deref(), Some("a name"));
            assert_ne!(id, current().id());
            let fiber = named().spawn(park).unwrap();
            let handle = fiber.fiber();
            assert_eq!((handle.name(), handle.id()), (Some("a name"), fiber.fiber().id()));
            handle.unpark();
            fiber.join().unwrap();
            assert_eq!(handle.name(), Some("a name"), "also when it has ended");
        });
        // A plain thread has a name and an identity, too.
        let thread = std::thread::Builder::new().name("plain".into()).spawn(|| {
            (current().name().map(str::to_owned), current().id() == current().id(), current().id())
        });
        let (name, same, id) = thread.unwrap().join().unwrap();
        assert_eq!((name.as_deref(), same), (Some("plain"), true));
        assert_ne!(id, current().id());
    }

    fn identities_are_unique() {
        let runtime = workers(4);
        let each = scaled(25_000);
        let spawners: Vec<_> = (0..4).map(|_| runtime.spawn(move || {
            (0..each).map(|_| spawn(|| current().id().as_u64()).join().unwrap()).collect::<Vec<_>>()
        })).collect();
        let ids: Vec<_> = spawners.into_iter().flat_map(|s| s.join().unwrap()).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4 * each);
    }

    fn stacks_are_as_large_as_they_were_asked_for() {
        runtime().run(|| {
            let deep = |stack, bytes| Builder::new().stack_size(stack).spawn(move || recurse(bytes, 0));
            for (stack, bytes) in [(256 << 10, 200 << 10), (8 << 20, 4 << 20), (64 << 10, 30 << 10)] {
                assert!(deep(stack, bytes).unwrap().join().unwrap() > 0);
            }
            for stack in [0, 1, usize::MAX] {
                let error = deep(stack, 0).unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
                assert!(error.to_string().contains("stack size"), "{error}");
            }
        });
    }

    fn many_deep_recursions_are_suspended_at_once() {
        runtime().run(|| {
            let fibers: Vec<_> = (0..50).map(|i| spawn(move || recurse((i + 1) * 2048, 0))).collect();
            let depths: Vec<_> = fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect();
            assert!(depths.is_sorted() && (depths[0] < depths[49] || crate::support::slowed()));
        });
    }

    /// A guard, a thread-local and an `Rc` held across suspensions: the fiber does not move.
    fn thread_locals_and_guards_across_suspensions() {
        thread_local! {
            static DEPTH: Cell<usize> = const { Cell::new(0) };
            static TEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
        }
        let runtime = workers(2);
        let fibers: Vec<_> = (0..100).map(|i| runtime.spawn(move || {
            let cell = Rc::new(RefCell::new(i));
            let mut guard = cell.borrow_mut();
            let address = DEPTH.with(|depth| std::ptr::from_ref(depth).addr());
            for _ in 0..10 {
                sleep(Duration::from_micros(50));
                *guard += 1;
                assert_eq!(DEPTH.with(|depth| std::ptr::from_ref(depth).addr()), address);
                DEPTH.set(DEPTH.get() + 1);
                TEXTS.with_borrow_mut(|texts| texts.push(i));
            }
            drop(guard);
            assert_eq!(*cell.borrow(), i + 10);
            let lock = Mutex::new(());
            let held = lock.lock().unwrap();
            yield_now();
            drop(held);
        })).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    }

    fn a_hundred_thousand_fibers_at_once() {
        let runtime = runtime();
        let total = scaled(100_000);
        runtime.run(|| {
            let begun = Arc::new(AtomicUsize::new(0));
            let fibers: Vec<_> = (0..total).map(|i| {
                let begun = Arc::clone(&begun);
                spawn(move || {
                    begun.fetch_add(1, SeqCst);
                    park();
                    i
                })
            }).collect();
            yield_until("all begun", || begun.load(SeqCst) == total);
            assert!(fibers.iter().all(|fiber| !fiber.is_finished()));
            fibers.iter().for_each(|fiber| fiber.fiber().unpark());
            for (i, fiber) in fibers.into_iter().enumerate() {
                assert_eq!(fiber.join().unwrap(), i);
            }
        });
    }

    /// Joined by fibers of the same worker, of another one, and by plain threads.
    fn join_from_several_places() {
        let runtime = workers(2);
        for on in 0..2 {
            for delay in [0, 300] {
                let target = move || Builder::new().worker(on).spawn(move || {
                    sleep(Duration::from_micros(delay));
                    on
                }).unwrap();
                let handle = |to: mpsc::Sender<JoinHandle<usize>>| to.send(target()).unwrap();
                runtime.run(|| assert_eq!(target().join().unwrap(), on));
                runtime.run(move || {
                    let join = move || target().join().unwrap();
                    assert_eq!(Builder::new().worker(0).spawn(join).unwrap().join().unwrap(), on);
                    assert_eq!(Builder::new().worker(1).spawn(join).unwrap().join().unwrap(), on);
                });
                let (to, from) = mpsc::channel();
                runtime.run(|| handle(to));
                let from_thread = std::thread::spawn(move || from.recv().unwrap().join().unwrap());
                assert_eq!(from_thread.join().unwrap(), on);
                // From another runtime.
                let (to, from) = mpsc::channel();
                runtime.run(|| handle(to));
                let other = workers(1);
                let fiber = from.recv().unwrap();
                assert_eq!(other.run(move || fiber.join().unwrap()), on);
            }
        }
    }

    fn a_fiber_cannot_join_itself() {
        runtime().run(|| {
            let cell = Arc::new(Mutex::new(None::<JoinHandle<()>>));
            let mine = Arc::clone(&cell);
            let fiber = spawn(move || {
                park();
                let me = mine.lock().unwrap().take().unwrap();
                me.join().unwrap();
            });
            let (ended, watch) = (Drops::default(), fiber.fiber());
            *cell.lock().unwrap() = Some(fiber);
            watch.unpark();
            drop(ended.token());
            yield_until("the panic", || cell.lock().unwrap().is_none());
        });
    }

    fn is_finished_tells_the_end() {
        let runtime = runtime();
        let fiber = runtime.spawn(park);
        assert!(!fiber.is_finished());
        fiber.fiber().unpark();
        until("the end", || fiber.is_finished());
        fiber.join().unwrap();
    }

    fn scopes_borrow_and_wait() {
        let runtime = runtime();
        let mut numbers = vec![1, 2, 3];
        let drops = Drops::default();
        let sum = runtime.run(|| scope(|s| {
            let token = drops.token();
            s.spawn(move || { sleep(Duration::from_millis(1)); drop(token) });
            let handles: Vec<_> = numbers.iter().map(|n| s.spawn(move || { yield_now(); n * 2 })).collect();
            handles.into_iter().map(|handle| handle.join().unwrap()).sum::<i32>()
        }));
        assert_eq!((sum, drops.get()), (12, 1));
        numbers.push(4);
        // From a plain thread, on the default runtime.
        assert_eq!(scope(|s| s.spawn(|| numbers.len()).join().unwrap()), 4);
        let panic = panic_of(|| runtime.run(|| {
            scope(|s| { s.spawn(|| panic!("unjoined")); });
        }));
        assert!(message(&*panic).contains("scoped fiber panicked"));
    }

    /// A cancelled parent stays until its children have ended.
    fn a_scope_outlasts_the_cancellation_of_its_parent() {
        let runtime = runtime();
        for _ in 0..50 {
            let drops = Drops::default();
            let count = drops.clone();
            let parent = runtime.spawn(move || {
                let local = [1, 2, 3];
                let _seen = OnDrop(|| assert_eq!(count.get(), 3));
                scope(|s| for n in &local {
                    let token = count.token();
                    s.spawn(move || {
                        mask(|| sleep(Duration::from_micros(200 * n)));
                        drop(token);
                    });
                });
                bast_rt::park(); // however late the request comes
            });
            parent.cancel();
            assert!(crate::support::is_cancelled(&parent.join()));
            assert_eq!(drops.get() % 3, 0);
        }
    }

    fn local_fibers_may_be_made_in_destructors() {
        workers(1).run(|| {
            let ran = Rc::new(Cell::new(0));
            let runs = Rc::clone(&ran);
            let fiber = spawn_local(move || {
                let _guard = OnDrop(|| {
                    let runs = Rc::clone(&runs);
                    drop(spawn_local(move || runs.set(runs.get() + 1)));
                });
                yield_now();
            });
            fiber.join().unwrap();
            yield_now();
            yield_now();
            assert_eq!(ran.get(), 1);
        });
    }
}
