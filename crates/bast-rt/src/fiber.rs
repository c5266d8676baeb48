//! A fiber's record: what is known of it outside its stack.
//!
//! One allocation holds the header, and behind it the closure before the fiber has run and the result
//! after it has ended. The stack comes at the first run, on the worker that runs it, so a fiber that
//! waits for its turn costs its closure, a batch that runs to completion uses one hot stack over and
//! over, and a stack never leaves the worker that it belongs to.
//!
//! ```text
//!   New ──start──▶ Running ──park──▶ Parked ──wake──▶ Ready ──▶ Running … ──▶ Ended
//! ```
//!
//! The fields fall in three groups, and that is the whole locking discipline:
//! * `lifecycle`, `remote`, `home`, `inbox_link`: shared between threads, by the protocols of their
//!   modules.
//! * `vtable`, `id`, `meta`: constant.
//! * everything in `Cell`s: the home worker's alone once the fiber has a home, the creator's before
//!   (a fiber that has not run is in one queue only, and taking it from there hands it over).

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release};
use std::task::Waker;
use std::thread;

use bast_coro::{Context, Stack, Suspender};
use bast_io::Record;

use crate::cancel::{self, Cancelled, Requests};
use crate::hook;
use crate::inbox::Node;
use crate::interrupt;
use crate::lifecycle::{Finish, Lifecycle};
use crate::local::Locals;
use crate::parker::Waiter;
use crate::post::Post;
use crate::records;
use crate::remote::Remote;
use crate::runtime::id_block;
use crate::tls;
use crate::wait::Reason;
use crate::worker::Worker;

/// Where a fiber is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// In no worker's ready queue, never run.
    New,
    /// In its worker's ready queue.
    Ready,
    /// On the processor.
    Running,
    /// Waiting for a wake.
    Parked,
    /// Its code has returned or unwound.
    Ended,
}

/// What most fibers do without.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    pub(crate) name: Option<Box<str>>,
    pub(crate) stack_size: Option<usize>,
}

/// The part of the record that does not depend on the closure.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) home: AtomicPtr<Post>,
    inbox_link: UnsafeCell<*mut Header>,
    pub(crate) remote: Remote,

    pub(crate) state: Cell<State>,
    pub(crate) started: Cell<bool>,
    /// The user's unpark token.
    pub(crate) token: Cell<bool>,
    /// The future that it waits for wants to be polled, and whether it waits for one (module `block_on`).
    pub(crate) notified: Cell<bool>,
    pub(crate) polling: Cell<bool>,
    /// Since when it has been parked, in ticks of the worker's coarse clock.
    pub(crate) since: Cell<u32>,
    pub(crate) requests: Requests,

    /// Initialised by the start.
    pub(crate) context: UnsafeCell<MaybeUninit<Context>>,
    pub(crate) suspender: Cell<*const Suspender>,
    /// The operation that the fiber waits for; the worker clears it at the completion.
    pub(crate) blocked_on: Cell<Option<NonNull<Record>>>,
    /// What it waits for, if that is no operation; on its stack.
    pub(crate) waiting: Cell<*const Reason<'static>>,
    /// The home worker's list of started fibers.
    pub(crate) next: Cell<*const Header>,
    pub(crate) prev: Cell<*const Header>,
    /// Its `fiber_local!` variables.
    pub(crate) locals: Locals,

    /// Who joins (see `lifecycle` for whose cell it is when).
    pub(crate) joiner: UnsafeCell<Option<Joiner>>,
    vtable: &'static VTable,
    pub(crate) id: u64,
    pub(crate) meta: Option<Box<Meta>>,
    /// Where it was spawned.
    pub(crate) site: &'static Location<'static>,
}

/// Who joins. Borrowed: it stays until DONE, or until it has been unregistered.
#[derive(Clone, Copy)]
pub(crate) enum Joiner {
    /// A fiber or a thread that waits.
    Waiting(Waiter),
    /// Whoever has polled the handle.
    Polling(NonNull<Waker>),
}

struct VTable {
    /// What the fiber's stack runs first: the closure, whose result it stores.
    run: unsafe fn(&Suspender, *mut ()),
    /// Drops the closure unrun and stores `Err(payload)`.
    abort: unsafe fn(NonNull<Header>, Box<dyn Any + Send>),
    /// Moves the result to the address given, and gives up the joiner's reference.
    take: unsafe fn(NonNull<Header>, *mut ()),
    /// Drops the result if it is still there.
    discard: unsafe fn(NonNull<Header>),
    /// Frees the record, dropping the result if it is still there.
    free: unsafe fn(NonNull<Header>),
}

enum Slot<F, T> {
    Closure(F),
    Result(thread::Result<T>),
    Empty,
}

