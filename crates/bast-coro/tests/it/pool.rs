//! Stacks: taking, giving, guards, sizes, limits.

use bast_coro::{GuardKind, Guards, PoolConfig, Stack, StackErrorKind, StackPool};

#[cfg(target_os = "linux")]
use crate::support::stderr;
use crate::support::{GUARD_PAGES, assert_success, in_child, page_size, readable, slot_of};

/// Whether only the top of a stack is there in the beginning.
const GROWS: bool = cfg!(windows);

fn pool(config: PoolConfig) -> StackPool {
    StackPool::with_config(config).expect("a pool")
}

fn assert_guarded(stack: Stack) -> Stack {
    let (stack, low, high) = slot_of(stack);
    let guard = GUARD_PAGES * page_size();
    assert!(!readable(low), "the guard begins");
    assert!(!readable(low.wrapping_add(guard - 1)), "the guard ends");
    // On Windows it grows when code that runs on it comes there.
    let first = if GROWS { high.wrapping_sub(16 << 10) } else { low.wrapping_add(guard) };
    assert!(readable(first), "the stack begins");
    assert!(readable(high.wrapping_sub(1)), "the stack ends");
    stack
}

/// In a process of its own, since it may use up the mappings that one may have.
#[test]
fn many_thousand_stacks_with_guards() {
    assert_success(&in_child("pool::many_thousand_stacks_with_guards", take_many_thousand));
}

fn take_many_thousand() {
    let mut pool = StackPool::new().unwrap();
    let mut all = Vec::new();
    // Wine makes two of Linux's mappings of each, of which a process has 65,530.
    let many = if GROWS { 10_000 } else { 40_000 };
    while all.len() < many {
        match pool.take() {
            Ok(stack) => all.push(stack),
            Err(e) if pool.stats().guards == GuardKind::Mprotect => {
                // A kernel before 6.13: the error is right, and there is nothing more to see.
                assert_eq!(e.kind(), StackErrorKind::Guard);
                break;
            }
            Err(e) => panic!("{e}"),
        }
    }
    let count = all.len();
    assert_eq!(pool.stats().live, count);
    for (i, stack) in all.into_iter().enumerate() {
        let stack = if i % 997 == 0 || i + 1 == count { assert_guarded(stack) } else { stack };
        pool.give(stack);
    }
    assert_eq!(pool.stats().live, 0);
}

#[test]
fn guards_by_protection() {
    let mut pool = pool(PoolConfig::new().guards(Guards::Mprotect));
    let all: Vec<_> = (0..200).map(|_| assert_guarded(pool.take().unwrap())).collect();
    let kind = if GROWS { GuardKind::Reserved } else { GuardKind::Mprotect };
    assert_eq!(pool.stats().guards, kind);
    all.into_iter().for_each(|s| pool.give(s));
}

#[test]
fn the_most_recent_stack_comes_first() {
    let mut pool = StackPool::new().unwrap();
    let a = pool.take().unwrap();
    let b = pool.take().unwrap();
    let (a, low_a, _) = slot_of(a);
    let (b, low_b, _) = slot_of(b);
    assert_ne!(low_a, low_b);
    pool.give(a);
    pool.give(b);
    let (b, again, _) = slot_of(pool.take().unwrap());
    assert_eq!(again, low_b);
    let (a, again, _) = slot_of(pool.take().unwrap());
    assert_eq!(again, low_a);
    pool.give(a);
    pool.give(b);
}

#[test]
fn slots_do_not_overlap() {
    for guards in [Guards::Auto, Guards::Mprotect] {
        let mut pool = pool(PoolConfig::new().guards(guards).first_slab(3));
        let mut stacks = Vec::new();
        let mut slots = Vec::new();
        for i in 0..300 {
            let size = [0, 20_000, 64 << 10, 1 << 20][i % 4];
            let stack = if size == 0 { pool.take() } else { pool.take_sized(size) }.unwrap();
            let (stack, low, high) = slot_of(assert_guarded(stack));
            stacks.push(stack);
            slots.push((low, high));
        }
        slots.sort_unstable();
        assert!(slots.windows(2).all(|w| w[0].1 <= w[1].0));
        stacks.into_iter().for_each(|s| pool.give(s));
    }
}

