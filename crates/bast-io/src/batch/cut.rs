//! Several datagrams in one message, which the kernel cuts (GSO) and joins (GRO): what its control data says.

use std::sync::OnceLock;

use super::Control;
use crate::Handle;

/// The length of the control data that asks for a cut.
// SAFETY: plain arithmetic.
pub(super) const LEN: u32 = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) };

/// Whether this kernel cuts messages into segments; an older one would send them whole. It is asked once.
pub(super) fn kernel_cuts(handle: &Handle) -> bool {
    static CUTS: OnceLock<bool> = OnceLock::new();
    *CUTS.get_or_init(|| {
        let (mut value, mut len): (libc::c_int, _) =
            (0, size_of::<libc::c_int>() as libc::socklen_t);
        let (fd, level, name) = (handle.as_ref().raw(), libc::SOL_UDP, libc::UDP_SEGMENT);
        // SAFETY: both pointers are to locals, and the value is as long as it says.
        unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) == 0 }
    })
}

/// The length of the datagrams that were joined to one message; 0: it is one.
pub(super) fn joined(header: &libc::msghdr) -> usize {
    // SAFETY: the kernel has filled as much of the control data as the header says, which is aligned; the walk
    // stays within it.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(this) = control.as_ref() {
            if (this.cmsg_level, this.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO) {
                let size = libc::CMSG_DATA(control).cast::<libc::c_int>().read_unaligned();
                return usize::try_from(size).unwrap_or(0);
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    0
}

/// The wish to have a message cut into segments of `size` bytes.
pub(super) fn cut_to(size: u16) -> Control {
    let mut control: Control = [0; 3];
    let header = control.as_mut_ptr().cast::<libc::cmsghdr>();
    // SAFETY: the room is aligned for a header and large enough for it and the number.
    unsafe {
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(size);
    }
    control
}
