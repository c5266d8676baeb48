//! What the tests share: a body on a fiber that cannot hang, and a look at tokio's context.

use std::any::Any;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Id, Runtime};

/// Nothing here takes a tenth of this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a body on a fiber of the default runtime, and fails if it hangs.
pub(crate) fn run(body: impl FnOnce() + Send + 'static) {
    let (send, receive) = mpsc::channel();
    bast::spawn(move || {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // The receiver is there, or the test has failed already.
        let _ = send.send(result);
    });
    match receive.recv_timeout(PATIENCE).expect("the test hangs") {
        Ok(()) => {}
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// The runtime whose context is on this thread.
pub(crate) fn here() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

pub(crate) fn background() -> Option<Id> {
    Some(bast_tokio::handle().id())
}

pub(crate) fn another() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A panic's message.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    match payload.downcast_ref::<&str>() {
        Some(text) => text,
        None => payload.downcast_ref::<String>().map_or("not a text", |text| text),
    }
}
