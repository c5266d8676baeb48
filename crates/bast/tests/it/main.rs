//! The face's tests. `harness` explains twin tests: one body that runs on std and on bast.

#[cfg(feature = "sanitizer")]
#[allow(unsafe_code)]
mod canaries;
mod harness;

mod fibers;
mod fibers_only;
mod net_only;
mod ops;
mod os;
mod process;
mod sync_mpsc;
mod tcp;
mod tcp_many;
mod tcp_settings;