#[repr(C)]
struct Fiber<F, T> {
    header: Header,
    slot: UnsafeCell<Slot<F, T>>,
}

// SAFETY: the link is used by the inbox only; `remote` sees to it that a fiber is on one inbox at most,
// and a post holds a reference until it has been drained.
unsafe impl Node for Header {
    fn link(node: NonNull<Header>) -> *mut *mut Header {
        // SAFETY: the node is alive; a cell's address may be taken through a shared pointer.
        unsafe { node.as_ref() }.inbox_link.get()
    }
}

/// Makes a fiber that has not run, with two references: the runtime's and the join handle's.
pub(crate) fn create<F, T>(
    f: F,
    worker: Option<&Worker>,
    meta: Option<Box<Meta>>,
    site: &'static Location<'static>,
) -> NonNull<Header>
where
    F: FnOnce() -> T,
{
    let id = worker.map_or_else(|| id_block().start, Worker::next_id);
    let fiber = records::allocate::<Fiber<F, T>>(worker);
    // SAFETY: fresh memory for one. Written in one expression, so that nothing is copied.
    unsafe {
        fiber.as_ptr().write(Fiber::<F, T> {
            header: Header {
                lifecycle: Lifecycle::new(2),
                home: AtomicPtr::new(ptr::null_mut()),
                inbox_link: UnsafeCell::new(ptr::null_mut()),
                remote: Remote::new(),
                state: Cell::new(State::New),
                started: Cell::new(false),
                token: Cell::new(false),
                notified: Cell::new(false),
                polling: Cell::new(false),
                since: Cell::new(0),
                requests: Requests::new(),
                context: UnsafeCell::new(MaybeUninit::uninit()),
                suspender: Cell::new(ptr::null()),
                blocked_on: Cell::new(None),
                waiting: Cell::new(ptr::null()),
                next: Cell::new(ptr::null()),
                prev: Cell::new(ptr::null()),
                locals: Locals::new(),
                joiner: UnsafeCell::new(None),
                vtable: const {
                    &VTable {
                        run: run::<F, T>,
                        abort: abort::<F, T>,
                        take: take::<F, T>,
                        discard: discard_slot::<F, T>,
                        free: free::<F, T>,
                    }
                },
                id,
                meta,
                site,
            },
            slot: UnsafeCell::new(Slot::Closure(f)),
        });
    }
    fiber.cast()
}

/// # Safety
/// `header` was made by `create::<F, T>`; the slot is the caller's.
unsafe fn slot<'a, F, T>(header: NonNull<Header>) -> &'a mut Slot<F, T> {
    // SAFETY: the caller's promise; the header is the first field.
    unsafe { &mut *header.cast::<Fiber<F, T>>().as_ref().slot.get() }
}

unsafe fn run<F: FnOnce() -> T, T>(suspender: &Suspender, arg: *mut ()) {
    // SAFETY: `arg` is the header of a fiber that has not run, and this stack is its own; the
    // runtime's reference outlives the run. Until the end the slot belongs to the fiber; the closure
    // is moved out without a trace, as nobody looks at the slot before the result is in it.
    unsafe {
        let header = NonNull::new_unchecked(arg.cast::<Header>());
        let fiber = header.as_ref();
        fiber.suspender.set(suspender);
        if fiber.requests.raised.get() {
            // Cancelled before it could begin: the runtime stops.
            abort::<F, T>(header, Box::new(Cancelled::new()));
            leave::<F, T>(header);
        } else {
            let slot: *mut Slot<F, T> = slot::<F, T>(header);
            let Slot::Closure(f) = slot.read() else { unreachable!("a fiber runs once") };
            let result = catch_unwind(AssertUnwindSafe(f));
            if fiber.lifecycle.is_detached() {
                slot.write(Slot::Empty);
                // Nobody will ask. Drop it here, where a destructor may suspend.
                drop_quietly(result);
            } else {
                slot.write(Slot::Result(result));
            }
            if !fiber.locals.is_empty() || hook::any() {
                leave::<F, T>(header);
            }
        }
        // Before the stack is left: nobody walks it from here on (module `inspect::sample`).
        fiber.state.set(State::Ended);
    }
}

/// The rest of a fiber whose closure has gone: what it leaves behind ends here, on its own stack.
///
/// # Safety
/// As `slot`; the caller is the fiber, and its result is stored.
#[cold]
unsafe fn leave<F, T>(header: NonNull<Header>) {
    // SAFETY: the caller's promise; until the end the slot belongs to the fiber.
    unsafe {
        let fiber = header.as_ref();
        // Masked: the closure has ended, and this is cleaning up.
        cancel::mask(|| fiber.locals.end());
        if hook::any() {
            hook::leave();
        }
        if fiber.lifecycle.is_detached() {
            // The handle has gone meanwhile.
            discard_slot::<F, T>(header);
        }
    }
}

