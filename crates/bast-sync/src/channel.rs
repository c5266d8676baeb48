//! The one channel behind `mpsc`, `mpmc` and their `select` arms: a queue under a lock.
//!
//! ```text
//!              offer                                        take
//!   receiver waits ──▶ into its slot          message queued ──▶ the oldest; then the first waiting
//!   else, room     ──▶ into the queue                             sender's message moves into the queue
//!   else           ──▶ Full: waits,           else, sender waits (capacity 0) ──▶ from its slot
//!                      message in its slot    else               ──▶ Empty: waits, slot empty
//! ```
//!
//! What holds under the lock, of waiters whose ticket is open: if a receiver waits the queue is empty and
//! no sender waits; if a sender waits the queue is full. So messages come out in the order in which they were
//! accepted, and waiters on both sides are served in the order in which they came: a direct hand-off, no barging.
//! Each wake carries a message (or, when the other side has gone, none: the slot is left as it was), so
//! nobody is woken in vain, and a receiver that has been given a message keeps it, whatever deadline or
//! cancellation is due: `wait_in` returns what was granted.
//!
//! Who may touch what: everything is under the lock, except the slots of waiters, which have the rule of
//! `list`. Values of the user's are moved under it, and never dropped. A queue that grows does so under it too;
//! it doubles, so that is rare, but a backlog of millions makes others wait for a copy of it now and then.
//!
//! Ordering: the lock's Acquire and Release carry the messages in the queue, the ticket's those in slots.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use bast_rt::Instant;
use bast_rt::wait::{Reason, Wake};

use crate::list::{End, List, wait_in};
use crate::lock::{Guard, Lock};

/// A channel.
pub(crate) struct Channel<T> {
    state: Lock<State<T>>,
}

/// What is under the lock.
pub(crate) struct State<T> {
    pub(crate) queue: VecDeque<T>,
    /// How many messages the queue may hold.
    capacity: usize,
    /// Handles.
    senders: usize,
    receivers: usize,
    /// Waiting receivers; their slots are `Slot`s to be filled.
    pub(crate) takers: List,
    /// Waiting senders; their slots are `Slot`s to be emptied.
    pub(crate) givers: List,
}

/// Where a waiter gets its message, or leaves it.
pub(crate) struct Slot<T>(UnsafeCell<Option<T>>);

impl<T> Slot<T> {
    pub(crate) fn new(message: Option<T>) -> Slot<T> {
        Slot(UnsafeCell::new(message))
    }

    pub(crate) fn pointer(&self) -> *mut () {
        self.0.get().cast()
    }

    pub(crate) fn into_inner(self) -> Option<T> {
        self.0.into_inner()
    }
}

/// What became of a message.
pub(crate) enum Offer<T> {
    /// Accepted. The wake is to be dropped after the lock.
    Accepted(Option<Wake>),
    Full(T),
    /// No receiver is left.
    Closed(T),
}

/// What a receiver found.
pub(crate) enum Take<T> {
    /// The wake is to be dropped after the lock.
    Message(T, Option<Wake>),
    Empty,
    /// Empty, and no sender is left.
    Closed,
}

/// Why a send that waited has failed.
pub(crate) enum Unsent<T> {
    Closed(T),
    TimedOut(T),
}

/// Why a receive that waited has failed.
pub(crate) enum Unreceived {
    Closed,
    TimedOut,
}

impl<T> State<T> {
    #[inline]
    pub(crate) fn offer(&mut self, message: T) -> Offer<T> {
        if self.receivers == 0 {
            return Offer::Closed(message);
        }
        let mut message = message;
        if !self.takers.is_empty() {
            match self.hand_over(message) {
                Ok(wake) => return Offer::Accepted(Some(wake)),
                Err(back) => message = back,
            }
        }
        if self.queue.len() >= self.capacity {
            return Offer::Full(message);
        }
        self.queue.push_back(message);
        Offer::Accepted(None)
    }

