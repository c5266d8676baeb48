//! How a signal handler returns, such that a backtrace finds its way from the handler into what was interrupted.
//!
//! ```text
//!   handler ──ret──▶ restorer ──rt_sigreturn──▶ the interrupted code
//!                       ╰─ its unwind information says where the kernel has put that code's registers
//! ```
//!
//! The C library gives the kernel the restorer. musl's on x86_64 has no unwind information, and LLVM's unwinder, which
//! Rust links with musl, does not know it by its bytes as GNU's does: a stack that is taken down in a handler ends there.
//! The other machines' kernels bring their own. (Functions of musl have no unwind information either: of a thread that is
//! interrupted in one, where it is can be told, and not whence it came.)

use std::arch::global_asm;
use std::mem::size_of;
use std::ptr;

use super::c;

// Below the return address, which the handler's `ret` has taken, lies the `ucontext`: registers from byte 40 on, in
// the order of `gregs` in <sys/ucontext.h>. An `.cfi_escape` is, by DWARF's numbers: 0x10 (a register's place), the register,
// the length of what follows, 0x77 (the stack pointer plus), the offset as SLEB128. The first says what the stack pointer was
// (0x0f); it lies there, too (0x06).
// A return address is looked up one byte below, so that what describes the restorer begins before it.
global_asm!(
    ".pushsection .text.bast_io_restore, \"ax\", @progbits",
    ".cfi_startproc",
    ".cfi_signal_frame",
    ".cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06",
    ".cfi_escape 0x10, 8, 2, 0x77, 0x28",
    ".cfi_escape 0x10, 9, 2, 0x77, 0x30",
    ".cfi_escape 0x10, 10, 2, 0x77, 0x38",
    ".cfi_escape 0x10, 11, 3, 0x77, 0xc0, 0x00",
    ".cfi_escape 0x10, 12, 3, 0x77, 0xc8, 0x00",
    ".cfi_escape 0x10, 13, 3, 0x77, 0xd0, 0x00",
    ".cfi_escape 0x10, 14, 3, 0x77, 0xd8, 0x00",
    ".cfi_escape 0x10, 15, 3, 0x77, 0xe0, 0x00",
    ".cfi_escape 0x10, 5, 3, 0x77, 0xe8, 0x00",
    ".cfi_escape 0x10, 4, 3, 0x77, 0xf0, 0x00",
    ".cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0x00",
    ".cfi_escape 0x10, 3, 3, 0x77, 0x80, 0x01",
    ".cfi_escape 0x10, 1, 3, 0x77, 0x88, 0x01",
    ".cfi_escape 0x10, 0, 3, 0x77, 0x90, 0x01",
    ".cfi_escape 0x10, 2, 3, 0x77, 0x98, 0x01",
    ".cfi_escape 0x10, 16, 3, 0x77, 0xa8, 0x01",
    "nop",
    ".globl bast_io_restore",
    ".hidden bast_io_restore",
    "bast_io_restore:",
    "mov eax, {rt_sigreturn}",
    "syscall",
    ".cfi_endproc",
    ".popsection",
    rt_sigreturn = const c::SYS_rt_sigreturn,
);

unsafe extern "C" {
    fn bast_io_restore();
}

/// The kernel's own `sigaction`.
#[repr(C)]
#[derive(Default)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// Makes the handler that is installed for this signal return by our restorer. Without it the handler works as well.
pub(crate) fn make_traceable(signal: c::c_int) {
    let mut action = Action::default();
    let null = ptr::null_mut::<Action>();
    // SAFETY: structures of the kernel's layout, ours for the calls. The restorer does what the one before did.
    unsafe {
        let call = |new: *const Action, old: *mut Action| {
            c::syscall(c::SYS_rt_sigaction, signal, new, old, size_of::<u64>()) == 0
        };
        if call(null, &raw mut action) {
            action.restorer = bast_io_restore as *const () as usize;
            call(&raw const action, null);
        }
    }
}
