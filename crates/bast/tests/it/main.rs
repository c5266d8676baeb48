//! The face's tests. `harness` explains twin tests: one body that runs on std and on bast.

#[cfg(feature = "sanitizer")]
#[allow(unsafe_code)]
mod canaries;
mod harness;

mod async_hostile;
mod async_io;
mod blocking;
mod bound;
mod children;
mod children_only;
mod copy;
mod copy_only;
mod doors;
mod fibers;
mod fibers_only;
mod fs;
mod fs_hostile;
mod fs_only;
mod fs_types;
mod futures;
mod futures_bad;
mod futures_crate;
mod locals;
mod lookup;
mod names;
mod net_only;
mod ops;
mod os;
mod per_worker;
mod pool;
mod ported;
mod process;
mod records;
#[cfg(target_os = "linux")]
mod sendfile;
mod signals;
mod stopping;
mod sync_mpsc;
mod sync_mutex;
mod sync_once;
mod sync_rwlock;
mod tasks;
mod tcp;
mod tcp_many;
mod tcp_settings;
mod thesis;
mod udp;
mod udp_batch;
mod unix;
mod unix_only;
mod unix_rights;
