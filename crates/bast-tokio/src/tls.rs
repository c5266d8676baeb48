//! The crate's only thread-local: the contexts that are entered on this thread, by the fiber that runs on it.
//!
//! `inline(never)`, for the reason given in bast-rt's file of this name.

use std::cell::RefCell;

use crate::context::Slot;

thread_local! {
    static ENTERED: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

/// Calls a function with the contexts of this thread; `None` while the thread ends. The function calls
/// nothing that could come here again.
#[inline(never)]
pub(crate) fn entered<R>(f: impl FnOnce(&mut Vec<Slot>) -> R) -> Option<R> {
    ENTERED.try_with(|entered| f(&mut entered.borrow_mut())).ok()
}
