//! What `lock`, `list` and the primitives stand on, so that loom can take its place: the atomics, and the
//! waiting of `bast_rt::wait`.
//!
//! Under loom a waiter is a loom thread. The atomics there come into being when they are first used, so that
//! `const fn new` is the same in both worlds; a model uses each of them once before it starts its threads
//! (`drop(mutex.lock())`). A deadline is taken to pass at the first `park`: loom tries every order of that
//! and whatever else happens. Spinning is what loom cannot do, as it tries every length of it: the spin lock
//! gets its [`Turn`] from a lock of loom's, and is itself not in question.

#[cfg(not(loom))]
mod real {
    pub(crate) use bast_rt::wait::{Waiter, Wake, identity, is_unwinding, wait};
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};
    pub(crate) use std::thread::yield_now;

    #[inline(always)]
    pub(crate) fn ready(atomic: AtomicUsize) -> AtomicUsize {
        atomic
    }

    pub(crate) struct Turn;

    #[allow(clippy::unused_self)]
    impl Turn {
        pub(crate) const fn new() -> Turn {
            Turn
        }

        #[inline(always)]
        pub(crate) fn enter(&self) {}

        #[inline(always)]
        pub(crate) fn leave(&self) {}

        #[inline(always)]
        pub(crate) fn rank(&self, address: usize) -> usize {
            address
        }
    }
}

#[cfg(loom)]
mod model {
    use std::cell::UnsafeCell;
    use std::hash::{DefaultHasher, Hash, Hasher};
    use std::ops::Deref;
    use std::ptr::NonNull;
    use std::sync::{Arc, OnceLock};

    use bast_rt::Instant;
    use bast_rt::wait::{Parked, Reason};

    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::thread::yield_now;
    pub(crate) use std::sync::atomic::AtomicBool;

    macro_rules! atomics {
        ($($name:ident: $value:ty),*) => {$(
            pub(crate) struct $name {
                first: $value,
                real: OnceLock<loom::sync::atomic::$name>,
            }

            impl $name {
                pub(crate) const fn new(first: $value) -> $name {
                    $name { first, real: OnceLock::new() }
                }
            }

            impl Deref for $name {
                type Target = loom::sync::atomic::$name;

                fn deref(&self) -> &Self::Target {
                    self.real.get_or_init(|| loom::sync::atomic::$name::new(self.first))
                }
            }
        )*};
    }
    atomics!(AtomicU8: u8, AtomicUsize: usize);

    /// For an atomic that no model can use before its threads do.
    pub(crate) fn ready(atomic: AtomicUsize) -> AtomicUsize {
        let _: &loom::sync::atomic::AtomicUsize = &atomic;
        atomic
    }

    type Held = loom::sync::MutexGuard<'static, ()>;

    /// What makes others wait until the spin lock is free.
    pub(crate) struct Turn {
        /// With a number, in the order of their first use.
        mutex: OnceLock<(usize, loom::sync::Mutex<()>)>,
        held: UnsafeCell<Option<Held>>,
    }

    impl Turn {
        pub(crate) const fn new() -> Turn {
            Turn { mutex: OnceLock::new(), held: UnsafeCell::new(None) }
        }

        fn mutex(&self) -> &(usize, loom::sync::Mutex<()>) {
            static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            self.mutex.get_or_init(|| {
                (
                    NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
                    loom::sync::Mutex::new(()),
                )
            })
        }

        /// Addresses are others in each run of a model, and what it does must not depend on them.
        pub(crate) fn rank(&self, _address: usize) -> usize {
            self.mutex().0
        }

        pub(crate) fn enter(&self) {
            let held = self.mutex().1.lock().unwrap();
            // SAFETY: the cell belongs to whoever holds the mutex, which stays where it is while it is held:
            // the lock around it is borrowed.
            unsafe {
                *self.held.get() =
                    Some(std::mem::transmute::<loom::sync::MutexGuard<'_, ()>, Held>(held))
            };
        }

        pub(crate) fn leave(&self) {
            // SAFETY: as above.
            drop(unsafe { (*self.held.get()).take() });
        }
    }

    struct Parker {
        woken: loom::sync::Mutex<bool>,
        changed: loom::sync::Condvar,
    }

    #[derive(Clone, Copy)]
    pub(crate) struct Waiter(NonNull<Arc<Parker>>);

    impl Waiter {
        /// # Safety
        /// As `bast_rt::wait::Waiter::claim`.
        pub(crate) unsafe fn claim(self) -> Wake {
            // SAFETY: the caller's promise.
            Wake(unsafe { self.0.as_ref() }.clone())
        }
    }

    pub(crate) struct Wake(Arc<Parker>);

    impl Drop for Wake {
        fn drop(&mut self) {
            *self.0.woken.lock().unwrap() = true;
            self.0.changed.notify_one();
        }
    }

    pub(crate) struct Wait {
        parker: Arc<Parker>,
        timed: bool,
    }

    impl Wait {
        pub(crate) fn waiter(&self) -> Waiter {
            Waiter(NonNull::from(&self.parker))
        }

        pub(crate) fn park(&self) -> Parked {
            if self.timed {
                return Parked::TimedOut;
            }
            let mut woken = self.parker.woken.lock().unwrap();
            while !*woken {
                woken = self.parker.changed.wait(woken).unwrap();
            }
            *woken = false;
            Parked::Look
        }
    }

    pub(crate) fn wait<R>(
        _: &Reason<'_>,
        deadline: Option<Instant>,
        body: impl FnOnce(&Wait) -> R,
    ) -> R {
        let parker =
            Parker { woken: loom::sync::Mutex::new(false), changed: loom::sync::Condvar::new() };
        body(&Wait { parker: Arc::new(parker), timed: deadline.is_some() })
    }

    pub(crate) fn identity() -> (u64, usize) {
        let mut hasher = DefaultHasher::new();
        loom::thread::current().id().hash(&mut hasher);
        let id = hasher.finish() | 1;
        (id, id as usize)
    }

    pub(crate) fn is_unwinding() -> bool {
        std::thread::panicking()
    }
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
