//! What depends on the operating system, as in [`std::os`].

#[cfg(target_os = "linux")]
pub mod linux;
#[cfg(unix)]
pub mod unix;
