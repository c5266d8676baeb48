//! The contract suite of the I/O manager: one body of tests, every driver.
//!
//! `on_every_driver!` makes one test per driver out of a function that takes a [`Rig`]; its path says
//! which (`streams::uring::half_close`). `BAST_DRIVER=sim|epoll|uring` restricts the run to one;
//! io_uring tests are skipped, with the reason printed, only where the driver itself says that it
//! cannot run. `BAST_ROUNDS=n` sets the number of rounds of the randomised tests, `BAST_SEED=n` their
//! seed (a failing test prints the one it used).
//!
//! [`Rig`]: harness::Rig
// A test binary exports nothing; `pub` in it means "for the other files".
#![allow(unsafe_code, unreachable_pub)]

#[macro_use]
mod harness;

mod basics;
mod cancel;
mod descriptors;
mod drops;
mod files;
#[cfg(unix)]
mod hostile;
mod pool;
mod race;
mod sim;
mod steps;
mod streams;
mod wake;
