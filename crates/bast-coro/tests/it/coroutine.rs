//! The public coroutine.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use bast_coro::{Builder, Coroutine, PoolConfig, StackPool, State};

fn shared() -> Rc<RefCell<StackPool>> {
    Rc::new(RefCell::new(StackPool::new().unwrap()))
}

/// Counts its drops.
struct Dropped(Rc<Cell<usize>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .unwrap_or_else(|| payload.downcast_ref::<&str>().expect("a message"))
}

#[test]
fn the_states() {
    let mut c = Coroutine::new(|y| {
        y.yield_now();
        String::from("done")
    });
    assert_eq!((c.state(), c.result()), (State::Hold, None));
    assert_eq!(c.call(), State::Hold);
    assert_eq!(c.result(), None);
    assert_eq!(c.call(), State::Term);
    assert_eq!(c.result().unwrap(), "done");
    assert_eq!(c.take_result().unwrap(), "done");
    assert_eq!(c.take_result(), None);
}

#[test]
fn is_exec_inside() {
    let c: Rc<RefCell<Option<Rc<Coroutine<State>>>>> = Rc::default();
    let inner = Rc::clone(&c);
    let outer = Rc::new(Coroutine::new(move |_| inner.borrow().as_ref().unwrap().state()));
    *c.borrow_mut() = Some(Rc::clone(&outer));
    outer.call();
    assert_eq!(outer.result(), Some(&State::Exec));
    c.borrow_mut().take();
}

#[test]
fn a_panic_comes_out_of_call_with_its_payload() {
    let pool = shared();
    let c = Coroutine::with_pool(&pool, |y| {
        y.yield_now();
        std::panic::panic_any(4711u32);
    });
    assert_eq!(c.call(), State::Hold);
    let payload = catch_unwind(AssertUnwindSafe(|| c.call())).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&4711u32));
    assert_eq!(c.state(), State::Term);
    let _: Option<&()> = c.result();
    assert_eq!(pool.borrow().stats().live, 0, "the stack has gone back");
}

#[test]
fn calling_an_ended_one_panics() {
    let c = Builder::new().name("short").create(|_| ()).unwrap();
    c.call();
    let payload = catch_unwind(AssertUnwindSafe(|| c.call())).unwrap_err();
    assert_eq!(message(&*payload), "coroutine 'short' was called after it had ended");
}

#[test]
fn calling_itself_panics() {
    let c: Rc<RefCell<Option<Rc<Coroutine<()>>>>> = Rc::default();
    let inner = Rc::clone(&c);
    let create = Builder::new().name("ouroboros").create(move |y| {
        let me = Rc::clone(inner.borrow().as_ref().unwrap());
        let payload = catch_unwind(AssertUnwindSafe(|| me.call())).unwrap_err();
        assert_eq!(message(&*payload), "coroutine 'ouroboros' was called while it is running");
        y.yield_now();
        // From another coroutine that it called.
        let between = Coroutine::new(move |_| {
            me.call();
        });
        between.call();
    });
    let outer = Rc::new(create.unwrap());
    *c.borrow_mut() = Some(Rc::clone(&outer));
    assert_eq!(outer.call(), State::Hold);
    let payload = catch_unwind(AssertUnwindSafe(|| outer.call())).unwrap_err();
    assert_eq!(message(&*payload), "coroutine 'ouroboros' was called while it is running");
    c.borrow_mut().take();
}

#[test]
fn dropping_unwinds() {
    let pool = shared();
    let drops = Rc::new(Cell::new(0));
    let (a, b) = (Rc::clone(&drops), Rc::clone(&drops));
    let c = Coroutine::with_pool(&pool, move |y| {
        let _a = Dropped(a);
        let inner = |b| {
            let _b = Dropped(b);
            y.yield_now();
            unreachable!("not resumed");
        };
        inner(b);
    });
    c.call();
    assert_eq!(drops.get(), 0);
    drop(c);
    assert_eq!(drops.get(), 2);
    assert_eq!(pool.borrow().stats().live, 0);
}

