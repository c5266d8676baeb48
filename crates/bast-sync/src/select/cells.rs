//! `MVar`, `oneshot`, `broadcast` and `watch` as events.
//!
//! Two kinds. An `MVar` is handed over: who grants the arm has written the value into its slot, or taken it
//! from there, or has counted it as a reader. The others are told: something is there for this receiver, which
//! nobody else can take away, and `finish` fetches it.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::mem;

use super::arm::{Arm, Event, Place, Seat};
use crate::place::Claim;
use crate::{MVar, broadcast, oneshot, watch};

/// Completes when the value can be taken from the [`MVar`], and yields it.
///
/// ```
/// use bast_sync::MVar;
/// use bast_sync::select::{put, take};
///
/// let (full, empty) = (MVar::new("here"), MVar::new_empty());
/// bast_sync::select! {
///     value = take(&full) => assert_eq!(value, "here"),
///     _ = take(&empty) => unreachable!(),
/// }
/// bast_sync::select! {
///     _ = take(&full) => unreachable!(),
///     () = put(&empty, "there") => assert_eq!(empty.take(), "there"),
/// }
/// ```
pub fn take<T>(mvar: &MVar<T>) -> Take<'_, T> {
    Take { mvar, claim: UnsafeCell::new(Claim::Take), seat: Seat::new() }
}

/// See [`take`].
pub struct Take<'a, T> {
    mvar: &'a MVar<T>,
    claim: UnsafeCell<Claim<T>>,
    seat: Seat,
}

impl<T> Arm for Take<'_, T> {
    fn attempt(&self) -> bool {
        let taken = self.mvar.place.try_take();
        taken
            .map(|value| {
                // SAFETY: not enlisted, so nobody else knows the claim.
                let before = unsafe { self.claim.get().replace(Claim::Taken(value)) };
                // Not in place: what a destructor does with this event must find it whole.
                drop(before);
            })
            .is_some()
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        // SAFETY: the caller's promise; the slot is a `Claim<T>`.
        unsafe { self.mvar.place.enlist_taker(&self.seat, place, self.claim.get().cast()) }
    }

    fn delist(&self) {
        self.mvar.place.delist_taker(&self.seat);
    }
}

impl<T> Event for Take<'_, T> {
    type Output = T;

    fn finish(self) -> T {
        match self.claim.into_inner() {
            Claim::Taken(value) => value,
            Claim::Take | Claim::Lend => unreachable!("the event has completed"),
        }
    }
}

/// Completes when the [`MVar`] has a value, and yields a copy of it.
pub fn read<T: Clone + Sync>(mvar: &MVar<T>) -> Read<'_, T> {
    Read { mvar, reading: UnsafeCell::new(false), seat: Seat::new() }
}

/// See [`read`].
pub struct Read<'a, T: Sync> {
    mvar: &'a MVar<T>,
    /// Whether this has been counted as a reader.
    reading: UnsafeCell<bool>,
    seat: Seat,
}

impl<T: Sync> Arm for Read<'_, T> {
    fn attempt(&self) -> bool {
        let shared = self.mvar.place.try_share();
        shared
            .map(|shared| {
                mem::forget(shared);
                // SAFETY: not enlisted, so nobody else knows the slot.
                unsafe { *self.reading.get() = true };
            })
            .is_some()
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        // SAFETY: the caller's promise; the slot is a `bool`.
        unsafe { self.mvar.place.enlist_reader(&self.seat, place, self.reading.get().cast()) }
    }

    fn delist(&self) {
        self.mvar.place.delist_reader(&self.seat);
    }
}

impl<T: Clone + Sync> Event for Read<'_, T> {
    type Output = T;

    fn finish(mut self) -> T {
        debug_assert!(*self.reading.get_mut());
        *self.reading.get_mut() = false;
        // SAFETY: it was counted as a reader, and is not any more.
        T::clone(&*unsafe { self.mvar.place.shared() })
    }
}

impl<T: Sync> Drop for Read<'_, T> {
    fn drop(&mut self) {
        if *self.reading.get_mut() {
            // SAFETY: it was counted as a reader, and is not any more.
            drop(unsafe { self.mvar.place.shared() });
        }
    }
}

/// Completes when the [`MVar`] is empty, by putting `value` into it. If another arm is chosen the value is dropped
/// with the event.
pub fn put<T>(mvar: &MVar<T>, value: T) -> Put<'_, T> {
    Put { mvar, value: UnsafeCell::new(Some(value)), seat: Seat::new() }
}

/// See [`put`].
pub struct Put<'a, T> {
    mvar: &'a MVar<T>,
    value: UnsafeCell<Option<T>>,
    seat: Seat,
}

impl<T> Arm for Put<'_, T> {
    fn attempt(&self) -> bool {
        // SAFETY: not enlisted, so nobody else knows the slot; the reference goes at once.
        let Some(value) = (unsafe { &mut *self.value.get() }).take() else { return false };
        let back = self.mvar.place.try_put(value).err();
        let put = back.is_none();
        // SAFETY: as above.
        unsafe { *self.value.get() = back };
        put
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        // SAFETY: the caller's promise; the slot is an `Option<T>`.
        unsafe { self.mvar.place.enlist_putter(&self.seat, place, self.value.get().cast()) }
    }

    fn delist(&self) {
        self.mvar.place.delist_putter(&self.seat);
    }
}

impl<T> Event for Put<'_, T> {
    type Output = ();

    fn finish(self) {}
}

/// Completes when the `oneshot` has its value, or when the sender has gone without: yields what its
/// [`recv`](oneshot::Receiver::recv) would.
pub fn recv_once<T>(receiver: &mut oneshot::Receiver<T>) -> RecvOnce<'_, T> {
    RecvOnce { receiver, value: Cell::new(None), seat: Seat::new() }
}

