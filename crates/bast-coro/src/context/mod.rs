//! The switch: everything above sees [`Context`] and [`Suspender`], nobody sees how it is done.
//!
//! ```text
//!   caller's stack                     the context's stack
//!   ctx.resume() ────────────────────► entry(&suspender, arg)
//!        ◄── false ─────────────────── suspender.suspend()
//!   ctx.resume() ────────────────────►      … goes on …
//!        ◄── true ──────────────────── return
//!   ctx.reclaim()
//! ```
//!
//! There are two of the same interface: `native`, our own for x86-64 Linux and its relatives, and
//! `portable`, corosensei's, for everything else and for AddressSanitizer, which has to be told of each
//! switch. The entry function never unwinds and a suspended context is never dropped, so panics and
//! forced unwinding are the business of the layer above.

#[cfg(all(target_arch = "x86_64", unix, not(feature = "sanitizer")))]
mod native;
#[cfg(all(target_arch = "x86_64", unix, not(feature = "sanitizer")))]
pub use native::{Context, Suspender};

#[cfg(not(all(target_arch = "x86_64", unix, not(feature = "sanitizer"))))]
mod fake_stack;
#[cfg(not(all(target_arch = "x86_64", unix, not(feature = "sanitizer"))))]
mod portable;
#[cfg(not(all(target_arch = "x86_64", unix, not(feature = "sanitizer"))))]
pub use portable::{Context, Suspender};

/// What a context runs.
type Entry = unsafe fn(&Suspender, *mut ());

#[cold]
fn abort_dropped() -> ! {
    eprintln!("bast-coro: a suspended context was dropped (coro 1); aborting");
    std::process::abort();
}
