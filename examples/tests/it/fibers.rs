//! Tests in fibers of this process, on both drivers; one that hangs is shown and ended.

use std::process::abort;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use bast::{CancelToken, DriverKind, Runtime};

/// Longer than any test here takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs the test in a fiber of a runtime of its own, once for each driver. The number of workers is that of
/// `BAST_WORKERS`, or of the cores.
pub(crate) fn on_drivers(test: impl Fn() + Sync) {
    for driver in [DriverKind::Uring, DriverKind::Epoll] {
        let (done, watched) = channel::<()>();
        let dog = thread::spawn(move || {
            if watched.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                eprintln!("a test hangs on {driver:?}:\n{}", bast::dump());
                abort();
            }
        });
        let runtime = Runtime::builder().driver(driver).build().expect("a runtime");
        runtime.run(&test);
        runtime.shutdown(LIMIT).expect("no fiber is left");
        drop(done);
        dog.join().unwrap();
    }
}

/// Runs a server next to the test, and stops it; returns what the server and the test return.
pub(crate) fn with_server<S: Send, T>(
    server: impl FnOnce(&CancelToken) -> S + Send,
    test: impl FnOnce(&CancelToken) -> T,
) -> (S, T) {
    let stop = CancelToken::new();
    bast::scope(|scope| {
        let server = scope.spawn(|| server(&stop));
        // Also if the test panics: the scope waits for the server.
        let guard = stop.clone().drop_guard();
        let outcome = test(&stop);
        drop(guard);
        (server.join().expect("the server does not panic"), outcome)
    })
}

/// What all examples have: help with examples in it, and wrong flags are named.
pub(crate) fn help_is_good(program: &str, words: &[&str]) {
    let help = std::process::Command::new(program).arg("--help").output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(help.status.success());
    for word in words.iter().chain(&["Examples:", "BAST_WORKERS", "Ctrl-C"]) {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    let wrong = std::process::Command::new(program).arg("--nonsense").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("--nonsense"));
}
