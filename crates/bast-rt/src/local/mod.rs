//! Fiber locals: what `thread_local!` is to threads.
//!
//! ```text
//!   static KEY: LocalKey<T>       Header.locals (or the thread's, in tls)
//!     slot ── 3                     └─▶ Store
//!     init: fn() -> T                     by number: [·, ·, ·, ▪, …]
//!     ops: drop, copy                                         │
//!                                                             └─▶ Value<T>, in a box of its own
//! ```
//!
//! A key takes a number when it is used for the first time, and the number leads to the value by two
//! loads. A fiber that uses no key has a null pointer in its header, and that is all. Values are boxed
//! one by one: a reference given to a closure of `with` may be held across suspensions, in which the
//! table can grow.
//!
//! Why that is sound when the initializer suspends, which for a `thread_local!` is not: only code on
//! the fiber's own stack can reach its locals, whoever else runs meanwhile. And a value that is there is
//! never replaced or dropped before the end of the fiber's last frame: of two that a recursive
//! initializer makes the first one stays.
//!
//! Ordering: the number is only a name (Relaxed). Values are used by one thread; those that a child
//! inherits are handed over with the child, by the queue that it is started from.

mod store;

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::suspend;
use crate::task;
use crate::tls;
use crate::worker::Worker;

pub(crate) use store::{Inherited, Locals};
use store::{Ops, Value};

/// Same as [`std::thread_local!`], with one value for each fiber.
///
/// A plain thread has its own values, as with `thread_local!`.
///
/// ```
/// use std::cell::Cell;
///
/// bast_rt::fiber_local! {
///     static STEPS: Cell<u32> = const { Cell::new(0) };
///     /// What the children of a fiber are to know as well.
///     pub inherit static REQUEST: Option<u64> = None;
/// }
///
/// let fibers: Vec<_> = (1..=3).map(|n| bast_rt::spawn(move || {
///     for _ in 0..n {
///         STEPS.set(STEPS.get() + 1);
///         bast_rt::yield_now(); // the others count their own
///     }
///     STEPS.get()
/// })).collect();
/// let counts: Vec<_> = fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect();
/// assert_eq!(counts, [1, 2, 3]);
/// ```
///
/// # Differences from std
/// * With `inherit` in front of `static`, a fiber begins with a clone of the value that its spawner had at that
///   moment, if the spawner, a fiber or a thread, had one: by whichever function it is spawned, on
///   whichever runtime. The type is `Clone + Send` then. The clone is made by the spawner, before
///   the spawning function returns; a panic in `clone` is the spawner's, and then no fiber is started.
/// * The initializer may suspend. (In a `thread_local!` it must not: see SOUNDNESS.md.)
/// * If the initializer uses its own key and comes to an end all the same, the first value stays, not the last.
/// * Values are dropped in the reverse order of their initialization, on the fiber's own stack, after
///   its closure has returned or unwound and before `join` returns; their destructors may suspend. As in
///   std, one that uses another key gets that value, or makes it, or finds it destroyed; values
///   without a destructor can be used until the end. A panic in a destructor is printed, and goes no
///   further. A request to cancel the fiber comes too late then: destructors that wait do so to the end.
/// * What a fiber that never ran has inherited is dropped by whoever lets go of it.
/// * As with std's scopes and their threads, [`scope`](crate::scope) does not wait for the destructors, unless
///   the child is joined.
#[macro_export]
macro_rules! fiber_local {
    () => {};
    ($(#[$meta:meta])* $vis:vis inherit static $name:ident: $t:ty = const $init:block $(; $($rest:tt)*)?) => {
        $(#[$meta])* $vis static $name: $crate::LocalKey<$t> =
            $crate::LocalKey::__inherited(|| const { $init });
        $($crate::fiber_local! { $($rest)* })?
    };
    ($(#[$meta:meta])* $vis:vis inherit static $name:ident: $t:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$meta])* $vis static $name: $crate::LocalKey<$t> =
            $crate::LocalKey::__inherited(|| $init);
        $($crate::fiber_local! { $($rest)* })?
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident: $t:ty = const $init:block $(; $($rest:tt)*)?) => {
        $(#[$meta])* $vis static $name: $crate::LocalKey<$t> =
            $crate::LocalKey::__new(|| const { $init });
        $($crate::fiber_local! { $($rest)* })?
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident: $t:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$meta])* $vis static $name: $crate::LocalKey<$t> =
            $crate::LocalKey::__new(|| $init);
        $($crate::fiber_local! { $($rest)* })?
    };
}

/// Same as [`std::thread::LocalKey`], for a variable of [`fiber_local!`](crate::fiber_local).
pub struct LocalKey<T: 'static> {
    /// 0: none yet.
    slot: AtomicU32,
    init: fn() -> T,
    ops: &'static Ops,
}

/// Same as [`std::thread::AccessError`].
#[non_exhaustive]
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct AccessError {
    in_task: bool,
}

impl fmt::Debug for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessError").finish()
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.in_task {
            true => {
                "a task has no fiber-local variables, only a fiber (bast::spawn) and a thread do"
            }
            false => "already destroyed",
        })
    }
}

impl Error for AccessError {}

#[cold]
#[track_caller]
fn gone(error: AccessError) -> ! {
    if error.in_task {
        panic!("cannot access a fiber-local value: {error}");
    }
    panic!("cannot access a fiber-local value during or after its destruction: {error:?}")
}

