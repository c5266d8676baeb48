//! The switch on x86-64 (System V): a third of what a library's switch costs.
//!
//! What a switch costs is not its dozen instructions but the return predictor. The processor predicts
//! each `ret` from a stack of its own, which knows only calls. A switch that is entered by `call` and
//! left by `ret`, as in corosensei, leaves that stack out of step: the fiber's `ret` out of `yield_now`
//! meets the prediction of the scheduler's call, and the other way round, two misses of some 20 cycles
//! each. Here both directions are an indirect `jmp`, and the code around it is inlined into one site on
//! either side. Calls and returns of the scheduler then balance by themselves, and the fiber's
//! unreturned calls find the predictions that the fiber before it left, which are the same wherever
//! many fibers wait in the same place.
//!
//! Measured with `cargo run --release -p bast-rt --example micro`, a yield through the scheduler with
//! 1 / 100 / 10,000 fibers: by corosensei 26 / 30 / 46 ns, by this 6 / 8 / 18 ns.
//!
//! ```text
//!   link ─▶ sp of whoever does not run
//!
//!   swap(link):  push rbp, rbx, address of 2:      what the compiler cannot be told to save
//!                exchange rsp with *link
//!                pop rax, jmp rax                  the other side's 2:, or the trampoline
//!             2: pop rbx, rbp
//! ```
//!
//! All other registers are declared clobbered, so the compiler saves just what is live. MXCSR and the
//! x87 control word are left alone: they belong to the thread.
//!
//! Unwinding never crosses a switch: `start` is a function that cannot unwind, so the process aborts.
//! Backtraces end below it, at a return address of zero, as they do below a thread's first frame.

use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;

use super::{Entry, abort_dropped};
use crate::stack::Stack;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Started,
    Done,
}

/// What the code on a stack switches out with.
pub struct Suspender {
    /// The stack pointer of whoever does not run.
    other: Cell<*mut u8>,
    state: Cell<State>,
}

impl Suspender {
    /// Goes back to whoever resumed this context, and returns when it is resumed again.
    #[inline(always)]
    pub fn suspend(&self) {
        // SAFETY: this runs on the context's stack, so `other` is where `resume` left.
        unsafe { swap(self.other.as_ptr()) };
    }
}

impl fmt::Debug for Suspender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suspender").finish_non_exhaustive()
    }
}

