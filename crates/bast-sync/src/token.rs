//! Cancel tokens: a handle with which others end what one part of a program does.
//!
//! ```text
//!   CancelToken ──▶ Node { breaker, family } ◀──── Node (child) ◀──── Node (grandchild)
//!                            └ children: weak references, by place
//! ```
//!
//! A child keeps its parent, and the parent knows its children; a child that goes gives its place back, so
//! that a long-lived parent has only as many places as it ever had children at once. `cancel` goes down
//! the tree with a list of its own and holds one lock at a time, so neither depth nor order matters.
//!
//! Under a family's lock: `closed` says that the children have been taken to be cancelled. A child that is
//! born later is born cancelled, and one that waits in `cancelled` is in the list before, or sees it.
//! The breaker is set before `closed` is, so nobody who sees `closed` finds the token not cancelled.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Weak};

use bast_rt::wait::Reason;
use bast_rt::{Cancelled, JoinHandle, spawn};

use crate::breaker::Breaker;
use crate::list::{List, wait_in};
use crate::lock::Lock;

/// Ends what runs under it, wherever that waits. Clones are the same token.
///
/// Of tokio's `CancellationToken` it has the names; but where there a future is dropped, here the
/// suspension point that a fiber is at unwinds, as [`timeout`](bast_rt::timeout) does it: up to
/// [`run`](CancelToken::run), no further.
///
/// What inherits a token's cancellation is what ends before `run` does: groups, `race`, `par_map` and the
/// like that are called inside cancel their fibers, wait for them and unwind. Fibers that were started
/// inside with plain [`spawn`](bast_rt::spawn) are on their own, as everywhere; for those there is
/// [`CancelToken::spawn`]. A [`scope`](bast_rt::scope), having std's semantics, waits for its fibers.
///
/// ```
/// use bast_sync::CancelToken;
/// use std::time::Duration;
///
/// let token = CancelToken::new();
/// let forever = token.spawn(|| bast_rt::sleep(Duration::MAX));
/// token.cancel();
/// assert!(forever.join().unwrap().is_err());
/// assert!(token.run(|| 5).is_err());
/// ```
#[derive(Clone)]
pub struct CancelToken {
    node: Arc<Node>,
}

struct Node {
    breaker: Breaker,
    family: Lock<Family>,
    parent: Option<Parent>,
}

struct Parent {
    node: Arc<Node>,
    place: usize,
}

/// See the head of this file.
pub(crate) struct Family {
    closed: bool,
    children: Vec<Option<Weak<Node>>>,
    free: Vec<usize>,
    /// Who waits in `cancelled`.
    pub(crate) waiters: List,
}

impl Node {
    fn new(parent: Option<Parent>) -> Node {
        let waiters = List::new();
        let family = Family { closed: false, children: Vec::new(), free: Vec::new(), waiters };
        Node { breaker: Breaker::new(), family: Lock::new(family), parent }
    }

