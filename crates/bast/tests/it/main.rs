//! The face's tests. Modules that are only for Unix are about what only Unix has: its shell and signals, descriptors,
//! FIFOs, permissions, local sockets; Windows has its own (`windows_*`).
//!
//! `harness` explains twin tests: one body that runs on std and on bast.

#[cfg(feature = "sanitizer")]
#[allow(unsafe_code)]
mod canaries;
mod harness;

mod async_hostile;
mod async_io;
mod blocking;
mod bound;
#[cfg(unix)]
mod children;
#[cfg(unix)]
mod children_only;
mod copy;
mod copy_only;
#[cfg(unix)]
mod doors;
mod fibers;
mod fibers_only;
mod fs;
#[cfg(unix)]
mod fs_hostile;
mod fs_only;
#[cfg(unix)]
mod fs_types;
mod futures;
mod futures_bad;
mod futures_crate;
mod locals;
mod lookup;
mod names;
mod net_only;
mod ops;
#[cfg(unix)]
mod os;
mod per_worker;
mod pool;
mod ported;
#[cfg(unix)]
mod process;
mod records;
#[cfg(target_os = "linux")]
mod sendfile;
#[cfg(unix)]
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
#[cfg(unix)]
mod unix;
#[cfg(unix)]
mod unix_only;
#[cfg(unix)]
mod unix_rights;
#[cfg(windows)]
#[allow(unsafe_code)]
mod windows_children;
#[cfg(windows)]
mod windows_commands;
#[cfg(windows)]
mod windows_os;
#[cfg(windows)]
#[allow(unsafe_code)]
mod windows_overlapped;
#[cfg(windows)]
#[allow(unsafe_code)]
mod windows_signals;
