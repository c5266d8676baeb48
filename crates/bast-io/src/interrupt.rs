//! Interrupting a system call that blocks on a thread of the pool: with a signal, asked for again and again.
//!
//! ```text
//!   pool thread                                   whoever cancels (its lock is the pool's)
//!   ───────────                                   ──────────────────────────────────────
//!   lock: the call is listed as running here
//!   admit(): the signal is let in
//!   call ◀──────────── EINTR ──────────────────── lock: listed? interrupt(thread)
//!   lock: off the list; was it interrupted?
//!   drain(): then what is left of the signal is taken
//!   the record goes back
//! ```
//!
//! **The signal is SIGURG.** What it does by default is nothing, so that it harms nobody in the moment
//! before a program takes its handler away, or in a child; it does not queue up, so that repeating it costs
//! nothing; no libc and no debugger uses it; and who really gets it, for out-of-band data, must expect it
//! without reason anyway. The handler does nothing. It is installed without `SA_RESTART`, as its whole
//! purpose is that the system call fails with `EINTR`. If the program has a handler of its own for SIGURG,
//! that stays and no call is interrupted; [`Signal`](crate::signal::Signal) does not take it.
//!
//! **A signal may come too early**, before the system call has begun: then it is lost. So a request is to
//! be repeated until the call has returned.
//!
//! **No signal hits a later call of the same thread.** It is sent under the lock and to threads whose call is
//! on the list. A thread takes its call off the list under the same lock, so whatever was sent has been
//! *sent* by then, which for a thread-directed signal means that it is pending or has been handled. Then it
//! blocks the signal, takes what is pending, lets it in again, and only then goes on.
//!
//! Memory ordering: none of its own; all goes through the pool's mutex.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// The signal. See above for why this one.
pub(crate) const SIGNAL: i32 = libc::SIGURG;

/// Whether a call says that it has been interrupted and has done nothing.
#[must_use]
pub fn is_interruption(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

/// A thread that can be interrupted while it is known to live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread(libc::pthread_t);

/// The calling thread.
pub(crate) fn this_thread() -> Thread {
    // SAFETY: always possible.
    Thread(unsafe { libc::pthread_self() })
}

/// Lets the signal in, whatever mask the thread was started with.
pub(crate) fn admit() {
    mask(libc::SIG_UNBLOCK);
}

/// Takes the signals that were sent to this thread and have not arrived.
pub(crate) fn drain() {
    mask(libc::SIG_BLOCK);
    let set = set();
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a set and a time of ours; a null pointer where nothing is wanted.
    while unsafe { libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const now) } == SIGNAL {
    }
    mask(libc::SIG_UNBLOCK);
}

/// Makes the system call that the thread is in, if it is in one that waits, fail with `EINTR`.
///
/// # Safety
/// The thread lives.
pub(crate) unsafe fn interrupt(thread: Thread) {
    if is_ours() {
        // An error would mean that there is no such thread or signal.
        // SAFETY: the caller's promise.
        unsafe { libc::pthread_kill(thread.0, SIGNAL) };
    }
}

extern "C" fn on_signal(_: libc::c_int) {}

/// Whether the signal has our handler, which is installed if it has none.
fn is_ours() -> bool {
    let ours = on_signal as extern "C" fn(libc::c_int) as usize;
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: room for the answer.
    if unsafe { libc::sigaction(SIGNAL, ptr::null(), action.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: filled just now.
    let mut action = unsafe { action.assume_init() };
    match action.sa_sigaction {
        handler if handler == ours => true,
        libc::SIG_DFL | libc::SIG_IGN => {
            action.sa_sigaction = ours;
            // ONSTACK for foreign threads with small stacks, should the signal ever get there.
            action.sa_flags = libc::SA_ONSTACK;
            // SAFETY: the handler does nothing, so it is async-signal-safe; the mask is ours to write.
            unsafe {
                libc::sigemptyset(&raw mut action.sa_mask);
                libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()) == 0
            }
        }
        _ => false,
    }
}

fn set() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` fills it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), SIGNAL);
        set.assume_init()
    }
}

fn mask(how: i32) {
    let set = set();
    // SAFETY: the calling thread's mask; the set is ours.
    unsafe { libc::pthread_sigmask(how, &raw const set, ptr::null_mut()) };
}
