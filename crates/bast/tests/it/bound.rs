//! Bound fibers: a thread of their own, and all of bast on it.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::ThreadId;
use std::time::Duration;

use bast::{Builder, Cancelled, JoinHandle, Runtime, sleep};

use crate::harness::{needs_kernel, simulated, until};

const LONG: Duration = Duration::from_secs(1_000);
const PATIENCE: Duration = Duration::from_secs(60);

fn bound<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().bound().spawn(f).unwrap()
}

fn here() -> ThreadId {
    std::thread::current().id()
}

fn thread_name() -> Option<String> {
    std::thread::current().name().map(str::to_owned)
}

thread_local!(static MINE: Cell<u64> = const { Cell::new(0) });

/// Its thread is the same one throughout and nobody else's, whatever it waits for.
#[test]
fn it_has_a_thread_for_itself() {
    needs_kernel!();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let threads: Vec<ThreadId> = runtime.run(|| {
        let fibers: Vec<_> = (1..=8)
            .map(|n| {
                bound(move || {
                    let (thread, id) = (here(), bast::current().id());
                    MINE.set(n);
                    let lock = Arc::new(bast::sync::Mutex::new(0));
                    for round in 0..20 {
                        let theirs = Arc::clone(&lock);
                        let other = bast::spawn(move || {
                            *theirs.lock().unwrap() += 1;
                            MINE.set(1_000);
                            here()
                        });
                        sleep(Duration::from_micros(50));
                        bast::yield_now();
                        assert_ne!(other.join().unwrap(), thread);
                        assert_eq!(*lock.lock().unwrap(), round + 1);
                        assert_eq!((here(), MINE.get(), bast::current().id()), (thread, n, id));
                    }
                    thread
                })
            })
            .collect();
        fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect()
    });
    let distinct: std::collections::HashSet<_> = threads.iter().collect();
    assert_eq!(distinct.len(), threads.len());
}

#[test]
fn the_thread_has_its_name_and_ends_after_it() {
    needs_kernel!();
    struct OnEnd(mpsc::Sender<Option<u64>>);
    impl Drop for OnEnd {
        fn drop(&mut self) {
            // Others of the thread's variables are still there, and the fiber is not.
            let _ = self.0.send(MINE.try_with(Cell::get).ok());
        }
    }
    thread_local!(static END: Cell<Option<OnEnd>> = const { Cell::new(None) });
    let (send, receive) = mpsc::channel();
    let fiber = Builder::new().name("graphics".into()).bound().spawn(move || {
        MINE.set(5);
        END.set(Some(OnEnd(send)));
        (thread_name(), bast::current().name().map(str::to_owned))
    });
    let name = Some("graphics".to_owned());
    assert_eq!(fiber.unwrap().join().unwrap(), (name.clone(), name));
    assert_eq!(receive.recv_timeout(PATIENCE), Ok(Some(5)));
    let unnamed = bound(thread_name).join().unwrap().unwrap();
    assert!(unnamed.starts_with("bast-bound-"), "{unnamed}");
    let odd =
        Builder::new().name("a\0b".into()).bound().spawn(thread_name).unwrap().join().unwrap();
    assert!(odd.unwrap().starts_with("bast-bound-"));
}

#[test]
fn what_it_spawns_runs_elsewhere_and_what_is_local_here() {
    needs_kernel!();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime.run(|| {
        let fiber = bound(|| {
            let thread = here();
            let spawned = bast::spawn(|| (here(), thread_name())).join().unwrap();
            let on = Builder::new().worker(1).spawn(thread_name).unwrap().join().unwrap();
            let local = Rc::new(Cell::new(0));
            let theirs = Rc::clone(&local);
            let helper = bast::spawn_local(move || {
                sleep(Duration::from_millis(1));
                theirs.set(3);
                here()
            });
            assert_eq!(helper.join().unwrap(), thread);
            let inner = bound(here).join().unwrap();
            // Outlives it, on its thread.
            let (tell, told) = mpsc::channel();
            drop(bast::spawn_local(move || {
                sleep(Duration::from_millis(20));
                tell.send(here()).unwrap();
            }));
            (thread, spawned, on, local.get(), inner, told)
        });
        let (thread, (other, name), on, local, inner, told) = fiber.join().unwrap();
        assert!(other != thread && inner != thread && inner != other);
        assert!(name.as_deref() == Some("bast-0") || name.as_deref() == Some("bast-1"), "{name:?}");
        assert_eq!((on.as_deref(), local), (Some("bast-1"), 3));
        assert_eq!(bast::blocking(move || told.recv_timeout(PATIENCE)), Ok(thread));
    });
}

