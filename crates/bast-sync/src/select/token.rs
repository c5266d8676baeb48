//! The cancellation of a token as an event: an arm that waits in the token's list and is granted nothing but
//! the fact.

use super::arm::{Arm, Event, Place, Seat};
use crate::token::CancelToken;

/// Completes when the token has been cancelled.
///
/// ```
/// use bast_sync::CancelToken;
/// use bast_sync::select::{cancelled, recv};
/// use bast_sync::mpsc;
///
/// let (_keep, requests) = mpsc::channel::<u8>();
/// let token = CancelToken::new();
/// token.cancel();
/// bast_sync::select! {
///     _ = recv(&requests) => unreachable!(),
///     () = cancelled(&token) => {}
/// }
/// ```
pub fn cancelled(token: &CancelToken) -> WhenCancelled<'_> {
    WhenCancelled { token, seat: Seat::new() }
}

/// See [`cancelled`].
pub struct WhenCancelled<'a> {
    token: &'a CancelToken,
    seat: Seat,
}

impl Arm for WhenCancelled<'_> {
    fn attempt(&self) -> bool {
        self.token.is_cancelled()
    }

    unsafe fn enlist(&self, place: &Place<'_>) -> bool {
        let mut family = self.token.family().lock();
        if self.token.is_cancelled() {
            return false;
        }
        // SAFETY: not enlisted, and stays until `delist` (the caller's promise).
        unsafe { self.seat.take(&mut family.waiters, place, std::ptr::null_mut()) };
        true
    }

    fn delist(&self) {
        if self.seat.is_taken() {
            // SAFETY: this list is the only one it goes to.
            unsafe { self.seat.leave(&mut self.token.family().lock().waiters) };
        }
    }
}

impl Event for WhenCancelled<'_> {
    type Output = ();

    fn finish(self) {}
}

impl std::fmt::Debug for WhenCancelled<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WhenCancelled").field("token", self.token).finish_non_exhaustive()
    }
}
