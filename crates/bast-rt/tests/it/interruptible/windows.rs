//! Calls that wait, and what Windows can interrupt of them: input and output on handles that are synchronous.

use std::io::{self, Read};
use std::time::Duration;

/// Waits so long: a nap of minutes is a read of a pipe that nobody writes to, as a sleep cannot be interrupted.
pub(super) fn nap(duration: Duration) -> io::Result<usize> {
    if duration < Duration::from_secs(60) {
        std::thread::sleep(duration);
        return Ok(0);
    }
    let (mut reader, _writer) = io::pipe()?;
    reader.read(&mut [0; 8])
}

type Call = Box<dyn FnOnce() -> io::Result<usize> + Send>;

/// Calls that would not return within a test.
pub(super) fn calls() -> Vec<(&'static str, Call)> {
    let (mut reader, writer) = io::pipe().unwrap();
    let read = move || {
        let _writer = &writer;
        reader.read(&mut [0; 8])
    };
    vec![("nap", Box::new(|| nap(super::LONG))), ("read", Box::new(read))]
}
