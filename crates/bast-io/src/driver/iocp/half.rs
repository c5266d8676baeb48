//! What waits to receive or to send when its half is shut down: Windows ends only what comes later, and Unix ends it.
//!
//! ```text
//!   shutdown, by a driver or a thread ─▶ the kernel ─▶ a packet with the handle's id and the half to each other driver
//!                                                      ╰▶ the driver: CancelIoEx for what waits there for that half
//! ```
//!
//! Nobody has a list of who waits for a handle, so all drivers are told. Only the driver whose handle it is need tell
//! nobody, while there is no operation anywhere on a handle of another port (`AWAY`): a connection that is used where
//! it was first used costs nothing.
//!
//! **Nobody is overlooked.** What begins when the half is down is refused by the kernel. One that began before
//! is on its driver's list before that driver takes the packet, which was posted after; and it was counted before its
//! call, which the kernel put before the shutdown, so that who looks at the count after that sees it. A packet that
//! comes late does no harm: ids are not used again. (Handles without an id, which are somebody else's, are ended by
//! their own driver alone.)

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::remote::Remote;
use crate::op::{Half, Interest};
use crate::sys;
use crate::{HandleRef, Outcome};

/// The key of such a packet is this, the id and the half. (That of a wake is all ones, which no id comes to.)
const TOLD: usize = 1 << (usize::BITS - 1);

/// By their numbers, two bits of the key.
const HALVES: [Half; 3] = [Half::Read, Half::Write, Half::Both];

/// The drivers that there are.
static DRIVERS: Mutex<Vec<Arc<Remote>>> = Mutex::new(Vec::new());

/// Operations under way on handles whose packets go elsewhere.
static AWAY: AtomicUsize = AtomicUsize::new(0);

fn drivers() -> MutexGuard<'static, Vec<Arc<Remote>>> {
    DRIVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn enter(driver: &Arc<Remote>) {
    drivers().push(Arc::clone(driver));
}

pub(super) fn leave(driver: &Arc<Remote>) {
    drivers().retain(|other| !Arc::ptr_eq(other, driver));
}

/// Before the call.
pub(super) fn away() {
    AWAY.fetch_add(1, Ordering::SeqCst);
}

/// When its packet has been taken, or none will come.
pub(super) fn back() {
    AWAY.fetch_sub(1, Ordering::SeqCst);
}

pub(super) fn is_anyone_away() -> bool {
    AWAY.load(Ordering::SeqCst) > 0
}

/// The id and the half in a packet's key.
pub(super) fn told(key: usize) -> Option<(u64, Half)> {
    let half = *HALVES.get(key & 3)?;
    (key & TOLD != 0).then_some(((key & !TOLD) as u64 >> 2, half))
}

/// Whether that half is the one in which this is waited for.
pub(super) fn ends(half: Half, interest: Interest) -> bool {
    match interest {
        Interest::Readable => half != Half::Write,
        Interest::Writable => half != Half::Read,
    }
}

/// Shuts a half down, and tells the drivers.
pub(crate) fn shut(handle: HandleRef, how: Half) -> Outcome {
    let outcome = sys::shutdown(handle, how);
    if outcome.0 >= 0 {
        tell(handle, how, None);
    }
    outcome
}

/// Tells all drivers but this one.
pub(super) fn tell(handle: HandleRef, half: Half, but: Option<&Arc<Remote>>) {
    if handle.id == 0 {
        return;
    }
    let key = TOLD | (handle.id as usize) << 2 | half as usize;
    for driver in drivers().iter().filter(|driver| but.is_none_or(|but| !Arc::ptr_eq(driver, but)))
    {
        driver.waker().port().post(key, std::ptr::null_mut());
    }
}
