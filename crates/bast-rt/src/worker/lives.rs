//! The fibers of a worker: their start, their end, and the list of those in between.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::Relaxed;

use super::Worker;
use crate::fiber::{self, Header, State};
use crate::remote;

impl Worker {
    /// Gives a new fiber its stack and its home. False if it ended instead.
    #[inline(never)]
    pub(super) fn start(&self, fiber: NonNull<Header>) -> bool {
        // SAFETY: taken from its queue, so ours.
        let header = unsafe { fiber.as_ref() };
        if self.stopping.get() {
            // It only drops the closure: on the fiber's own stack, as that may wait.
            header.requests.raised.set(true);
        }
        let taken = match header.meta.as_ref().and_then(|meta| meta.stack_size) {
            None => self.stacks().take(),
            Some(size) => self.stacks().take_sized(size),
        };
        let stack = match taken {
            Ok(stack) => stack,
            Err(error) => {
                self.shared.no_stack(&error);
                // SAFETY: as above.
                unsafe { fiber::abort_unstarted(fiber, Box::new(error)) };
                self.finish(fiber);
                return false;
            }
        };
        if let Some(name) = header.meta.as_ref().and_then(|meta| meta.name.as_deref()) {
            // SAFETY: the name lives in the header, which outlives the run.
            unsafe { stack.set_label(name.as_ptr(), name.len()) };
        }
        if header.home.load(Relaxed).is_null() {
            self.note(header, fiber::settle(header, self.post));
        }
        header.started.set(true);
        // SAFETY: new, and this is its home.
        unsafe { fiber::mount(fiber, stack) };
        self.link(header);
        self.post.board.started.add(1);
        true
    }

    /// The fiber's code has returned: its stack goes back, its joiner is woken.
    #[inline(never)]
    pub(super) fn end(&self, fiber: NonNull<Header>) {
        // SAFETY: the runtime's reference is given up in `finish`.
        let header = unsafe { fiber.as_ref() };
        header.state.set(State::Ended);
        // SAFETY: the context is the home worker's; it has returned, and is not looked at again.
        let stack = unsafe { (*header.context.get()).assume_init_mut().reclaim() };
        self.stacks().give(stack);
        self.shared.stack_back();
        self.unlink(header);
        self.finish(fiber);
    }

    pub(super) fn finish(&self, fiber: NonNull<Header>) {
        self.post.board.ended.add(1);
        // SAFETY: the runtime's reference is ours, and the result is stored.
        unsafe { fiber::finish(fiber, Some(self)) };
    }

    /// Whether a fiber lives here.
    #[inline]
    pub(crate) fn is_home_of(&self, fiber: NonNull<Header>) -> bool {
        // SAFETY: the caller knows the fiber to be alive.
        ptr::eq(unsafe { fiber.as_ref() }.home.load(Relaxed), self.post)
    }

    pub(super) fn link(&self, header: &Header) {
        let first = self.fibers.replace(header);
        header.next.set(first);
        header.prev.set(ptr::null());
        // SAFETY: fibers on the list are alive.
        if let Some(first) = unsafe { first.as_ref() } {
            first.prev.set(header);
        }
        self.set_live(self.live.get() + 1);
    }

    pub(super) fn unlink(&self, header: &Header) {
        // SAFETY: fibers on the list are alive.
        unsafe {
            match header.prev.get().as_ref() {
                Some(prev) => prev.next.set(header.next.get()),
                None => self.fibers.set(header.next.get()),
            }
            if let Some(next) = header.next.get().as_ref() {
                next.prev.set(header.prev.get());
            }
        }
        self.set_live(self.live.get() - 1);
    }

    pub(super) fn set_live(&self, live: usize) {
        self.live.set(live);
        self.shared.loads[self.index].live.store(live, Relaxed);
    }

    pub(crate) fn first_fiber(&self) -> *const Header {
        self.fibers.get()
    }

    pub(crate) fn live(&self) -> usize {
        self.live.get()
    }

    /// Fibers in the ready queue, and how many of them have not started.
    pub(crate) fn queued(&self) -> (usize, usize) {
        let ready = self.ready();
        let fibers = (0..ready.len()).filter_map(|at| ready.peek(at));
        // SAFETY: queued fibers are alive.
        let unstarted = fibers.filter(|fiber| !unsafe { fiber.as_ref() }.started.get()).count();
        (ready.len(), unstarted)
    }

    /// Shows the figures that are kept elsewhere.
    pub(super) fn publish(&self) {
        let board = &self.post.board;
        board.ready.set(self.ready().len() as u64);
        board.spawned.set(self.id_blocks.get() - (self.ids_end.get() - self.next_id.get()));
        let lives = board.started.get() + board.ended.get();
        // To count stacks takes longer: when the worker has time, or much has changed.
        let changed = lives.wrapping_sub(self.stacks_at.get());
        if changed > 10_000 || (changed > 0 && !self.is_busy()) {
            self.stacks_at.set(lives);
            let stats = self.stacks().stats();
            board.stacks_live.set(stats.live as u64);
            board.stacks_free.set(stats.free as u64);
            board.stacks_hot.set(stats.hot as u64);
            board.stack_bytes.set(stats.bytes as u64);
        }
    }

    /// The runtime stops: cancel what there is. True once nothing is left, on any worker: until then
    /// a fiber elsewhere may send one here and wait for it (module `ending`).
    ///
    /// What comes from a thread outside when all workers have drained is let go by `Shared`'s drop.
    pub(super) fn stop_round(&self) -> bool {
        if !self.stopping.replace(true) {
            self.for_each_fiber(|fiber, _| self.apply(fiber, remote::CANCEL));
            self.post.tasks.wake_all();
        }
        let shared = &*self.shared;
        let workers = shared.posts.len();
        if !self.is_drained() {
            self.recount();
            return false;
        }
        if !self.counted.replace(true) && shared.ending.count(workers) {
            shared.wake_all();
        }
        let all = shared.ending.is_over(workers, || shared.is_swept());
        if all && self.searching.replace(false) {
            // A searcher that left without a word would keep the others from searching.
            shared.idle.found();
        }
        all
    }

    /// This worker has something after all, or is about to take it.
    #[inline]
    pub(crate) fn recount(&self) {
        if self.counted.get() {
            self.counted.set(false);
            self.shared.ending.recall();
        }
    }

    /// Whoever waits for what still flew is woken in here, and may be a task that is now to be polled here: the second look.
    fn is_drained(&self) -> bool {
        let nothing_left = || self.live.get() == 0 && !self.is_busy() && self.post.is_swept();
        nothing_left() && self.ground() && nothing_left()
    }

    /// On a bound thread: its fiber has come and ended, and so have those that it started here. No other can
    /// come: only a fiber of this thread could start one here.
    pub(super) fn is_spent(&self) -> bool {
        self.post.board.ended.get() > 0 && self.is_drained()
    }

    /// Calls `f`, which must not end any, with each started fiber.
    pub(super) fn for_each_fiber(&self, f: impl Fn(NonNull<Header>, &Header)) {
        let mut fiber = self.fibers.get();
        // SAFETY: fibers on the list are alive, and `f` changes no links.
        while let Some(header) = unsafe { fiber.as_ref() } {
            fiber = header.next.get();
            f(NonNull::from(header), header);
        }
    }
}
