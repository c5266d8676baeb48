//! What the programs need of the system, beyond bast and std: each of the two files has the same functions.

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
#[cfg_attr(unix, allow(unsafe_code))]
mod system;

pub use system::*;
