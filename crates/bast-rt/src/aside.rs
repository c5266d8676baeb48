//! Code in the middle of a driver's work that somebody else has written: the start of a call that bast has no operation
//! for.
//!
//! ```text
//!   fiber ─▶ driver: submit ─▶ aside(start) ─▶ the call is under way ─▶ … ─▶ its completion ─▶ fiber goes on
//!                                ╰─ in here the thread is no worker
//! ```
//!
//! What that code calls of bast must not come back to the driver, nor suspend the fiber: so for this time the thread is
//! a plain one, which blocks.

use crate::tls;
use crate::worker::Worker;

/// The worker is back when this goes.
struct Aside(*const Worker);

impl Drop for Aside {
    fn drop(&mut self) {
        tls::set_worker(self.0);
    }
}

/// Runs `f` as on a plain thread. For what an operation calls on its way to the kernel.
pub fn aside<R>(f: impl FnOnce() -> R) -> R {
    let _aside = Aside(tls::worker().map_or(std::ptr::null(), std::ptr::from_ref));
    tls::set_worker(std::ptr::null());
    f()
}