#[test]
fn dropping_one_that_never_ran_drops_its_captures() {
    let pool = shared();
    let drops = Rc::new(Cell::new(0));
    let held = Dropped(Rc::clone(&drops));
    let c = Coroutine::with_pool(&pool, move |_| drop(held));
    assert_eq!(pool.borrow().stats().live, 1);
    drop(c);
    assert_eq!((drops.get(), pool.borrow().stats().live), (1, 0));
}

#[test]
fn a_destructor_that_yields_during_the_drop_goes_on_to_the_end() {
    struct Yields<'a>(&'a bast_coro::Yielder<'a>, Rc<Cell<usize>>);
    impl Drop for Yields<'_> {
        fn drop(&mut self) {
            for _ in 0..3 {
                self.0.yield_now();
                self.1.set(self.1.get() + 1);
            }
        }
    }
    let pool = shared();
    let count = Rc::new(Cell::new(0));
    let inner = Rc::clone(&count);
    let c = Coroutine::with_pool(&pool, move |y| {
        let _outer = Yields(y, Rc::clone(&inner));
        let _inner = Yields(y, Rc::clone(&inner));
        y.yield_now();
    });
    c.call();
    drop(c);
    assert_eq!((count.get(), pool.borrow().stats().live), (6, 0));
}

/// Suspended in a destructor of an unwinding of its own, and then dropped.
#[test]
fn dropped_in_the_middle_of_its_own_panic() {
    struct Yields<'a>(&'a bast_coro::Yielder<'a>, Rc<Cell<usize>>);
    impl Drop for Yields<'_> {
        fn drop(&mut self) {
            self.0.yield_now();
            self.0.yield_now();
            self.1.set(self.1.get() + 1);
        }
    }
    for calls in [1, 2] {
        let pool = shared();
        let count = Rc::new(Cell::new(0));
        let inner = Rc::clone(&count);
        let c = Coroutine::with_pool(&pool, move |y| {
            let _a = Yields(y, Rc::clone(&inner));
            let _b = Yields(y, Rc::clone(&inner));
            std::panic::resume_unwind(Box::new("own panic"));
        });
        for _ in 0..calls {
            assert_eq!(c.call(), State::Hold);
        }
        // The body's panic has not been told to anybody yet, so it comes out of the drop.
        let payload = catch_unwind(AssertUnwindSafe(|| drop(c))).unwrap_err();
        assert_eq!(message(&*payload), "own panic");
        assert!(!std::thread::panicking());
        assert_eq!((count.get(), pool.borrow().stats().live), (2, 0));
    }
}

#[test]
fn dropped_while_the_dropper_panics() {
    let pool = shared();
    let drops = Rc::new(Cell::new(0));
    let held = Dropped(Rc::clone(&drops));
    let c = Coroutine::with_pool(&pool, move |y| {
        let _held = held;
        y.yield_now();
    });
    c.call();
    let payload = catch_unwind(AssertUnwindSafe(move || {
        let _c = c;
        std::panic::resume_unwind(Box::new("outer"));
    }))
    .unwrap_err();
    assert_eq!(message(&*payload), "outer");
    assert_eq!((drops.get(), pool.borrow().stats().live), (1, 0));
}

#[test]
fn a_body_that_catches_the_unwinding_is_unwound_again() {
    let pool = shared();
    let seen = Rc::new(Cell::new(0));
    let inner = Rc::clone(&seen);
    let c = Coroutine::with_pool(&pool, move |y| {
        for _ in 0..5 {
            if catch_unwind(AssertUnwindSafe(|| y.yield_now())).is_err() {
                inner.set(inner.get() + 1);
            }
        }
    });
    c.call();
    drop(c);
    assert_eq!((seen.get(), pool.borrow().stats().live), (5, 0));
}

#[test]
fn a_panic_during_the_drop_goes_on_in_the_dropper() {
    let c = Coroutine::new(|y| {
        let _ = catch_unwind(AssertUnwindSafe(|| y.yield_now()));
        std::panic::resume_unwind(Box::new("late"));
    });
    let c: Coroutine<()> = c;
    c.call();
    let payload = catch_unwind(AssertUnwindSafe(|| drop(c))).unwrap_err();
    assert_eq!(message(&*payload), "late");
}

