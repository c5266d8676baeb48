//! The face's tests. `harness` explains twin tests: one body that runs on std and on bast.

#[cfg(feature = "sanitizer")]
#[allow(unsafe_code)]
mod canaries;
mod harness;

mod blocking;
mod bound;
mod children;
mod children_only;
mod doors;
mod fibers;
mod fibers_only;
mod fs;
mod fs_only;
mod locals;
mod names;
mod net_only;
mod ops;
mod os;
mod pool;
mod process;
mod signals;
mod stopping;
mod sync_mpsc;
mod sync_mutex;
mod sync_once;
mod sync_rwlock;
mod tcp;
mod tcp_many;
mod tcp_settings;
mod udp;
mod unix;
mod unix_only;
