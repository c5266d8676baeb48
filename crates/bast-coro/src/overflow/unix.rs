//! Unix: the fault is a signal, whose handler runs on the alternate signal stack.
//!
//! Everything in the handler is async-signal-safe: it loads from the registry, formats into a
//! buffer of its own, and calls `write`, `sigaction` and `abort`.
//!
//! The state shared between threads is the registry's (see there) and the previous actions, which
//! are written once, before the handler can run.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::Line;
use crate::{os, registry, stack};

/// SIGSEGV and SIGBUS: Linux reports a guard as the first, macOS may report the second.
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

static PREVIOUS: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

/// Installs the report for the whole process, once; [`StackPool`](crate::StackPool) does it.
///
/// Faults outside of our guards go to the handler that was installed before, so that std's own
/// message for ordinary threads stays.
pub fn install() {
    PREVIOUS.get_or_init(|| {
        // The previous actions have to be known before the new ones can run: read, then set. They
        // are stored when this closure returns; a fault in between finds none and gets the
        // default action, death by the same signal.
        SIGNALS.map(|signal| {
            let mut old = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: all zeroes is a valid sigaction; both pointers are good for the call; the
            // handler has the signature that SA_SIGINFO asks for.
            unsafe {
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = on_fault as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&raw mut new.sa_mask);
                libc::sigaction(signal, &raw const new, old.as_mut_ptr());
                old.assume_init()
            }
        })
    });
}

unsafe extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo. A code above zero means that the kernel itself
    // sent it, so that there is an address.
    let addr = unsafe { if (*info).si_code > 0 { (*info).si_addr() as usize } else { 0 } };
    if let Some(slab) = registry::find(addr)
        && stack::in_guard(slab, addr)
    {
        // SAFETY: registered slabs are mapped, and find says that addr is in this one. If the slot was never
        // used its header reads as zeroes: no name. The label is valid while the code runs, and that is what
        // it was doing.
        unsafe {
            let (name, len, usable) = stack::label_at(slab, addr);
            write(Line::overflow(name, len, usable).text());
            libc::abort();
        }
    }
    // SAFETY: the arguments are the kernel's.
    unsafe { chain(signal, info, context) };
}

/// Does what would have been done without us.
///
/// # Safety
/// In a signal handler, with that handler's arguments.
unsafe fn chain(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let index = usize::from(signal != SIGNALS[0]);
    let previous = PREVIOUS.get().map(|p| &p[index]);
    match previous {
        Some(old) if old.sa_sigaction != libc::SIG_DFL && old.sa_sigaction != libc::SIG_IGN => {
            // SAFETY: an action other than the two constants is a function, and SA_SIGINFO says
            // which signature it has.
            unsafe {
                if old.sa_flags & libc::SA_SIGINFO != 0 {
                    type Action =
                        unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                    let action: Action = std::mem::transmute::<usize, Action>(old.sa_sigaction);
                    action(signal, info, context);
                } else {
                    type Action = unsafe extern "C" fn(libc::c_int);
                    let action: Action = std::mem::transmute::<usize, Action>(old.sa_sigaction);
                    action(signal);
                }
            }
        }
        _ => {
            // The default: the instruction faults again when we return, and that is the end.
            // SAFETY: all zeroes is a valid sigaction, namely SIG_DFL.
            unsafe {
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const new, ptr::null_mut());
            }
        }
    }
}

/// Async-signal-safe.
fn write(mut rest: &[u8]) {
    while !rest.is_empty() {
        // SAFETY: the buffer is valid.
        let n = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(n) {
            Ok(n) if n > 0 => rest = &rest[n.min(rest.len())..],
            _ => break,
        }
    }
}

/// An alternate signal stack for a thread that `std` did not make, or a larger one for a thread that it
/// did; what was there before comes back when it is dropped.
#[derive(Debug)]
pub struct AltStack {
    /// None if the thread had one already.
    base: Option<NonNull<u8>>,
    len: usize,
    /// What the thread had before: address, size and flags.
    before: (usize, usize, libc::c_int),
    _not_send: PhantomData<*mut ()>,
}

impl AltStack {
    /// Gives the calling thread an alternate signal stack unless it has one. To be kept for as
    /// long as fibers run on the thread.
    pub fn ensure() -> io::Result<AltStack> {
        AltStack::at_least(0)
    }

    /// As [`ensure`](AltStack::ensure), with at least `bytes` of it. The stack that std gives its
    /// threads is 8 KiB, which is enough for a message, and not for a backtrace.
    pub fn at_least(bytes: usize) -> io::Result<AltStack> {
        let mut old = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: asks only; the pointer is good for the call.
        let old = unsafe {
            if libc::sigaltstack(ptr::null(), old.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            old.assume_init()
        };
        let before = (old.ss_sp.addr(), old.ss_size, old.ss_flags);
        if old.ss_flags & libc::SS_DISABLE == 0 && old.ss_size >= bytes {
            return Ok(AltStack { base: None, len: 0, before, _not_send: PhantomData });
        }
        // Wide registers alone can take 10 KiB of a signal frame.
        let page = os::page_size();
        let len = bytes.max(64 * 1024).next_multiple_of(page) + page;
        let base = os::reserve(len)?;
        // SAFETY: the low page of a fresh reservation.
        let guarded = unsafe { os::protect(os::Range { start: base.as_ptr(), len: page }) };
        let new = libc::stack_t {
            ss_sp: base.as_ptr().wrapping_add(page).cast(),
            ss_flags: 0,
            ss_size: len - page,
        };
        // SAFETY: the memory stays until drop, on this thread (not Send).
        if guarded.is_err() || unsafe { libc::sigaltstack(&raw const new, ptr::null_mut()) } != 0 {
            let e = io::Error::last_os_error();
            // SAFETY: not in use.
            unsafe { os::release(base, len) };
            return Err(e);
        }
        Ok(AltStack { base: Some(base), len, before, _not_send: PhantomData })
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        if let Some(base) = self.base {
            let (start, size, flags) = self.before;
            let before = libc::stack_t {
                ss_sp: ptr::with_exposed_provenance_mut(start),
                ss_flags: flags & libc::SS_DISABLE,
                ss_size: if flags & libc::SS_DISABLE != 0 { self.len } else { size },
            };
            // SAFETY: the same thread; what was there before belongs to whoever set it, as it did when
            // this was made. Once it is back nothing uses the memory.
            unsafe {
                if libc::sigaltstack(&raw const before, ptr::null_mut()) == 0 {
                    os::release(base, self.len);
                }
            }
        }
    }
}
