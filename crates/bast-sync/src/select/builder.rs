//! Sets of events whose size is known at run time only.

use std::fmt;
use std::time::Duration;

use bast_rt::Instant;

use super::arm::{Arm, Event};
use super::wait::{Arms, choose, choose_now};

/// An arm with its handler.
trait Choice<T>: Arm {
    fn run(self: Box<Self>) -> T;
}

impl<E: Event> Choice<E::Output> for E {
    fn run(self: Box<Self>) -> E::Output {
        (*self).finish()
    }
}

/// A set of events, of any size, each with what is to be done if it is chosen. Costs an allocation for each.
///
/// ```
/// use bast_sync::mpsc;
/// use bast_sync::select::{Select, recv};
///
/// let channels: Vec<_> = (0..10).map(|_| mpsc::channel()).collect();
/// channels[7].0.send("seven").unwrap();
/// let mut select = Select::new();
/// for (index, (_, rx)) in channels.iter().enumerate() {
///     select = select.on(recv(rx), move |message| (index, message.unwrap()));
/// }
/// assert_eq!(select.wait(), (7, "seven"));
/// ```
pub struct Select<'a, T> {
    arms: Vec<Box<dyn Choice<T> + 'a>>,
}

impl<T> Arms for [Box<dyn Choice<T> + '_>] {
    fn count(&self) -> usize {
        self.len()
    }

    fn arm(&self, at: usize) -> &dyn Arm {
        &*self[at]
    }
}

impl<'a, T> Select<'a, T> {
    /// An empty set.
    #[must_use]
    pub fn new() -> Select<'a, T> {
        Select { arms: Vec::new() }
    }

    /// Adds an event. If it is chosen, `handler` gets what it yields; its result is that of the select.
    #[must_use]
    pub fn on<E>(mut self, event: E, handler: impl FnOnce(E::Output) -> T + 'a) -> Select<'a, T>
    where
        E: Event + 'a,
    {
        self.arms.push(Box::new(event.map(handler)));
        self
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.arms.len()
    }

    /// Whether there is no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.arms.is_empty()
    }

    /// Waits for the first event that completes, and runs its handler after the others have been dropped.
    ///
    /// # Panics
    /// If the set is empty, as that would wait for ever. With the panic of the handler.
    pub fn wait(self) -> T {
        let chosen = choose(&self.arms[..], || None);
        self.run(chosen).expect("without a deadline an arm is chosen")
    }

    /// Runs the handler of an event that can complete now; `None` if there is none.
    ///
    /// # Panics
    /// With the panic of the handler.
    pub fn try_wait(self) -> Option<T> {
        let chosen = choose_now(&self.arms[..]);
        self.run(chosen)
    }

    /// As [`wait`](Select::wait), for `timeout` at most; then `None`.
    ///
    /// # Panics
    /// With the panic of the handler. If the set is empty and the timeout reaches beyond the clock's range.
    pub fn wait_timeout(self, timeout: Duration) -> Option<T> {
        let chosen = choose(&self.arms[..], || Instant::now().checked_add(timeout));
        self.run(chosen)
    }

    /// As [`wait`](Select::wait), until `deadline` at the latest; then `None`.
    ///
    /// # Panics
    /// With the panic of the handler.
    pub fn wait_deadline(self, deadline: Instant) -> Option<T> {
        let chosen = choose(&self.arms[..], || Some(deadline));
        self.run(chosen)
    }

    fn run(mut self, chosen: Option<usize>) -> Option<T> {
        let arm = self.arms.swap_remove(chosen?);
        // What the others hold goes before the handler runs.
        drop(self);
        Some(arm.run())
    }
}

impl<T> Default for Select<'_, T> {
    fn default() -> Self {
        Select::new()
    }
}

impl<T> fmt::Debug for Select<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("len", &self.len()).finish_non_exhaustive()
    }
}
