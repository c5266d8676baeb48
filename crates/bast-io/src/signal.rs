//! Signals as something to read: each listener has an eventfd (a pipe where there is none), which the handler
//! writes to.
//!
//! ```text
//!   signal ──▶ handler: takes a ticket
//!                 ╰──▶ SLOTS[0], SLOTS[1], … up to the first empty one
//!                         │ same signal number, in use, and listening since before the ticket?
//!                         ╰─▶ write 1 to its eventfd ──▶ whoever reads that
//! ```
//!
//! A handler may run at any moment on any thread, between any two instructions. So it may only follow
//! pointers that never dangle and call what is async-signal-safe, which `write` is. A slot is
//! therefore never freed and its eventfd never closed; it waits for the next listener for the same
//! signal.
//!
//! **No signal is lost**: `new` marks its slot as in use before it installs the handler, so a signal
//! that comes after `new` has returned is seen. Signals that come faster than they are read are
//! counted by the eventfd.
//!
//! **No signal is heard twice.** Who is woken by a handler may make the next listener while that
//! handler still walks the slots. It must not hear of the same signal again (a program that ends
//! gently on the first Ctrl-C and at once on the second would end at once). So each handler takes a
//! ticket, and each listener begins with the next one. And a slot is used again only when no handler is
//! at it: one that had decided to write, and has not yet, would write to the new listener.
//!
//! Memory ordering: a slot is filled before its pointer is stored (Release) and read after the pointer
//! was loaded (Acquire). All else is SeqCst, as nothing here is hot: `visitors` was zero after `in_use`
//! became false, so every handler from then on finds it false, until `since` has been set and `in_use`
//! is true again. The list of slots grows under a mutex that the handler does not take.

use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::sys::{self, c};
use crate::{Handle, Kind, interrupt};

/// Ctrl-C on a terminal.
pub const SIGINT: i32 = c::SIGINT;
/// The polite request to end.
pub const SIGTERM: i32 = c::SIGTERM;
/// Ctrl-\ on a terminal.
pub const SIGQUIT: i32 = c::SIGQUIT;
/// The terminal is gone; often: read the configuration again.
pub const SIGHUP: i32 = c::SIGHUP;

/// A timer of `setitimer` or `alarm`.
pub const SIGALRM: i32 = c::SIGALRM;
/// A child has ended or stopped.
pub const SIGCHLD: i32 = c::SIGCHLD;
/// Something can be done with a descriptor (`O_ASYNC`).
pub const SIGIO: i32 = c::SIGIO;
/// Written to what nobody reads.
pub const SIGPIPE: i32 = c::SIGPIPE;
/// For the program's own use.
pub const SIGUSR1: i32 = c::SIGUSR1;
/// For the program's own use.
pub const SIGUSR2: i32 = c::SIGUSR2;
/// The terminal's size has changed.
pub const SIGWINCH: i32 = c::SIGWINCH;

/// How many listeners there can be at a time.
const LIMIT: usize = 256;

struct Slot {
    signum: i32,
    in_use: AtomicBool,
    /// The first ticket that this listener hears of.
    since: AtomicU64,
    /// The handlers that are at this slot just now.
    visitors: AtomicU32,
    /// What is read; one handle for good, so that drivers know it again.
    handle: Handle,
    /// What is written to: the same eventfd, or the other end of a pipe.
    writer: RawFd,
}

/// Filled from the front, never emptied.
static SLOTS: [AtomicPtr<Slot>; LIMIT] = [const { AtomicPtr::new(ptr::null_mut()) }; LIMIT];

/// The ticket of the next handler.
static TICKET: AtomicU64 = AtomicU64::new(0);

/// The signals that have our handler. Its lock is also the right to change `SLOTS`.
static INSTALLED: Mutex<Vec<i32>> = Mutex::new(Vec::new());

fn slots() -> impl Iterator<Item = &'static Slot> {
    SLOTS.iter().map_while(|cell| {
        // SAFETY: a slot is never freed, and shared from the store of its pointer on.
        unsafe { cell.load(Ordering::Acquire).as_ref() }
    })
}

