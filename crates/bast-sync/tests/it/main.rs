//! What std's types cannot do, and what std does not have: the tests of bast-sync that have no twin.
//!
//! `BAST_DRIVER` and `BAST_WORKERS` say on what they run; `support` has the runtimes.

mod cells;
mod channels;
mod combine;
mod condvar;
mod groups;
mod mixed;
mod mutex;
mod once;
mod poison;
mod promise;
mod reentrant;
mod rwlock;
mod semaphore;
mod streams;
mod support;
mod waiting;
