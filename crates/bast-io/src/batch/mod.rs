//! Many datagrams in one system call (`sendmmsg`, `recvmmsg`), and many in one message (GSO, GRO).
//!
//! ```text
//!   &[Transmit] ──▶ SendBatch: messages of up to 64 segments ──▶ sendmmsg ──▶ datagrams
//!   datagrams ──▶ recvmmsg ──▶ RecvBatch: messages of one datagram or many ──▶ Datagram, Datagram, …
//! ```
//!
//! These are no operations ([`Op`](crate::Op)): no driver could do more with them than call the kernel and, if it
//! says `EAGAIN`, wait for readiness, and for that there is [`Op::Poll`](crate::Op::Poll). So the calls here
//! never wait; whoever makes them waits by `Poll` in between, which every driver has. It costs nothing: where there
//! is something to do it is one system call and no submission, and after a wait a ring's completion would carry one
//! datagram only. A driver's notes stay right: it notes "not ready" only when it saw `EAGAIN` itself, and readiness
//! is asked of the kernel before `Poll` waits.
//!
//! The simulator's sockets, which no kernel knows, take the messages of a batch one by one as
//! [`Op::SendMsg`](crate::Op::SendMsg) and [`Op::RecvMsg`](crate::Op::RecvMsg).

#[cfg_attr(not(target_os = "linux"), path = "whole.rs")]
mod cut;
mod recv;
mod send;

pub use recv::{Datagram, Datagrams, RecvBatch};
pub use send::{SendBatch, Transmit};

/// Room for the one control message that travels with a batch's message: a number, in the kernel's form.
type Control = [usize; 3];
