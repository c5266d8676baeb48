//! Streams in direct style: order, bounds, ends.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bast_rt::{Cancelled, Instant, sleep, spawn, timeout, yield_now};
use bast_sync::mpsc::{channel, sync_channel};
use bast_sync::stream::{Merge, StreamExt, generate, merge};

use crate::groups::support::{
    EVER, Live, Random, everywhere, hang, is_cancelled, message, panic_of, simulated, until, watch,
};

/// Counts what has been taken from it.
struct Source {
    taken: Arc<AtomicUsize>,
    end: usize,
}

impl Iterator for Source {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let taken = self.taken.load(SeqCst);
        (taken < self.end).then(|| self.taken.fetch_add(1, SeqCst))
    }
}

fn source(end: usize) -> (Arc<AtomicUsize>, Source) {
    let taken = Arc::new(AtomicUsize::new(0));
    (taken.clone(), Source { taken, end })
}

/// Time for fibers that go further than they may. None in a simulated world, where all run until they wait.
fn let_them_run() {
    for _ in 0..20 {
        yield_now();
    }
    sleep(Duration::from_millis(2));
}

everywhere! {
    fn in_order_whoever_is_first() {
        for limit in [1, 3, 64, usize::MAX] {
            let results = (0..300).par_map(limit, |n: i32| {
                if n % 3 == 0 { sleep(Duration::from_micros(30)) }
                if n % 7 == 0 { yield_now() }
                n * 2
            });
            assert_eq!(results.size_hint(), (300, Some(300)));
            assert!(results.eq((0..300).map(|n| n * 2)), "limit {limit}");
        }
    }

    fn all_of_them_unordered() {
        for limit in [1, 3, 64, usize::MAX] {
            let results = (0..300).par_map_unordered(limit, |n: i32| {
                if n % 3 == 0 { sleep(Duration::from_micros(30)) }
                n
            });
            let mut all: Vec<_> = results.collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..300), "limit {limit}");
        }
    }

    fn of_nothing_and_after_the_end() {
        let mut none = (0..0).par_map(1, |n| n);
        assert_eq!((none.next(), none.next(), none.size_hint()), (None, None, (0, Some(0))));
        let mut one = (0..1).par_map_unordered(5, |n| n);
        assert_eq!((one.next(), one.next(), one.next()), (Some(0), None, None));
        assert_eq!(merge::<[Vec<u8>; 0], _, _>([]).next(), None);
        let mut one = (0..1).prefetch(9);
        assert_eq!((one.next(), one.next(), one.next()), (Some(0), None, None));
        assert_eq!((0..0).chunks(3).next(), None);
        assert_eq!((0..0).chunks_timeout(3, EVER).next(), None);
        assert_eq!((0..0).throttle(3, EVER).next(), None);
        drop((0..9).par_map(3, |_| hang()));
    }

    fn never_more_than_the_limit_ahead() {
        for limit in [1, 2, 8] {
            let (taken, items) = source(100);
            let live = Live::default();
            let most = Arc::new(AtomicUsize::new(0));
            let (inside, at_most) = (live.clone(), most.clone());
            let mut results = items.par_map(limit, move |n| {
                let _inside = inside.enter();
                at_most.fetch_max(inside.get(), SeqCst);
                yield_now();
                n
            });
            assert_eq!(taken.load(SeqCst), 0, "nothing is done that nobody asks for");
            for given in 0..100 {
                assert_eq!(results.next(), Some(given));
                if given % 10 == 0 { let_them_run() }
                assert!(taken.load(SeqCst) <= given + limit, "{given}");
            }
            assert_eq!(results.next(), None);
            assert!(most.load(SeqCst) <= limit);
            assert_eq!(live.get(), 0);
        }
    }

    fn unordered_results_that_wait_count_as_well() {
        let (taken, items) = source(100);
        let mut results = items.par_map_unordered(4, |n| n);
        for given in 1..=100 {
            assert!(results.next().is_some());
            let_them_run();
            assert!(taken.load(SeqCst) < given + 4, "{given}");
        }
        assert!(results.next().is_none());
    }

    fn the_quick_do_not_wait_for_the_slow() {
        let mut results = (0..50).par_map_unordered(2, |n| if n == 0 { hang() } else { yield_now() });
        for _ in 1..50 {
            assert!(results.next().is_some());
        }
    }

    fn dropped_half_way_nothing_is_left() {
        let live = Live::default();
        for taken in 0..5 {
            let inside = live.clone();
            let mut results = (0..100).par_map(10, move |n| {
                let _inside = inside.enter();
                if n > 3 { hang() }
                n
            });
            for n in 0..taken.min(4) {
                assert_eq!(results.next(), Some(n));
            }
            drop(results);
            assert_eq!(live.get(), 0, "{taken}");
        }
    }

    fn a_panic_comes_to_the_consumer_and_ends_the_others() {
        let live = Live::default();
        let inside = live.clone();
        let mut results = (0..).par_map(5, move |n| {
            let _inside = inside.enter();
            if n == 7 { panic!("seven") }
            if n > 7 { hang() }
            n
        });
        let mut seen = 0;
        let payload = panic_of(|| for n in results.by_ref() { assert_eq!(n, seen); seen += 1 });
        assert_eq!(message(&*payload), "seven");
        assert!(seen <= 7);
        assert_eq!(live.get(), 0);
        assert_eq!(results.next(), None);
        assert_eq!(results.size_hint(), (0, Some(0)));
    }

    fn the_sources_panic() {
        let items = (0..10).inspect(|n| if *n == 5 { panic!("five") });
        let mut results = items.clone().par_map(3, |n| n);
        assert_eq!(message(&*panic_of(|| results.by_ref().count())), "five");
        let mut ahead = items.clone().prefetch(3);
        let mut seen = Vec::new();
        assert_eq!(message(&*panic_of(|| seen.extend(ahead.by_ref()))), "five");
        assert_eq!((seen, ahead.next()), (vec![0, 1, 2, 3, 4], None));
        let forever = std::iter::repeat_with(|| { yield_now(); 100 });
        let mut both: Merge<i32> = items.clone().merge(forever);
        assert_eq!(message(&*panic_of(|| both.by_ref().count())), "five");
        assert_eq!(both.next(), None);
    }

    fn a_timeout_inside_and_outside() {
        let inside = (0..4).par_map(2, |n| timeout(Duration::from_micros(200), || if n == 2 { hang() }).is_ok());
        assert_eq!(inside.collect::<Vec<_>>(), [true, true, false, true]);
        let (go, gone) = channel();
        let gone = Mutex::new(gone);
        let mut outside = (0..3).par_map(1, move |n| { if n == 1 { gone.lock().unwrap().recv().unwrap() } n });
        assert_eq!(outside.next(), Some(0));
        assert!(timeout(Duration::from_millis(2), || outside.next()).is_err());
        go.send(()).unwrap();
        assert_eq!((outside.next(), outside.next(), outside.next()), (Some(1), Some(2), None), "nothing is lost");
    }

    fn a_cancelled_consumer_takes_all_with_it() {
        let live = Live::default();
        let inside = live.clone();
        let (tell, told) = channel();
        let consumer = spawn(move || {
            let hung = (0..10).par_map(4, move |_| {
                let _inside = inside.enter();
                tell.send(()).unwrap();
                hang();
            });
            hung.merge(generate(1, |_| hang())).count()
        });
        for _ in 0..4 { told.recv().unwrap() }
        consumer.cancel();
        assert!(is_cancelled(&consumer.join()));
        assert_eq!(live.get(), 0);
    }

    fn a_producer_is_never_further_ahead_than_it_may() {
        for ahead in [1, 2, 10] {
            let (taken, items) = source(100);
            let mut stream = items.prefetch(ahead);
            until("it runs ahead", || taken.load(SeqCst) == ahead);
            for given in 0..100 {
                if given % 10 == 0 { let_them_run() }
                assert!(taken.load(SeqCst) <= given + ahead);
                assert_eq!(stream.next(), Some(given));
            }
            assert_eq!(stream.next(), None);
        }
    }

    fn a_producer_is_cancelled_and_awaited() {
        for ahead in [0, 3] {
            let live = Live::default();
            let inside = live.clone();
            let mut stream = generate(ahead, move |push| {
                let _inside = inside.enter();
                for n in 0.. { push.send(n).unwrap() }
            });
            assert_eq!(stream.next(), Some(0));
            drop(stream);
            assert_eq!(live.get(), 0);
            let inside = live.clone();
            let stream = generate(ahead, move |push| {
                let _inside = inside.enter();
                // Cannot be cancelled: it is told that nobody listens.
                bast_rt::mask(|| while push.send(1).is_ok() {});
            });
            until("begun", || live.get() == 1);
            drop(stream);
            assert_eq!(live.get(), 0);
        }
    }

    fn a_producers_end_is_the_streams() {
        // Its sender has gone long before.
        let mut stream = generate(1, |push| {
            push.send(1).unwrap();
            drop(push);
            yield_now();
            panic!("late");
        });
        assert_eq!(stream.next(), Some(1));
        assert_eq!(message(&*panic_of(|| stream.next())), "late");
        assert_eq!(stream.next(), None);
        // A clone in another fiber's hands.
        let stream = generate(1, |push| {
            spawn(move || { yield_now(); push.send(2) });
        });
        assert_eq!(stream.collect::<Vec<_>>(), [2]);
        let mut stream = generate(1, |_push: bast_sync::mpsc::SyncSender<()>| {
            bast_rt::current().cancel();
            hang();
        });
        assert!(panic_of(|| stream.next()).is::<Cancelled>());
    }

    fn a_merge_is_one_item_ahead_of_each() {
        let (taken, items) = source(50);
        let (others, other) = source(50);
        let mut merged = items.merge(other);
        for given in 0..100 {
            let_them_run();
            assert!(taken.load(SeqCst) + others.load(SeqCst) <= given + 2);
            assert!(merged.next().is_some());
        }
        assert_eq!(merged.next(), None);
        let hung = merge([0, 1, 2].map(|n| std::iter::from_fn(move || { hang(); Some(n) })));
        drop(hung);
    }

    fn chunks_are_given_when_full_or_old() {
        if crate::support::simulated() {
            // A plain thread has another clock than they have.
            spawn(chunks).join().unwrap();
        } else {
            chunks();
        }
    }

    fn throttled_in_every_window() {
        let per = Duration::from_millis(4);
        let mut items = (0..10).throttle(3, per);
        // Before and after each.
        let mut moments = Vec::new();
        loop {
            let before = Instant::now();
            if items.next().is_none() {
                break;
            }
            moments.push((before, Instant::now()));
            if moments.len() == 5 {
                sleep(Duration::from_millis(3));
            }
        }
        assert_eq!(moments.len(), 10);
        for ((before, _), (_, after)) in moments.iter().zip(&moments[3..]) {
            assert!(*after >= *before + per);
        }
    }

    fn a_whole_pipeline() {
        let words = generate(4, |push| (0..200_u64).for_each(|n| push.send(n).unwrap()));
        let sum: u64 = words
            .par_map(8, |n| { if n % 5 == 0 { yield_now() } n + 1 })
            .prefetch(3)
            .chunks(7)
            .par_map_unordered(2, |chunk| chunk.iter().sum::<u64>())
            .merge([1_000_000])
            .sum();
        assert_eq!(sum, 200 * 201 / 2 + 1_000_000);
    }

    fn errors_end_it() {
        let (taken, items) = source(1000);
        let all: Result<Vec<usize>, usize> = items.par_map(3, |n| if n == 5 { Err(n) } else { Ok(n) }).collect();
        assert_eq!(all, Err(5));
        assert!(taken.load(SeqCst) <= 9);
    }

    fn a_hundred_thousand_items() {
        // A fiber for each: with AddressSanitizer that takes minutes, and where Wine's server is asked for each wake of
        // a worker, too, if others keep the processors busy.
        let items: u64 = match (cfg!(feature = "sanitizer"), cfg!(windows)) {
            (true, _) => 2_000,
            (_, true) => 10_000,
            _ => 100_000,
        };
        let sum: u64 = (0..items).par_map(100, |n| n).prefetch(100).sum();
        assert_eq!(sum, items * (items - 1) / 2);
        let more = items..items + 1_000;
        let seen: HashSet<u64> = (0..items).par_map_unordered(7, |n| n).merge(more).collect();
        assert_eq!(seen.len() as u64, items + 1_000);
    }

    #[should_panic(expected = "a limit of 0")]
    fn a_limit_of_nothing() {
        let _ = (0..9).par_map(0, |n| n);
    }
}

