//! Pipes that a splice leads through: there are none, as no kernel call here moves bytes from one handle to another.

use std::io;

use crate::Handle;
use crate::sys::c;

/// What the kernel answers when it cannot move bytes between two handles by itself.
pub const REFUSALS: &[i32] = &[c::EINVAL, c::ENOSYS, c::EOPNOTSUPP];

/// Both ends of a pipe that nobody else has.
#[derive(Debug)]
pub struct Conduit {
    /// What comes out.
    pub reader: Handle,
    /// What goes in.
    pub writer: Handle,
}

impl Conduit {
    /// Says that there is none.
    ///
    /// # Errors
    /// Always: `EINVAL`, which is among the [`REFUSALS`].
    pub fn take() -> io::Result<Conduit> {
        Err(io::Error::from_raw_os_error(c::EINVAL))
    }

    /// Bytes that it has room for.
    #[must_use]
    pub const fn size(&self) -> usize {
        0
    }

    /// Gives it back.
    pub fn put_back(self) {}
}
