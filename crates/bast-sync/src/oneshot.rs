//! A channel for one value: the answer to a question. As std's `sync::oneshot`, which is unstable yet.
//!
//! ```text
//!   sender:    HERE ── send, drop ─────────────────────▶ gone
//!   receiver:  HERE ── drop ──▶ LEAVING (wakes those in `closed`) ──▶ GONE
//!   value:     none ── send ──▶ there ── recv ──▶ none
//! ```
//!
//! Both ends share one allocation, and there is no reference count: under the lock each end says that
//! it goes, and the one that finds the other gone frees it. The unlocking store of the first to go is its last
//! access, and the last to go has seen it (Release and Acquire of the lock). So a whole exchange is an
//! allocation and two lockings.
//!
//! A receiver that has found the value, or the sender gone without one, needs no lock to free it.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::time::Duration;

use bast_rt::Instant;
use bast_rt::wait::Reason;

pub use std::sync::mpsc::{RecvError, SendError};

use crate::list::{End, List, wait_in};
use crate::lock::Lock;
use crate::place::after;
use crate::select::{Place as Arm, Seat};

/// What both ends share.
struct Shared<T> {
    lock: Lock<State<T>>,
}

struct State<T> {
    value: Option<T>,
    sender: bool,
    receiver: Presence,
    /// The receiver, in `recv`.
    receiving: List,
    /// Those who wait in `Sender::closed`.
    closing: List,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Here,
    /// It is going, and not through with the state.
    Leaving,
    Gone,
}

/// Makes a channel for one value.
///
/// ```
/// let (answer, question) = bast_sync::oneshot::channel();
/// bast_rt::spawn(move || answer.send(6 * 7));
/// assert_eq!(question.recv(), Ok(42));
/// ```
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = State {
        value: None,
        sender: true,
        receiver: Presence::Here,
        receiving: List::new(),
        closing: List::new(),
    };
    let shared = NonNull::from(Box::leak(Box::new(Shared { lock: Lock::new(state) })));
    (Sender { shared, value: PhantomData }, Receiver { shared, value: PhantomData })
}

/// # Safety
/// Both ends have said that they go, or the caller is the last.
unsafe fn free<T>(shared: NonNull<Shared<T>>) {
    // SAFETY: made by `channel`; the caller's promise.
    drop(unsafe { Box::from_raw(shared.as_ptr()) });
}

/// The end that gives the value.
pub struct Sender<T> {
    shared: NonNull<Shared<T>>,
    value: PhantomData<T>,
}

// SAFETY: the value goes from one thread to another; all else is under the lock.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: a shared sender sees no value.
unsafe impl<T: Send> Sync for Sender<T> {}

impl<T> Sender<T> {
    fn shared(&self) -> &Shared<T> {
        // SAFETY: not freed before this end has said that it goes.
        unsafe { self.shared.as_ref() }
    }

    /// Gives the value. Never waits.
    ///
    /// # Errors
    /// The value, if the receiver has gone. It may go after this and before it has received; then the value is dropped.
    #[inline]
    pub fn send(self, value: T) -> Result<(), SendError<T>> {
        let this = ManuallyDrop::new(self);
        match this.go(Some(value)) {
            None => Ok(()),
            Some(value) => Err(SendError(value)),
        }
    }

    /// Says that this end goes, leaving a value or not. A value that nobody will receive comes back.
    #[inline]
    fn go(&self, value: Option<T>) -> Option<T> {
        let mut state = self.shared().lock.lock();
        state.sender = false;
        if state.receiver == Presence::Here {
            state.value = value;
            let wake = state.receiving.grant(|_| ());
            // From here on the receiver may free it.
            drop(state);
            drop(wake);
            return None;
        }
        let last = state.receiver == Presence::Gone;
        drop(state);
        if last {
            // SAFETY: the receiver is gone.
            unsafe { free(self.shared) };
        }
        value
    }

    /// Whether the receiver has gone, so that a value would come back.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared().lock.lock().receiver != Presence::Here
    }

    /// For `select`: joins those who wait for the receiver to go; false if it has gone.
    ///
    /// # Safety
    /// As [`Seat::take`].
    pub(crate) unsafe fn enlist(&self, seat: &Seat, arm: &Arm<'_>) -> bool {
        let mut state = self.shared().lock.lock();
        let wait = state.receiver == Presence::Here;
        if wait {
            // SAFETY: the caller's promise.
            unsafe { seat.take(&mut state.closing, arm, ptr::null_mut()) };
        }
        wait
    }

    pub(crate) fn delist(&self, seat: &Seat) {
        if seat.is_taken() {
            // SAFETY: it was put into this list, if into any.
            unsafe { seat.leave(&mut self.shared().lock.lock().closing) };
        }
    }

    /// Waits until the receiver has gone: nobody wants the answer any more. Meant for `select!`, beside the
    /// work on the answer.
    ///
    /// # Cancellation
    /// Nothing has happened.
    pub fn closed(&self) {
        let shared = self.shared();
        let state = shared.lock.lock();
        if state.receiver == Presence::Here {
            let slot = ptr::null_mut();
            let reason = Reason::new("oneshot::Sender::closed", shared);
            wait_in(&shared.lock, state, |s| &mut s.closing, slot, &reason, None)
                .unless_interrupted();
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.go(None);
    }
}

/// The end that gets the value.
pub struct Receiver<T> {
    shared: NonNull<Shared<T>>,
    value: PhantomData<T>,
}

// SAFETY: as for the sender.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: as for the sender.
unsafe impl<T: Send> Sync for Receiver<T> {}

/// Why there is no value.
enum Missing {
    NotYet,
    Never,
}