#[test]
fn all_of_bast_works_on_it() {
    needs_kernel!();
    bast::fiber_local!(static LOCAL: Cell<u32> = Cell::new(1));
    let listener = bast::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = bound(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        peer.write_all(&all).unwrap();
        all.len()
    });
    let (send, receive) = bast::sync::mpsc::channel();
    let client = bound(move || {
        LOCAL.set(2);
        let mut stream = bast::net::TcpStream::connect(address).unwrap();
        stream.write_all(&[7; 100_000]).unwrap();
        stream.shutdown(bast::net::Shutdown::Write).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        send.send(all).unwrap();
        LOCAL.get() + bast::blocking(|| 40)
    });
    assert_eq!(receive.recv().unwrap(), [7; 100_000]);
    assert_eq!((server.join().unwrap(), client.join().unwrap()), (100_000, 42));
    // Scopes: it borrows, and opens one.
    let mut words = ["a", "b"];
    bast::scope(|s| {
        let words = &mut words;
        Builder::new()
            .bound()
            .spawn_scoped(s, move || {
                let (first, second) = words.split_at_mut(1);
                bast::scope(|s| {
                    s.spawn(|| first[0] = "c");
                    s.spawn(|| second[0] = "d");
                });
            })
            .unwrap();
    });
    assert_eq!(words, ["c", "d"]);
    let panics = bound(|| -> u32 { std::panic::resume_unwind(Box::new("on purpose")) });
    assert_eq!(panics.join().unwrap_err().downcast_ref(), Some(&"on purpose"));
    let path = std::env::temp_dir().join(format!("bast-bound-{}", std::process::id()));
    let file = path.clone();
    bound(move || bast::fs::write(file, "text").unwrap()).join().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    std::fs::remove_file(path).unwrap();
}

/// While it blocks its thread everybody else goes on, on a runtime with one worker.
#[test]
fn it_may_block_its_thread() {
    needs_kernel!();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let (open, gate) = mpsc::channel();
        let fiber = bound(move || gate.recv().unwrap());
        for _ in 0..20 {
            bast::spawn(|| sleep(Duration::from_micros(100))).join().unwrap();
        }
        assert!(!fiber.is_finished());
        open.send(9).unwrap();
        assert_eq!(fiber.join().unwrap(), 9);
    });
}

#[test]
fn it_is_cancelled_and_its_time_runs_out() {
    needs_kernel!();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let lock = Arc::new(bast::sync::Mutex::new(()));
    let held = lock.lock().unwrap();
    let theirs = Arc::clone(&lock);
    let waits: [Box<dyn FnOnce() + Send>; 5] = [
        Box::new(|| sleep(LONG)),
        Box::new(bast::park),
        Box::new(move || drop(theirs.lock())),
        Box::new(move || {
            let mut stream = bast::net::TcpStream::connect(address).unwrap();
            let _ = stream.read(&mut [0]);
        }),
        Box::new(|| {
            let (mut reader, _writer) = std::io::pipe().unwrap();
            let _ = bast::blocking_interruptible(|| reader.read(&mut [0]));
        }),
    ];
    for (n, wait) in waits.into_iter().enumerate() {
        let [begun, unwound] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (begins, seen) = (Arc::clone(&begun), Arc::clone(&unwound));
        let fiber = bound(move || {
            struct OnDrop(Arc<AtomicBool>);
            impl Drop for OnDrop {
                fn drop(&mut self) {
                    self.0.store(true, SeqCst);
                }
            }
            let _end = OnDrop(seen);
            begins.store(true, SeqCst);
            wait();
        });
        // The first one perhaps before it has begun.
        until("it begins", || n == 0 || begun.load(SeqCst));
        sleep(Duration::from_millis(n as u64 * 3));
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>(), "wait {n}");
        assert!(unwound.load(SeqCst) || n == 0);
    }
    drop(held);
    let timed = bound(|| bast::timeout(Duration::from_millis(5), || sleep(LONG)).is_err());
    assert!(timed.join().unwrap());
}

