//! What `lock`, `list` and the primitives stand on, so that loom can take its place: the atomics, and the
//! waiting of `bast_rt::wait`.
//!
//! Under loom a waiter is a loom thread. The atomics there come into being when they are first used, so that
//! `const fn new` is the same in both worlds; a model uses each of them once before it starts its threads
//! (`drop(mutex.lock())`). A deadline is taken to pass at the first `park`: loom tries every order of that
//! and whatever else happens. A [`Watch`] tells loom that the state under a lock is touched.

#[cfg(not(loom))]
mod real {
    pub(crate) use bast_rt::wait::{Waiter, Wake, identity, is_unwinding, place, wait};
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};
    pub(crate) use std::thread::yield_now;

    pub(crate) struct Watch;

    impl Watch {
        pub(crate) const fn new() -> Watch {
            Watch
        }

        #[inline(always)]
        #[allow(clippy::unused_self)]
        pub(crate) fn touch(&self) {}
    }
}

#[cfg(loom)]
mod model {
    use std::hash::{DefaultHasher, Hash, Hasher};
    use std::ops::Deref;
    use std::ptr::NonNull;
    use std::sync::{Arc, OnceLock};

    use bast_rt::Instant;
    use bast_rt::wait::{Parked, Reason};

    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::thread::yield_now;

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
    atomics!(AtomicBool: bool, AtomicU8: u8, AtomicUsize: usize);

    /// A cell without content whose accesses loom compares.
    pub(crate) struct Watch(OnceLock<loom::cell::UnsafeCell<()>>);

    impl Watch {
        pub(crate) const fn new() -> Watch {
            Watch(OnceLock::new())
        }

        pub(crate) fn touch(&self) {
            self.0.get_or_init(|| loom::cell::UnsafeCell::new(())).with_mut(|_| ());
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

    pub(crate) fn place() -> usize {
        identity().1
    }

    pub(crate) fn is_unwinding() -> bool {
        std::thread::panicking()
    }
}

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;