fn chunks() {
    assert_eq!((0..5).chunks(2).collect::<Vec<_>>(), [vec![0, 1], vec![2, 3], vec![4]]);
    assert_eq!((0..4).chunks(usize::MAX).collect::<Vec<_>>(), [vec![0, 1, 2, 3]]);
    // Full. (Of a chunk whose time might pass nobody knows what it has: its producer's thread may be stopped.)
    let mut chunks = (0..4).chunks_timeout(3, EVER);
    assert_eq!((chunks.next(), chunks.next()), (Some(vec![0, 1, 2]), Some(vec![3])));
    // Old, as its sender is still there.
    let (send, items) = sync_channel(10);
    let mut chunks = items.into_iter().chunks_timeout(3, Duration::from_millis(2));
    send.send(3).unwrap();
    assert_eq!(chunks.next(), Some(vec![3]));
    (0..4).for_each(|n| send.send(n).unwrap());
    let mut all = Vec::new();
    while all.len() < 4 {
        let chunk = chunks.next().unwrap();
        assert!((1..=3).contains(&chunk.len()), "{chunk:?}");
        all.extend(chunk);
    }
    assert_eq!(all, [0, 1, 2, 3]);
    assert!(timeout(Duration::from_millis(5), || chunks.next()).is_err(), "an empty one is none");
    send.send(5).unwrap();
    drop(send);
    assert_eq!((chunks.next(), chunks.next()), (Some(vec![5]), None));
    // Nothing of a chunk that has begun is lost.
    let (send, items) = sync_channel(10);
    let mut chunks = items.into_iter().chunks_timeout(2, EVER);
    send.send(1).unwrap();
    assert!(timeout(Duration::from_millis(5), || chunks.next()).is_err());
    send.send(2).unwrap();
    assert_eq!(chunks.next(), Some(vec![1, 2]));
    let mut chunks = (0..10).inspect(|n| assert!(*n != 5, "five")).chunks_timeout(4, EVER);
    assert_eq!(chunks.next(), Some(vec![0, 1, 2, 3]));
    assert_eq!(message(&*panic_of(|| chunks.next())), "five");
    assert_eq!((chunks.next(), chunks.next()), (Some(vec![4]), None));
}

