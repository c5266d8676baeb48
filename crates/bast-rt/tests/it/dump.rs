//! Dumps: what they show, and that the fibers do not notice.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast_rt::{
    Builder, Dump, Fiber, FiberDump, JoinHandle, dump, dump_on_signal, park, run_blocking, sleep,
    spawn, yield_now,
};

use crate::support::{OnDrop, child, is_cancelled, is_child, runtime, tests, until, workers};

fn named<T: Send + 'static>(name: &str, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().name(name.into()).spawn(f).unwrap()
}

fn find<'a>(dump: &'a Dump, name: &str) -> &'a FiberDump {
    dump.fibers()
        .find(|fiber| fiber.name() == Some(name))
        .unwrap_or_else(|| panic!("no {name} in\n{dump}"))
}

/// Dumps until the fiber is as it should be: a loaded machine may not have let it get there.
fn dump_until(name: &str, ready: impl Fn(&FiberDump) -> bool) -> Dump {
    dump_once(name, |dump| dump.fibers().any(|fiber| fiber.name() == Some(name) && ready(fiber)))
}

/// As `dump_until`, for what is to be in one dump: a worker whose thread is stopped for a second is left out of it.
fn dump_once(what: &str, ready: impl Fn(&Dump) -> bool) -> Dump {
    let end = std::time::Instant::now() + Duration::from_secs(100);
    loop {
        let dump = dump();
        if ready(&dump) {
            return dump;
        }
        assert!(std::time::Instant::now() < end, "{what} is not as it should be in\n{dump}");
        sleep(Duration::from_millis(1));
    }
}

/// What the fiber waits in.
fn waits<'a>(dump: &'a Dump, name: &str) -> Option<&'a str> {
    dump.fibers().find(|fiber| fiber.name() == Some(name))?.waits_in()
}

/// The line of the fiber's own code, from its backtrace.
fn own_line(dump: &Dump, fiber: &FiberDump) -> Option<u32> {
    let own = |frame: &&bast_rt::Frame| frame.file().is_some_and(|f| f.ends_with("it/dump.rs"));
    dump.backtrace(fiber).iter().find(own)?.line()
}

fn park_here(line: &AtomicU32) {
    line.store(line!() + 1, SeqCst);
    park();
}

