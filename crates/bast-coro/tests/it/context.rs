//! The raw switch.

use std::cell::Cell;

use bast_coro::{Context, StackPool, Suspender};

use crate::support::{aborted, in_child, stderr};

unsafe fn count_to_three(suspender: &Suspender, arg: *mut ()) {
    // SAFETY: the tests pass a Cell<u32> that outlives the context.
    let cell = unsafe { &*arg.cast::<Cell<u32>>() };
    for _ in 0..3 {
        cell.set(cell.get() + 1);
        suspender.suspend();
    }
}

fn arg(cell: &Cell<u32>) -> *mut () {
    std::ptr::from_ref(cell).cast_mut().cast()
}

#[test]
fn resume_suspend_return() {
    let mut pool = StackPool::new().unwrap();
    let cell = Cell::new(0);
    for round in 0..5 {
        cell.set(0);
        // SAFETY: the cell outlives the context; one thread; no unwinding.
        let context = unsafe { Context::new(pool.take().unwrap(), count_to_three, arg(&cell)) };
        assert!(!context.started() && !context.done());
        for i in 1..=3 {
            assert!(!context.resume());
            assert_eq!(cell.get(), i);
        }
        assert!(context.started() && !context.done());
        assert!(context.resume());
        assert!(context.done());
        assert_eq!(context.stack_size(), 256 << 10);
        pool.give(context.into_stack());
        assert_eq!(pool.stats().live, 0, "round {round}");
    }
}

#[test]
fn many_interleaved() {
    let mut pool = StackPool::new().unwrap();
    let cells: Vec<_> = (0..1000).map(|_| Cell::new(0)).collect();
    let all: Vec<_> = cells
        .iter()
        // SAFETY: the cells outlive the contexts; one thread; no unwinding.
        .map(|c| unsafe { Context::new(pool.take().unwrap(), count_to_three, arg(c)) })
        .collect();
    for i in 1..=3 {
        assert!(all.iter().all(|c| !c.resume()));
        assert!(cells.iter().all(|c| c.get() == i));
    }
    assert!(all.iter().all(Context::resume));
    for context in all {
        pool.give(context.into_stack());
    }
}

#[test]
fn never_started() {
    let mut pool = StackPool::new().unwrap();
    let cell = Cell::new(0);
    // SAFETY: as above.
    let context = unsafe { Context::new(pool.take().unwrap(), count_to_three, arg(&cell)) };
    pool.give(context.into_stack());
    assert_eq!((cell.get(), pool.stats().live), (0, 0));
}

#[test]
fn small() {
    assert_eq!(size_of::<bast_coro::Stack>(), size_of::<usize>());
    // Of the native switch.
    if cfg!(all(target_arch = "x86_64", unix, not(feature = "sanitizer"))) {
        assert!(size_of::<Context>() <= 5 * size_of::<usize>());
    }
}

#[test]
fn dropping_a_suspended_one_aborts() {
    let output = in_child("context::dropping_a_suspended_one_aborts", || {
        let mut pool = StackPool::new().unwrap();
        let cell = Cell::new(0);
        // SAFETY: as above.
        let context = unsafe { Context::new(pool.take().unwrap(), count_to_three, arg(&cell)) };
        context.resume();
        drop(context);
    });
    assert!(aborted(&output), "{output:?}");
    assert!(stderr(&output).contains("a suspended context was dropped"), "{}", stderr(&output));
}

unsafe fn unwinds(_: &Suspender, _: *mut ()) {
    std::panic::resume_unwind(Box::new(()));
}

#[test]
fn an_entry_that_unwinds_aborts() {
    let output = in_child("context::an_entry_that_unwinds_aborts", || {
        let mut pool = StackPool::new().unwrap();
        // SAFETY: breaks the rule against unwinding, to see it checked.
        let context = unsafe { Context::new(pool.take().unwrap(), unwinds, std::ptr::null_mut()) };
        context.resume();
    });
    assert!(aborted(&output), "{output:?}");
    // The words are the portable switch's, or the compiler's for the native one.
    let text = stderr(&output);
    assert!(text.contains("has unwound") || text.contains("cannot unwind"), "{text}");
}

/// What the visitor of a test found.
#[derive(Default)]
struct Visited {
    count: u32,
    sum: u64,
    sp: usize,
}

