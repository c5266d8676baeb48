//! Waiting for the first of several things: Go's `select`, with the events of Concurrent ML.
//!
//! Use the macro [`select!`](macro@crate::select) for a fixed set, and [`Select`] for one whose size is known at
//! run time only. What they wait for are [events](Event):
//!
//! | event | completes when | yields |
//! |---|---|---|
//! | [`recv(&rx)`](recv) | there is a message, or all senders have gone | as the receiver's `recv` |
//! | [`send(&tx, value)`](send()) | there is room, or all receivers have gone | as the sender's `send` |
//! | [`send_from(&tx, &mut slot)`](send_from) | the same; the value stays in `slot` if another arm is chosen | |
//! | [`take(&mvar)`](take), [`read(&mvar)`](read) | the `MVar` has a value | the value, or a copy |
//! | [`put(&mvar, value)`](put) | the `MVar` is empty | `()` |
//! | [`recv_once(&mut rx)`](recv_once) | the `oneshot` has its value, or the sender has gone | as the receiver's `recv` |
//! | [`closed(&tx)`](closed) | the `oneshot`'s receiver has gone | `()` |
//! | [`recv_next(&mut rx)`](recv_next) | the `broadcast` has a message, or is closed | as the receiver's `recv` |
//! | [`changed(&mut rx)`](changed) | the `watch` has a new value, or is closed | as the receiver's `changed` |
//! | [`join(&mut handle)`](join()) | the fiber has ended | as the handle's `join` |
//! | [`after(duration)`](after), [`at(instant)`](at) | it is time | `()` |
//! | [`cancelled(&token)`](cancelled) | the token has been cancelled | `()` |
//! | `Option` of an event | that does; `None` never | what that does |
//!
//! If several can complete, they are chosen about equally often, so none starves another. What is chosen happens, and
//! nothing else does: an arm that is not chosen has taken no message and sent none.
//!
//! ```
//! use std::time::Duration;
//! use bast_sync::mpsc;
//! use bast_sync::select::{after, recv};
//!
//! let (tx, rx) = mpsc::channel();
//! let (_keep, quiet) = mpsc::channel::<u8>();
//! bast_rt::spawn(move || tx.send("hello"));
//! let said = bast_sync::select! {
//!     message = recv(&rx) => message.unwrap(),
//!     _ = recv(&quiet) => unreachable!(),
//!     _ = after(Duration::from_secs(60)) => "nothing",
//! };
//! assert_eq!(said, "hello");
//! ```
//!
//! # Cancellation
//! A suspension point, in all forms that wait. When it unwinds no event has had an effect.

// How the waiter goes about it (the arms' side is in `arm`):
//
//   try all arms, beginning at another each time (`bast_rt::wait::turn`)
//   ┌▶ wait: a ticket; enlist all arms
//   │    an arm says that it has become possible: win the ticket, leave all lists, try all arms once more ─┐
//   │    park until the ticket is done (granted), or an arm's `check` is true, or it is time, or interrupted │
//   │       the last three: win the ticket first; whoever cannot has been granted something: that counts     │
//   │    leave all lists, on every way out                                                                 │
//   └───────────────────────────────────────────────────── nothing there: all over again ◀─────────────────┘

mod arm;
mod builder;
mod cells;
mod channel;
#[cfg(not(loom))]
mod join;
mod macros;
mod time;
#[cfg(not(loom))]
mod token;
mod wait;

pub use arm::{Arm, Event, Map};
// Without a name for `Place` outside of the crate nobody there can implement `Arm`: its methods run while the set's
// other arms are in their lists.
pub(crate) use arm::{Place, Seat};
pub use builder::Select;
pub use cells::{
    Changed, Closed, Put, Read, RecvNext, RecvOnce, Take, changed, closed, put, read, recv_next,
    recv_once, take,
};
pub use channel::{Receiving, Recv, Send, SendFrom, Sending, recv, send, send_from};
#[cfg(not(loom))]
pub use join::{Join, Joinable, join};
#[doc(hidden)]
pub use macros::{now, wait};
pub use time::{After, At, after, at};
#[cfg(not(loom))]
pub use token::{WhenCancelled, cancelled};
