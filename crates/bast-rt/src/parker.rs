//! Blocking a plain thread, for code outside fibers, and the common reference to "who waits".
//!
//! A thread's parker has two tokens, as a fiber has: the runtime's own wake-up, after which the waiter
//! looks at its condition again, and the user's `unpark`, which only `park` may consume.

use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::fiber::Header;
use crate::remote;

#[derive(Clone, Copy, Default)]
struct Tokens {
    woken: bool,
    unparked: bool,
}

/// A thread that can be blocked and woken.
pub(crate) struct ThreadParker {
    tokens: Mutex<Tokens>,
    changed: Condvar,
    name: Option<Box<str>>,
    id: u64,
}

impl ThreadParker {
    /// The parker of the calling thread.
    pub(crate) fn new() -> ThreadParker {
        ThreadParker {
            tokens: Mutex::new(Tokens::default()),
            changed: Condvar::new(),
            name: std::thread::current().name().map(Box::from),
            id: crate::runtime::id_block().start,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Blocks until `wake`, or for `timeout`.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let tokens = self.lock();
        let mut tokens = match timeout {
            None => self
                .changed
                .wait_while(tokens, |tokens| !tokens.woken)
                .unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                self.changed
                    .wait_timeout_while(tokens, timeout, |tokens| !tokens.woken)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        };
        tokens.woken = false;
    }

    pub(crate) fn wake(&self) {
        self.lock().woken = true;
        self.changed.notify_one();
    }

    /// Blocks until `unpark` or the deadline.
    pub(crate) fn park(&self, deadline: Option<Instant>) {
        let mut tokens = self.lock();
        while !tokens.unparked {
            tokens = match deadline {
                None => self.changed.wait(tokens).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    self.changed
                        .wait_timeout(tokens, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
        tokens.unparked = false;
    }

    pub(crate) fn unpark(&self) {
        self.lock().unparked = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who waits for something: a fiber or a thread. Borrowed: whoever holds it must know that the waiter
/// is still there, or [`retain`](Waiter::retain) it while it knows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    Fiber(NonNull<Header>),
    Thread(NonNull<ThreadParker>),
}

impl Waiter {
    /// A thread. The pointer is the Arc's own: one made from a reference may not be used to count.
    pub(crate) fn thread(parker: &Arc<ThreadParker>) -> Waiter {
        match NonNull::new(Arc::as_ptr(parker).cast_mut()) {
            Some(parker) => Waiter::Thread(parker),
            None => unreachable!("an Arc is somewhere"),
        }
    }

    /// Makes it owned.
    ///
    /// # Safety
    /// The waiter is there.
    pub(crate) unsafe fn retain(self) -> Unparker {
        match self {
            Waiter::Fiber(header) => {
                // SAFETY: the caller's promise.
                unsafe { header.as_ref() }.lifecycle.retain();
            }
            // SAFETY: the pointer came from an Arc that the waiter still has.
            Waiter::Thread(parker) => unsafe { Arc::increment_strong_count(parker.as_ptr()) },
        }
        Unparker { waiter: self }
    }
}

/// An owned [`Waiter`]: can be woken from anywhere, whatever has become of it.
pub(crate) struct Unparker {
    waiter: Waiter,
}

// SAFETY: a fiber's header is made to be signalled from any thread (module `remote`), a parker is Sync.
unsafe impl Send for Unparker {}
// SAFETY: as above.
unsafe impl Sync for Unparker {}

impl Unparker {
    /// The runtime's own wake-up: the waiter looks at its condition again.
    pub(crate) fn wake(&self) {
        match self.waiter {
            Waiter::Fiber(header) => crate::fiber::signal(header, remote::WAKE),
            // SAFETY: the strong count is ours.
            Waiter::Thread(parker) => unsafe { parker.as_ref() }.wake(),
        }
    }

    /// The user's `unpark`.
    #[inline]
    pub(crate) fn unpark(&self) {
        match self.waiter {
            Waiter::Fiber(header) => crate::fiber::signal(header, remote::UNPARK),
            // SAFETY: the strong count is ours.
            Waiter::Thread(parker) => unsafe { parker.as_ref() }.unpark(),
        }
    }

    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }
}

impl Clone for Unparker {
    fn clone(&self) -> Unparker {
        // SAFETY: `self` keeps the waiter there.
        unsafe { self.waiter.retain() }
    }
}

impl Drop for Unparker {
    fn drop(&mut self) {
        match self.waiter {
            // SAFETY: our reference.
            Waiter::Fiber(header) => unsafe { crate::fiber::release(header) },
            // SAFETY: our reference.
            Waiter::Thread(parker) => unsafe { Arc::decrement_strong_count(parker.as_ptr()) },
        }
    }
}