#[test]
fn sizes() {
    let mut pool = StackPool::new().unwrap();
    let page = page_size();
    let mut all = Vec::new();
    for (asked, got) in [
        (0, PoolConfig::MIN_STACK_SIZE),
        (1, PoolConfig::MIN_STACK_SIZE),
        (100_000, 100_000usize.next_multiple_of(page)),
        (256 << 10, 256 << 10),
        (8 << 20, 8 << 20),
    ] {
        let stack = pool.take_sized(asked).unwrap();
        assert_eq!(stack.usable_size(), got.next_multiple_of(page));
        all.push(assert_guarded(stack));
    }
    assert_eq!(pool.stats().live, 5);
    all.into_iter().for_each(|s| pool.give(s));
    assert_eq!(pool.stats().live, 0);
    // Each comes back from the list of its own size.
    assert_eq!(pool.take_sized(8 << 20).unwrap().usable_size(), 8 << 20);
    assert_eq!(pool.take().unwrap().usable_size(), 256 << 10);

    let e = pool.take_sized(usize::MAX).unwrap_err();
    assert_eq!(e.kind(), StackErrorKind::Size);
    assert!(StackPool::with_config(PoolConfig::new().stack_size(usize::MAX)).is_err());
}

#[test]
fn colours_move_the_top_by_cache_lines() {
    let tops = |colour| {
        let mut pool = pool(PoolConfig::new().colour(colour));
        let all: Vec<_> = (0..32).map(|_| pool.take().unwrap()).collect();
        let mut tops: Vec<_> = all
            .into_iter()
            .map(|stack| {
                let text = format!("{stack:?}");
                pool.give(stack);
                let hex = text.split("0x").nth(1).unwrap().split([',', ' ']).next().unwrap();
                usize::from_str_radix(hex, 16).unwrap() % page_size()
            })
            .collect();
        tops.sort_unstable();
        tops.dedup();
        tops
    };
    assert_eq!(tops(false), [page_size() - 64]);
    assert_eq!(tops(true), (1..=16).rev().map(|i| page_size() - 64 * i).collect::<Vec<_>>());
}

#[test]
#[should_panic(expected = "not taken from")]
fn a_foreign_stack_is_refused() {
    let mut a = StackPool::new().unwrap();
    let mut b = StackPool::new().unwrap();
    b.give(a.take().unwrap());
}

#[test]
fn a_stack_survives_its_pool() {
    let mut pool = StackPool::new().unwrap();
    let (stack, low, high) = slot_of(pool.take().unwrap());
    drop(pool);
    assert!(readable(high.wrapping_sub(1)));
    assert!(!readable(low));
    assert_eq!(stack.usable_size(), 256 << 10);
}

/// Pages are given back, guards are not.
#[test]
fn guards_and_zeroes_after_trim() {
    for guards in [Guards::Auto, Guards::Mprotect] {
        let mut pool = pool(PoolConfig::new().guards(guards));
        let held = pool.take().unwrap(); // so that the slab is not reset
        let all: Vec<_> = (0..50).map(|_| slot_of(pool.take().unwrap())).collect();
        let deep = |low: *mut u8, high: *mut u8| match GROWS {
            true => high.wrapping_sub(16 << 10),
            false => low.wrapping_add(page_size()),
        };
        for (stack, low, high) in all {
            // SAFETY: the lowest usable page of a stack that is ours and runs nothing.
            unsafe { deep(low, high).write(7) };
            pool.give(stack);
        }
        pool.trim(10);
        let stats = pool.stats();
        assert_eq!((stats.live, stats.free, stats.hot), (1, 50, 10));
        let again: Vec<_> = (0..50).map(|_| assert_guarded(pool.take().unwrap())).collect();
        assert_eq!(pool.stats().free, 0);
        let mut kept = 0;
        for stack in again {
            let (stack, low, high) = slot_of(stack);
            // SAFETY: as above.
            kept += usize::from(unsafe { deep(low, high).read() } != 0);
            pool.give(stack);
        }
        // There the place is in what hot stacks keep.
        assert_eq!(kept, if GROWS { 10 } else { 0 }, "hot or cold");
        pool.give(held);
    }
}