extern "C" fn on_signal(signum: c::c_int) {
    // SAFETY: always valid for the calling thread, and async-signal-safe.
    let errno = unsafe { c::__errno_location() };
    // SAFETY: as above. The interrupted code must find what it left.
    let before = unsafe { *errno };
    let ticket = TICKET.fetch_add(1, Ordering::SeqCst);
    for slot in slots().filter(|slot| slot.signum == signum) {
        slot.visitors.fetch_add(1, Ordering::SeqCst);
        if slot.in_use.load(Ordering::SeqCst) && slot.since.load(Ordering::SeqCst) <= ticket {
            let one = 1u64;
            // It can only fail because the counter is full: then there is something to read already.
            // SAFETY: eight bytes of a local; the descriptor is never closed.
            unsafe { c::write(slot.writer, (&raw const one).cast(), 8) };
        }
        slot.visitors.fetch_sub(1, Ordering::SeqCst);
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// A listener for one signal, from [`Signal::new`] until it is dropped.
///
/// To wait is to read the eight bytes of [`handle`](Signal::handle): a `u64` that says how often the
/// signal has come since the last read. (Where that is a pipe: once, and the next read gives the next.)
#[derive(Debug)]
pub struct Signal {
    slot: &'static Slot,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("signum", &self.signum).field("handle", &self.handle).finish()
    }
}

impl Slot {
    /// Takes all signals that have not been read.
    fn empty(&self) {
        let mut counts = [0u64; 64];
        // SAFETY: as many bytes of a local; the descriptor is non-blocking.
        while unsafe {
            let n = size_of_val(&counts);
            c::read(self.handle.as_ref().raw(), counts.as_mut_ptr().cast(), n) == n as isize
        } {}
    }
}

impl Signal {
    /// Listens for `signum`. The first listener for a signal replaces what the process did on it
    /// before, for good: without a listener it is then ignored.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such signal, if it cannot be handled (SIGKILL, SIGSTOP), or if it
    /// says that the current instruction is at fault (SIGSEGV, SIGBUS, SIGFPE, SIGILL): returning from
    /// the handler would only repeat it. Else: no more descriptors, or 256 listeners exist already.
    pub fn new(signum: i32) -> io::Result<Signal> {
        let refused = match signum {
            c::SIGKILL | c::SIGSTOP => "SIGKILL and SIGSTOP cannot be listened for",
            c::SIGSEGV | c::SIGBUS | c::SIGFPE | c::SIGILL => {
                "a fault of the program cannot be listened for"
            }
            interrupt::SIGNAL => {
                "SIGURG interrupts blocking calls here, and has a handler for that"
            }
            1..=64 => "",
            _ => "there is no such signal",
        };
        if !refused.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, refused));
        }
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match free(signum) {
            Some(slot) => {
                // What the previous listener did not read is not for this one.
                slot.empty();
                slot
            }
            None => add(signum)?,
        };
        slot.since.store(TICKET.load(Ordering::SeqCst), Ordering::SeqCst);
        slot.in_use.store(true, Ordering::SeqCst);
        // From here on the slot is given back by dropping this.
        let signal = Signal { slot };
        if !installed.contains(&signum) {
            install(signum)?;
            installed.push(signum);
        }
        Ok(signal)
    }

    /// What is to be read: an eventfd, or a pipe.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.slot.handle
    }

    /// The signal's number.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.slot.signum
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.slot.in_use.store(false, Ordering::SeqCst);
    }
}

/// A slot that can be used again. The caller has the lock.
fn free(signum: i32) -> Option<&'static Slot> {
    // A handler stays for a few instructions and one system call. If it is kept from them for long,
    // a new slot is made instead.
    for _ in 0..1000 {
        let mut unused = slots()
            .filter(|slot| slot.signum == signum && !slot.in_use.load(Ordering::SeqCst))
            .peekable();
        unused.peek()?;
        // In this order: `in_use` is false, and then nobody is there who saw it true.
        if let Some(slot) = unused.find(|slot| slot.visitors.load(Ordering::SeqCst) == 0) {
            return Some(slot);
        }
        std::thread::yield_now();
    }
    None
}

/// A new slot, which is not in use. The caller has the lock.
fn add(signum: i32) -> io::Result<&'static Slot> {
    let empty = SLOTS.iter().find(|cell| cell.load(Ordering::Acquire).is_null());
    let empty = empty.ok_or_else(|| {
        io::Error::new(io::ErrorKind::QuotaExceeded, "256 signal listeners exist already")
    })?;
    let (reader, writer) = sys::counter()?;
    // Both in the mode that `Kind::Pipe` asks for, and open for good.
    let handle = Handle::from_owned(reader, Kind::Pipe);
    let writer = writer.map_or(handle.as_ref().raw(), IntoRawFd::into_raw_fd);
    let (in_use, since) = (AtomicBool::new(false), AtomicU64::new(0));
    let visitors = AtomicU32::new(0);
    let slot = Box::leak(Box::new(Slot { signum, in_use, since, visitors, handle, writer }));
    empty.store(slot, Ordering::Release);
    Ok(slot)
}

