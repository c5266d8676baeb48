//! Fibers that borrow from their parent: std's scopes.
//!
//! The scope counts packets, one per fiber. A packet holds the fiber's result, is shared by the fiber
//! and its handle, and is counted off when the last of them drops it, which is after the result has
//! been taken or dropped. So when the count is zero nothing that borrows from the scope's frame is
//! left. The parent waits for that whatever happens to it: a request to cancel it is held off until
//! its children have ended.
//!
//! Ordering: the count goes down with Release, and the parent reads zero with Acquire.

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::thread;

use crate::cancel;
use crate::interrupt::quietly;
use crate::join::{self, Fiber, JoinHandle};
use crate::parker::Unparker;
use crate::spawn::Builder;
use crate::unwinding;
use crate::wait::{self, Reason};

struct Data {
    /// Packets that are left.
    running: AtomicUsize,
    panicked: AtomicBool,
    parent: Unparker,
}

impl Data {
    /// Not to be interrupted: the caller has masked that.
    fn wait(&self) {
        static SCOPE: Reason<'_> = Reason::plain("scope");
        wait::wait(&SCOPE, None, |wait| {
            while self.running.load(Acquire) != 0 {
                let _ = wait.park();
            }
        });
    }
}

/// Same as [`std::thread::Scope`].
pub struct Scope<'scope, 'env: 'scope> {
    data: Arc<Data>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Same as [`std::thread::scope`]: fibers that may borrow what outlives the call. Returns after all
/// of them have ended.
///
/// # Panics
/// If a fiber panicked whose handle was not joined.
///
/// ```
/// let mut words = vec!["a", "b"];
/// let total = bast_rt::scope(|s| {
///     let first = s.spawn(|| words[0].len());
///     let second = s.spawn(|| words[1].len());
///     first.join().unwrap() + second.join().unwrap()
/// });
/// words.push("c");
/// assert_eq!(total, 2);
/// ```
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    wait::begin("scope");
    let scope = Scope {
        data: Arc::new(Data {
            running: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            parent: join::me(),
        }),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    cancel::hold(|| scope.data.wait());
    match result {
        Err(payload) => unwinding::pass_on(payload),
        Ok(_) if scope.data.panicked.load(Relaxed) => panic!("a scoped fiber panicked"),
        Ok(value) => value,
    }
}

// As std's: what a panic interrupts is a spawn, which happens or not.
impl RefUnwindSafe for Scope<'_, '_> {}

impl<'scope> Scope<'scope, '_> {
    /// Same as [`std::thread::Scope::spawn`].
    ///
    /// # Panics
    /// If no fiber can be started.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.start(Builder::new(), f).expect("failed to spawn a fiber")
    }

    #[track_caller]
    pub(crate) fn start<F, T>(
        &'scope self,
        builder: Builder,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // Relaxed: the packet's drop, which counts it off, comes after in every respect.
        self.data.running.fetch_add(1, Relaxed);
        let packet = Arc::new(Packet {
            scope: Arc::clone(&self.data),
            result: UnsafeCell::new(None),
            borrows: PhantomData,
        });
        let theirs = Arc::clone(&packet);
        let body = move || {
            let result = catch_unwind(AssertUnwindSafe(f));
            // SAFETY: the handle reads it only after the fiber has ended.
            unsafe { *theirs.result.get() = Some(result) };
        };
        // SAFETY: the scope does not end before the packet has gone, and `body` drops its packet last.
        let fiber = unsafe { builder.spawn_unchecked(body) }?;
        Ok(ScopedJoinHandle { fiber, packet })
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("running", &self.data.running.load(Relaxed))
            .finish_non_exhaustive()
    }
}

struct Packet<'scope, T> {
    scope: Arc<Data>,
    result: UnsafeCell<Option<thread::Result<T>>>,
    borrows: PhantomData<&'scope ()>,
}

// SAFETY: the result is written by the fiber before it ends, and taken by the joiner after that.
unsafe impl<T: Send> Sync for Packet<'_, T> {}

impl<T> Drop for Packet<'_, T> {
    fn drop(&mut self) {
        let result = self.result.get_mut();
        let panicked = matches!(result, Some(Err(payload)) if !is_cancelled(&**payload));
        // A destructor's panic has been printed; it must not keep the count from going down.
        quietly(|| *result = None);
        if panicked {
            self.scope.panicked.store(true, Relaxed);
        }
        // Keep the data alive: the parent may go as soon as the count is zero.
        let scope = Arc::clone(&self.scope);
        if scope.running.fetch_sub(1, Release) == 1 {
            scope.parent.wake();
        }
    }
}

fn is_cancelled(payload: &(dyn Any + Send)) -> bool {
    payload.is::<cancel::Cancelled>()
}

/// Same as [`std::thread::ScopedJoinHandle`].
pub struct ScopedJoinHandle<'scope, T> {
    fiber: JoinHandle<()>,
    packet: Arc<Packet<'scope, T>>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the fiber to end and returns what it returned.
    ///
    /// # Errors
    /// As [`JoinHandle::join`].
    pub fn join(self) -> thread::Result<T> {
        // An error here means that the body never ran: no stack, or the runtime stopped.
        self.fiber.join()?;
        // SAFETY: the fiber has ended, and the handle is consumed.
        let result = unsafe { &mut *self.packet.result.get() }.take();
        result.expect("a body that returned has left its result")
    }

    /// As [`JoinHandle::announce`].
    ///
    /// # Safety
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub unsafe fn announce(&self, waiter: wait::Waiter) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.fiber.announce(waiter) }
    }

    /// As [`JoinHandle::withdraw`].
    pub fn withdraw(&self) {
        self.fiber.withdraw();
    }

    /// As [`JoinHandle::take_result`].
    ///
    /// # Panics
    /// As there.
    pub fn take_result(&mut self) -> Option<thread::Result<T>> {
        Some(self.fiber.take_result()?.and_then(|()| {
            // SAFETY: the fiber has ended, and the handle is borrowed exclusively.
            let result = unsafe { &mut *self.packet.result.get() }.take();
            result.expect("a body that returned has left its result")
        }))
    }

    /// Whether the fiber has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.fiber.is_finished()
    }

    /// The fiber.
    #[must_use]
    pub fn fiber(&self) -> Fiber {
        self.fiber.fiber()
    }

    /// As [`JoinHandle::thread`].
    #[must_use]
    pub fn thread(&self) -> Fiber {
        self.fiber.fiber()
    }

    /// As [`JoinHandle::cancel`].
    pub fn cancel(&self) {
        self.fiber.cancel();
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("fiber", &self.fiber()).finish_non_exhaustive()
    }
}
