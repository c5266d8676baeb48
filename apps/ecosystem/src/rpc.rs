//! gRPC by `tonic`: a server whose methods are fibers in direct style, and a client likewise. Without `protoc`: the
//! messages are Rust types with prost's derive.
//!
//! ```text
//!   tonic's task (a tokio thread)                       fiber of the method
//!   ─────────────────────────────                       ───────────────────
//!   OnFiber: a future, polled for the answer  ◀── end ── Ok(answer) | Err(status) | panic: "internal"
//!   Produced: a stream, polled for messages   ◀─────────── out.send(message): suspends while tonic is behind
//!   Streaming: what the client sends          ───────────▶ incoming.next(): suspends until something comes
//!     dropped: deadline, cancel, broken line  ── cancel ─▶ unwinds from wherever it waits
//! ```
//!
//! * [`direct`]: the fiber of a method, and the streams between it and tonic.
//! * [`server`] and [`client`]: the service `bast.demo.Sums`.

pub mod client;
pub mod direct;
pub mod server;

/// The service's name.
pub const NAME: &str = "bast.demo.Sums";

/// The request of `Add`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Addition {
    /// The one number.
    #[prost(int64, tag = "1")]
    pub a: i64,
    /// And the other.
    #[prost(int64, tag = "2")]
    pub b: i64,
    /// How long the server thinks about it.
    #[prost(uint64, tag = "3")]
    pub millis: u64,
}

/// The request of `Count`: from 1 up to it. In the others a number that is sent, or a sum.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Number {
    /// The number.
    #[prost(int64, tag = "1")]
    pub value: i64,
}
