//! Cancellation against completion, for every kind of operation on every driver.
//!
//! In each round a fiber performs one operation. It is made to complete and is asked to end at about the
//! same moment, in both orders, with random delays; by cancelling the fiber, by a timeout, or by a token.
//! Then it must have come to exactly one end, and nothing is lost: what was sent is received or can be
//! read still, every connection is accepted once, every descriptor is closed.
//!
//! ```text
//!   command.rs  what was asked for, the table, the watchdog
//!   race.rs     one race: who performs, who completes, who interrupts
//!   lane.rs     what a lane of rounds works with, and what must hold at its end
//!   transfer.rs rounds that move bytes          objects.rs  rounds that make and close things
//! ```
//!
//! It works with descriptors, and is for Unix. On Windows bast-io's own tests race so.
//!
//! `cargo run --release -p bast-rt --example races -- --rounds 1000000`

#![allow(unsafe_code)]

#[cfg(unix)]
mod command;
#[cfg(unix)]
mod lane;
#[cfg(unix)]
mod objects;
#[cfg(unix)]
mod race;
#[cfg(unix)]
mod transfer;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    command::main()
}

#[cfg(windows)]
fn main() {
    eprintln!("races: for Unix only");
}
