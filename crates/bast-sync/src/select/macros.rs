//! The macro for fixed sets.
//!
//! The arms are taken one by one. Each step of the recursion binds its event to a variable `event`; each
//! of these is another variable, as it comes from another expansion. At the end all are in scope, with their
//! patterns and bodies, and the chosen one is matched. `match` instead of `let`, so that temporaries in the
//! event expressions live as long as the events.

use super::arm::Arm;
use super::wait::{choose, choose_now};

/// The macro's way in. The borrows are exclusive because an arm may be in one set only, and once.
///
/// ```compile_fail,E0499
/// let (_tx, rx) = bast_sync::mpsc::channel::<u8>();
/// let mut event = bast_sync::select::recv(&rx);
/// bast_sync::select::wait(&mut [&mut event, &mut event]);
/// ```
#[doc(hidden)]
#[inline]
pub fn wait(arms: &mut [&mut dyn Arm]) -> usize {
    choose(&*arms, || None).expect("without a deadline an arm is chosen")
}

/// The macro's way in, with a `default`.
#[doc(hidden)]
#[inline]
pub fn now(arms: &mut [&mut dyn Arm]) -> Option<usize> {
    choose_now(&*arms)
}

/// Waits for the first of several [events](mod@crate::select).
///
/// ```text
/// select! {
///     pattern = event => body,
///     …
///     default => body,        // optional: if no event can complete now
/// }
/// ```
///
/// The events are evaluated once, in order. If several can complete, each is chosen about equally often. The chosen one's
/// output is bound to its pattern, which must be irrefutable, and its body is the value of the whole. The body runs in
/// place, when the select is over: `break`, `continue`, `return` and `?` in it mean what they mean around it.
/// The other events have had no effect; they are dropped after the body.
///
/// ```
/// use std::time::Duration;
/// use bast_sync::mpsc;
/// use bast_sync::select::{after, join, recv, send};
///
/// let (numbers, rx) = mpsc::channel();
/// let (tx, results) = mpsc::sync_channel(1);
/// let mut worker = bast_rt::spawn(move || {
///     loop {
///         let n: u32 = bast_sync::select! {
///             n = recv(&rx) => match n {
///                 Ok(n) => n,
///                 Err(_) => break,
///             },
///             _ = after(Duration::from_secs(60)) => continue,
///         };
///         bast_sync::select! {
///             sent = send(&tx, n * n) => sent.unwrap(),
///         }
///     }
/// });
/// numbers.send(12).unwrap();
/// assert_eq!(results.recv(), Ok(144));
/// drop(numbers);
/// bast_sync::select! {
///     ended = join(&mut worker) => ended.unwrap(),
/// }
/// ```
#[macro_export]
macro_rules! select {
    // The last arm's comma may be left out; so may one after a block.
    (@arms [$($arms:tt)*] default => $body:expr $(,)?) => {
        $crate::select!(@now [$($arms)*] $body)
    };
    (@arms [$($arms:tt)*] $pattern:pat = $event:expr => $body:block, $($rest:tt)*) => {
        match $event { mut event => $crate::select!(@arms [$($arms)* (event, $pattern, $body)] $($rest)*) }
    };
    (@arms [$($arms:tt)*] $pattern:pat = $event:expr => $body:block $($rest:tt)*) => {
        match $event { mut event => $crate::select!(@arms [$($arms)* (event, $pattern, $body)] $($rest)*) }
    };
    (@arms [$($arms:tt)*] $pattern:pat = $event:expr => $body:expr, $($rest:tt)*) => {
        match $event { mut event => $crate::select!(@arms [$($arms)* (event, $pattern, $body)] $($rest)*) }
    };
    (@arms [$($arms:tt)*] $pattern:pat = $event:expr => $body:expr) => {
        match $event { mut event => $crate::select!(@arms [$($arms)* (event, $pattern, $body)]) }
    };
    (@arms [$(($event:ident, $pattern:pat, $body:expr))+]) => {{
        let chosen = $crate::select::wait(&mut [$(&mut $event),+]);
        $crate::select!(@match chosen [$(($event, $pattern, $body))+])
    }};
    (@now [] $default:expr) => { $default };
    (@now [$(($event:ident, $pattern:pat, $body:expr))+] $default:expr) => {
        match $crate::select::now(&mut [$(&mut $event),+]) {
            ::core::option::Option::Some(chosen) => {
                $crate::select!(@match chosen [$(($event, $pattern, $body))+])
            }
            ::core::option::Option::None => $default,
        }
    };
    (@match $chosen:ident [($event:ident, $pattern:pat, $body:expr)]) => {{
        ::core::debug_assert!($chosen == 0);
        match $crate::select::Event::finish($event) { $pattern => $body }
    }};
    (@match $chosen:ident [($event:ident, $pattern:pat, $body:expr) $($rest:tt)+]) => {
        if $chosen == 0 {
            match $crate::select::Event::finish($event) { $pattern => $body }
        } else {
            let chosen = $chosen - 1;
            $crate::select!(@match chosen [$($rest)+])
        }
    };
    () => { ::core::compile_error!("a select with no events would wait for ever") };
    ($($arms:tt)+) => { $crate::select!(@arms [] $($arms)+) };
}
