//! What depends on the operating system, as in [`std::os`].

#[cfg(unix)]
#[doc(no_inline)]
pub use std::os::fd;

#[cfg(target_os = "linux")]
pub mod linux;
#[cfg(unix)]
pub mod unix;
