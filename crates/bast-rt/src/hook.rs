//! Switch hooks: state of the thread that is to belong to the fiber.
//!
//! ```text
//!   frames of a fiber that waits                          on the thread
//!   ────────────────────────────                          ─────────────────────────────
//!   … code that set the variable                          the fiber's state
//!     park ─▶ switch_out
//!       around(first hook):  saved = suspend()            ┐
//!         around(second):    saved = suspend()            │ the neutral state
//!           the switch ……………… other fibers run ………………      │
//!                            resume(saved)                │
//!                            resume(saved)                ┘
//!                                                         the fiber's state
//! ```
//!
//! Some code keeps a pointer or a stack of things in a thread-local from an entry to an exit: scoped
//! thread-locals, current spans, entered runtimes. Fibers that suspend in between would disturb each other there
//! (SOUNDNESS.md). A hook takes such a state off the thread when its fiber is suspended and puts it back
//! before it goes on. What is saved lies in the frames of the suspended fiber, so that a
//! switch allocates nothing; without hooks it costs one load.
//!
//! Hooks are process-wide, and none is ever taken away: a list whose links are set once. A fiber that is
//! suspended goes on through the very frames by which it was suspended, so it calls `resume` of just
//! those hooks that it had called `suspend` of.
//!
//! Ordering: the links are `OnceLock`s, which publish what they lead to. `ANY` only says that it is
//! worth looking (Relaxed): a worker that reads it late switches without the hook for so much longer.

use std::any::{Any, type_name};
use std::cell::Cell;
use std::fmt;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::LocalKey;

use crate::fiber::Header;
use crate::suspend;
use crate::worker::Worker;

/// Saves and restores a state of the thread, so that each fiber has its own.
///
/// The functions run on the worker's thread, on the stack of the fiber that is switched from or to. They must
/// not suspend: that ends the process with a message. If one panics, the panic is reported with the
/// hook's name, the hook is not called any more, by any fiber, and the fiber goes on.
///
/// ```
/// use std::cell::RefCell;
/// use bast_rt::hook::{self, SwitchHook};
///
/// thread_local! {
///     /// What some library works with: names of what is going on, innermost last.
///     static DOING: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
/// }
///
/// struct Doing;
///
/// impl SwitchHook for Doing {
///     type Saved = Vec<&'static str>;
///     fn suspend(&self) -> Self::Saved {
///         DOING.take()
///     }
///     fn resume(&self, saved: Self::Saved) {
///         DOING.set(saved);
///     }
/// }
///
/// hook::add(Doing);
/// let fiber = |name| bast_rt::spawn(move || {
///     DOING.with_borrow_mut(|doing| doing.push(name));
///     bast_rt::yield_now();
///     DOING.with_borrow_mut(|doing| doing.pop())
/// });
/// let (a, b) = (fiber("a"), fiber("b"));
/// assert_eq!((a.join().unwrap(), b.join().unwrap()), (Some("a"), Some("b")));
/// ```
pub trait SwitchHook: Send + Sync + 'static {
    /// The state of a fiber that is suspended. It lies on that fiber's stack.
    type Saved;

    /// Takes the state of the fiber that is about to be suspended, and leaves the neutral one, with which
    /// fibers begin. Also called when a fiber has ended, so that it leaves nothing behind; what it
    /// returns is dropped then.
    fn suspend(&self) -> Self::Saved;

    /// Puts the state back: the fiber goes on.
    fn resume(&self, saved: Self::Saved);

    /// For messages.
    fn name(&self) -> &'static str {
        type_name::<Self>()
    }
}

/// Adds a hook, for the fibers of all runtimes and until the process ends.
///
/// The place for this is the beginning of `main`. A hook that is added later works from each fiber's next
/// suspension on. What is in the variable on a worker then counts as the state of the fiber that is
/// suspended first: fibers that were suspended in the middle of a scope before have shared it up to there,
/// as without a hook.
pub fn add(hook: impl SwitchHook) {
    let name = hook.name();
    let node: &'static Node = Box::leak(Box::new(Node {
        hook: Box::new(Hook { hook, name, off: AtomicBool::new(false) }),
        next: OnceLock::new(),
    }));
    let mut place = &FIRST;
    // Somebody else's may come in between: then behind that one.
    while let Err(node) = place.set(node) {
        place = &place.get().unwrap_or(&node).next;
    }
    ANY.store(true, Relaxed);
}

