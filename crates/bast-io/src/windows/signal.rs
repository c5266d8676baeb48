//! Ctrl-C and its kin as something to read: each listener has a pipe, which the handler writes to.
//!
//! ```text
//!   Ctrl-C ──▶ a thread that Windows makes: handler ──▶ every listener of that event: eight bytes
//! ```
//!
//! The handler is no signal handler but a function on a thread of its own: it may take locks. It does so for the
//! time of a write that does not wait: a pipe that is full (its reader has not read for 500 events) says so.
//!
//! **No event is heard twice**: a listener hears of what comes after it was put on the list, under the same lock that
//! the handler holds while it walks the list.
//!
//! **The first listener is for good**, as on Unix: Ctrl-C and Ctrl-Break then no longer end the process, whether anybody
//! listens at the moment or not. Or one that comes between two listeners would.
//!
//! **The other events end the process** as soon as the handler returns, whatever it says. So with a listener it does not
//! return: Windows waits for some seconds, in which the program can end by itself.

use std::io;
use std::sync::{Mutex, Once, PoisonError};

use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
    SetConsoleCtrlHandler,
};

use crate::sys::{self, Mode};
use crate::{Handle, Op, Outcome, pipe};

/// Ctrl-C.
pub const SIGINT: i32 = CTRL_C_EVENT as i32;
/// Ctrl-Break.
pub const SIGQUIT: i32 = CTRL_BREAK_EVENT as i32;
/// The console is being closed; Windows ends the process soon after.
pub const SIGHUP: i32 = CTRL_CLOSE_EVENT as i32;
/// The user logs off.
pub const SIGLOGOFF: i32 = CTRL_LOGOFF_EVENT as i32;
/// The system is shut down.
pub const SIGTERM: i32 = CTRL_SHUTDOWN_EVENT as i32;

#[derive(Debug)]
struct Listener {
    signum: i32,
    writer: Handle,
}

#[derive(Debug)]
struct Listeners {
    now: Vec<Listener>,
    /// The events that have had a listener.
    taken: Vec<i32>,
}

static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners { now: Vec::new(), taken: Vec::new() });

fn listeners() -> std::sync::MutexGuard<'static, Listeners> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called by Windows, on a thread that it makes for that. If this says no the next handler has its turn, at last
/// Windows' own, which ends the process.
unsafe extern "system" fn on_event(event: u32) -> i32 {
    let heard = tell(event as i32);
    match event {
        CTRL_C_EVENT | CTRL_BREAK_EVENT => listeners().taken.contains(&(event as i32)).into(),
        _ if heard => loop {
            std::thread::park();
        },
        _ => 0,
    }
}

/// Tells every listener; whether there was one.
fn tell(event: i32) -> bool {
    let one = 1u64;
    let mut heard = false;
    for listener in listeners().now.iter().filter(|listener| listener.signum == event) {
        let (handle, buf) = (listener.writer.as_ref(), (&raw const one).cast());
        let op = Op::Write { handle, buf, len: 8, offset: None };
        // SAFETY: eight bytes of a local; the write is over, or given up, when the call returns.
        let _: Outcome = unsafe { sys::call(&op, Mode::NoWait) };
        heard = true;
    }
    heard
}

/// A listener for one event, from [`Signal::new`] until it is dropped.
///
/// To wait is to read from [`handle`](Signal::handle): a `u64` of one for each time that the event has come.
#[derive(Debug)]
pub struct Signal {
    signum: i32,
    reader: Handle,
    /// The writer's id, by which the listener is found.
    id: u64,
}

impl Signal {
    /// Listens for `signum`. After the first listener Ctrl-C and Ctrl-Break no longer end the process, for good. While
    /// there is one, the other events end it only when Windows' patience is over.
    ///
    /// A process that was started to ignore Ctrl-C (as all are that lead a process group) no longer does.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such event. Else: no more handles.
    pub fn new(signum: i32) -> io::Result<Signal> {
        if !matches!(signum, SIGINT | SIGQUIT | SIGHUP | SIGLOGOFF | SIGTERM) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no such event"));
        }
        static INSTALLED: Once = Once::new();
        // SAFETY: a function that lives as long as the program. It fails only for want of memory.
        INSTALLED.call_once(|| unsafe {
            SetConsoleCtrlHandler(Some(on_event), 1);
        });
        let (reader, writer) = pipe::pair()?;
        let id = writer.as_ref().id();
        let mut listeners = listeners();
        listeners.now.push(Listener { signum, writer });
        if !listeners.taken.contains(&signum) {
            listeners.taken.push(signum);
            if signum == SIGINT {
                // SAFETY: no function: it is about the process's attribute to ignore Ctrl-C.
                unsafe { SetConsoleCtrlHandler(None, 0) };
            }
        }
        drop(listeners);
        Ok(Signal { signum, reader, id })
    }

    /// What is to be read.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.reader
    }

    /// The event's number.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.signum
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        let mut listeners = listeners();
        let place = listeners.now.iter().position(|l| l.writer.as_ref().id() == self.id);
        // Closing its pipe waits for nobody.
        place.map(|place| listeners.now.swap_remove(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_hears_what_it_listens_for() {
        let ours = |signum| Signal::new(signum).expect("a listener");
        let (a, b, other) = (ours(SIGHUP), ours(SIGHUP), ours(SIGLOGOFF));
        let count = |signal: &Signal| {
            let mut value = 0u64;
            let buf = (&raw mut value).cast();
            let op = Op::Read { handle: signal.handle().as_ref(), buf, len: 8, offset: None };
            // SAFETY: eight bytes of a local.
            unsafe { sys::call(&op, Mode::NoWait) }.into_result().map(|n| (n, value))
        };
        assert!(tell(SIGHUP));
        assert_eq!((count(&a).expect("one"), count(&b).expect("one")), ((8, 1), (8, 1)));
        assert_eq!(count(&other).expect_err("none").kind(), io::ErrorKind::WouldBlock);
        drop((a, b));
        assert!(!tell(SIGHUP));
        assert_eq!(Signal::new(77).expect_err("none").kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_first_listener_is_for_good() {
        // SAFETY: it may be called like any function.
        let is_handled = |event| unsafe { on_event(event) } == 1;
        // Nobody else here listens for these two.
        assert!(!is_handled(CTRL_BREAK_EVENT));
        drop(Signal::new(SIGQUIT).expect("a listener"));
        assert!(is_handled(CTRL_BREAK_EVENT));
        drop(Signal::new(SIGTERM).expect("a listener"));
        assert!(!is_handled(CTRL_SHUTDOWN_EVENT), "it ends the process in any case");
    }
}
