//! Opening files when the process has as many open as it may (`ulimit -n`).
//!
//! Readers and listers are more than some limits allow, but each of them has its file for a moment only. So who is refused
//! tries again, and no file is reported for what is not its fault.

use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// Ten seconds: nobody keeps a file for long.
const TRIES: u32 = 1000;

const PAUSE: Duration = Duration::from_millis(10);

/// Opens something, with pauses until there is room for it.
pub(crate) fn open<T>(
    pause: impl Fn(Duration),
    mut open: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    for _ in 1..TRIES {
        match open() {
            Err(error) if is_reached(&error) => pause(PAUSE),
            opened => return opened,
        }
    }
    open()
}

fn is_reached(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}
