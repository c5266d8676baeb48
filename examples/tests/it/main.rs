//! The example programs, run as they are: real processes, raw sockets, real signals.

mod cases;
mod conformance;
mod echo;
mod endings;
mod limits;
mod process;
mod run_all;
mod sleepers;
mod stuck;