/// A stack with code on it: not yet started, suspended, or returned.
///
/// The raw layer: no state is checked that the caller must know anyway. Use
/// [`Coroutine`](crate::Coroutine) where that matters more than the last nanosecond.
///
/// Dropping one that is suspended aborts the process (coro 1): its frames may be borrowed from,
/// and only the layer above can unwind them. Dropping one that has returned, or was never
/// resumed, loses the stack to its pool; use [`into_stack`](Context::into_stack).
pub struct Context {
    link: Suspender,
    stack: ManuallyDrop<Stack>,
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
        // SAFETY: the base is 64-byte aligned, and the stack is ours and empty.
        let sp = unsafe { init(stack.base().as_ptr(), entry, arg) };
        let link = Suspender { other: Cell::new(sp), state: Cell::new(State::New) };
        Context { link, stack: ManuallyDrop::new(stack) }
    }

    /// Runs the code until it suspends (`false`) or returns (`true`).
    ///
    /// Shared, as the code on the stack has a reference to the same context all the time.
    ///
    /// # Panics
    /// If it has returned already.
    #[inline(always)]
    pub fn resume(&self) -> bool {
        assert!(self.link.state.get() != State::Done, "a context that has returned was resumed");
        self.link.state.set(State::Started);
        // SAFETY: not done, so `other` was left by `init` or by a suspension; on its thread (`new`).
        unsafe { swap(self.link.other.as_ptr()) };
        self.link.state.get() == State::Done
    }

    /// Runs `f(arg)` on top of the suspended code, as if that had called it where it is suspended, and comes
    /// back. The code does not notice: nothing of it runs.
    ///
    /// # Safety
    /// It is suspended, and this is its thread (coro 2). `f` does not unwind, and does not suspend; on the
    /// stack there is room for it below [`stack_pointer`](Context::stack_pointer).
    pub unsafe fn visit(&self, f: unsafe fn(*mut ()), arg: *mut ()) {
        let visit = Visit { f, arg, link: &raw const self.link };
        let sp = self.link.other.get().cast::<usize>();
        // SAFETY: `swap` left three words there, and what is below is unused. The frames of the visit are
        // given up when it is over; they hold nothing.
        unsafe {
            // Where `2:` is, rbx, rbp.
            let kept = sp.cast::<[usize; 3]>().read();
            sp.add(2).write(kept[0]);
            sp.add(1).write(visitor as *const () as usize);
            sp.write((&raw const visit).expose_provenance());
            sp.sub(1).write(kept[2]);
            sp.sub(2).write(kept[1]);
            sp.sub(3).write(bast_coro_visit as *const () as usize);
            self.link.other.set(sp.sub(3).cast());
            swap(self.link.other.as_ptr());
            sp.cast::<[usize; 3]>().write(kept);
        }
        self.link.other.set(sp.cast());
    }

    /// Where the suspended code's stack ends. Only after its first resume.
    #[inline]
    pub fn stack_pointer(&self) -> *const u8 {
        self.link.other.get()
    }

    /// Whether it was resumed at least once.
    #[inline]
    pub fn started(&self) -> bool {
        self.link.state.get() != State::New
    }

    /// Whether the entry function has returned.
    #[inline]
    pub fn done(&self) -> bool {
        self.link.state.get() == State::Done
    }

    fn is_suspended(&self) -> bool {
        self.link.state.get() == State::Started
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
        assert!(!self.is_suspended(), "the stack of a suspended context cannot be taken");
        // SAFETY: the caller's promise: taken once.
        unsafe { ManuallyDrop::take(&mut self.stack) }
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
    /// that will be resumed soon.
    #[inline]
    pub fn stack_pointer_hint(&self) -> *const u8 {
        self.link.other.get()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.is_suspended() {
            abort_dropped();
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("started", &self.started())
            .field("done", &self.done())
            .finish_non_exhaustive()
    }
}

/// What runs first on a new stack.
unsafe extern "sysv64" fn start(link: *const Suspender, entry: *const (), arg: *mut ()) -> ! {
    // SAFETY: `init` wrote it.
    let entry = unsafe { std::mem::transmute::<*const (), Entry>(entry) };
    // SAFETY: the link stays where it is until the context is done (`Context::new`), and the entry
    // function gets the argument that came with it.
    unsafe {
        entry(&*link, arg);
        (*link).state.set(State::Done);
        swap((*link).other.as_ptr());
    }
    // A context that is done is not resumed.
    std::process::abort()
}

/// What [`Context::visit`] hands over.
struct Visit {
    f: unsafe fn(*mut ()),
    arg: *mut (),
    link: *const Suspender,
}

/// Runs on the stack of suspended code, with the address at which that is suspended as its return address,
/// so that a backtrace goes on there. It does not return, however, but switches back.
unsafe extern "sysv64" fn visitor(visit: *const Visit) -> ! {
    // SAFETY: lent by `visit`, which waits on the other side.
    unsafe {
        let Visit { f, arg, link } = &*visit;
        f(*arg);
        swap((**link).other.as_ptr());
    }
    // The link has been set back to where the code is suspended.
    std::process::abort()
}

// `visit` has left rbx, rbp, the argument and the function. At the end the stack is as behind a call from
// `2:`, for which the tables of the unwinder hold when the two registers are what they were.
global_asm!(
    ".pushsection .text.bast_coro_visit,\"ax\",@progbits",
    ".p2align 4",
    ".globl bast_coro_visit",
    ".hidden bast_coro_visit",
    ".type bast_coro_visit,@function",
    "bast_coro_visit:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    "pop rbx",
    "pop rbp",
    "pop rdi",
    "pop rax",
    "jmp rax",
    ".cfi_endproc",
    ".size bast_coro_visit, . - bast_coro_visit",
    ".popsection",
);

unsafe extern "sysv64" {
    fn bast_coro_visit();
}

// The link comes in rdi, from the `swap` that jumped here; `init` has left the rest.
global_asm!(
    ".pushsection .text.bast_coro_trampoline,\"ax\",@progbits",
    ".p2align 4",
    ".globl bast_coro_trampoline",
    ".hidden bast_coro_trampoline",
    ".type bast_coro_trampoline,@function",
    "bast_coro_trampoline:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    "mov rsi, [rsp]",
    "mov rdx, [rsp + 8]",
    "mov rax, [rsp + 16]",
    "add rsp, 24",
    "jmp rax",
    ".cfi_endproc",
    ".size bast_coro_trampoline, . - bast_coro_trampoline",
    ".popsection",
);

unsafe extern "sysv64" {
    fn bast_coro_trampoline();
}

/// Lays out a new stack below `base`, so that the first `swap` to the address returned runs
/// `start(link, entry, arg)`.
///
/// # Safety
/// `base` is 16-byte aligned, and the 40 bytes below it are the caller's.
#[inline(always)]
unsafe fn init(base: *mut u8, entry: Entry, arg: *mut ()) -> *mut u8 {
    let words = base.cast::<usize>();
    // SAFETY: the caller's promise.
    unsafe {
        // `start` finds what a call would have left: a return address (of nobody), 8 below a
        // multiple of 16. A jump and not a call, so that the return predictor learns of nothing that
        // never returns.
        words.sub(1).write(0);
        words.sub(2).write(start as *const () as usize);
        words.sub(3).write(arg as usize);
        words.sub(4).write(entry as usize);
        words.sub(5).write(bast_coro_trampoline as *const () as usize);
        words.sub(5).cast()
    }
}

/// Goes on where `*link` was left, leaving there where to come back to.
///
/// # Safety
/// `*link` was made by `init` or by a `swap` that has not been returned to, on this thread (coro 2).
#[inline(always)]
unsafe fn swap(link: *mut *mut u8) {
    // SAFETY: the caller's promise; rbx and rbp are restored, everything else is declared.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov rcx, [rdi]",
            "mov [rdi], rsp",
            "mov rsp, rcx",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            inout("rdi") link => _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}