#[test]
fn reset() {
    let pool = shared();
    let mut c = Coroutine::with_pool(&pool, |_| 1);
    c.reset(|_| 2); // never called
    c.call();
    assert_eq!(c.result(), Some(&2));
    c.reset(|y| {
        y.yield_now();
        3
    });
    assert_eq!((c.state(), c.result()), (State::Hold, None));
    c.call();
    let suspended = catch_unwind(AssertUnwindSafe(|| c.reset(|_| 4))).unwrap_err();
    assert_eq!(message(&*suspended), "a suspended coroutine cannot be reset: drop it");
    assert_eq!(c.call(), State::Term);
    assert_eq!(c.take_result(), Some(3));
    assert_eq!(pool.borrow().stats().live, 0);
}

#[test]
fn a_thousand_deep() {
    fn nest(pool: &Rc<RefCell<StackPool>>, depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let inner = Rc::clone(pool);
        let mut c = Coroutine::with_pool(pool, move |y| {
            let n = nest(&inner, depth - 1);
            y.yield_now();
            n + 1
        });
        while c.call() != State::Term {}
        c.take_result().unwrap()
    }
    let pool = shared();
    assert_eq!(nest(&pool, 1000), 1000);
    assert_eq!(pool.borrow().stats().live, 0);
}

/// A panic crosses a thousand stacks, each `call` handing it on.
#[test]
fn a_panic_from_a_thousand_deep() {
    fn nest(pool: &Rc<RefCell<StackPool>>, depth: usize) {
        if depth == 0 {
            std::panic::resume_unwind(Box::new("from below"));
        }
        let inner = Rc::clone(pool);
        Coroutine::with_pool(pool, move |_| nest(&inner, depth - 1)).call();
    }
    let pool = shared();
    let payload = catch_unwind(AssertUnwindSafe(|| nest(&pool, 1000))).unwrap_err();
    assert_eq!(message(&*payload), "from below");
    assert_eq!(pool.borrow().stats().live, 0);
}

#[test]
fn big_frames() {
    #[inline(never)]
    fn fill(n: u8) -> usize {
        let mut frame = [n; 200 * 1024];
        std::hint::black_box(&mut frame);
        frame.iter().map(|b| usize::from(*b)).sum()
    }
    let c = Builder::new().stack_size(1 << 20).create(|y| {
        let a = fill(1);
        y.yield_now();
        a + fill(2)
    });
    let mut c = c.unwrap();
    c.call();
    c.call();
    assert_eq!(c.take_result(), Some(3 * 200 * 1024));
}

/// Formatting, a backtrace and a panic with the default hook fit in the default stack.
#[test]
fn a_backtrace_fits() {
    let c = Coroutine::new(|_| std::backtrace::Backtrace::force_capture().to_string());
    c.call();
    assert!(c.result().unwrap().contains("a_backtrace_fits"), "{:?}", c.result());
}

#[test]
fn sizes_from_one_pool() {
    let pool = shared();
    let all: Vec<_> = [16 << 10, 64 << 10, 256 << 10, 1 << 20]
        .into_iter()
        .map(|size| Builder::new().stack_size(size).create_in(&pool, |y| y.yield_now()).unwrap())
        .collect();
    for (c, size) in all.iter().zip([16 << 10, 64 << 10, 256 << 10, 1 << 20]) {
        assert_eq!(c.stack_size(), size);
        assert_eq!(c.call(), State::Hold);
    }
    drop(all);
    assert_eq!(pool.borrow().stats().live, 0);
    let mut c = Coroutine::with_pool(&pool, |_| 0);
    assert_eq!(c.stack_size(), PoolConfig::DEFAULT_STACK_SIZE);
    c.call();
    assert_eq!(c.take_result(), Some(0));
}

#[test]
fn each_thread_its_own() {
    std::thread::scope(|scope| {
        for t in 0..4 {
            scope.spawn(move || {
                let pool = shared();
                let all: Vec<_> = (0..200)
                    .map(|i| {
                        Coroutine::with_pool(&pool, move |y| {
                            y.yield_now();
                            i + t
                        })
                    })
                    .collect();
                all.iter().for_each(|c| assert_eq!(c.call(), State::Hold));
                all.iter().for_each(|c| assert_eq!(c.call(), State::Term));
                assert!(all.iter().enumerate().all(|(i, c)| c.result() == Some(&(i + t))));
            });
        }
    });
}