unsafe fn abort<F, T>(header: NonNull<Header>, payload: Box<dyn Any + Send>) {
    // SAFETY: the fiber has not run, so the slot is its holder's.
    unsafe {
        let closure = std::mem::replace(slot::<F, T>(header), Slot::Result(Err(payload)));
        drop_quietly(closure);
    }
}

unsafe fn take<F, T>(header: NonNull<Header>, to: *mut ()) {
    // SAFETY: the fiber is done and the caller is its joiner; `to` is a place for a result.
    unsafe {
        let slot: *mut Slot<F, T> = slot::<F, T>(header);
        let Slot::Result(result) = slot.read() else {
            // The reference goes in any case.
            if header.as_ref().lifecycle.release() {
                free::<F, T>(header);
            }
            panic!("the fiber's result has been taken");
        };
        slot.write(Slot::Empty);
        to.cast::<thread::Result<T>>().write(result);
        if header.as_ref().lifecycle.release() {
            free::<F, T>(header);
        }
    }
}

unsafe fn discard_slot<F, T>(header: NonNull<Header>) {
    // SAFETY: the fiber's code has ended, and the result is the caller's.
    drop_quietly(std::mem::replace(unsafe { slot::<F, T>(header) }, Slot::Empty));
}

unsafe fn free<F, T>(header: NonNull<Header>) {
    let fiber = header.cast::<Fiber<F, T>>();
    // SAFETY: the last reference is gone.
    unsafe {
        if matches!(slot::<F, T>(header), Slot::Empty) {
            // Nothing left whose destructor could panic.
            (&raw mut (*fiber.as_ptr()).header).drop_in_place();
        } else {
            interrupt::quietly(|| fiber.drop_in_place());
        }
        records::free(fiber);
    }
}

/// A panic in a destructor that runs where nobody could catch it has been printed by the hook; it
/// ends here, as the worker must go on.
fn drop_quietly<V>(value: V) {
    let value = ManuallyDrop::new(value);
    interrupt::quietly(|| drop(ManuallyDrop::into_inner(value)));
}

/// Prepares a new fiber's stack to run it.
///
/// # Safety
/// The fiber has not run, and the caller is its home worker.
#[inline]
pub(crate) unsafe fn mount(header: NonNull<Header>, stack: Stack) {
    // SAFETY: coro 1: the header outlives the run, and the context stays in it; `run` catches every
    // unwinding; the context is the home worker's.
    unsafe {
        let fiber = header.as_ref();
        let context = Context::new(stack, fiber.vtable.run, header.as_ptr().cast());
        (*fiber.context.get()).write(context);
    }
}

/// Ends a fiber that has not run: its closure is dropped and its result is `Err(payload)`.
///
/// # Safety
/// The caller took the fiber from its queue. `finish` has to follow.
pub(crate) unsafe fn abort_unstarted(header: NonNull<Header>, payload: Box<dyn Any + Send>) {
    // SAFETY: the caller's promise.
    unsafe {
        (header.as_ref().vtable.abort)(header, payload);
        header.as_ref().locals.end();
    }
}

/// Ends a fiber that no worker will start any more, as cancelled, and wakes its joiner.
///
/// # Safety
/// The caller took the fiber from its queue, and is no worker.
pub(crate) unsafe fn discard(header: NonNull<Header>) {
    // SAFETY: the caller's promise.
    unsafe {
        header.as_ref().state.set(State::Ended);
        abort_unstarted(header, Box::new(Cancelled::new()));
        finish(header, None);
    }
}

/// Lets go of a fiber found in the inbox of a worker that has ended: one that has ended too, or one
/// that was sent there to start.
///
/// # Safety
/// The inbox's reference is the caller's.
pub(crate) unsafe fn discard_posted(header: NonNull<Header>) {
    // SAFETY: the caller's promise; the home worker has ended, so its fields are the caller's.
    unsafe {
        let fiber = header.as_ref();
        fiber.remote.take();
        if fiber.state.get() == State::New {
            discard(header);
        }
        release(header);
    }
}