    /// To the first waiting receiver.
    fn hand_over(&mut self, message: T) -> Result<Wake, T> {
        let mut message = Some(message);
        let wake = self.takers.grant(|slot| {
            // SAFETY: the slot of a receiver that waits: an empty `Slot<T>`, the granter's for now.
            unsafe { slot.cast::<Option<T>>().write(message.take()) };
        });
        match wake {
            Some(wake) => Ok(wake),
            None => Err(message.expect("nobody has got it")),
        }
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Take<T> {
        match self.queue.pop_front() {
            Some(message) if self.givers.is_empty() => Take::Message(message, None),
            Some(message) => {
                let wake = match self.accept() {
                    Some((next, wake)) => {
                        self.queue.push_back(next);
                        Some(wake)
                    }
                    None => None,
                };
                Take::Message(message, wake)
            }
            None => self.take_directly(),
        }
    }

    /// From a sender that waits in a channel of capacity 0.
    fn take_directly(&mut self) -> Take<T> {
        match self.accept() {
            Some((message, wake)) => Take::Message(message, Some(wake)),
            None if self.senders == 0 => Take::Closed,
            None => Take::Empty,
        }
    }

    /// The first waiting sender's message.
    fn accept(&mut self) -> Option<(T, Wake)> {
        let mut message = None;
        let wake = self.givers.grant(|slot| {
            // SAFETY: the slot of a sender that waits: a full `Slot<T>`, the granter's for now.
            message = unsafe { (*slot.cast::<Option<T>>()).take() };
        })?;
        Some((message.expect("a sender waits with its message"), wake))
    }

    pub(crate) fn is_without_senders(&self) -> bool {
        self.senders == 0
    }

    pub(crate) fn is_without_receivers(&self) -> bool {
        self.receivers == 0
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.capacity != usize::MAX
    }

    pub(crate) fn capacity(&self) -> Option<usize> {
        self.is_bounded().then_some(self.capacity)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= self.capacity
    }
}

impl<T> Channel<T> {
    /// With one handle on each side.
    pub(crate) fn new(capacity: Option<usize>) -> Arc<Channel<T>> {
        Arc::new(Channel {
            state: Lock::new(State {
                queue: VecDeque::new(),
                capacity: capacity.unwrap_or(usize::MAX),
                senders: 1,
                receivers: 1,
                takers: List::new(),
                givers: List::new(),
            }),
        })
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, State<T>> {
        self.state.lock()
    }

    #[inline]
    pub(crate) fn try_send(&self, message: T) -> Offer<T> {
        self.lock().offer(message)
    }

    /// Sends, waiting for room or a receiver. `deadline` is asked for if it has to wait.
    #[inline]
    pub(crate) fn send(
        &self,
        message: T,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Result<(), Unsent<T>> {
        let mut state = self.lock();
        match state.offer(message) {
            Offer::Accepted(wake) => {
                drop(state);
                drop(wake);
                Ok(())
            }
            Offer::Closed(message) => Err(Unsent::Closed(message)),
            Offer::Full(message) => {
                // The clock is not read under the lock; who comes meanwhile comes first.
                drop(state);
                self.send_later(message, deadline())
            }
        }
    }

    #[cold]
    fn send_later(&self, message: T, deadline: Option<Instant>) -> Result<(), Unsent<T>> {
        let mut state = self.lock();
        let message = match state.offer(message) {
            Offer::Accepted(wake) => {
                drop(state);
                drop(wake);
                return Ok(());
            }
            Offer::Closed(message) => return Err(Unsent::Closed(message)),
            Offer::Full(message) => message,
        };
        let slot = Slot::new(Some(message));
        let reason = Reason::new("Sender::send", self);
        let end = wait_in(&self.state, state, |s| &mut s.givers, slot.pointer(), &reason, deadline);
        let granted = end.granted();
        match slot.into_inner() {
            None => Ok(()),
            Some(message) if granted => Err(Unsent::Closed(message)),
            Some(message) => Err(Unsent::TimedOut(message)),
        }
    }

    #[inline]
    pub(crate) fn try_recv(&self) -> Take<T> {
        self.lock().take()
    }

    /// Receives, waiting for a message.
    #[inline]
    pub(crate) fn recv(&self, deadline: impl FnOnce() -> Option<Instant>) -> Result<T, Unreceived> {
        match self.try_recv() {
            Take::Message(message, wake) => {
                drop(wake);
                Ok(message)
            }
            Take::Closed => Err(Unreceived::Closed),
            Take::Empty => self.recv_later(deadline()),
        }
    }

    #[cold]
    pub(crate) fn recv_later(&self, deadline: Option<Instant>) -> Result<T, Unreceived> {
        let mut state = self.lock();
        match state.take() {
            Take::Message(message, wake) => {
                drop(state);
                drop(wake);
                return Ok(message);
            }
            Take::Closed => return Err(Unreceived::Closed),
            Take::Empty => {}
        }
        let slot = Slot::new(None);
        let reason = Reason::new("Receiver::recv", self);
        let end = wait_in(&self.state, state, |s| &mut s.takers, slot.pointer(), &reason, deadline);
        let granted = matches!(end, End::Granted);
        match slot.into_inner() {
            Some(message) => Ok(message),
            None if granted => Err(Unreceived::Closed),
            None => {
                end.unless_interrupted();
                Err(Unreceived::TimedOut)
            }
        }
    }

    pub(crate) fn add_sender(&self) {
        self.lock().senders += 1;
    }

    pub(crate) fn add_receiver(&self) {
        self.lock().receivers += 1;
    }

    /// A sender goes. The last one lets all receivers know.
    pub(crate) fn remove_sender(&self) {
        let mut state = self.lock();
        state.senders -= 1;
        if state.senders == 0 {
            drop(state);
            self.release(|state| &mut state.takers);
        }
    }

    /// A receiver goes. The last one lets all senders know, and drops what nobody will receive.
    pub(crate) fn remove_receiver(&self) {
        let mut state = self.lock();
        state.receivers -= 1;
        if state.receivers == 0 {
            let unread = mem::take(&mut state.queue);
            drop(state);
            self.release(|state| &mut state.givers);
            drop(unread);
        }
    }

    /// Wakes all waiters of a list, with their slots as they are. No new ones come: one side has gone.
    fn release(&self, list: impl Fn(&mut State<T>) -> &mut List) {
        loop {
            // Each wake is dropped before the lock is taken again.
            let wake = list(&mut self.lock()).grant(|_| ());
            if wake.is_none() {
                return;
            }
        }
    }
}
