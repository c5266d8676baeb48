//! What depends on the operating system, as in [`std::os`].

#[cfg(unix)]
#[doc(no_inline)]
pub use std::os::fd;

pub(crate) mod known;
#[cfg(target_os = "linux")]
pub mod linux;
#[cfg(unix)]
pub mod unix;
#[cfg(windows)]
pub mod windows;

// What the rest of the crate asks of either: the same names in both.
#[cfg(unix)]
pub(crate) use unix as system;
#[cfg(windows)]
pub(crate) use windows as system;
