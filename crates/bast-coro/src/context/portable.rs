//! The switch by corosensei: for the architectures and sanitizers that `native` does not cover.

use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::ptr;
use std::ptr::NonNull;

#[cfg(windows)]
use corosensei::stack::StackTebFields;
use corosensei::stack::{Stack as RawStack, StackPointer};
use corosensei::{CoroutineResult, Yielder};

use super::fake_stack::{self, FakeStack};
use super::{Entry, abort_dropped};
#[cfg(windows)]
use crate::os;
use crate::stack::{LINE, Stack};

/// What a resume brings: nothing, or something to run on top of the suspended code.
type Input = Option<(unsafe fn(*mut ()), *mut ())>;

/// What a suspension says: the address of a variable in its innermost frame.
type Depth = *const u8;

/// What the code on a stack switches out with.
#[repr(transparent)]
pub struct Suspender {
    yielder: Yielder<Input, Depth>,
}

impl Suspender {
    /// Goes back to whoever resumed this context, and returns when it is resumed again.
    #[inline]
    pub fn suspend(&self) {
        let here = 0;
        while let Some((f, arg)) = self.yielder.suspend(std::hint::black_box(&raw const here)) {
            // SAFETY: the promise to `Context::visit`.
            unsafe { f(arg) };
        }
    }
}

impl std::fmt::Debug for Suspender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suspender").finish_non_exhaustive()
    }
}

/// Hides the foreign trait from the public type.
#[repr(transparent)]
struct Raw(ManuallyDrop<Stack>);

// SAFETY: base is 64-byte aligned and limit page-aligned; there is a guard at the low end
// (coro 3) and at least MIN_STACK_SIZE usable bytes.
unsafe impl RawStack for Raw {
    #[inline]
    fn base(&self) -> StackPointer {
        self.0.base().addr()
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        NonNull::new(self.0.slot()).map_or(self.0.base().addr(), NonNull::addr)
    }

    /// What the kernel is told of the stack while its code runs (see `os/windows.rs`).
    #[cfg(windows)]
    #[inline]
    fn teb_fields(&self) -> StackTebFields {
        let base = self.0.base().addr().get();
        StackTebFields {
            StackBase: base.next_multiple_of(self.0.header().page.get()),
            StackLimit: self.0.limit(),
            DeallocationStack: self.0.slot().addr(),
            GuaranteedStackBytes: os::GUARANTEE,
        }
    }

    /// What the kernel has made of it.
    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, _guaranteed: usize) {
        self.0.set_limit(stack_limit);
    }
}

/// What it returns is left to be destroyed.
type RawCoroutine = corosensei::Coroutine<Input, Depth, FakeStack, Raw>;

/// A stack with code on it: not yet started, suspended, or returned.
///
/// The raw layer: no state is checked that the caller must know anyway. Use
/// [`Coroutine`](crate::Coroutine) where that matters more than the last nanosecond.
///
/// Dropping one that is suspended aborts the process (coro 1): its frames may be borrowed from,
/// and only the layer above can unwind them. Dropping one that has returned, or was never
/// resumed, loses the stack to its pool; use [`into_stack`](Context::into_stack).
pub struct Context {
    coro: UnsafeCell<ManuallyDrop<RawCoroutine>>,
    /// The same stack again, since `coro` does not show its own.
    stack: ManuallyDrop<Stack>,
    depth: Cell<Depth>,
    taken: bool,
}

impl Context {
    /// Prepares `stack` to run `entry(suspender, arg)` at the first resume.
    ///
    /// # Safety
    /// * `arg` stays valid for `entry` until it has returned.
    /// * The context is resumed only on the thread that first resumed it (coro 2), and does not move
    ///   between its first resume and its end.
    /// * `entry` does not unwind: it catches. (If it unwinds all the same, the process aborts.)
    #[inline]
    pub unsafe fn new(stack: Stack, entry: Entry, arg: *mut ()) -> Context {
        let body = move |yielder: &Yielder<Input, Depth>, _: Input| {
            // SAFETY: Suspender is a transparent wrapper.
            let suspender = unsafe { &*ptr::from_ref(yielder).cast::<Suspender>() };
            let bomb = AbortOnUnwind;
            // SAFETY: the caller's promise.
            unsafe { entry(suspender, arg) };
            std::mem::forget(bomb);
            fake_stack::current()
        };
        // SAFETY: the same stack once more, in a holder that never lets it out.
        let raw = Raw(ManuallyDrop::new(unsafe { ptr::read(&stack) }));
        let coro = corosensei::Coroutine::with_stack(raw, body);
        Context {
            coro: UnsafeCell::new(ManuallyDrop::new(coro)),
            stack: ManuallyDrop::new(stack),
            depth: Cell::new(ptr::null()),
            taken: false,
        }
    }

    /// Runs the code until it suspends (`false`) or returns (`true`).
    ///
    /// # Panics
    /// If it has returned already.
    #[inline]
    pub fn resume(&self) -> bool {
        self.resume_with(None)
    }

