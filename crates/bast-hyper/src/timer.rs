//! hyper's timers: bast's `Sleep`, in a box.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bast::future::Sleep;
use hyper::rt::Timer;

/// Timers of the worker that polls. hyper needs one for each timeout that is set: without it
/// `header_read_timeout`, say, does nothing, or panics where it has been set by hand.
#[derive(Clone, Copy, Debug, Default)]
pub struct BastTimer(());

impl BastTimer {
    /// The timer; it has no state.
    #[must_use]
    pub fn new() -> BastTimer {
        BastTimer(())
    }
}

impl Timer for BastTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HyperSleep(Sleep::new(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HyperSleep(Sleep::until(of_bast(deadline))))
    }

    /// Puts it off without a new box.
    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<HyperSleep>() {
            Some(mut sleep) => sleep.0.reset(of_bast(deadline)),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

/// hyper's clock is std's, which bast's follows on every driver but the simulator's.
fn of_bast(deadline: Instant) -> bast::time::Instant {
    bast::time::Instant::now() + deadline.saturating_duration_since(Instant::now())
}

struct HyperSleep(Sleep);

impl hyper::rt::Sleep for HyperSleep {}

impl Future for HyperSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}
