//! Looking at threads from outside: interrupting one to see where it is, and counting them.
//!
//! ```text
//!   watcher: leaves a request where the hook will look
//!     interrupt(thread) ──tgkill(SIGVTALRM)▶ handler, on that thread's alternate stack
//!                                              ╰─▶ hook(pc): a request for this thread? answer it
//!                                                       │ no
//!                                                       ▼
//!                                            the handler that was there before, if any
//! ```
//!
//! SIGVTALRM: it has one use, the timers of `setitimer(ITIMER_VIRTUAL)`, which hardly anybody has today; whoever
//! has one hears of it as before. Debuggers pass it on without stopping. (SIGURG interrupts blocking calls,
//! module `interrupt`, which takes the opposite of `SA_RESTART`.)
//! The hook runs in a signal handler: it may only do what is async-signal-safe. `SA_RESTART` lets the
//! interrupted system call go on, `SA_ONSTACK` spares the stack of whatever the thread was running.
//!
//! Memory ordering: what was there before, and the hook, are stored (a `OnceLock`) before the handler is
//! installed; a signal that arrives in between finds none and is ignored, as it would have been.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use crate::sys::{self, c};

/// Called on an interrupted thread with the address that it was at (0: unknown). True if there was
/// something to do: then nobody else hears of the signal.
pub type Hook = fn(usize) -> bool;

const SIGNAL: i32 = c::SIGVTALRM;

struct Installed {
    hook: Hook,
    before: c::sigaction,
}

// SAFETY: plain data: a number that names a function, and flags.
unsafe impl Send for Installed {}
// SAFETY: as above; never changed.
unsafe impl Sync for Installed {}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// The kernel's id of the calling thread, for [`interrupt`].
#[must_use]
pub fn this_thread() -> i32 {
    sys::this_thread()
}

/// Makes `hook` what [`interrupt`] runs; the first call counts.
///
/// # Errors
/// The kernel refused.
pub fn install(hook: Hook) -> io::Result<()> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let mut before = MaybeUninit::<c::sigaction>::zeroed();
        // SAFETY: asks only; the pointer is good for the call, and zeroes are a valid action.
        let before = unsafe {
            c::sigaction(SIGNAL, ptr::null(), before.as_mut_ptr());
            before.assume_init()
        };
        let _ = INSTALLED.set(Installed { hook, before });
        // SAFETY: integers and null pointers.
        let mut action: c::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = c::SA_SIGINFO | c::SA_RESTART | c::SA_ONSTACK;
        // SAFETY: the mask is ours to write; the handler has the signature that SA_SIGINFO asks for.
        let failed = unsafe {
            c::sigemptyset(&raw mut action.sa_mask);
            c::sigaction(SIGNAL, &raw const action, ptr::null_mut()) != 0
        };
        if failed {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        #[cfg(all(target_env = "musl", target_arch = "x86_64"))]
        sys::restore::make_traceable(SIGNAL);
        Ok(())
    });
    done.map_err(io::Error::from_raw_os_error)
}

/// Interrupts a thread of this process; false if there is none of this id.
#[must_use]
pub fn interrupt(thread: i32) -> bool {
    // The handler only asks the hook, and else does what was done before.
    sys::signal_thread(thread, SIGNAL)
}

unsafe extern "C" fn on_signal(signal: c::c_int, info: *mut c::siginfo_t, context: *mut c::c_void) {
    // SAFETY: always valid for the calling thread, and async-signal-safe.
    let errno = unsafe { c::__errno_location() };
    // SAFETY: as above. The interrupted code must find what it left.
    let kept = unsafe { *errno };
    // SAFETY: the kernel passes a valid context.
    let pc = unsafe { pc_of(context.cast()) };
    if let Some(installed) = INSTALLED.get()
        && !(installed.hook)(pc)
    {
        // SAFETY: the arguments are the kernel's, the action is what was there.
        unsafe { chain(&installed.before, signal, info, context) };
    }
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// # Safety
/// The action was installed for this signal, and the arguments are the kernel's.
unsafe fn chain(
    before: &c::sigaction,
    signal: c::c_int,
    info: *mut c::siginfo_t,
    context: *mut c::c_void,
) {
    if before.sa_sigaction == c::SIG_DFL || before.sa_sigaction == c::SIG_IGN {
        return;
    }
    // SAFETY: an action other than the two constants is a function, and SA_SIGINFO says of which
    // signature.
    unsafe {
        if before.sa_flags & c::SA_SIGINFO != 0 {
            type Action = unsafe extern "C" fn(c::c_int, *mut c::siginfo_t, *mut c::c_void);
            std::mem::transmute::<usize, Action>(before.sa_sigaction)(signal, info, context);
        } else {
            type Action = unsafe extern "C" fn(c::c_int);
            std::mem::transmute::<usize, Action>(before.sa_sigaction)(signal);
        }
    }
}

/// The instruction at which the thread was interrupted; 0 where we do not know how to ask.
///
/// # Safety
/// `context` is what a handler was given.
unsafe fn pc_of(context: *const c::ucontext_t) -> usize {
    // SAFETY: the caller's promise.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    return unsafe { (*context).uc_mcontext.gregs[c::REG_RIP as usize] as usize };
    // SAFETY: the caller's promise.
    #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
    return unsafe { (*context).uc_mcontext.pc as usize };
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        let _ = context;
        0
    }
}

/// How many threads this process has, those left out that the kernel runs in it for io_uring.
///
/// # Errors
/// There is no `/proc`.
pub fn threads() -> io::Result<usize> {
    let mut count = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        // A thread that has ended meanwhile has no name any more.
        if let Ok(name) = std::fs::read(task?.path().join("comm"))
            && !name.starts_with(b"iou-")
        {
            count += 1;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};

    static WANTED: AtomicI32 = AtomicI32::new(0);
    static PC: AtomicUsize = AtomicUsize::new(0);

    fn hook(pc: usize) -> bool {
        let mine = WANTED.load(SeqCst) == this_thread();
        if mine {
            PC.store(pc, SeqCst);
        }
        mine
    }

    #[test]
    fn the_thread_that_is_meant_answers_where_it_is() {
        install(hook).expect("install");
        let (say, hear) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            say.send(this_thread()).expect("the test listens");
            while PC.load(SeqCst) == 0 {
                std::hint::spin_loop();
            }
        });
        let id = hear.recv().expect("the thread says its id");
        assert_ne!(id, this_thread());
        WANTED.store(id, SeqCst);
        assert!(interrupt(id));
        thread.join().expect("it was interrupted");
        assert_ne!(PC.load(SeqCst), 0);
        assert!(threads().expect("/proc") >= 1);
        assert!(!interrupt(i32::MAX - 1), "there is no such thread");
    }
}
