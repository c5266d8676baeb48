//! A channel in which every receiver sees every message: tokio's `broadcast`.
//!
//! ```text
//!        first                                  tail = first + ring.len()
//!          ▼                                      ▼
//!   ring:  [ 17, left 2 ][ 18, left 2 ][ 19, left 3 ]      at most `capacity`
//!                            ▲              ▲
//!   receivers:          next 18        next 19              next 20 waits in the list
//! ```
//!
//! Messages are numbered. A receiver has the number that it wants next; a message counts how many are
//! still to see it, and goes with the last of them, who gets it without a copy. A full ring loses its
//! first message; a receiver that finds its number gone is told how many it has missed.
//!
//! Each message is in an `Arc`, so that it is cloned, and dropped, outside the lock. Everything else is
//! under it. Who waits leaves its number in its slot, so that a sender wakes those whom its message
//! concerns, and nobody who has come back meanwhile.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bast_rt::Instant;
use bast_rt::wait::{self, Reason};

pub use std::sync::mpsc::SendError;

use crate::list::{List, wait_in};
use crate::lock::{Guard, Lock};
use crate::place::after;
use crate::select::{Place as Arm, Seat};

struct State<T> {
    ring: VecDeque<Message<T>>,
    capacity: usize,
    /// The number of the ring's first message.
    first: u64,
    senders: usize,
    receivers: usize,
    waiting: List,
}

struct Message<T> {
    value: Arc<T>,
    /// How many receivers are still to see it.
    left: usize,
}

/// What a receiver finds.
pub(crate) enum Found<T> {
    Message(Arc<T>),
    Lagged(u64),
    Nothing,
    Closed,
}

impl<T> Found<T> {
    /// What `recv` returns.
    pub(crate) fn into_result(self) -> Result<T, RecvError>
    where
        T: Clone,
    {
        match self {
            Found::Message(message) => Ok(Arc::unwrap_or_clone(message)),
            Found::Lagged(missed) => Err(RecvError::Lagged(missed)),
            Found::Closed => Err(RecvError::Closed),
            Found::Nothing => unreachable!("without a deadline there is no timeout"),
        }
    }
}

/// What senders and receivers share.
pub(crate) struct Channel<T> {
    state: Lock<State<T>>,
}

impl<T> Channel<T> {
    #[inline]
    fn lock(&self) -> Guard<'_, State<T>> {
        self.state.lock()
    }

    /// What there is for a receiver, and it goes on.
    pub(crate) fn advance(&self, next: &mut u64) -> Found<T> {
        self.lock().advance(next)
    }

    /// For `select`: waits for the message with the number in `next`; false if there is something to say to who wants that.
    ///
    /// # Safety
    /// As [`Seat::take`]; so does the number.
    pub(crate) unsafe fn enlist(&self, seat: &Seat, arm: &Arm<'_>, next: *mut u64) -> bool {
        let mut state = self.lock();
        // SAFETY: the caller's promise.
        let wait = unsafe { *next } == state.tail() && state.senders > 0;
        if wait {
            // SAFETY: as above.
            unsafe { seat.take(&mut state.waiting, arm, next.cast()) };
        }
        wait
    }

    pub(crate) fn delist(&self, seat: &Seat) {
        if seat.is_taken() {
            // SAFETY: it was put into this list, if into any.
            unsafe { seat.leave(&mut self.lock().waiting) };
        }
    }
}