/// And what a stack has grown by in use is given back of those that stay hot.
#[test]
#[cfg(windows)]
fn what_has_grown_goes_with_a_trim() {
    #[inline(never)]
    fn fill() -> u8 {
        let mut frame = [1u8; 200 << 10];
        std::hint::black_box(&mut frame)[4711]
    }
    let pool = std::rc::Rc::new(std::cell::RefCell::new(StackPool::new().unwrap()));
    for _ in 0..3 {
        bast_coro::Coroutine::with_pool(&pool, |_| fill()).call();
        let (stack, low, high) = slot_of(pool.borrow_mut().take().unwrap());
        assert!(readable(low.wrapping_add(100 << 10)), "it has grown");
        pool.borrow_mut().give(stack);
        pool.borrow_mut().trim(1);
        assert_eq!(pool.borrow().stats().hot, 1);
        assert!(readable(high.wrapping_sub(16 << 10)), "the top stays");
        assert!(!readable(high.wrapping_sub((16 << 10) + 1)), "and the guard is below it");
        assert!(!readable(low.wrapping_add(100 << 10)), "the rest has gone");
    }
}

#[test]
fn a_slab_that_is_all_free_is_fresh_again() {
    for guards in [Guards::Auto, Guards::Mprotect] {
        let mut pool = pool(PoolConfig::new().guards(guards).hot_limit(100));
        for _ in 0..3 {
            let all: Vec<_> = (0..5000).map(|_| pool.take().unwrap()).collect();
            all.into_iter().for_each(|s| pool.give(s));
            assert!(pool.stats().hot < 2 * 100 + 1024, "shed by itself: {:?}", pool.stats());
            pool.trim(0);
            let stats = pool.stats();
            assert_eq!((stats.live, stats.free), (0, 0), "{stats:?}");
            let stack = assert_guarded(pool.take().unwrap());
            pool.give(stack);
        }
        assert!(pool.stats().slabs <= 7, "slabs are used again: {:?}", pool.stats());
    }
}

#[test]
#[cfg(target_os = "linux")]
fn running_out_of_mappings_says_so() {
    let output = in_child("pool::running_out_of_mappings_says_so", || {
        let mut pool = pool(PoolConfig::new().guards(Guards::Mprotect));
        let mut all = Vec::new();
        let e = loop {
            match pool.take() {
                Ok(stack) => all.push(stack),
                Err(e) => break e,
            }
            if all.len() > 2_000_000 {
                return; // a machine without that limit
            }
        };
        eprintln!("{e}");
        let limit = e.map_limit().expect("linux has the limit") as usize;
        assert_eq!(e.kind(), StackErrorKind::Guard);
        assert_eq!(e.live(), all.len());
        assert!(all.len() > limit / 2 - 500 && all.len() < limit / 2 + 500, "{}", all.len());
        assert!(e.to_string().contains(&format!("vm.max_map_count is {limit}")));
        assert!(e.to_string().contains(&format!("{} stacks exist", all.len())));
        assert!(e.to_string().contains("sysctl vm.max_map_count="));
        // What exists goes on working, and is worth something again once given back.
        all.into_iter().for_each(|s| pool.give(s));
        assert!(pool.take().is_ok());
    });
    assert_success(&output);
    assert!(stderr(&output).contains("no guard page for another stack of 256 KiB"));
}

#[test]
#[cfg(all(target_os = "linux", not(feature = "sanitizer")))]
fn running_out_of_address_space_says_so() {
    let output = in_child("pool::running_out_of_address_space_says_so", || {
        let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
        // SAFETY: a limit of this child alone.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
        let mut pool = StackPool::new().unwrap();
        let mut all = Vec::new();
        let e = loop {
            match pool.take() {
                Ok(stack) => all.push(stack),
                Err(e) => break e,
            }
        };
        assert_eq!(e.kind(), StackErrorKind::AddressSpace, "{e}");
        // Ever smaller slabs have used most of the 4,000 places that 1 GiB has.
        assert!(all.len() > 3000, "{}", all.len());
        assert!(e.to_string().contains("ulimit -v"), "{e}");
    });
    assert_success(&output);
}
