//! `Combiner`: whole blocks, whatever happens to those who hand them in.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bast_rt::{sleep, spawn, timeout, yield_now};
use bast_sync::{Combiner, Failure, Sink};

use crate::support::{Random, is_cancelled, on_many, on_one, panic_of, settle, tests};

#[derive(Debug, PartialEq, Eq)]
struct Full;

type Step = Box<dyn FnMut(&[u8]) -> Result<usize, Full> + Send>;

/// Takes what `step` says, after `step` has waited as it likes. What it took is seen from outside.
struct Tape {
    step: Step,
    tape: Arc<Mutex<Vec<u8>>>,
    clean: bool,
    undoes: bool,
}

impl Sink for Tape {
    type Error = Full;

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Full> {
        let n = (self.step)(bytes)?.min(bytes.len());
        self.tape.lock().unwrap().extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn undo(&mut self, count: usize) -> bool {
        if self.undoes {
            let mut tape = self.tape.lock().unwrap();
            let left = tape.len() - count;
            tape.truncate(left);
        }
        self.undoes
    }

    fn is_clean(&self) -> bool {
        self.clean
    }
}

/// What was taken, for a look from outside.
struct View(Arc<Mutex<Vec<u8>>>);

impl View {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).unwrap()
    }
}

fn tape(step: impl FnMut(&[u8]) -> Result<usize, Full> + Send + 'static) -> (Tape, View) {
    let tape = Arc::new(Mutex::new(Vec::new()));
    let view = View(Arc::clone(&tape));
    (Tape { step: Box::new(step), tape, clean: true, undoes: false }, view)
}

/// Steps one after the other; all is taken after the last.
fn script(mut steps: Vec<Step>) -> impl FnMut(&[u8]) -> Result<usize, Full> + Send {
    steps.reverse();
    move |bytes| steps.pop().map_or(Ok(bytes.len()), |mut step| step(bytes))
}

fn takes(n: usize) -> Step {
    Box::new(move |_| Ok(n))
}

fn fails() -> Step {
    Box::new(|_| Err(Full))
}

fn waits() -> Step {
    Box::new(|_| {
        sleep(Duration::from_secs(60));
        Ok(usize::MAX)
    })
}

