//! Unix signals, as something to wait for.
//!
//! ```no_run
//! use bast::signal::unix::{SignalKind, signal};
//!
//! # fn main() -> std::io::Result<()> {
//! let hangups = signal(SignalKind::hangup())?;
//! bast::spawn(move || {
//!     for _ in &hangups {
//!         // … read the configuration again …
//!     }
//! });
//! # Ok(()) }
//! ```

use std::io;

use bast_io::signal;

pub use super::signals::Signals;

/// Which signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalKind(i32);

macro_rules! kinds {
    ($($name:ident = $number:ident, $what:literal;)*) => {
        impl SignalKind {
            /// The signal of this number.
            #[must_use]
            pub const fn from_raw(number: i32) -> SignalKind {
                SignalKind(number)
            }

            /// The number.
            #[must_use]
            pub const fn as_raw(self) -> i32 {
                self.0
            }

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
    alarm = SIGALRM, "SIGALRM: a timer of the system.";
    child = SIGCHLD, "SIGCHLD: a child has ended or stopped. ([`process`](crate::process) does not need it.)";
    hangup = SIGHUP, "SIGHUP: the terminal is gone; often: read the configuration again.";
    interrupt = SIGINT, "SIGINT: Ctrl-C.";
    io = SIGIO, "SIGIO: something can be done with a descriptor that was set up for it.";
    pipe = SIGPIPE, "SIGPIPE: written to a pipe or socket that nobody reads. (bast's own writes fail instead.)";
    quit = SIGQUIT, "SIGQUIT: Ctrl-Backslash.";
    terminate = SIGTERM, "SIGTERM: the polite request to end.";
    user_defined1 = SIGUSR1, "SIGUSR1.";
    user_defined2 = SIGUSR2, "SIGUSR2.";
    window_change = SIGWINCH, "SIGWINCH: the terminal's size has changed.";
}

impl From<i32> for SignalKind {
    fn from(number: i32) -> SignalKind {
        SignalKind::from_raw(number)
    }
}

impl From<SignalKind> for i32 {
    fn from(kind: SignalKind) -> i32 {
        kind.as_raw()
    }
}

/// Begins to listen for a signal, which from then on no longer does to the process what it did before,
/// even when the last listener is gone.
///
/// # Errors
/// `InvalidInput` for a signal that cannot be listened for (SIGKILL, SIGSTOP, the faults); no more
/// descriptors, or 256 listeners exist already.
pub fn signal(kind: SignalKind) -> io::Result<Signals> {
    Ok(Signals { signal: signal::Signal::new(kind.0)? })
}