impl<T> State<T> {
    fn tail(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// What there is for a receiver, and it goes on.
    fn advance(&mut self, next: &mut u64) -> Found<T> {
        let Some(index) = next.checked_sub(self.first) else {
            let missed = self.first - *next;
            *next = self.first;
            return Found::Lagged(missed);
        };
        let Some(message) = self.ring.get_mut(index as usize) else {
            return if self.senders == 0 { Found::Closed } else { Found::Nothing };
        };
        *next += 1;
        message.left -= 1;
        if message.left > 0 {
            return Found::Message(Arc::clone(&message.value));
        }
        // All have seen it, so all have seen those before it: it is the first.
        self.first += 1;
        self.ring.pop_front().map_or(Found::Nothing, |message| Found::Message(message.value))
    }
}

/// Makes a channel that keeps `capacity` messages for receivers that are slow.
///
/// Same as `tokio::sync::broadcast::channel`.
///
/// # Differences from tokio
/// The capacity is what it is, not rounded up. Messages are `Sync`, as several receivers may clone one at the same time.
///
/// # Panics
/// If `capacity` is zero, or so large that there is no memory for it.
///
/// ```
/// let (sender, mut one) = bast_sync::broadcast::channel(8);
/// let mut two = sender.subscribe();
/// sender.send("hello").unwrap();
/// assert_eq!(one.recv(), Ok("hello"));
/// assert_eq!(two.recv(), Ok("hello"));
/// ```
#[must_use]
pub fn channel<T: Clone + Send + Sync>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a broadcast channel needs a capacity of at least one");
    let state = Lock::new(State {
        ring: VecDeque::with_capacity(capacity),
        capacity,
        first: 0,
        senders: 1,
        receivers: 1,
        waiting: List::new(),
    });
    let shared = Arc::new(Channel { state });
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared, next: 0 })
}

/// The end that sends. The channel is closed when all its clones are gone.
pub struct Sender<T> {
    shared: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// Sends to all receivers that there are, and returns how many. Never waits: a receiver that is behind by
    /// more than the capacity misses messages.
    ///
    /// # Errors
    /// The value, if there is no receiver.
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let message = Arc::new(value);
        let mut state = self.shared.lock();
        let receivers = state.receivers;
        if receivers == 0 {
            drop(state);
            return match Arc::into_inner(message) {
                Some(value) => Err(SendError(value)),
                None => unreachable!("it has not been shared"),
            };
        }
        let mut lost = None;
        if state.ring.len() == state.capacity {
            lost = state.ring.pop_front();
            state.first += 1;
        }
        state.ring.push_back(Message { value: message, left: receivers });
        let tail = state.tail();
        loop {
            // SAFETY: the slot is the number that the waiter wants, written before it was linked; it does not
            // change it while it waits.
            let concerns = |slot: *mut ()| unsafe { *slot.cast::<u64>() < tail };
            let wake = state.waiting.grant_if(concerns, |_| ());
            drop(state);
            if wake.is_none() {
                break;
            }
            drop(wake);
            state = self.shared.lock();
        }
        drop(lost);
        wait::spend();
        Ok(receivers)
    }

    /// A receiver of all that is sent from now on.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        subscribe(&self.shared)
    }

    /// How many messages there are that some receiver has not seen.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.lock().ring.len()
    }

    /// Whether all receivers have seen all messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many receivers there are.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.lock().receivers
    }
}

fn subscribe<T>(shared: &Arc<Channel<T>>) -> Receiver<T> {
    let mut state = shared.lock();
    state.receivers += 1;
    Receiver { shared: Arc::clone(shared), next: state.tail() }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.shared.lock().senders += 1;
        Sender { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.senders -= 1;
        if state.senders > 0 {
            return;
        }
        // Nobody waits in a closed channel, so this ends.
        while let Some(wake) = state.waiting.grant(|_| ()) {
            drop(state);
            drop(wake);
            state = self.shared.lock();
        }
    }
}

/// An end that receives all that has been sent since it was made.
pub struct Receiver<T> {
    shared: Arc<Channel<T>>,
    /// The number of the message that it wants.
    next: u64,
}

impl<T> Receiver<T> {
    /// Waits for the next message.
    ///
    /// # Errors
    /// `Lagged` with the number of messages that were lost because this receiver was slow: the next
    /// call returns the oldest that is left. `Closed` if all senders are gone and all messages seen.
    ///
    /// # Cancellation
    /// No message is lost: the next call returns it.
    pub fn recv(&mut self) -> Result<T, RecvError>
    where
        T: Clone,
    {
        self.receive("broadcast::Receiver::recv", None).into_result()
    }