/// The end of a runtime reaches it, and waits for what it still does.
#[test]
fn the_runtime_ends_it() {
    needs_kernel!();
    for _ in 0..20 {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let fibers: Vec<_> = runtime.run(|| {
            (0..4)
                .map(|n| {
                    let ended = Arc::clone(&ended);
                    bound(move || {
                        struct Last(Arc<AtomicUsize>);
                        impl Drop for Last {
                            fn drop(&mut self) {
                                // The workers are there as long as somebody may need them. (Whether it still runs is open.)
                                let _ = bast::spawn(|| ()).join();
                                sleep(Duration::from_millis(2));
                                self.0.fetch_add(1, SeqCst);
                            }
                        }
                        let _last = Last(ended);
                        if n % 2 == 0 { sleep(LONG) } else { bast::park() }
                    })
                })
                .collect()
        });
        // What has not begun by then only drops its closure.
        sleep(Duration::from_millis(3));
        runtime.shutdown(PATIENCE).unwrap();
        assert!(ended.load(SeqCst) <= 4);
        for fiber in fibers {
            assert!(fiber.is_finished());
            assert!(fiber.join().unwrap_err().is::<Cancelled>());
        }
    }
}

#[test]
fn one_that_cannot_be_ended_is_reported() {
    needs_kernel!();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let fiber = runtime.run(|| {
        bound(move || {
            tell.send(()).unwrap();
            gate.recv().unwrap_err();
        })
    });
    told.recv_timeout(PATIENCE).unwrap();
    let left = runtime.shutdown(Duration::from_millis(20)).unwrap_err();
    assert_eq!((left.bound(), left.fibers()), (1, &[0][..]));
    assert!(left.to_string().contains("bound: 1"), "{left}");
    drop(open);
    fiber.join().unwrap();
}

#[test]
fn it_is_seen() {
    needs_kernel!();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let fibers: Vec<_> = runtime.run(|| {
        (0..3)
            .map(|n| Builder::new().name(format!("bound {n}")).bound().spawn(bast::park).unwrap())
            .collect()
    });
    until("they wait", || {
        let dump = bast::dump();
        let waiting = |n| {
            let name = format!("bound {n}");
            dump.fibers().any(|f| f.name() == Some(&*name) && f.waits_in() == Some("park"))
        };
        (0..3).all(waiting) && dump.to_string().contains("bound thread (")
    });
    let metrics = runtime.metrics();
    assert_eq!((metrics.workers.len(), metrics.bound.len()), (1, 3));
    assert_eq!(metrics.bound.iter().map(|worker| worker.live).sum::<usize>(), 3);
    assert!(metrics.to_string().contains("bound"), "{metrics}");
    let spawned = metrics.spawned;
    for fiber in fibers {
        fiber.fiber().unpark();
        fiber.join().unwrap();
    }
    until("their threads end", || runtime.metrics().bound.is_empty());
    let metrics = runtime.metrics();
    assert_eq!((metrics.spawned, metrics.ended), (spawned, spawned));
}

#[test]
fn what_makes_no_sense_is_an_error() {
    let on_worker = Builder::new().bound().worker(0).spawn(|| ());
    assert_eq!(on_worker.unwrap_err().kind(), ErrorKind::InvalidInput);
    let local = bast::spawn(|| Builder::new().bound().spawn_local(|| ()).unwrap_err().kind());
    assert_eq!(local.join().unwrap(), ErrorKind::InvalidInput);
    if simulated() {
        let error = Builder::new().bound().spawn(|| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

/// Begun, cancelled and joined from many fibers at once; a message to and fro each.
#[test]
fn many_at_once() {
    needs_kernel!();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let cancelled = runtime.run(|| {
        let fibers: Vec<_> = (0..4)
            .map(|n| {
                bast::spawn(move || {
                    let mut cancelled = 0;
                    for round in 0..25_u64 {
                        let (send, receive) = bast::sync::mpsc::channel();
                        let (back, answer) = bast::sync::mpsc::channel();
                        let fiber = bound(move || {
                            let got: u64 = receive.recv().unwrap();
                            back.send(got + 1).unwrap();
                            sleep(if got.is_multiple_of(2) { LONG } else { Duration::ZERO });
                        });
                        if (round + n).is_multiple_of(5) {
                            fiber.cancel();
                            // It may have got the message first.
                            let _ = send.send(round);
                            cancelled += u32::from(fiber.join().is_err());
                            continue;
                        }
                        send.send(round).unwrap();
                        assert_eq!(answer.recv().unwrap(), round + 1);
                        fiber.cancel();
                        cancelled += u32::from(fiber.join().is_err());
                    }
                    cancelled
                })
            })
            .collect();
        fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<u32>()
    });
    assert!(cancelled > 0);
    until("all threads end", || runtime.metrics().bound.is_empty());
}