impl<T> Receiver<T> {
    fn shared(&self) -> &Shared<T> {
        // SAFETY: not freed before this end has said that it goes.
        unsafe { self.shared.as_ref() }
    }

    /// Waits for the value.
    ///
    /// # Errors
    /// If the sender has gone without giving one.
    ///
    /// # Cancellation
    /// The receiver goes, as it does with the frame.
    #[inline]
    pub fn recv(self) -> Result<T, RecvError> {
        match self.receive("oneshot::Receiver::recv", None) {
            Ok(value) => Ok(self.finish(value)),
            Err(_) => Err(self.finish(RecvError)),
        }
    }

    /// As [`recv`](Receiver::recv), and gives up after `timeout`.
    ///
    /// # Errors
    /// `Timeout` with the receiver, for another attempt; `Disconnected` as `recv`.
    pub fn recv_timeout(self, timeout: Duration) -> Result<T, RecvTimeoutError<T>> {
        match self.receive("oneshot::Receiver::recv_timeout", after(timeout)) {
            Ok(value) => Ok(self.finish(value)),
            Err(Missing::NotYet) => Err(RecvTimeoutError::Timeout(self)),
            Err(Missing::Never) => Err(self.finish(RecvTimeoutError::Disconnected)),
        }
    }

    /// The value, if it is there.
    ///
    /// # Errors
    /// `Empty` with the receiver, if it may still come; `Disconnected` if not.
    pub fn try_recv(self) -> Result<T, TryRecvError<T>> {
        match self.look() {
            Ok(value) => Ok(self.finish(value)),
            Err(Missing::NotYet) => Err(TryRecvError::Empty(self)),
            Err(Missing::Never) => Err(self.finish(TryRecvError::Disconnected)),
        }
    }

    /// The value, which is out then: only once.
    fn look(&self) -> Result<T, Missing> {
        let mut state = self.shared().lock.lock();
        match state.value.take() {
            Some(value) => Ok(value),
            None if state.sender => Err(Missing::NotYet),
            None => Err(Missing::Never),
        }
    }

    /// For `select`: what `recv` would return, if it would not wait.
    pub(crate) fn find(&self) -> Option<Result<T, RecvError>> {
        match self.look() {
            Ok(value) => Some(Ok(value)),
            Err(Missing::Never) => Some(Err(RecvError)),
            Err(Missing::NotYet) => None,
        }
    }

    /// For `select`: waits for the sender to go, with or without a value; false if it has gone.
    ///
    /// # Safety
    /// As [`Seat::take`].
    pub(crate) unsafe fn enlist(&self, seat: &Seat, arm: &Arm<'_>) -> bool {
        let mut state = self.shared().lock.lock();
        if state.sender {
            // SAFETY: the caller's promise.
            unsafe { seat.take(&mut state.receiving, arm, ptr::null_mut()) };
        }
        state.sender
    }

    pub(crate) fn delist(&self, seat: &Seat) {
        if seat.is_taken() {
            // SAFETY: it was put into this list, if into any.
            unsafe { seat.leave(&mut self.shared().lock.lock().receiving) };
        }
    }

    #[inline]
    fn receive(&self, what: &'static str, deadline: Option<Instant>) -> Result<T, Missing> {
        let shared = self.shared();
        let mut state = shared.lock.lock();
        if state.sender {
            let slot = ptr::null_mut();
            let reason = Reason::new(what, shared);
            match wait_in(&shared.lock, state, |s| &mut s.receiving, slot, &reason, deadline) {
                End::Granted => {}
                End::TimedOut => return Err(Missing::NotYet),
                End::Interrupted(interruption) => interruption.raise(),
            }
            state = shared.lock.lock();
        }
        state.value.take().ok_or(Missing::Never)
    }

    /// Frees what was shared: the sender has been seen to be gone.
    #[inline]
    fn finish<R>(self, result: R) -> R {
        let this = ManuallyDrop::new(self);
        // SAFETY: it went under the lock, which this end has taken since.
        unsafe { free(this.shared) };
        result
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        loop {
            let mut state = self.shared().lock.lock();
            state.receiver = Presence::Leaving;
            let Some(wake) = state.closing.grant(|_| ()) else {
                state.receiver = Presence::Gone;
                let last = !state.sender;
                let value = state.value.take();
                drop(state);
                if last {
                    // SAFETY: the sender is gone.
                    unsafe { free(self.shared) };
                }
                return drop(value);
            };
            drop(state);
            drop(wake);
        }
    }
}

/// [`Receiver::try_recv`] has no value.
pub enum TryRecvError<T> {
    /// It may still come.
    Empty(Receiver<T>),
    /// The sender has gone without giving one.
    Disconnected,
}

/// [`Receiver::recv_timeout`] has no value.
pub enum RecvTimeoutError<T> {
    /// It has not come in time.
    Timeout(Receiver<T>),
    /// The sender has gone without giving one.
    Disconnected,
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for TryRecvError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty(_) => "Empty(..)",
            TryRecvError::Disconnected => "Disconnected",
        })
    }
}

impl<T> fmt::Display for TryRecvError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty(_) => "no value has been sent yet",
            TryRecvError::Disconnected => "the sender has gone without sending a value",
        })
    }
}

impl<T> std::error::Error for TryRecvError<T> {}

impl<T> fmt::Debug for RecvTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvTimeoutError::Timeout(_) => "Timeout(..)",
            RecvTimeoutError::Disconnected => "Disconnected",
        })
    }
}

impl<T> fmt::Display for RecvTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvTimeoutError::Timeout(_) => "timed out waiting for a value",
            RecvTimeoutError::Disconnected => "the sender has gone without sending a value",
        })
    }
}

impl<T> std::error::Error for RecvTimeoutError<T> {}
