//! The end of a fiber as an event.
//!
//! A fiber that ends wakes one waiter, its joiner; `select` announces itself as that, and takes the
//! announcement back when it leaves. The fiber does not complete the arm: it is woken, and looks. bast-rt has the
//! argument (modules `lifecycle` and `join`).

use std::thread;

use bast_rt::wait::Waiter;
use bast_rt::{JoinHandle, ScopedJoinHandle};

use super::arm::{Arm, Event, Place};

/// Completes when the fiber has ended, and yields what [`JoinHandle::join`] would have.
///
/// The result can be had once: a handle whose `join` event was chosen must not be joined any more, which panics.
/// If another arm is chosen the handle is as it was before.
///
/// # Panics
/// The select panics if a fiber waits for its own end, or the result has been taken.
pub fn join<J: Joinable>(handle: &mut J) -> Join<'_, J> {
    Join { handle }
}

/// What can be joined: [`JoinHandle`] and [`ScopedJoinHandle`].
pub trait Joinable: sealed::Sealed {
    /// What the fiber returns.
    type Value;
    /// # Safety
    /// As [`JoinHandle::announce`].
    #[doc(hidden)]
    unsafe fn announce(&self, waiter: Waiter) -> bool;
    #[doc(hidden)]
    fn withdraw(&self);
    #[doc(hidden)]
    fn is_finished(&self) -> bool;
    #[doc(hidden)]
    fn take(&mut self) -> thread::Result<Self::Value>;
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for bast_rt::JoinHandle<T> {}
    impl<T> Sealed for bast_rt::ScopedJoinHandle<'_, T> {}
}

macro_rules! joinable {
    ($handle:ty) => {
        impl<T> Joinable for $handle {
            type Value = T;

            unsafe fn announce(&self, waiter: Waiter) -> bool {
                // SAFETY: the caller's promise.
                unsafe { self.announce(waiter) }
            }

            fn withdraw(&self) {
                self.withdraw();
            }

            fn is_finished(&self) -> bool {
                self.is_finished()
            }

            fn take(&mut self) -> thread::Result<T> {
                self.take_result().expect("chosen because it has ended")
            }
        }
    };
}
joinable!(JoinHandle<T>);
joinable!(ScopedJoinHandle<'_, T>);

/// See [`join`].
#[derive(Debug)]
pub struct Join<'a, J> {
    handle: &'a mut J,
}

impl<J: Joinable> Arm for Join<'_, J> {
    fn attempt(&self) -> bool {
        self.check()
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        // SAFETY: the handle is borrowed for as long as the arm exists, so nobody else joins; the waiter does
        // not go before `delist` has returned.
        unsafe { self.handle.announce(place.waiter()) }
    }

    fn delist(&self) {
        self.handle.withdraw();
    }

    fn check(&self) -> bool {
        self.handle.is_finished()
    }
}

impl<J: Joinable> Event for Join<'_, J> {
    type Output = thread::Result<J::Value>;

    fn finish(self) -> Self::Output {
        self.handle.take()
    }
}
