//! The C library's names, where it is musl: files are of 64 bits without saying so.

#![allow(non_camel_case_types)] // they are C's

pub use libc::*;
pub use libc::{preadv2 as preadv64v2, pwritev2 as pwritev64v2};

/// What the fields of this type are. (libc's own is deprecated: its musl is the one of 32 bits.)
pub type time_t = i64;
