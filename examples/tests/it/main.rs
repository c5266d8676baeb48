//! The example programs, run as they are: real processes, raw sockets, real signals. For Windows, which has no such
//! signals, they are used by `cargo xtask windows`.

#![cfg(unix)]

mod cases;
mod chat;
mod conformance;
mod crawl;
mod echo;
mod endings;
mod fibers;
mod httpfile;
mod https;
mod limits;
mod process;
mod proxy;
mod run_all;
mod sleepers;
mod stuck;
mod tail;