    #[inline]
    fn resume_with(&self, input: Input) -> bool {
        // SAFETY: the code on the stack has no reference to the coroutine object, and a context is
        // not resumed by the code that it runs (it has not got it); one thread (coro 2).
        match unsafe { &mut *self.coro.get() }.resume(input) {
            CoroutineResult::Yield(depth) => {
                self.depth.set(depth);
                false
            }
            CoroutineResult::Return(dead) => {
                // SAFETY: that of the code that has returned: corosensei's too, and its result is read.
                unsafe { fake_stack::destroy(dead) };
                true
            }
        }
    }

    /// Runs `f(arg)` on top of the suspended code, as if that had called it where it is suspended, and comes
    /// back. The code does not notice: nothing of it runs.
    ///
    /// # Safety
    /// It is suspended, and this is its thread (coro 2). `f` does not unwind, and does not suspend; on the
    /// stack there is room for it below [`stack_pointer`](Context::stack_pointer).
    pub unsafe fn visit(&self, f: unsafe fn(*mut ()), arg: *mut ()) {
        self.resume_with(Some((f, arg)));
    }

    /// Where the suspended code's stack ends, but for what the switch itself keeps there. Only after its first
    /// resume. If the variables are elsewhere (AddressSanitizer), half of the stack is taken for used.
    #[inline]
    pub fn stack_pointer(&self) -> *const u8 {
        /// More than corosensei pushes.
        const SWITCH: usize = 512;
        let base = self.stack.base().as_ptr();
        let depth = self.depth.get().wrapping_sub(SWITCH);
        if (1..self.stack.usable_size()).contains(&base.addr().wrapping_sub(depth.addr())) {
            depth
        } else {
            base.wrapping_sub(self.stack.usable_size() / 2)
        }
    }

    fn coro(&self) -> &RawCoroutine {
        // SAFETY: exclusive only within `resume`, see there.
        unsafe { &*self.coro.get() }
    }

    /// Whether it was resumed at least once.
    #[inline]
    pub fn started(&self) -> bool {
        self.coro().started()
    }

    /// Whether the entry function has returned.
    #[inline]
    pub fn done(&self) -> bool {
        self.coro().done()
    }

    /// The stack, to be given back to its pool, once the entry function has returned or if it
    /// was never started.
    ///
    /// # Panics
    /// If the context is suspended. (The process aborts, in fact, as the context is dropped.)
    #[inline]
    pub fn into_stack(mut self) -> Stack {
        // SAFETY: once, as `self` goes.
        unsafe { self.reclaim() }
    }

    /// [`into_stack`](Context::into_stack) in place, for contexts that are part of something larger.
    ///
    /// # Safety
    /// At most once; the context can only be dropped or forgotten afterwards.
    ///
    /// # Panics
    /// If the context is suspended.
    #[inline]
    pub unsafe fn reclaim(&mut self) -> Stack {
        let unstarted = !self.coro().done();
        let limit = self.stack.limit();
        if unstarted {
            self.abandon_unstarted();
        }
        // SAFETY: taken once (the caller's promise); `drop` finds the context taken.
        let stack = unsafe {
            self.taken = true;
            ManuallyDrop::into_inner(ManuallyDrop::take(self.coro.get_mut()).into_stack().0)
        };
        if unstarted {
            // Then corosensei has read it where nobody has written it.
            stack.set_limit(limit);
        }
        stack
    }

    #[cold]
    fn abandon_unstarted(&mut self) {
        assert!(!self.coro().started(), "the stack of a suspended context cannot be taken");
        // SAFETY: never resumed, so there are no frames; the closure on the stack has no drop.
        unsafe { self.coro.get_mut().force_reset() };
    }

    /// Names the code, for the report of an overflow.
    ///
    /// # Safety
    /// As [`Stack::set_label`].
    #[inline]
    pub unsafe fn set_label(&self, name: *const u8, len: usize) {
        // SAFETY: passed on.
        unsafe { self.stack.set_label(name, len) };
    }

    /// How many bytes are left for code that runs at `sp`, an address on this stack.
    #[inline]
    pub fn room_below(&self, sp: *const u8) -> usize {
        self.stack.room_below(sp)
    }

    /// Usable bytes of the stack.
    #[inline]
    pub fn stack_size(&self) -> usize {
        self.stack.usable_size()
    }

    /// An address in the cache lines that the next resume reads first, for prefetching a context
    /// that will be resumed soon. The frames of a sleeping fiber begin there and go down.
    #[inline]
    pub fn stack_pointer_hint(&self) -> *const u8 {
        self.stack.base().as_ptr().wrapping_sub(LINE)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.taken && self.coro().started() && !self.coro().done() {
            abort_dropped();
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("stack", &*self.stack)
            .field("started", &self.started())
            .field("done", &self.done())
            .finish()
    }
}

struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("bast-coro: the entry function of a context has unwound; aborting");
        std::process::abort();
    }
}
