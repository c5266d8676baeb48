//! Receiving and sending as events. A receive is the example of an arm that waits in a list.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::mpsc::{RecvError, SendError};

use super::arm::{Arm, Event, Place, Seat};
use crate::channel::{Channel, Offer, Slot, Take};
use crate::mpsc::Buffer;

/// Completes when there is a message, which it yields, or when all senders have gone: [`RecvError`].
pub fn recv<R: Receiving>(receiver: &R) -> Recv<'_, R::Message> {
    receiver.event()
}

/// Completes when the channel has taken `message`, or when all receivers have gone: [`SendError`], with
/// the message. If another arm is chosen the message is dropped with the event; use [`send_from`] to keep it.
pub fn send<S: Sending>(sender: &S, message: S::Message) -> Send<'_, S::Message> {
    Send { channel: sender.channel(), message: Slot::new(Some(message)), seat: Seat::new() }
}

/// As [`send()`], with the message taken from `message`, where it stays if another arm is chosen or all
/// receivers have gone. `None` never completes: an arm that is switched off.
///
/// ```
/// use bast_sync::mpsc;
/// use bast_sync::select::{recv, send_from};
///
/// let (tx, _results) = mpsc::sync_channel(0);
/// let (requests, rx) = mpsc::channel();
/// requests.send("a request").unwrap();
/// let mut result = Some(String::from("nobody fetches this"));
/// bast_sync::select! {
///     _ = send_from(&tx, &mut result) => unreachable!(),
///     request = recv(&rx) => assert_eq!(request, Ok("a request")),
/// }
/// assert!(result.is_some());
/// ```
pub fn send_from<'a, S: Sending>(
    sender: &'a S,
    message: &'a mut Option<S::Message>,
) -> SendFrom<'a, S::Message> {
    let wanted = message.is_some();
    let slot = UnsafeCell::from_mut(message);
    SendFrom { channel: sender.channel(), message: slot, wanted, seat: Seat::new() }
}

/// The receivers that [`recv`] takes.
pub trait Receiving: sealed::Sealed {
    /// What comes out.
    type Message;
    #[doc(hidden)]
    fn event(&self) -> Recv<'_, Self::Message>;
}

/// The senders that [`send()`] and [`send_from`] take.
pub trait Sending: sealed::Sealed {
    /// What goes in.
    type Message;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn channel(&self) -> &Channel<Self::Message>;
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for crate::mpsc::Receiver<T> {}
    impl<T> Sealed for crate::mpsc::Sender<T> {}
    impl<T> Sealed for crate::mpsc::SyncSender<T> {}
    impl<T> Sealed for crate::mpmc::Receiver<T> {}
    impl<T> Sealed for crate::mpmc::Sender<T> {}
}

/// See [`recv`].
pub struct Recv<'a, T> {
    channel: &'a Channel<T>,
    /// What an `mpsc` receiver has fetched already.
    buffer: Option<&'a Buffer<T>>,
    message: Slot<T>,
    seat: Seat,
}

impl<'a, T> Recv<'a, T> {
    pub(crate) fn new(channel: &'a Channel<T>, buffer: Option<&'a Buffer<T>>) -> Recv<'a, T> {
        Recv { channel, buffer, message: Slot::new(None), seat: Seat::new() }
    }
}

impl<T> Arm for Recv<'_, T> {
    #[inline]
    fn attempt(&self) -> bool {
        if let Some(message) = self.buffer.and_then(Buffer::pop) {
            // SAFETY: not enlisted, so nobody else knows the slot, which is empty.
            unsafe { self.message.pointer().cast::<Option<T>>().write(Some(message)) };
            return true;
        }
        let taken = match self.buffer {
            Some(buffer) => buffer.take(self.channel),
            None => self.channel.try_recv(),
        };
        match taken {
            Take::Message(message, wake) => {
                drop(wake);
                // SAFETY: as above.
                unsafe { self.message.pointer().cast::<Option<T>>().write(Some(message)) };
                true
            }
            // The slot stays empty: `RecvError`.
            Take::Closed => true,
            Take::Empty => false,
        }
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        let mut state = self.channel.lock();
        let possible = self.buffer.is_some_and(|buffer| !buffer.is_empty())
            || !state.queue.is_empty()
            || state.is_without_senders()
            || place.is_met_in(&state.givers);
        if !possible {
            // SAFETY: not enlisted, and stays until `delist` (the caller's promise).
            unsafe { self.seat.take(&mut state.takers, place, self.message.pointer()) };
        }
        !possible
    }

    fn delist(&self) {
        if self.seat.is_taken() {
            // SAFETY: this list is the only one it goes to.
            unsafe { self.seat.leave(&mut self.channel.lock().takers) };
        }
    }
}