/// Makes `on_signal` the handler of `signum`.
fn install(signum: i32) -> io::Result<()> {
    // SAFETY: integers and null pointers.
    let mut action: c::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(c::c_int) as usize;
    // ONSTACK: the signal may come while a fiber is at the end of a small stack.
    action.sa_flags = c::SA_RESTART | c::SA_ONSTACK;
    // SAFETY: the mask is ours to write; the handler does only what is async-signal-safe.
    let failed = unsafe {
        c::sigemptyset(&raw mut action.sa_mask);
        c::sigaction(signum, &raw const action, ptr::null_mut()) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raise(signum: i32) {
        // SAFETY: raising a signal that a listener has taken over only runs the handler.
        assert_eq!(unsafe { c::raise(signum) }, 0);
    }

    /// How often the signal has come, 0 for not at all.
    fn count(signal: &Signal) -> u64 {
        let (mut all, mut count) = (0u64, 0u64);
        let fd = signal.handle().as_ref().raw();
        // SAFETY: eight bytes of a local.
        while unsafe { c::read(fd, (&raw mut count).cast(), 8) } == 8 {
            all = all.wrapping_add(count);
        }
        all
    }

    #[test]
    fn every_listener_hears_every_signal() {
        let (a, b) = (Signal::new(c::SIGUSR1).expect("new"), Signal::new(c::SIGUSR1).expect("new"));
        let other = Signal::new(c::SIGWINCH).expect("new");
        raise(c::SIGUSR1);
        raise(c::SIGUSR1);
        assert_eq!((count(&a), count(&b), count(&other)), (2, 2, 0));
        assert_eq!(a.number(), c::SIGUSR1);
        raise(c::SIGWINCH);
        assert_eq!((count(&a), count(&b), count(&other)), (0, 0, 1));
    }

    #[test]
    fn a_slot_is_used_again_and_starts_empty() {
        // Nothing else listens for this signal, so the slot is the same one.
        let first = Signal::new(c::SIGUSR2).expect("new");
        let (fd, id) = (first.handle().as_ref().raw(), first.handle().as_ref().id());
        raise(c::SIGUSR2);
        drop(first);
        raise(c::SIGUSR2); // nobody listens: ignored
        let second = Signal::new(c::SIGUSR2).expect("new");
        assert_eq!((second.handle().as_ref().raw(), second.handle().as_ref().id()), (fd, id));
        assert_eq!(count(&second), 0);
        raise(c::SIGUSR2);
        assert_eq!(count(&second), 1);
    }

    #[test]
    fn whoever_listens_next_does_not_hear_the_same_signal() {
        let go = std::sync::Barrier::new(2);
        let first = Signal::new(c::SIGPROF).expect("new");
        // The handler has so much to do between the first slot and the last that the first listener
        // overtakes it.
        let between: Vec<_> = (0..60).map(|_| Signal::new(c::SIGPROF).expect("new")).collect();
        let mut dropped = Signal::new(c::SIGPROF).expect("new");
        let mut heard_twice = 0;
        std::thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..500 {
                    go.wait();
                    raise(c::SIGPROF);
                    go.wait();
                }
            });
            for _ in 0..500 {
                go.wait();
                while count(&first) == 0 {
                    std::hint::spin_loop();
                }
                let fresh = Signal::new(c::SIGPROF).expect("new");
                drop(dropped);
                let reused = Signal::new(c::SIGPROF).expect("new");
                go.wait();
                heard_twice += count(&fresh) + count(&reused);
                dropped = reused;
            }
        });
        // Not in the loop: a panic there would leave the other thread waiting.
        assert_eq!(heard_twice, 0);
        assert!(between.iter().all(|signal| count(signal) == 500));
    }

    #[test]
    fn a_signal_from_another_thread_is_heard() {
        let signal = Signal::new(c::SIGALRM).expect("new");
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..50).for_each(|_| raise(c::SIGALRM))))
            .collect();
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_eq!(count(&signal), 200);
    }

    #[test]
    fn errno_survives() {
        let signal = Signal::new(c::SIGIO).expect("new");
        let full = u64::MAX - 1;
        // Until there is no room, so that the handler's write fails.
        // SAFETY: eight bytes of a local.
        while unsafe { c::write(signal.slot.writer, (&raw const full).cast(), 8) } == 8 {}
        // SAFETY: the calling thread's errno.
        unsafe { *c::__errno_location() = 77 };
        // SAFETY: as in `raise`.
        unsafe { c::raise(c::SIGIO) };
        // SAFETY: as above.
        assert_eq!(unsafe { *c::__errno_location() }, 77);
        assert_ne!(count(&signal), 0);
    }

    #[test]
    fn some_signals_cannot_be_had() {
        for signum in [c::SIGKILL, c::SIGSTOP, c::SIGSEGV, c::SIGURG, 0, -1, 1000] {
            let error = Signal::new(signum).expect_err("no listener");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{signum}");
        }
    }
}
