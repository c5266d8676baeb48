//! The patterns with `async`, where a recursive call is a boxed future: tasks of bast and of tokio.

use super::{Case, Mode, Pattern};
use crate::stats::Meter;
use std::hint::black_box;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

/// What a runtime has to wait for.
pub(super) trait Waits: Send + 'static {
    fn pause() -> impl Future<Output = ()> + Send;
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send;
}

/// A wait; it gives the number of waits that it is, which is one.
trait Wait: Send + 'static {
    fn wait() -> impl Future<Output = u64> + Send;
}

struct Quick;
struct Medium<R>(PhantomData<R>);
struct Slow<R>(PhantomData<R>);

impl Wait for Quick {
    fn wait() -> impl Future<Output = u64> + Send {
        std::future::ready(black_box(1))
    }
}

impl<R: Waits> Wait for Medium<R> {
    async fn wait() -> u64 {
        R::pause().await;
        1
    }
}

impl<R: Waits> Wait for Slow<R> {
    async fn wait() -> u64 {
        R::sleep(Duration::ZERO).await;
        1
    }
}

pub(super) struct Tokio;

impl Waits for Tokio {
    fn pause() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }
}

pub(super) struct Bast;

impl Waits for Bast {
    fn pause() -> impl Future<Output = ()> + Send {
        bast::task::yield_now()
    }

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        bast::future::sleep(duration)
    }
}

/// To be spawned on the runtime.
pub(super) async fn task<R: Waits>(case: Case, meter: Meter) -> f64 {
    match case.mode {
        Mode::Quick => rounds::<Quick>(case, meter).await,
        Mode::Medium => rounds::<Medium<R>>(case, meter).await,
        Mode::Slow => rounds::<Slow<R>>(case, meter).await,
    }
}

async fn rounds<W: Wait>(case: Case, mut meter: Meter) -> f64 {
    while let Some(rounds) = meter.next() {
        for _ in 0..rounds {
            let n = black_box(case.n);
            let got = match case.pattern {
                Pattern::Basic => basic::<W>(n).await,
                Pattern::Recurse => recurse::<W>(n).await,
                Pattern::Recurse2 => recurse2::<W>(n).await,
            };
            assert_eq!(got, case.answer());
        }
    }
    meter.ns()
}

async fn basic<W: Wait>(yields: u64) -> u64 {
    let mut waits = 0;
    for _ in 0..yields {
        waits += W::wait().await;
    }
    waits
}

type Boxed = Pin<Box<dyn Future<Output = u64> + Send>>;

fn recurse<W: Wait>(n: u64) -> Boxed {
    Box::pin(async move { if n == 0 { W::wait().await } else { n + recurse::<W>(n - 1).await } })
}

fn recurse2<W: Wait>(n: u64) -> Boxed {
    Box::pin(async move {
        let wait = W::wait().await;
        if n == 0 { wait } else { n + wait + recurse2::<W>(n - 1).await }
    })
}