/// The locals of the calling fiber, or thread. A task has none: they would be its worker's.
#[inline]
fn mine<'a>() -> Result<&'a Locals, AccessError> {
    match suspend::current() {
        Some((_, header)) => Ok(&header.locals),
        None if task::is_polling() => Err(AccessError { in_task: true }),
        None => Ok(tls::locals()),
    }
}

/// What a fiber that is spawned here begins with. `worker` is the caller's, if it is known.
///
/// # Panics
/// With the panic of a `clone`.
#[inline]
pub(crate) fn inherit(worker: Option<&Worker>) -> Option<Inherited> {
    if let Some(worker) = worker
        && let Some(header) = worker.current()
    {
        // SAFETY: the current fiber outlives the call.
        let locals = unsafe { &header.as_ref().locals };
        return if locals.is_empty() { None } else { locals.copy() };
    }
    mine().ok()?.copy()
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn __new(init: fn() -> T) -> LocalKey<T> {
        LocalKey { slot: AtomicU32::new(0), init, ops: const { &Ops::of::<T>() } }
    }

    #[doc(hidden)]
    pub const fn __inherited(init: fn() -> T) -> LocalKey<T>
    where
        T: Clone + Send,
    {
        LocalKey { slot: AtomicU32::new(0), init, ops: const { &Ops::copying::<T>() } }
    }

    /// The value, made by `init` if there is none.
    #[inline]
    fn get_or<'a>(&'static self, init: impl FnOnce() -> T) -> Result<&'a T, AccessError> {
        let locals = mine()?;
        let value = match locals.find(self.slot.load(Relaxed)) {
            Some(value) => value,
            None => self.make(locals, init)?,
        };
        // SAFETY: the number is this key's alone, so the value was put there by `make` or by a copy of it:
        // it is a `Value<T>`. It stays until the fiber or thread has ended, which the caller, one of
        // their frames, does not outlive.
        Ok(unsafe { Value::get(value) })
    }

    #[cold]
    fn make(
        &'static self,
        locals: &Locals,
        init: impl FnOnce() -> T,
    ) -> Result<store::Link, AccessError> {
        let slot = self.number();
        if locals.is_gone(slot) {
            return Err(AccessError { in_task: false });
        }
        let value = init();
        locals.put(slot, Value::boxed(self.ops, value))
    }

    #[cold]
    fn number(&self) -> u32 {
        static LAST: AtomicU32 = AtomicU32::new(0);
        if self.slot.load(Relaxed) == 0 {
            let fresh = LAST.fetch_add(1, Relaxed) + 1;
            // If another thread was first, a number is wasted.
            let _ = self.slot.compare_exchange(0, fresh, Relaxed, Relaxed);
        }
        self.slot.load(Relaxed)
    }

    /// Same as [`std::thread::LocalKey::with`]. `f` may suspend.
    ///
    /// # Panics
    /// If the value has been destroyed; with the panics of the initializer and of `f`.
    #[inline]
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.get_or(self.init) {
            Ok(value) => f(value),
            Err(error) => gone(error),
        }
    }

    /// Same as [`std::thread::LocalKey::try_with`].
    ///
    /// # Errors
    /// If the value has been destroyed.
    ///
    /// # Panics
    /// With the panics of the initializer and of `f`.
    #[inline]
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        self.get_or(self.init).map(f)
    }
}

impl<T: 'static> LocalKey<Cell<T>> {
    /// Same as [`std::thread::LocalKey::set`]: does not run the initializer.
    ///
    /// # Panics
    /// If the value has been destroyed.
    #[track_caller]
    pub fn set(&'static self, value: T) {
        let mut value = Some(value);
        match self.get_or(|| Cell::new(value.take().expect("called once"))) {
            Ok(cell) => drop(value.map(|value| cell.replace(value))),
            Err(error) => gone(error),
        }
    }

    /// Same as [`std::thread::LocalKey::get`].
    ///
    /// # Panics
    /// If the value has been destroyed.
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Same as [`std::thread::LocalKey::take`].
    ///
    /// # Panics
    /// If the value has been destroyed.
    #[track_caller]
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// Same as [`std::thread::LocalKey::replace`].
    ///
    /// # Panics
    /// If the value has been destroyed.
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> LocalKey<RefCell<T>> {
    /// Same as [`std::thread::LocalKey::with_borrow`].
    ///
    /// # Panics
    /// If the value is mutably borrowed, or has been destroyed.
    #[track_caller]
    pub fn with_borrow<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| f(&cell.borrow()))
    }

    /// Same as [`std::thread::LocalKey::with_borrow_mut`].
    ///
    /// # Panics
    /// If the value is borrowed, or has been destroyed.
    #[track_caller]
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }

    /// Same as [`std::thread::LocalKey::set`]: does not run the initializer.
    ///
    /// # Panics
    /// If the value is borrowed, or has been destroyed.
    #[track_caller]
    pub fn set(&'static self, value: T) {
        let mut value = Some(value);
        match self.get_or(|| RefCell::new(value.take().expect("called once"))) {
            Ok(cell) => drop(value.map(|value| cell.replace(value))),
            Err(error) => gone(error),
        }
    }

    /// Same as [`std::thread::LocalKey::take`].
    ///
    /// # Panics
    /// If the value is borrowed, or has been destroyed.
    #[track_caller]
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(RefCell::take)
    }

    /// Same as [`std::thread::LocalKey::replace`].
    ///
    /// # Panics
    /// If the value is borrowed, or has been destroyed.
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}
