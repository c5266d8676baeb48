//! Where a worker is reached from other threads: its inbox and the waker of its driver.
//!
//! A handle to a fiber may outlive the fiber's runtime, and a wake through it must find *something*.
//! So posts are never freed: a runtime that ends gives its posts back to be used by a later one. A
//! stale post is harmless: whoever drains it finds a fiber that has ended and drops the reference.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bast_io::Waker;

use crate::fiber::Header;
use crate::flight::Flight;
use crate::inbox::Inbox;
use crate::inspect::Board;
use crate::shared::Shared;
use crate::task::Registry;

/// A worker's address.
pub(crate) struct Post {
    pub(crate) inbox: Inbox<Header>,
    /// What is polled for, to be begun or cancelled.
    pub(crate) flights: Inbox<Flight>,
    waker: Mutex<Option<Waker>>,
    /// The runtime whose worker it is.
    shared: Mutex<Weak<Shared>>,
    /// The tasks that were spawned here.
    pub(crate) tasks: Registry,
    /// What the worker shows of itself.
    pub(crate) board: Board,
}

static SPARE: Mutex<Vec<&'static Post>> = Mutex::new(Vec::new());

// SAFETY: the inbox holds pointers to headers, which are made to be posted from any thread.
unsafe impl Send for Post {}
// SAFETY: as above; the inbox and the mutex synchronise.
unsafe impl Sync for Post {}

impl Post {
    /// A post for a new worker.
    pub(crate) fn claim() -> &'static Post {
        let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| {
            Box::leak(Box::new(Post {
                inbox: Inbox::new(),
                flights: Inbox::new(),
                waker: Mutex::new(None),
                shared: Mutex::new(Weak::new()),
                tasks: Registry::default(),
                board: Board::default(),
            }))
        })
    }

    /// Gives the post back. The worker's thread has ended.
    pub(crate) fn retire(&'static self) {
        self.set_waker(None);
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Weak::new();
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    /// The runtime, if it has not ended.
    pub(crate) fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// The worker begins.
    pub(crate) fn open(&self, shared: &Arc<Shared>, waker: Waker) {
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(shared);
        self.set_waker(Some(waker));
    }

    fn set_waker(&self, waker: Option<Waker>) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = waker;
    }

    /// Makes the worker's current or next wait return.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }

    /// Whether nothing lies here for the worker.
    pub(crate) fn is_swept(&self) -> bool {
        self.tasks.is_empty() && self.inbox.is_empty() && self.flights.is_empty()
    }

    /// Puts a fiber in the inbox and wakes the worker if nobody has done so.
    ///
    /// # Safety
    /// As [`Inbox::push`]; the caller gives a reference to the inbox.
    pub(crate) unsafe fn post(&self, fiber: NonNull<Header>) {
        // SAFETY: the caller's promise.
        if unsafe { self.inbox.push(fiber) } {
            self.wake();
        }
    }

    /// The same for what is polled for.
    ///
    /// # Safety
    /// As [`post`](Post::post).
    pub(crate) unsafe fn post_flight(&self, flight: NonNull<Flight>) {
        // SAFETY: the caller's promise.
        if unsafe { self.flights.push(flight) } {
            self.wake();
        }
    }
}