/// On one worker, where nobody's turn depends on the machine.
#[test]
fn a_merge_is_fair() {
    let _dog = watch("streams::a_merge_is_fair");
    let counts = simulated().run(|| {
        let mut counts = [0; 10];
        let sources = (0..10).map(std::iter::repeat);
        merge(sources).take(2000).for_each(|source: usize| counts[source] += 1);
        counts
    });
    assert!(counts.iter().all(|count| (199..=201).contains(count)), "{counts:?}");
}

/// Random pipelines in a simulated world: whatever happens to the consumer, what was given is right, and
/// nothing is left.
#[test]
fn a_storm_of_streams() {
    let _dog = watch("streams::a_storm_of_streams");
    let first: u64 = std::env::var("BAST_SEED").map_or(1, |seed| seed.parse().unwrap());
    for seed in first..first + 200 {
        let live = Live::default();
        let inside = live.clone();
        let end = simulated().run(move || {
            let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
            let (limit, ahead) = (1 + random.below(6) as usize, 1 + random.below(5) as usize);
            let (rest, panics) = (random.below(40), random.below(60));
            let stops = random.below(3);
            let patience = Duration::from_micros(random.below(3000));
            let consumer = spawn(move || {
                let nap = Duration::from_micros(100);
                let entered = inside.clone();
                let work = move |n: u64| {
                    let _inside = inside.enter();
                    match n % 4 {
                        0 => sleep(nap * (n % 7) as u32),
                        1 => yield_now(),
                        _ => {}
                    }
                    assert!(n != panics, "expected");
                    n
                };
                let items = generate(ahead, move |push| {
                    let _inside = entered.enter();
                    (0..50).for_each(|n| push.send(n).unwrap());
                });
                let mut results = items.par_map(limit, work).prefetch(ahead).merge(1000..1020);
                let mut run = || {
                    let mut next = 0;
                    for n in results.by_ref().take(rest as usize) {
                        if n < 1000 {
                            assert_eq!(n, next);
                            next += 1;
                        }
                    }
                };
                match stops {
                    0 => run(),
                    1 => drop(timeout(patience, run)),
                    _ => {
                        run();
                        drop(results);
                        hang();
                    }
                }
            });
            sleep(patience);
            if stops == 2 {
                consumer.cancel();
            }
            consumer.join()
        });
        if let Err(payload) = &end
            && !payload.is::<Cancelled>()
        {
            assert_eq!(message(&**payload), "expected", "seed {seed}");
        }
        assert_eq!(live.get(), 0, "seed {seed}");
    }
}
