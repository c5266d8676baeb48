//! What a console tells its programs, as something to wait for.
//!
//! ```no_run
//! use bast::signal::windows::{SignalKind, signal};
//!
//! # fn main() -> std::io::Result<()> {
//! // What `Child::terminate` presses.
//! let breaks = signal(SignalKind::ctrl_break())?;
//! breaks.recv()?;
//! println!("ending");
//! # Ok(()) }
//! ```

use std::io;

use bast_io::signal;

pub use super::signals::Signals;

/// Which event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalKind(i32);

macro_rules! kinds {
    ($($name:ident = $number:ident, $what:literal;)*) => {
        impl SignalKind {
            $(
                #[doc = $what]
                #[must_use]
                pub const fn $name() -> SignalKind {
                    SignalKind(signal::$number)
                }
            )*
        }
    };
}

kinds! {
    ctrl_c = SIGINT, "Ctrl-C.";
    ctrl_break = SIGQUIT, "Ctrl-Break: also what [`Child::terminate`](crate::process::Child::terminate) presses.";
    ctrl_close = SIGHUP, "The console is being closed. Windows ends the process some five seconds later.";
    ctrl_logoff = SIGLOGOFF, "The user logs off. Only services hear of it, and are ended soon.";
    ctrl_shutdown = SIGTERM, "The system is shut down. Only services hear of it, and are ended soon.";
}

/// Begins to listen for an event. From then on Ctrl-C and Ctrl-Break no longer end the process, even when the last
/// listener is gone. After the others Windows ends it in any case: with a listener when the time is over that
/// Windows gives for it, or when it ends itself.
///
/// # Errors
/// No more handles.
pub fn signal(kind: SignalKind) -> io::Result<Signals> {
    Ok(Signals { signal: signal::Signal::new(kind.0)? })
}