/// See [`recv_once`].
pub struct RecvOnce<'a, T> {
    receiver: &'a oneshot::Receiver<T>,
    value: Cell<Option<T>>,
    seat: Seat,
}

impl<T> Arm for RecvOnce<'_, T> {
    fn attempt(&self) -> bool {
        let Some(found) = self.receiver.find() else { return false };
        self.value.set(found.ok());
        true
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.receiver.enlist(&self.seat, place) }
    }

    fn delist(&self) {
        self.receiver.delist(&self.seat);
    }
}

impl<T> Event for RecvOnce<'_, T> {
    type Output = Result<T, oneshot::RecvError>;

    fn finish(self) -> Self::Output {
        match self.value.into_inner() {
            Some(value) => Ok(value),
            None => self.receiver.find().unwrap_or(Err(oneshot::RecvError)),
        }
    }
}

/// Completes when the `oneshot`'s receiver has gone.
///
/// ```
/// use bast_sync::oneshot;
/// use bast_sync::select::{closed, recv_once};
///
/// let (answer, question) = oneshot::channel::<u8>();
/// let (done, mut work) = oneshot::channel::<u8>();
/// drop(question);
/// bast_sync::select! {
///     () = closed(&answer) => drop(done), // nobody wants it any more
///     result = recv_once(&mut work) => answer.send(result.unwrap()).unwrap(),
/// }
/// ```
pub fn closed<T>(sender: &oneshot::Sender<T>) -> Closed<'_, T> {
    Closed { sender, seat: Seat::new() }
}

/// See [`closed`].
pub struct Closed<'a, T> {
    sender: &'a oneshot::Sender<T>,
    seat: Seat,
}

impl<T> Arm for Closed<'_, T> {
    fn attempt(&self) -> bool {
        self.sender.is_closed()
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.sender.enlist(&self.seat, place) }
    }

    fn delist(&self) {
        self.sender.delist(&self.seat);
    }
}

impl<T> Event for Closed<'_, T> {
    type Output = ();

    fn finish(self) {}
}

/// Completes when there is something for the `broadcast` receiver, and yields what its
/// [`recv`](broadcast::Receiver::recv) would.
pub fn recv_next<T: Clone>(receiver: &mut broadcast::Receiver<T>) -> RecvNext<'_, T> {
    let (channel, next) = receiver.parts();
    RecvNext {
        channel,
        next: UnsafeCell::from_mut(next),
        found: Cell::new(None),
        seat: Seat::new(),
    }
}

/// See [`recv_next`].
pub struct RecvNext<'a, T> {
    channel: &'a broadcast::Channel<T>,
    next: &'a UnsafeCell<u64>,
    found: Cell<Option<broadcast::Found<T>>>,
    seat: Seat,
}

impl<T> Arm for RecvNext<'_, T> {
    fn attempt(&self) -> bool {
        // SAFETY: not enlisted, so nobody else knows of it; the reference goes at once.
        let found = self.channel.advance(unsafe { &mut *self.next.get() });
        let there = !matches!(found, broadcast::Found::Nothing);
        self.found.set(there.then_some(found));
        there
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        // SAFETY: the caller's promise; the number does not change while it is enlisted.
        unsafe { self.channel.enlist(&self.seat, place, self.next.get()) }
    }

    fn delist(&self) {
        self.channel.delist(&self.seat);
    }
}

impl<T: Clone> Event for RecvNext<'_, T> {
    type Output = Result<T, broadcast::RecvError>;

    fn finish(self) -> Self::Output {
        if let Some(found) = self.found.take() {
            return found.into_result();
        }
        // SAFETY: not enlisted any more.
        self.channel.advance(unsafe { &mut *self.next.get() }).into_result()
    }
}

/// Completes when the `watch` has a value that the receiver has not seen, and yields what its
/// [`changed`](watch::Receiver::changed) would.
pub fn changed<T>(receiver: &mut watch::Receiver<T>) -> Changed<'_, T> {
    let (channel, seen) = receiver.parts();
    Changed {
        channel,
        seen: UnsafeCell::from_mut(seen),
        result: Cell::new(None),
        seat: Seat::new(),
    }
}

/// See [`changed`].
pub struct Changed<'a, T> {
    channel: &'a watch::Channel<T>,
    seen: &'a UnsafeCell<u64>,
    result: Cell<Option<Result<(), watch::RecvError>>>,
    seat: Seat,
}

impl<T> Arm for Changed<'_, T> {
    fn attempt(&self) -> bool {
        // SAFETY: not enlisted, so nobody else knows of it; the reference goes at once.
        let result = self.channel.look_for_change(unsafe { &mut *self.seen.get() });
        self.result.set(result);
        result.is_some()
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        // SAFETY: the caller's promise; the version does not change while it is enlisted.
        unsafe { self.channel.enlist(&self.seat, place, self.seen.get()) }
    }

    fn delist(&self) {
        self.channel.delist(&self.seat);
    }
}

impl<T> Event for Changed<'_, T> {
    type Output = Result<(), watch::RecvError>;

    fn finish(self) -> Self::Output {
        let result = self.result.get().or_else(|| {
            // SAFETY: not enlisted any more.
            self.channel.look_for_change(unsafe { &mut *self.seen.get() })
        });
        result.unwrap_or(Err(watch::RecvError))
    }
}

macro_rules! debug {
    ($($name:ident: $($bound:path)?;)*) => {
        $(impl<T $(: $bound)?> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        })*
    };
}
debug! { Take:; Read: Sync; Put:; RecvOnce:; Closed:; RecvNext:; Changed:; }