/// A hook for the most common case: a `Cell` in a thread-local, with its neutral value.
///
/// ```
/// use std::cell::Cell;
///
/// thread_local! {
///     static CURRENT: Cell<*const u8> = const { Cell::new(std::ptr::null()) };
/// }
/// bast_rt::hook::add(bast_rt::hook::cell("CURRENT", &CURRENT, std::ptr::null));
/// ```
pub fn cell<T: 'static>(
    name: &'static str,
    variable: &'static LocalKey<Cell<T>>,
    neutral: fn() -> T,
) -> impl SwitchHook {
    struct OfCell<T: 'static> {
        name: &'static str,
        variable: &'static LocalKey<Cell<T>>,
        neutral: fn() -> T,
    }

    impl<T: 'static> SwitchHook for OfCell<T> {
        type Saved = T;

        fn suspend(&self) -> T {
            self.variable.replace((self.neutral)())
        }

        fn resume(&self, saved: T) {
            self.variable.set(saved);
        }

        fn name(&self) -> &'static str {
            self.name
        }
    }

    OfCell { name, variable, neutral }
}

static ANY: AtomicBool = AtomicBool::new(false);
static FIRST: OnceLock<&'static Node> = OnceLock::new();

struct Node {
    hook: Box<dyn Around>,
    next: OnceLock<&'static Node>,
}

struct Hook<H> {
    hook: H,
    name: &'static str,
    /// It has panicked.
    off: AtomicBool,
}

/// The fiber that is switched, and by what. Without a switch it has ended, and nothing is put back.
pub(crate) struct Change<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) header: &'a Header,
    pub(crate) switch: Option<fn(&Worker, &Header)>,
}

/// A hook, with the type of what it saves forgotten.
trait Around: Send + Sync {
    fn around(&self, rest: Option<&'static Node>, change: &Change<'_>);
}

impl<H: SwitchHook> Around for Hook<H> {
    fn around(&self, rest: Option<&'static Node>, change: &Change<'_>) {
        let saved = self.call(change, || self.hook.suspend());
        match (rest, change.switch) {
            (Some(node), _) => node.around(change),
            (None, Some(switch)) => switch(change.worker, change.header),
            (None, None) => {}
        }
        if let Some(saved) = saved {
            self.call(change, || match change.switch {
                Some(_) => self.hook.resume(saved),
                None => drop(saved),
            });
        }
    }
}

impl<H> Hook<H> {
    /// Calls a function of the user's, of whose panics nothing gets out: the frames further out wait, and
    /// lists lead to their locals.
    #[inline]
    fn call<R>(&self, change: &Change<'_>, f: impl FnOnce() -> R) -> Option<R> {
        let requests = &change.header.requests;
        let unwinding = requests.unwinding.get();
        change.worker.hook.set(Some(self.name));
        // Masked: a request that was raised in here would be lost.
        requests.masks.set(requests.masks.get() + 1);
        let off = self.off.load(Relaxed);
        // If it is off, what `f` has captured is dropped all the same: a state that was saved.
        let f = move || if off { None } else { Some(f()) };
        let result = catch_unwind(AssertUnwindSafe(f));
        requests.masks.set(requests.masks.get() - 1);
        requests.unwinding.set(unwinding);
        change.worker.hook.set(None);
        result.unwrap_or_else(|payload| self.switch_off(payload))
    }

    #[cold]
    fn switch_off<R>(&self, payload: Box<dyn Any + Send>) -> Option<R> {
        // Its destructor could panic again.
        std::mem::forget(payload);
        if !self.off.swap(true, Relaxed) {
            let name = self.name;
            say(format_args!("the switch hook '{name}' has panicked and is not called any more"));
        }
        None
    }
}

impl Node {
    fn around(&self, change: &Change<'_>) {
        self.hook.around(self.next.get().copied(), change);
    }
}

/// Writes a message, and does not panic if nobody can read it.
fn say(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "bast: {what}");
}

/// Whether there are hooks.
#[inline(always)]
pub(crate) fn any() -> bool {
    ANY.load(Relaxed)
}

/// Makes the change, whose switch does not unwind, between the two halves of all hooks.
#[cold]
pub(crate) fn around(change: &Change<'_>) {
    if let Some(name) = change.worker.hook.get() {
        // The fiber is half suspended already.
        say(format_args!("the switch hook '{name}' suspended its fiber, which a hook must not do"));
        std::process::abort();
    }
    if let Some(first) = FIRST.get() {
        first.around(change);
    }
}

/// The current fiber has ended: the thread goes back to the neutral state.
#[cold]
pub(crate) fn leave() {
    if let Some((worker, header)) = suspend::current() {
        around(&Change { worker, header, switch: None });
    }
}
