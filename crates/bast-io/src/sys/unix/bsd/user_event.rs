//! What ends a driver's wait: a user event in the queue that the driver waits on.
//!
//! The queue belongs to the bell, so that whoever still has the waker when the driver is gone rings at a queue
//! that is there. Each ring is an edge (`EV_CLEAR`), so nobody needs to take it.

use std::io;
use std::time::Duration;

use super::queue::{EV_ADD, EV_CLEAR, EVFILT_USER, NOTE_TRIGGER, Queue, change};

#[derive(Debug)]
pub(crate) struct Bell {
    queue: Queue,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        let queue = Queue::new()?;
        match queue.change([change(0, EVFILT_USER, EV_ADD | EV_CLEAR, 0, 0)]) {
            [0] => Ok(Bell { queue }),
            [errno] => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// The queue, in which everything else may be that the owner waits for.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn ring(&self) {
        // It cannot fail: the event is there as long as the queue.
        self.queue.change([change(0, EVFILT_USER, 0, NOTE_TRIGGER, 0)]);
    }

    /// Waits until it is raised, and at most as long as said. May return early.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        // An error is a wait that was too short.
        let _ = self.queue.wait(&mut [change(0, 0, 0, 0, 0)], timeout);
    }
}
