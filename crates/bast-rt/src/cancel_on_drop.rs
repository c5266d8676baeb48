//! A handle whose fiber ends with it: what dropping a future means to code that awaits.
//!
//! Cancelling a fiber that has ended does nothing, so everything here just cancels when it goes.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use crate::join::{Fiber, JoinHandle};

/// A [`JoinHandle`] that cancels its fiber when it is dropped; made by [`JoinHandle::cancel_on_drop`]. It does not
/// wait for the fiber to end: [`scope`](crate::scope) does.
///
/// It is a future as the handle is. So a fiber can stand for a future wherever those are given up by dropping them:
///
/// ```
/// let (end, ended) = std::sync::mpsc::channel::<()>();
/// let slow = bast_rt::spawn(move || {
///     let _end = end;
///     bast_rt::sleep(std::time::Duration::from_secs(60));
/// });
/// drop(slow.cancel_on_drop());
/// assert!(ended.recv().is_err(), "it is gone, and has sent nothing");
/// ```
#[must_use = "dropping it cancels the fiber at once"]
pub struct CancelOnDrop<T> {
    /// None: it has been taken out.
    handle: Option<JoinHandle<T>>,
}

impl<T> JoinHandle<T> {
    /// Dropping what this returns cancels the fiber, where dropping the handle would detach it.
    pub fn cancel_on_drop(self) -> CancelOnDrop<T> {
        CancelOnDrop { handle: Some(self) }
    }
}

const TAKEN: &str = "only what uses up the wrapper takes the handle";

impl<T> CancelOnDrop<T> {
    /// As [`JoinHandle::join`]. If the calling fiber is cancelled while it waits, so is the fiber waited for.
    ///
    /// # Errors
    /// As [`JoinHandle::join`].
    ///
    /// # Panics
    /// As [`JoinHandle::join`].
    pub fn join(self) -> thread::Result<T> {
        struct Cancel(Fiber);
        impl Drop for Cancel {
            fn drop(&mut self) {
                self.0.cancel();
            }
        }
        let _cancel = Cancel(self.fiber());
        self.into_inner().join()
    }

    /// The handle, which detaches the fiber when it is dropped.
    pub fn into_inner(mut self) -> JoinHandle<T> {
        self.handle.take().expect(TAKEN)
    }
}

impl<T> Deref for CancelOnDrop<T> {
    type Target = JoinHandle<T>;

    fn deref(&self) -> &JoinHandle<T> {
        self.handle.as_ref().expect(TAKEN)
    }
}

/// As of [`JoinHandle`].
///
/// # Panics
/// If it is polled again after it was ready.
impl<T> Future for CancelOnDrop<T> {
    type Output = thread::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(self.handle.as_mut().expect(TAKEN)).poll(context)
    }
}

impl<T> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.cancel();
        }
    }
}

impl<T> fmt::Debug for CancelOnDrop<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelOnDrop").field(&self.handle).finish()
    }
}