    /// Cancels this one, and returns its children.
    fn cancel(&self) -> Vec<Option<Weak<Node>>> {
        self.breaker.trip();
        let mut family = self.family.lock();
        family.closed = true;
        let children = std::mem::take(&mut family.children);
        drop(family);
        loop {
            let woken = self.family.lock().waiters.grant(|_| ());
            if woken.is_none() {
                return children;
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A loop, as a chain of tokens may be longer than a stack is deep.
        let mut above = self.parent.take();
        while let Some(Parent { node, place }) = above {
            let mut family = node.family.lock();
            if !family.closed {
                family.children[place] = None;
                family.free.push(place);
            }
            drop(family);
            above = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> CancelToken {
        CancelToken { node: Arc::new(Node::new(None)) }
    }

    /// A token that is cancelled with this one, and can be cancelled without it. The child of a token that is
    /// cancelled is so as well.
    #[must_use]
    pub fn child_token(&self) -> CancelToken {
        let parent = Parent { node: Arc::clone(&self.node), place: 0 };
        let mut child = Arc::new(Node::new(Some(parent)));
        let mut family = self.node.family.lock();
        if family.closed {
            drop(family);
            let cancelled = CancelToken::new();
            cancelled.cancel();
            return cancelled;
        }
        let place = family.free.pop().unwrap_or_else(|| {
            family.children.push(None);
            family.children.len() - 1
        });
        if let Some(parent) = Arc::get_mut(&mut child).and_then(|node| node.parent.as_mut()) {
            parent.place = place;
        }
        family.children[place] = Some(Arc::downgrade(&child));
        drop(family);
        CancelToken { node: child }
    }

    /// Cancels the token and its children: whoever is in their [`run`](CancelToken::run) unwinds to there from the
    /// suspension point that it is at, or comes to next. Returns without waiting for that. Does nothing
    /// the second time. Can be called from everywhere, also from inside `run`.
    pub fn cancel(&self) {
        let mut todo = self.node.cancel();
        while let Some(child) = todo.pop() {
            if let Some(child) = child.and_then(|child| child.upgrade()) {
                todo.append(&mut child.cancel());
            }
        }
    }

    /// Whether it has been cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.node.breaker.is_tripped()
    }

    /// Runs `f`, and when the token is cancelled meanwhile the suspension point inside `f` unwinds to here. Works
    /// around anything that suspends.
    ///
    /// The kernel operation in flight has ended when this returns. What `f` computes without suspending is
    /// not interrupted, and if it returns without having been, its result counts. Inside
    /// [`mask`](bast_rt::mask), and in destructors while the fiber unwinds, nothing is interrupted.
    /// On a plain thread bast's own functions are interrupted, and nothing else.
    ///
    /// With `panic = "abort"` nothing unwinds: I/O inside `f` fails from then on, `sleep` returns early, and
    /// what `f` returns counts.
    ///
    /// # Errors
    /// [`Cancelled`] if the token was cancelled before, and then `f` is not called; or if `f` was interrupted
    /// because of this very token, or of one that it is a child of.
    ///
    /// # Cancellation
    /// A request to cancel the fiber, and timeouts and tokens further out, pass through.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> Result<T, Cancelled> {
        self.node.breaker.run(f).ok_or_else(Cancelled::new)
    }

    /// Starts a fiber that runs `f` in [`run`](CancelToken::run). If the token is cancelled before the fiber has begun,
    /// `f` is not called.
    ///
    /// # Panics
    /// As [`spawn`](bast_rt::spawn).
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<Result<T, Cancelled>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let token = self.clone();
        spawn(move || token.run(f))
    }

    /// Waits until the token is cancelled.
    ///
    /// # Cancellation
    /// A suspension point. Inside this token's own `run` it unwinds, or returns.
    pub fn cancelled(&self) {
        let family = self.node.family.lock();
        if family.closed {
            return;
        }
        let reason = Reason::new("CancelToken::cancelled", &*self.node);
        wait_in(
            &self.node.family,
            family,
            |family| &mut family.waiters,
            std::ptr::null_mut(),
            &reason,
            None,
        )
        .unless_interrupted();
    }

    pub(crate) fn family(&self) -> &Lock<Family> {
        &self.node.family
    }

    /// A guard that cancels the token when it is dropped.
    #[must_use = "dropping it cancels the token"]
    pub fn drop_guard(self) -> DropGuard {
        DropGuard { token: Some(self) }
    }
}

// Its state is whole whenever its locks are free, and no code of others runs inside them.
impl UnwindSafe for CancelToken {}
impl RefUnwindSafe for CancelToken {}

impl Default for CancelToken {
    fn default() -> CancelToken {
        CancelToken::new()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.node.family.lock().children.len();
        f.debug_struct("CancelToken")
            .field("is_cancelled", &self.is_cancelled())
            .field("places", &places)
            .finish_non_exhaustive()
    }
}

/// Cancels its token when it is dropped, by unwinding as well. Made by [`CancelToken::drop_guard`].
#[derive(Debug)]
pub struct DropGuard {
    token: Option<CancelToken>,
}

impl DropGuard {
    /// Gives the token back, not cancelled.
    #[must_use]
    pub fn disarm(mut self) -> CancelToken {
        self.token.take().unwrap_or_default()
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        if let Some(token) = &self.token {
            token.cancel();
        }
    }
}
