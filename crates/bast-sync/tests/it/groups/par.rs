//! Bounded work on many items.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast_rt::{mask, sleep, yield_now};
use bast_sync::{for_each_concurrent, join, join_all, par_map, par_map_unordered, try_join_all};

use super::support::{Live, OnDrop, Random, everywhere, hang, message, panic_of, until};

const SHORT: Duration = Duration::from_millis(5);

/// Counts items that have been taken from the iterator and are not done.
struct Ahead<'a> {
    taken: usize,
    done: &'a AtomicUsize,
    most: usize,
}

impl Iterator for Ahead<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.taken == 200 {
            return None;
        }
        self.taken += 1;
        self.most = self.most.max(self.taken - self.done.load(SeqCst));
        Some(self.taken - 1)
    }
}

everywhere! {
    fn in_order_with_borrowed_data() {
        let words: Vec<_> = (0..300).map(|i| i.to_string()).collect();
        for limit in [1, 2, 7, 300, 1000, usize::MAX] {
            let lengths = par_map(&words, limit, |word| {
                if word.ends_with('3') { sleep(Duration::from_micros(20)) }
                if word.ends_with('7') { yield_now() }
                &word[..]
            });
            assert_eq!(lengths, words, "limit {limit}");
        }
    }

    fn of_nothing() {
        assert_eq!(par_map(0..0, 1, |i| i), []);
        par_map_unordered(0..0, 1, |i| i, |_| unreachable!());
        for_each_concurrent(0..0, 1, |_| unreachable!());
        assert!(join_all((0..0).map(|i| move || i)).is_empty());
        assert_eq!(try_join_all((0..0).map(|i| move || Ok::<_, ()>(i))), Ok(vec![]));
    }

    fn at_most_limit_at_a_time_and_never_further_ahead() {
        for limit in [1, 2, 8, 64] {
            let (live, done, most) = (Live::default(), AtomicUsize::new(0), AtomicUsize::new(0));
            let mut items = Ahead { taken: 0, done: &done, most: 0 };
            let mut sum = 0;
            par_map_unordered(&mut items, limit, |i| {
                let _live = live.enter();
                most.fetch_max(live.get(), SeqCst);
                if i < limit { until("as many as may be", || most.load(SeqCst) >= limit) }
                if i % 3 == 0 { yield_now() }
                if i % 7 == 0 { sleep(Duration::from_micros(30)) }
                i
            }, |i| { done.fetch_add(1, SeqCst); sum += i });
            assert_eq!((sum, items.taken), (199 * 100, 200));
            assert!(items.most <= limit, "{} items ahead with a limit of {limit}", items.most);
            assert_eq!(most.load(SeqCst), limit);
        }
    }

    fn a_slow_item_does_not_hold_up_the_others() {
        let last = AtomicBool::new(false);
        let results = par_map(0..100, 2, |i| {
            if i == 0 { until("the last", || last.load(SeqCst)) }
            if i == 99 { last.store(true, SeqCst) }
            i
        });
        assert_eq!(results, Vec::from_iter(0..100));
    }

    fn results_come_as_they_are_ready() {
        let (mut order, handed) = (Vec::new(), AtomicUsize::new(0));
        par_map_unordered([2, 0, 3, 1], 4, |rank| {
            until("my turn", || handed.load(SeqCst) == rank);
            rank
        }, |rank| { order.push(rank); handed.fetch_add(1, SeqCst); });
        assert_eq!(order, [0, 1, 2, 3]);
    }

    /// Iterator and callback stay with the caller: they need not be `Send`.
    fn the_callers_side_is_local() {
        let here = bast_rt::current().id();
        let shared = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let log = &shared;
        let items = (0..20).inspect(|i| {
            assert_eq!(bast_rt::current().id(), here);
            log.borrow_mut().push(*i);
        });
        par_map_unordered(items, 3, |i| { assert_ne!(bast_rt::current().id(), here); i }, |i| {
            assert_eq!(bast_rt::current().id(), here);
            log.borrow_mut().push(i);
        });
        assert_eq!(shared.borrow().len(), 40);
    }

    fn the_iterator_and_the_callback_may_wait() {
        let items = (0..20).inspect(|_| sleep(Duration::from_micros(50)));
        let mut sum = 0;
        par_map_unordered(items, 4, |i| { yield_now(); i }, |i| { sleep(Duration::from_micros(50)); sum += i });
        assert_eq!(sum, 190);
    }

    fn the_first_panic_ends_the_others() {
        for limit in [1, 3, usize::MAX] {
            let (live, begun) = (Live::default(), AtomicUsize::new(0));
            let payload = panic_of(|| par_map(0..50, limit, |i| {
                begun.fetch_add(1, SeqCst);
                let _live = live.enter();
                assert!(i != 20 || limit == 1, "item {i}");
                assert!(i != 5, "item five");
                if i > 10 { hang() }
            }));
            assert!(message(&*payload).starts_with("item"), "{}", message(&*payload));
            assert_eq!(live.get(), 0);
            assert!(limit > 3 || begun.load(SeqCst) <= 13);
        }
    }

    fn a_panic_of_the_iterator() {
        let live = Live::default();
        let items = (0..10).inspect(|i| assert_ne!(*i, 6, "the iterator's"));
        let payload = panic_of(|| for_each_concurrent(items, 8, |_| { let _live = live.enter(); hang() }));
        assert!(message(&*payload).contains("the iterator's"));
        assert_eq!(live.get(), 0);
    }

    fn a_panic_of_the_callback() {
        let live = Live::default();
        let payload = panic_of(|| par_map_unordered(0..10, 4, |i| {
            let inside = live.enter();
            if i > 2 { hang() }
            inside
        }, |_| panic!("the callback's")));
        assert_eq!(message(&*payload), "the callback's");
        assert_eq!(live.get(), 0, "results that nobody got are dropped as well");
    }

    fn a_panic_while_the_others_clean_up() {
        let (cleaned, live) = (AtomicUsize::new(0), Live::default());
        let payload = panic_of(|| par_map(0..8, 8, |i| {
            let _end = OnDrop(|| { sleep(Duration::from_micros(300)); cleaned.fetch_add(1, SeqCst); });
            let _live = live.enter();
            if i == 7 { until("all run", || live.get() == 8); panic!("the last") }
            hang()
        }));
        assert_eq!(message(&*payload), "the last");
        assert_eq!(cleaned.load(SeqCst), 8);
    }

    fn a_limit_of_zero() {
        let zero = |f: fn()| assert!(message(&*panic_of(f)).starts_with("a limit of 0"));
        zero(|| drop(par_map(0..3, 0, |i| i)));
        zero(|| par_map_unordered(0..3, 0, |i| i, |_| ()));
        zero(|| for_each_concurrent(0..3, 0, |_| ()));
    }

    fn joining_all() {
        let results = join_all((0..20).map(|i| move || {
            if i % 2 == 0 { yield_now() }
            assert_ne!(i, 13, "thirteen");
            i
        }));
        assert_eq!(results.len(), 20);
        for (i, result) in results.into_iter().enumerate() {
            match result {
                Ok(value) => assert_eq!(value, i),
                Err(payload) => { assert_eq!(i, 13); assert!(message(&*payload).contains("thirteen")) }
            }
        }
    }

    fn trying_to_join_all() {
        assert_eq!(try_join_all((0..5).map(|i| move || Ok::<_, ()>(i))), Ok(vec![0, 1, 2, 3, 4]));
        let live = Live::default();
        let failed = try_join_all((0..10).map(|i| { let live = &live; move || {
            let _live = live.enter();
            if i == 4 { sleep(SHORT); return Err("four") }
            hang();
            Ok(())
        }}));
        assert_eq!(failed, Err("four"));
        assert_eq!(live.get(), 0);
        let payload = panic_of(|| try_join_all((0..10).map(|i| move || {
            if i == 4 { panic!("four") }
            hang();
            Ok::<_, ()>(())
        })));
        assert_eq!(message(&*payload), "four");
    }

    fn joining_two() {
        let text = String::from("borrowed");
        let (a, b) = join(|| { yield_now(); text.len() }, || { sleep(Duration::from_micros(50)); &text[..3] });
        assert_eq!((a, b), (8, "bor"));
        let live = Live::default();
        let payload = panic_of(|| join(|| { let _live = live.enter(); hang() }, || { sleep(SHORT); panic!("right") }));
        assert_eq!(message(&*payload), "right");
        let payload = panic_of(|| join(|| { sleep(SHORT); panic!("left") }, || { let _live = live.enter(); hang() }));
        assert_eq!(message(&*payload), "left");
        assert_eq!(live.get(), 0);
    }

    fn divide_and_conquer() {
        fn sum(numbers: &[u64]) -> u64 {
            match numbers {
                [] => 0,
                [one] => *one,
                _ => {
                    let (left, right) = numbers.split_at(numbers.len() / 2);
                    let (left, right) = join(|| sum(left), || sum(right));
                    left + right
                }
            }
        }
        assert_eq!(sum(&(1..=1000).collect::<Vec<_>>()), 500_500);
    }

    fn masked_all_the_same() {
        mask(|| {
            let payload = panic_of(|| par_map(0..5, 5, |i| { assert_ne!(i, 3, "three"); hang() }));
            assert!(message(&*payload).contains("three"));
        });
    }

    fn random_loads() {
        for seed in 1..20 {
            let mut random = Random(seed);
            let waits: Vec<_> = (0..100).map(|_| random.below(6)).collect();
            let limit = 1 + random.below(20) as usize;
            let live = Live::default();
            let results = par_map(&waits, limit, |wait| {
                let _live = live.enter();
                match wait {
                    0 => sleep(Duration::from_micros(30)),
                    1 => yield_now(),
                    2 => assert_eq!(par_map(0..3, 2, |i| { yield_now(); i }), [0, 1, 2]),
                    _ => {}
                }
                *wait
            });
            assert_eq!(results, waits, "seed {seed}");
            assert_eq!(live.get(), 0);
        }
    }
}