/// The last step of a fiber: DONE, the joiner woken, the runtime's reference given up.
/// `here` is the worker that the caller is, if it is one.
///
/// # Safety
/// The runtime's reference is the caller's; the result has been stored and the stack given back.
#[inline]
pub(crate) unsafe fn finish(header: NonNull<Header>, here: Option<&Worker>) {
    // SAFETY: the runtime's reference is still there.
    let fiber = unsafe { header.as_ref() };
    let last = match fiber.lifecycle.begin_finish() {
        Finish::Done { last } => last,
        Finish::Detached => {
            // The handle went between the fiber's last step and this one, or before: then the slot is
            // empty.
            // SAFETY: with the handle gone the result is ours.
            unsafe { (fiber.vtable.discard)(header) };
            fiber.lifecycle.finish()
        }
        Finish::Waiter => {
            // SAFETY: from TAKEN on the cell is ours.
            let Some(joiner) = (unsafe { (*fiber.joiner.get()).take() }) else {
                unreachable!("an announced joiner is in its cell");
            };
            match (joiner, here) {
                // A joiner of the caller's own worker cannot run before we are through.
                (Joiner::Waiting(Waiter::Fiber(joiner)), Some(worker))
                    if worker.is_home_of(joiner) =>
                {
                    let last = fiber.lifecycle.finish();
                    worker.wake(joiner);
                    last
                }
                (Joiner::Polling(waker), _) => {
                    // Somebody's code, which may panic.
                    let mut woken = None;
                    // SAFETY: the handle, which has the waker, does not leave before DONE.
                    interrupt::quietly(|| woken = Some(unsafe { waker.as_ref() }.clone()));
                    let last = fiber.lifecycle.finish();
                    interrupt::quietly(|| woken.into_iter().for_each(Waker::wake));
                    last
                }
                (Joiner::Waiting(waiter), _) => {
                    // SAFETY: the joiner does not leave before DONE.
                    let waiter = unsafe { waiter.retain() };
                    let last = fiber.lifecycle.finish();
                    waiter.wake();
                    last
                }
            }
        }
    };
    if last {
        // SAFETY: as the word said.
        unsafe { free_now(header) };
    }
}

/// The result, for the joiner, whose reference goes.
///
/// # Safety
/// The fiber is done, its result is a `T` and has not been taken; the reference is the caller's.
pub(crate) unsafe fn take_result<T>(header: NonNull<Header>) -> thread::Result<T> {
    let mut result = std::mem::MaybeUninit::<thread::Result<T>>::uninit();
    // SAFETY: the caller's promise; `take` writes the whole result.
    unsafe {
        (header.as_ref().vtable.take)(header, result.as_mut_ptr().cast());
        result.assume_init()
    }
}

/// Gives up the join handle, and with it the claim to the result.
///
/// # Safety
/// The handle's reference is the caller's; the result is not wanted, or was taken.
pub(crate) unsafe fn detach(header: NonNull<Header>) {
    // SAFETY: the caller's promise.
    unsafe {
        // A sole owner's `release` frees the record here, and with it the result.
        let lifecycle = &header.as_ref().lifecycle;
        if !lifecycle.is_unique() && lifecycle.detach() {
            (header.as_ref().vtable.discard)(header);
        }
        release(header);
    }
}

/// Gives up a reference.
///
/// # Safety
/// The reference is the caller's.
pub(crate) unsafe fn release(header: NonNull<Header>) {
    // SAFETY: the caller's promise.
    unsafe {
        if header.as_ref().lifecycle.release() {
            free_now(header);
        }
    }
}

/// Frees the record.
///
/// # Safety
/// The last reference is gone.
pub(crate) unsafe fn free_now(header: NonNull<Header>) {
    // SAFETY: the caller's promise.
    unsafe { (header.as_ref().vtable.free)(header) }
}

/// Signals a fiber from anywhere: locally if it lives on this thread's worker, else by post. The
/// caller has a reference.
#[inline]
pub(crate) fn signal(header: NonNull<Header>, bits: u8) {
    // SAFETY: the caller has a reference.
    let fiber = unsafe { header.as_ref() };
    let home = fiber.home.load(Acquire);
    if let Some(worker) = tls::worker()
        && ptr::eq(home, worker.post)
    {
        worker.apply(header, bits);
    } else {
        signal_remote(header, bits);
    }
}

#[cold]
fn signal_remote(header: NonNull<Header>, bits: u8) {
    // SAFETY: the caller has a reference.
    let fiber = unsafe { header.as_ref() };
    if fiber.remote.signal(bits) {
        // Set before HOMED was, which `signal` has seen.
        let home = fiber.home.load(Acquire);
        fiber.lifecycle.retain();
        // SAFETY: posts are never freed. Whoever is told to post does so alone, so the fiber is on no
        // inbox; the reference just taken is dropped by the drain.
        unsafe { (*home).post(header) };
    }
}

/// Gives a home to a fiber that its creator has shown to nobody yet.
pub(crate) fn settle_unshared(fiber: &Header, post: &'static Post) {
    fiber.home.store(ptr::from_ref(post).cast_mut(), Release);
    fiber.remote.settle_unshared();
}

/// Gives a new fiber its home, and says what was signalled before.
pub(crate) fn settle(fiber: &Header, post: &'static Post) -> u8 {
    fiber.home.store(ptr::from_ref(post).cast_mut(), Release);
    fiber.remote.settle()
}
