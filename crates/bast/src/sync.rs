//! The names of [`std::sync`], for fibers, plain threads and any mix of them; and what Go, Haskell and
//! tokio have beyond it.

#[doc(no_inline)]
pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};

#[doc(inline)]
pub use bast_sync::{mpmc, mpsc};