    /// As [`recv`](Receiver::recv), and gives up after `timeout`.
    ///
    /// # Errors
    /// As `recv`, and `Timeout`.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, RecvTimeoutError>
    where
        T: Clone,
    {
        match self.receive("broadcast::Receiver::recv_timeout", after(timeout)) {
            Found::Message(message) => Ok(Arc::unwrap_or_clone(message)),
            Found::Lagged(missed) => Err(RecvTimeoutError::Lagged(missed)),
            Found::Closed => Err(RecvTimeoutError::Closed),
            Found::Nothing => Err(RecvTimeoutError::Timeout),
        }
    }

    /// The next message, if there is one.
    ///
    /// # Errors
    /// As `recv`, and `Empty`.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError>
    where
        T: Clone,
    {
        match self.shared.advance(&mut self.next) {
            Found::Message(message) => Ok(Arc::unwrap_or_clone(message)),
            Found::Lagged(missed) => Err(TryRecvError::Lagged(missed)),
            Found::Closed => Err(TryRecvError::Closed),
            Found::Nothing => Err(TryRecvError::Empty),
        }
    }

    /// For `select`.
    pub(crate) fn parts(&mut self) -> (&Channel<T>, &mut u64) {
        (&self.shared, &mut self.next)
    }

    fn receive(&mut self, what: &'static str, deadline: Option<Instant>) -> Found<T> {
        wait::spend();
        let reason = Reason::new(what, &*self.shared);
        loop {
            let mut state = self.shared.lock();
            match state.advance(&mut self.next) {
                Found::Nothing => {}
                found => return found,
            }
            let slot = (&raw mut self.next).cast();
            if !wait_in(&self.shared.state, state, |s| &mut s.waiting, slot, &reason, deadline)
                .granted()
            {
                return Found::Nothing;
            }
        }
    }

    /// Another receiver, of all that is sent from now on.
    #[must_use]
    pub fn resubscribe(&self) -> Receiver<T> {
        subscribe(&self.shared)
    }

    /// How many messages it has not seen, or missed.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.shared.lock().tail() - self.next) as usize
    }

    /// Whether it has seen all messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all senders are gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.lock().senders == 0
    }
}

impl<T> Drop for Receiver<T> {
    /// What it has not seen it sees now: the last to see a message takes it away.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.receivers -= 1;
        // What is sent after this does not count this receiver.
        let end = state.tail();
        while self.next < end {
            let found = state.advance(&mut self.next);
            drop(state);
            drop(found);
            state = self.shared.lock();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Why [`Receiver::recv`] has no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// All senders are gone.
    Closed,
    /// So many messages were lost.
    Lagged(u64),
}

/// Why [`Receiver::try_recv`] has no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// There is none.
    Empty,
    /// All senders are gone.
    Closed,
    /// So many messages were lost.
    Lagged(u64),
}

/// Why [`Receiver::recv_timeout`] has no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// None has come in time.
    Timeout,
    /// All senders are gone.
    Closed,
    /// So many messages were lost.
    Lagged(u64),
}

const CLOSED: &str = "receiving on a closed channel";

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Closed => f.write_str(CLOSED),
            RecvError::Lagged(missed) => write!(f, "the receiver has missed {missed} messages"),
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TryRecvError::Empty => f.write_str("receiving on an empty channel"),
            TryRecvError::Closed => RecvError::Closed.fmt(f),
            TryRecvError::Lagged(missed) => RecvError::Lagged(missed).fmt(f),
        }
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RecvTimeoutError::Timeout => f.write_str("timed out waiting on channel"),
            RecvTimeoutError::Closed => RecvError::Closed.fmt(f),
            RecvTimeoutError::Lagged(missed) => RecvError::Lagged(missed).fmt(f),
        }
    }
}

impl std::error::Error for RecvError {}
impl std::error::Error for TryRecvError {}
impl std::error::Error for RecvTimeoutError {}