impl<T> Event for Recv<'_, T> {
    type Output = Result<T, RecvError>;

    #[inline]
    fn finish(self) -> Result<T, RecvError> {
        self.message.into_inner().ok_or(RecvError)
    }
}

/// Offers what is in the slot.
///
/// # Safety
/// Nobody else knows the slot, an `Option<T>`.
unsafe fn attempt_send<T>(channel: &Channel<T>, slot: *mut ()) -> bool {
    // SAFETY: the caller's promise.
    let slot = unsafe { &mut *slot.cast::<Option<T>>() };
    let Some(message) = slot.take() else { return false };
    match channel.try_send(message) {
        Offer::Accepted(wake) => {
            drop(wake);
            true
        }
        Offer::Closed(message) => {
            *slot = Some(message);
            true
        }
        Offer::Full(message) => {
            *slot = Some(message);
            false
        }
    }
}

/// # Safety
/// As [`Arm::enlist`]; `slot` stays as long as the seat and is a full `Option<T>`.
unsafe fn enlist_send<T>(
    channel: &Channel<T>,
    seat: &Seat,
    place: &Place<'_>,
    slot: *mut (),
) -> bool {
    let mut state = channel.lock();
    let possible =
        !state.is_full() || state.is_without_receivers() || place.is_met_in(&state.takers);
    if !possible {
        // SAFETY: the caller's promise.
        unsafe { seat.take(&mut state.givers, place, slot) };
    }
    !possible
}

fn delist_send<T>(channel: &Channel<T>, seat: &Seat) {
    if seat.is_taken() {
        // SAFETY: this list is the only one it goes to.
        unsafe { seat.leave(&mut channel.lock().givers) };
    }
}

/// See [`send()`].
pub struct Send<'a, T> {
    channel: &'a Channel<T>,
    message: Slot<T>,
    seat: Seat,
}

impl<T> Arm for Send<'_, T> {
    fn attempt(&self) -> bool {
        // SAFETY: not enlisted, so nobody else knows the slot.
        unsafe { attempt_send(self.channel, self.message.pointer()) }
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        // SAFETY: the caller's promise; the slot is full until the event has completed.
        unsafe { enlist_send(self.channel, &self.seat, place, self.message.pointer()) }
    }

    fn delist(&self) {
        delist_send(self.channel, &self.seat);
    }
}

impl<T> Event for Send<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn finish(self) -> Result<(), SendError<T>> {
        self.message.into_inner().map_or(Ok(()), |message| Err(SendError(message)))
    }
}

/// See [`send_from`].
pub struct SendFrom<'a, T> {
    channel: &'a Channel<T>,
    message: &'a UnsafeCell<Option<T>>,
    wanted: bool,
    seat: Seat,
}

impl<T> Arm for SendFrom<'_, T> {
    fn attempt(&self) -> bool {
        // SAFETY: not enlisted, so nobody else knows the slot; it is borrowed exclusively.
        unsafe { attempt_send(self.channel, self.message.get().cast()) }
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        let slot = self.message.get().cast();
        // SAFETY: the caller's promise; the slot is full until the event has completed.
        !self.wanted || unsafe { enlist_send(self.channel, &self.seat, place, slot) }
    }

    fn delist(&self) {
        delist_send(self.channel, &self.seat);
    }
}

impl<T> Event for SendFrom<'_, T> {
    type Output = Result<(), SendError<()>>;

    fn finish(self) -> Result<(), SendError<()>> {
        // SAFETY: in no list, so nobody else knows the slot.
        let sent = unsafe { &*self.message.get() }.is_none();
        if sent { Ok(()) } else { Err(SendError(())) }
    }
}

impl<T> fmt::Debug for Recv<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recv").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Send<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Send").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SendFrom<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFrom").finish_non_exhaustive()
    }
}
