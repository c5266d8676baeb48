//! The tests of bast-hyper.

mod bad;
mod ecosystem;
mod http1;
mod http2;
mod servers;
mod service;
