//! Where the kernel has no splice(2): it is always refused, and bytes are copied by hand.

use std::io;

use super::Copy;

/// How splicing has ended.
pub(super) enum Ended {
    /// There is no such thing.
    Refused,
}

/// Whether the kernel says that it cannot send this file to this socket by itself.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

impl Copy<'_> {
    /// Not here.
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)]
    pub(super) fn by_splice(&mut self, _buffer: &mut [u8]) -> io::Result<Ended> {
        Ok(Ended::Refused)
    }
}
