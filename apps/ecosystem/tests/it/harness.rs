//! What the tests share: a body on a fiber that cannot hang, and servers that may not be there.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

/// Nothing here takes a tenth of this.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a body on a fiber of the default runtime, and fails if it hangs.
pub(crate) fn run(body: impl FnOnce() + Send + 'static) {
    let (send, receive) = mpsc::channel();
    bast::spawn(move || {
        // The receiver is there, or the test has failed already.
        let _ = send.send(catch_unwind(AssertUnwindSafe(body)));
    });
    match receive.recv_timeout(PATIENCE).expect("the test hangs") {
        Ok(()) => {}
        Err(payload) => resume_unwind(payload),
    }
}

/// Where a server is, if a variable says so.
pub(crate) fn server(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        println!("skipped: {variable} names no server (`cargo xtask ecosystem` starts one)");
    }
    url
}

/// Suspends until something has happened.
pub(crate) fn until(happened: impl Fn() -> bool) {
    while !happened() {
        bast::sleep(Duration::from_millis(1));
    }
}

/// A directory of its own, removed in the end.
pub(crate) struct Temp(pub(crate) PathBuf);

impl Temp {
    pub(crate) fn new(name: &str) -> Temp {
        let path = std::env::temp_dir().join(format!("bast-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Temp(path)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
