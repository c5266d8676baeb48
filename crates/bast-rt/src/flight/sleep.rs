//! Sleeping, for code that is polled: a timer on the wheel of the worker that polls.
//!
//! ```text
//!   poll ──passed──▶ yields once ──▶ Ready
//!     └─▶ armed for `armed` ≤ `deadline` ──fires──▶ Ready, or armed again if it was reset to later
//! ```
//!
//! A loop of sleeps that have passed would keep its worker for ever; so each yields once, as a fiber's does.
//!
//! To reset it to later only notes the new time, so what is put off again and again costs no more than that.

use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{Flight, Goal};
use crate::interrupt::Elapsed;
use crate::suspend::after;
use crate::time::Instant;

/// A future that is ready when its time has come: [`sleep`](crate::sleep()) for code that is polled.
///
/// It never ends early, and under load late by what its worker is busy with. It may be polled on one worker first and
/// then on another, and dropped anywhere. Polled on a plain thread it is a timer of the default runtime.
///
/// One whose time has come before it is first polled, as that of a duration of zero, only yields: what is ready runs
/// first, and no timer is set.
///
/// ```
/// use std::time::Duration;
/// let begun = std::time::Instant::now();
/// bast_rt::block_on(bast_rt::Sleep::new(Duration::from_millis(2)));
/// assert!(begun.elapsed() >= Duration::from_millis(2));
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    deadline: Instant,
    /// What the flight was armed for.
    armed: Instant,
    flight: Option<Arc<Flight>>,
    /// Others have had their turn.
    pended: bool,
}

impl Sleep {
    /// Ends after `duration`. What does not fit is never.
    pub fn new(duration: Duration) -> Sleep {
        Sleep::until(Instant(after(Instant::now().0, duration)))
    }

    /// Ends at `deadline`.
    pub const fn until(deadline: Instant) -> Sleep {
        Sleep { deadline, armed: deadline, flight: None, pended: false }
    }

    /// When it ends.
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether its time has come.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.deadline <= Instant::now()
    }

    /// Has it end at another time, also if it has ended. Whoever has polled it for a time that is earlier is woken at that
    /// one, and waits again; for one that is later, it has to be polled again to be woken in time.
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Sleep>, context: &mut Context<'_>) -> Poll<()> {
        let waker = context.waker();
        if let Some(flight) = &self.flight {
            match flight.look(waker) {
                Some(Poll::Pending) if self.armed <= self.deadline => return Poll::Pending,
                Some(Poll::Pending) => {
                    flight.abandon();
                    self.flight = None;
                }
                // Not the clock, which on a plain thread is not the timer's if that is the simulator's.
                Some(Poll::Ready(outcome)) if outcome.0 >= 0 && self.armed >= self.deadline => {
                    return Poll::Ready(());
                }
                _ => {}
            }
        }
        let pended = std::mem::replace(&mut self.pended, true);
        if self.is_elapsed() {
            if pended {
                return Poll::Ready(());
            }
            waker.wake_by_ref();
            return Poll::Pending;
        }
        self.armed = self.deadline;
        let goal = Goal::Time(self.deadline.0);
        // A timer is never ready at once.
        let polled = self.flight.get_or_insert_with(|| Flight::new(None)).begin(goal, waker);
        polled.map(drop)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(flight) = &self.flight {
            flight.abandon();
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// The value of `future`, unless `duration` passes first: then the future is dropped.
///
/// # Errors
/// [`Elapsed`] if the time was up.
pub async fn elapse<F: IntoFuture>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future.into_future());
    let mut sleep = Sleep::new(duration);
    // The future has had its turn.
    sleep.pended = true;
    poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        Pin::new(&mut sleep).poll(context).map(|()| Err(Elapsed::new()))
    })
    .await
}
