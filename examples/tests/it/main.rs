//! The example programs, run as they are: real processes, raw sockets, real signals.

mod cases;
mod conformance;
mod echo;
mod endings;
mod limits;
mod process;
mod sleepers;
mod stuck;
mod tail;