unsafe fn visitor(arg: *mut ()) {
    // SAFETY: the test passes a Visited that outlives the visit.
    let visited = unsafe { &mut *arg.cast::<Visited>() };
    // Use the stack and every register that the compiler likes.
    let mut room = [0u64; 128];
    for (at, place) in room.iter_mut().enumerate() {
        *place = std::hint::black_box(at as u64 * 3);
    }
    visited.count += 1;
    visited.sum = room.iter().sum();
    visited.sp = room.as_ptr().addr();
}

unsafe fn keeps_much(suspender: &Suspender, arg: *mut ()) {
    // SAFETY: as in `count_to_three`.
    let cell = unsafe { &*arg.cast::<Cell<u32>>() };
    let [mut a, mut b, mut c, mut d, mut e] = [1u32, 2, 3, 4, 5].map(std::hint::black_box);
    for _ in 0..50 {
        suspender.suspend();
        (a, b, c, d, e) = (b + 1, c + 1, d + 1, e + 1, a + 1);
    }
    cell.set(a + b * 10 + c * 100 + d * 1000 + e * 10000);
}

#[test]
fn a_visit_is_not_noticed() {
    let mut pool = StackPool::new().unwrap();
    let ends = [false, true].map(|visit| {
        let cell = Cell::new(0);
        // SAFETY: the cell outlives the context; one thread; no unwinding.
        let context = unsafe { Context::new(pool.take().unwrap(), keeps_much, arg(&cell)) };
        let mut visited = Visited::default();
        let mut rounds = 0;
        while !context.resume() {
            rounds += 1;
            if visit {
                let sp = context.stack_pointer();
                assert!(context.room_below(sp) > 100 << 10);
                for _ in 0..3 {
                    // SAFETY: suspended, on its thread; the visitor neither unwinds nor suspends.
                    unsafe { context.visit(visitor, (&raw mut visited).cast()) };
                }
                let depth = context.room_below(std::ptr::without_provenance(visited.sp));
                // AddressSanitizer keeps locals elsewhere.
                let there = cfg!(feature = "sanitizer") || (1..256 << 10).contains(&depth);
                assert!(there, "not on the context's stack");
            }
        }
        assert_eq!(visited.count, if visit { 3 * rounds } else { 0 });
        assert!(!visit || visited.sum == 3 * 127 * 64);
        pool.give(context.into_stack());
        cell.get()
    });
    assert_eq!(ends[0], ends[1]);
}

/// Goes down to where little of its stack is left, says where that is, and is suspended there.
#[inline(never)]
fn goes_down(suspender: &Suspender, low: &Cell<usize>, end: usize) {
    let mut room = [0u8; 512];
    low.set(std::hint::black_box(&mut room).as_ptr().addr());
    if low.get() < end {
        suspender.suspend();
    } else {
        goes_down(suspender, low, end);
    }
    std::hint::black_box(&mut room);
}

unsafe fn deep(suspender: &Suspender, arg: *mut ()) {
    // SAFETY: as in `count_to_three`.
    let low = unsafe { &*arg.cast::<Cell<usize>>() };
    let here = 0u8;
    let top = std::hint::black_box(&raw const here).addr();
    goes_down(suspender, low, top - low.get());
}

#[test]
fn where_suspended_code_is_on_its_stack_is_known() {
    // Then variables are elsewhere, and nobody knows.
    if std::env::var("ASAN_OPTIONS").is_ok_and(|o| o.contains("use_after_return=1")) {
        return;
    }
    let mut pool = StackPool::new().unwrap();
    for used in [1usize << 10, 200 << 10, 230 << 10] {
        let cell = Cell::new(used);
        let theirs = (&raw const cell).cast_mut().cast();
        // SAFETY: the cell outlives the context; one thread; no unwinding.
        let context = unsafe { Context::new(pool.take().unwrap(), deep, theirs) };
        assert!(!context.resume());
        let low = context.room_below(std::ptr::without_provenance(cell.get()));
        let room = context.room_below(context.stack_pointer());
        assert!(room <= low && room + (4 << 10) > low, "{used}: {room} of {low}");
        assert!(context.resume());
        pool.give(context.into_stack());
    }
}