tests! {
    fn a_parked_fiber_is_shown_with_its_reason_and_its_line() {
        let line = Arc::new(AtomicU32::new(0));
        let theirs = Arc::clone(&line);
        let fiber = named("dump parks", move || park_here(&theirs));
        let dump = dump_until("dump parks", |fiber| fiber.waits_in() == Some("park"));
        let seen = find(&dump, "dump parks");
        assert_eq!((seen.state(), seen.id()), ("parked", fiber.fiber().id().as_u64()));
        assert!(seen.since().is_some() && !seen.is_unwinding());
        assert!(seen.spawned_at().file().ends_with("it/dump.rs"));
        assert_eq!(own_line(&dump, seen), Some(line.load(SeqCst)), "{dump}");
        let first = dump.backtrace(seen)[0].function().unwrap().to_owned();
        // With line tables only, an inlined function's name is all that there is.
        assert!(first == "park" || first.ends_with("::park"), "the public call: {first}");
        let last = dump.backtrace(seen).last().unwrap().file().unwrap().to_owned();
        assert!(last.ends_with("it/dump.rs"), "the last line is the user's: {last}");
        let text = dump.to_string();
        assert!(text.contains("'dump parks': parked in park, for "), "{text}");
        assert!(text.contains(&format!("it/dump.rs:{}", line.load(SeqCst))), "{text}");
        fiber.fiber().unpark();
        fiber.join().unwrap();
    }

    fn each_kind_of_wait_is_named() {
        let inner = named("dump target", park);
        let target = inner.fiber();
        let joiner = named("dump joins", move || inner.join().unwrap());
        let end = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&end);
        let blocker = named("dump blocks", move || run_blocking(|| {
            while !theirs.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }));
        let sleeper = named("dump sleeps", || sleep(Duration::from_secs(3600)));
        dump_until("dump blocks", |fiber| fiber.waits_in() == Some("a blocking call"));
        dump_until("dump sleeps", |fiber| fiber.waits_in() == Some("sleep"));
        let dump = dump_once("the joiner and its target", |dump| {
            waits(dump, "dump joins") == Some("JoinHandle::join") && waits(dump, "dump target") == Some("park")
        });
        assert_eq!(find(&dump, "dump joins").waits_for(), Some(target.id().as_u64()));
        let expected = format!("which fiber {} 'dump target' could end", target.id());
        assert!(dump.to_string().contains(&expected), "{dump}");
        end.store(true, SeqCst);
        target.unpark();
        sleeper.cancel();
        joiner.join().unwrap();
        blocker.join().unwrap();
        assert!(is_cancelled(&sleeper.join()));
    }

    fn json_says_the_same() {
        let fiber = named("dump \"json\" \\ \u{1f980}", park);
        let dump = dump_until("dump \"json\" \\ \u{1f980}", |f| f.waits_in() == Some("park"));
        let value: serde_json::Value = serde_json::from_str(&dump.to_json()).unwrap();
        let workers = value["runtimes"].as_array().unwrap().iter().flat_map(|r| r["workers"].as_array().unwrap());
        let fibers: Vec<_> = workers.flat_map(|w| w["fibers"].as_array().unwrap()).collect();
        assert_eq!(fibers.len(), dump.fibers().count());
        let me = fibers.iter().find(|f| f["id"] == fiber.fiber().id().as_u64()).unwrap();
        assert_eq!((&me["name"], &me["state"]), (&"dump \"json\" \\ \u{1f980}".into(), &"parked".into()));
        let stack = &value["stacks"][me["stack"].as_u64().unwrap() as usize];
        assert!(stack[0]["function"].as_str().unwrap().ends_with("park"), "{stack}");
        fiber.fiber().unpark();
        fiber.join().unwrap();
    }

    fn fibers_dump_too() {
        let parked = named("dump seen by a fiber", park);
        let runtime = workers(1);
        // From another runtime's fiber, and from one of the only worker there is.
        runtime.run(|| {
            let own = spawn(park);
            yield_now();
            dump_once("each of the three", |dump| {
                let text = dump.to_string();
                waits(dump, "dump seen by a fiber") == Some("park")
                    && text.contains("parked in dump")
                    && text.contains("fibers_dump_too")
            });
            own.fiber().unpark();
            own.join().unwrap();
        });
        parked.fiber().unpark();
        parked.join().unwrap();
    }

    fn equal_fibers_are_one_entry() {
        let runtime = workers(2);
        let count = Arc::new(AtomicUsize::new(0));
        let fibers: Vec<_> = (0..300).map(|_| {
            let count = Arc::clone(&count);
            runtime.spawn(move || {
                count.fetch_add(1, SeqCst);
                park();
            })
        }).collect();
        until("all have begun", || count.load(SeqCst) == 300);
        let all = "\n300 fibers: parked in park";
        dump_once(all, |dump| dump.to_string().contains(all));
        fibers.iter().for_each(|fiber| fiber.fiber().unpark());
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    }

    /// Fibers that yield, park, wake each other and compare what they find, under a rain of dumps.
    fn nobody_notices() {
        let runtime = runtime();
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let fibers: Vec<_> = (0..20u64).map(|n| {
            let (stop, rounds) = (Arc::clone(&stop), Arc::clone(&rounds));
            runtime.spawn(move || {
                let mine = [n; 64];
                while !stop.load(SeqCst) {
                    match (rounds.fetch_add(1, SeqCst) + n) % 5 {
                        0 => sleep(Duration::from_micros(50)),
                        1 => {
                            let me = bast_rt::current();
                            let waker = spawn(move || me.unpark());
                            park();
                            waker.join().unwrap();
                        }
                        2 => assert!(spawn(panic_quietly).join().is_err()),
                        3 => assert_eq!(run_blocking(|| mine[7]), n),
                        _ => yield_now(),
                    }
                    assert_eq!(std::hint::black_box(&mine), &[n; 64]);
                }
                mine.iter().sum::<u64>()
            })
        }).collect();
        // Until they have seen all: some may begin late.
        let dumps = || {
            let mut most = 0;
            for n in 0.. {
                if n >= 15 && most >= 20 { break }
                most = most.max(dump().fibers().count());
            }
        };
        let dumpers = [(); 2].map(|()| std::thread::spawn(dumps));
        let inside = runtime.spawn(dumps);
        dumpers.into_iter().for_each(|dumper| dumper.join().unwrap());
        inside.join().unwrap();
        let before = rounds.load(SeqCst);
        until("they go on", || rounds.load(SeqCst) > before + 100);
        stop.store(true, SeqCst);
        for (n, fiber) in fibers.into_iter().enumerate() {
            assert_eq!(fiber.join().unwrap(), 64 * n as u64);
        }
    }

    fn a_fiber_that_waits_while_it_unwinds_goes_on_unwinding() {
        let fiber = named("dump unwinds", || {
            let _after = OnDrop(|| ());
            let _wait = OnDrop(park);
            panic_quietly();
        });
        let dump = dump_until("dump unwinds", |fiber| fiber.waits_in() == Some("park"));
        let seen = find(&dump, "dump unwinds");
        assert!(seen.is_unwinding(), "{dump}");
        assert!(own_line(&dump, seen).is_some(), "{dump}");
        assert!(dump.to_string().contains("while it unwinds"), "{dump}");
        fiber.fiber().unpark();
        assert_eq!(fiber.join().unwrap_err().downcast_ref(), Some(&"quiet"));
    }

    fn a_small_stack_suffices() {
        let small = Builder::new().name("dump small".into()).stack_size(16 << 10);
        let fiber = small.spawn(|| { park(); 5 }).unwrap();
        dump_until("dump small", |fiber| fiber.waits_in() == Some("park"));
        fiber.fiber().unpark();
        assert_eq!(fiber.join().unwrap(), 5);
    }

    #[cfg_attr(windows, ignore = "Windows cannot interrupt a thread to ask where it is")]
    fn a_hog_is_shown_where_it_is() {
        let runtime = workers(1);
        let (stop, line) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stops, lines) = (Arc::clone(&stop), Arc::clone(&line));
        let hog = runtime.spawn(move || {
            lines.store(line!() + 1, SeqCst);
            while !stops.load(SeqCst) {}
        });
        until("it has begun", || line.load(SeqCst) != 0);
        let id = hog.fiber().id().as_u64();
        // It may have been held up on its way to that line.
        dump_once("the hog", |dump| {
            let Some(seen) = dump.fibers().find(|fiber| fiber.id() == id) else { return false };
            seen.state() == "running"
                && own_line(dump, seen) == Some(line.load(SeqCst))
                && dump.to_string().contains("does not answer: held for ")
        });
        stop.store(true, SeqCst);
        hog.join().unwrap();
    }

    fn runtimes_may_end_meanwhile() {
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let dumper = std::thread::spawn(move || while !stops.load(SeqCst) { let _ = dump(); });
        for _ in 0..30 {
            let runtime = workers(2);
            let fibers: Vec<_> = (0..50).map(|_| runtime.spawn(park)).collect();
            runtime.run(yield_now);
            drop(runtime);
            assert!(fibers.into_iter().all(|fiber| is_cancelled(&fiber.join())));
        }
        stop.store(true, SeqCst);
        dumper.join().unwrap();
    }

    #[cfg_attr(windows, ignore = "Windows cannot interrupt a thread to ask where it is")]
    fn ctrl_backslash_prints_although_all_workers_are_held() {
        const PATH: &str = concat!(module_path!(), "::ctrl_backslash_prints_although_all_workers_are_held");
        if is_child(PATH) {
            dump_on_signal().unwrap();
            dump_on_signal().unwrap();
            let runtime = workers(1);
            let _hog = runtime.spawn(|| {
                eprintln!("ready");
                loop { std::hint::spin_loop() }
            });
            std::thread::sleep(Duration::from_secs(90));
            return;
        }
        let mut process = child(PATH).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "ready"));
        let id = process.id().to_string();
        let ask = || assert!(Command::new("kill").args(["-QUIT", &id]).status().unwrap().success());
        ask();
        // Twice: the program goes on. Each dump is followed by another: if the hog's thread was stopped, it is in none.
        let mut shown = 0;
        while shown < 2 {
            let line = lines.next().expect("the process goes on");
            if line.contains("; taken in ") { ask() }
            shown += usize::from(line.contains("running") && line.contains("it/dump.rs:"));
        }
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

/// Panics without a message.
fn panic_quietly() {
    std::panic::resume_unwind(Box::new("quiet"));
}

#[test]
fn handles_and_dumps_name_the_same_fiber() {
    let fiber: Fiber = spawn(bast_rt::current).join().unwrap();
    // It has ended: no dump has it.
    assert!(dump().fibers().all(|seen| seen.id() != fiber.id().as_u64()));
}