tests! {
    fn small_blocks_of_those_who_wait_share_a_call() {
        on_one(|| {
            let calls = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&calls);
            let (tape, view) = tape(move |bytes| {
                counter.fetch_add(1, Relaxed);
                yield_now();
                Ok(bytes.len())
            });
            let combiner = Arc::new(Combiner::new(tape, 1 << 16));
            let fibers: Vec<_> = (0..100).map(|n| {
                let combiner = Arc::clone(&combiner);
                spawn(move || combiner.write(format!("{n:03} ").as_bytes()).unwrap())
            }).collect();
            fibers.into_iter().for_each(|f| f.join().unwrap());
            let text: String = (0..100).map(|n| format!("{n:03} ")).collect();
            assert_eq!(view.text(), text);
            assert!(calls.load(Relaxed) <= 3, "{calls:?}");
        });
    }

    fn an_error_is_its_own_writers() {
        on_one(|| {
            // The first is taken whole, the second fails before it has begun, the third is written.
            let (tape, view) = tape(script(vec![takes(3), fails()]));
            let combiner = Combiner::new(tape, 1 << 16);
            assert_eq!(combiner.write(b"one"), Ok(()));
            assert_eq!(combiner.write(b"two"), Err(Failure::Sink(Full)));
            assert_eq!(combiner.write(b"three"), Ok(()));
            assert_eq!(combiner.write(b""), Ok(()));
            assert_eq!(view.text(), "onethree");
        });
    }

    fn half_a_block_tears_or_is_taken_back() {
        for undoes in [false, true] {
            on_one(move || {
                let all_wait = Arc::new(AtomicBool::new(false));
                let go = Arc::clone(&all_wait);
                let first = move |_: &[u8]| {
                    while !go.load(Relaxed) { sleep(Duration::from_millis(1)) }
                    Ok(2_usize)
                };
                let steps = vec![
                    Box::new(first) as Step,
                    takes(5),
                    fails(),
                ];
                let (mut tape, view) = tape(script(steps));
                tape.undoes = undoes;
                let combiner = Arc::new(Combiner::new(tape, 1 << 16));
                let fibers: Vec<_> = ["a.", "bb.", "cccc.", "d."].into_iter().map(|text| {
                    let combiner = Arc::clone(&combiner);
                    let fiber = spawn(move || combiner.write(text.as_bytes()));
                    settle();
                    fiber
                }).collect();
                all_wait.store(true, Relaxed);
                let ends: Vec<_> = fibers.into_iter().map(|f| f.join().unwrap()).collect();
                assert_eq!(&ends[..3], [Ok(()), Ok(()), Err(Failure::Sink(Full))]);
                if undoes {
                    assert_eq!((&ends[3], &*view.text()), (&Ok(()), "a.bb.d."));
                } else {
                    assert_eq!((&ends[3], &*view.text()), (&Err(Failure::Torn), "a.bb.cc"));
                    assert_eq!(combiner.write(b"more"), Err(Failure::Torn));
                    assert_eq!(combiner.with(|_| ()), Err(Failure::Torn));
                }
            });
        }
    }

    fn a_large_block_tears_too() {
        on_one(|| {
            let (tape, view) = tape(script(vec![takes(100), fails()]));
            let combiner = Combiner::new(tape, 1 << 16);
            assert_eq!(combiner.write(&[b'x'; 10_000]), Err(Failure::Sink(Full)));
            assert_eq!(combiner.write(b"y"), Err(Failure::Torn));
            assert_eq!(view.text(), "x".repeat(100));
        });
    }

    fn who_is_cancelled_before_his_turn_has_written_nothing() {
        on_one(|| {
            let (tape, view) = tape(script(vec![waits()]));
            let combiner = Arc::new(Combiner::new(tape, 1 << 16));
            let write = |text: &'static str| {
                let combiner = Arc::clone(&combiner);
                let fiber = spawn(move || combiner.write(text.as_bytes()).unwrap());
                settle();
                fiber
            };
            let (leader, second, third) = (write("first."), write("second."), write("third."));
            second.cancel();
            assert!(is_cancelled(&second.join()));
            leader.cancel();
            assert!(is_cancelled(&leader.join()));
            third.join().unwrap();
            assert_eq!(view.text(), "third.");
        });
    }

    fn half_a_block_of_a_cancelled_leader_is_completed() {
        for len in [10, 10_000] {
            on_one(move || {
                let (tape, view) = tape(script(vec![takes(4), waits()]));
                let combiner = Combiner::new(tape, 1 << 16);
                let block = vec![b'a'; len];
                assert!(timeout(Duration::from_millis(5), || combiner.write(&block)).is_err());
                assert_eq!(view.text(), "aaaa");
                combiner.write(b"b").unwrap();
                assert_eq!(view.text(), "a".repeat(len) + "b");
            });
        }
    }

    fn with_completes_it_too() {
        on_one(|| {
            let (tape, view) = tape(script(vec![takes(4), waits()]));
            let combiner = Combiner::new(tape, 1 << 16);
            assert!(timeout(Duration::from_millis(5), || combiner.write(b"123456")).is_err());
            combiner.with(|_| ()).unwrap();
            assert_eq!(view.text(), "123456");
        });
    }

    fn a_sink_that_is_not_clean_is_not_interrupted() {
        on_one(|| {
            let slow = Box::new(|_: &[u8]| { sleep(Duration::from_millis(20)); Ok(3_usize) }) as Step;
            let (mut tape, view) = tape(script(vec![slow]));
            tape.clean = false;
            let combiner = Combiner::new(tape, 1 << 16);
            // Its first call is waited for; then the rest is another's.
            assert!(timeout(Duration::from_millis(1), || combiner.write(b"123456")).is_err());
            assert_eq!(view.text(), "123");
            combiner.write(b"7").unwrap();
            assert_eq!(view.text(), "1234567");
            let (mut tape, _) = self::tape(|_| resume_unwind(Box::new("panicked")));
            tape.clean = false;
            let combiner = Combiner::new(tape, 1 << 16);
            assert_eq!(panic_of(|| combiner.write(b"x")), "panicked");
            assert_eq!(combiner.write(b"y"), Err(Failure::Torn));
        });
    }

    fn empty_blocks_among_others_are_told_of() {
        on_many(|| {
            let (tape, view) = tape(|bytes| { yield_now(); Ok(bytes.len()) });
            let combiner = Arc::new(Combiner::new(tape, 1 << 16));
            let fibers: Vec<_> = (0..30).map(|name| {
                let combiner = Arc::clone(&combiner);
                spawn(move || for n in 0..50 {
                    let text = if (name + n) % 5 == 0 { format!("{name}-{n} ") } else { String::new() };
                    combiner.write(text.as_bytes()).unwrap();
                })
            }).collect();
            fibers.into_iter().for_each(|f| f.join().unwrap());
            let text = view.text();
            let mut seen: Vec<_> = text.split_terminator(' ').collect();
            let written = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!((seen.len(), written), (300, 300), "written, and how often: {text}");
        });
    }

    fn an_undo_that_panics_tears() {
        for len in [6, 10_000] {
            on_one(move || {
                let (mut tape, view) = tape(script(vec![takes(4), fails()]));
                tape.undoes = true;
                // Half of it is on the tape, and `undo` meets a poisoned lock.
                let tape_of = Arc::clone(&tape.tape);
                tape.step = {
                    let mut step = tape.step;
                    Box::new(move |bytes| {
                        let taken = step(bytes);
                        if taken.is_err() {
                            let poison = Arc::clone(&tape_of);
                            let _ = std::thread::spawn(move || {
                                let _guard = poison.lock();
                                resume_unwind(Box::new("poison"));
                            }).join();
                        }
                        taken
                    })
                };
                let combiner = Combiner::new(tape, 1 << 16);
                let block = vec![b'a'; len];
                assert!(panic_of(|| combiner.write(&block)).contains("Poison"));
                assert_eq!(combiner.write(b"b"), Err(Failure::Torn));
                assert_eq!(view.text(), "aaaa");
            });
        }
    }

    fn who_leads_and_writes_is_told_so() {
        let test = || {
            let (tape, view) = tape(|bytes| Ok(bytes.len()));
            let combiner = Combiner::new(tape, 1 << 16);
            let inner = || combiner.with(|_| combiner.write(b"inner"));
            assert!(panic_of(inner).contains("within"));
            let inner = || combiner.with(|_| combiner.with(|_| ()));
            assert!(panic_of(inner).contains("within"));
            combiner.write(b"after").unwrap();
            assert_eq!(view.text(), "after");
        };
        on_one(test);
        test();
    }

    fn storm() {
        const FIBERS: usize = 60;
        on_many(|| {
            let mut random = Random(7);
            let mut since = 0;
            let (mut tape, view) = tape(move |bytes| {
                match random.below(8) {
                    0 => sleep(Duration::from_micros(200)),
                    1 => yield_now(),
                    2 if since > 50 => { since = 0; return Err(Full); }
                    _ => since += 1,
                }
                Ok(random.below(bytes.len() as u64 + 3) as usize + 1)
            });
            tape.undoes = true;
            let combiner = Arc::new(Combiner::new(tape, 2000));
            let work = |name: usize, combiner: &Combiner<Tape>| {
                let mut random = Random(name as u64 + 1);
                let mut acknowledged = Vec::new();
                for n in 0..60 {
                    let rest = "x".repeat(random.below(if n % 20 == 0 { 9000 } else { 60 }) as usize);
                    let block = format!("{name} {n} {rest} {}\n", rest.len());
                    let limit = if n % 4 == 0 { Duration::from_micros(random.below(500)) } else { Duration::from_secs(60) };
                    if let Ok(Ok(())) = timeout(limit, || combiner.write(block.as_bytes())) {
                        acknowledged.push(n);
                    }
                }
                acknowledged
            };
            let fibers: Vec<_> = (0..FIBERS).map(|name| {
                let combiner = Arc::clone(&combiner);
                spawn(move || work(name, &combiner))
            }).collect();
            let thread = std::thread::spawn({
                let combiner = Arc::clone(&combiner);
                move || work(FIBERS, &combiner)
            });
            let mut acknowledged: Vec<_> = fibers.into_iter().enumerate().map(|(n, fiber)| {
                if n % 6 == 0 {
                    sleep(Duration::from_micros(300));
                    fiber.cancel();
                }
                fiber.join().unwrap_or_default()
            }).collect();
            while !thread.is_finished() {
                sleep(Duration::from_millis(1));
            }
            acknowledged.push(thread.join().unwrap());
            combiner.with(|_| ()).unwrap();
            let mut seen = vec![Vec::new(); FIBERS + 1];
            for line in view.text().lines() {
                let parts: Vec<_> = line.split(' ').collect();
                assert_eq!(parts.len(), 4, "{line}");
                assert_eq!(parts[2].len().to_string(), parts[3], "{line}");
                seen[parts[0].parse::<usize>().unwrap()].push(parts[1].parse::<usize>().unwrap());
            }
            for (seen, acknowledged) in seen.iter().zip(&acknowledged) {
                assert!(seen.is_sorted_by(|a, b| a < b), "out of order, or twice: {seen:?}");
                assert!(acknowledged.iter().all(|n| seen.contains(n)));
            }
            assert!(acknowledged.iter().flatten().count() > FIBERS * 10);
        });
    }
}
