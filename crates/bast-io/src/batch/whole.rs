//! Where no kernel cuts or joins datagrams: each message is one.

use super::Control;
use crate::Handle;
use crate::sys::c;

/// The length of the control data that asks for a cut.
pub(super) const LEN: u32 = 0;

/// Whether this kernel cuts messages into segments.
pub(super) const fn kernel_cuts(_: &Handle) -> bool {
    false
}

/// The length of the datagrams that were joined to one message; 0: it is one.
pub(super) const fn joined(_: &c::msghdr) -> usize {
    0
}

/// The wish to have a message cut, which nobody has here.
pub(super) const fn cut_to(_: u16) -> Control {
    [0; 3]
}
