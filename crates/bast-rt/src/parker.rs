//! Blocking a plain thread, for code outside fibers, and the common reference to "who waits".
//!
//! A thread's parker has two tokens, as a fiber has: the runtime's own wake-up, after which the waiter
//! looks at its condition again, and the user's `unpark`, which only `park` may consume.
//!
//! A thread that blocks without a deadline is listed meanwhile (module `inspect::blocked`); whoever ends
//! that takes it off the list.

use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fiber::Header;
use crate::inspect::{Looks, thread_blocks, thread_woken};
use crate::remote;
use crate::wait::Reason;

#[derive(Clone, Copy, Default)]
struct Tokens {
    woken: bool,
    unparked: bool,
    /// What the thread is listed as blocked for.
    blocked: Option<Token>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Wake,
    Unpark,
}

impl Tokens {
    fn has(&self, token: Token) -> bool {
        match token {
            Token::Wake => self.woken,
            // Whoever parks looks whether it is to be stopped when it is woken.
            Token::Unpark => self.unparked || self.woken,
        }
    }
}

/// A thread that can be blocked and woken.
pub(crate) struct ThreadParker {
    tokens: Mutex<Tokens>,
    changed: Condvar,
    name: Option<Box<str>>,
    id: u64,
}

impl ThreadParker {
    /// The parker of the calling thread.
    pub(crate) fn new() -> ThreadParker {
        ThreadParker {
            tokens: Mutex::new(Tokens::default()),
            changed: Condvar::new(),
            name: std::thread::current().name().map(Box::from),
            id: crate::runtime::id_block().start,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Blocks until `wake`, or for `timeout`.
    pub(crate) fn wait(&self, timeout: Option<Duration>, reason: &Reason<'_>) {
        let tokens = self.lock();
        let mut tokens = match timeout {
            None => self.block(tokens, Token::Wake, reason),
            Some(timeout) => {
                self.changed
                    .wait_timeout_while(tokens, timeout, |tokens| !tokens.woken)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        };
        tokens.woken = false;
    }

    /// Blocks until the token is there, however long that takes.
    fn block<'a>(
        &'a self,
        mut tokens: MutexGuard<'a, Tokens>,
        token: Token,
        reason: &Reason<'_>,
    ) -> MutexGuard<'a, Tokens> {
        if tokens.has(token) {
            return tokens;
        }
        thread_blocks(self, reason);
        tokens.blocked = Some(token);
        let mut looks = Looks::new();
        while !tokens.has(token) {
            let missing = |tokens: &mut Tokens| !tokens.has(token);
            let Some(due) = looks.next() else {
                let waited = self.changed.wait_while(tokens, missing);
                tokens = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let waited = self.changed.wait_timeout_while(tokens, due, missing);
            tokens = waited.unwrap_or_else(PoisonError::into_inner).0;
            if !tokens.has(token) {
                // The last one to fall asleep may be this thread.
                drop(tokens);
                looks.look();
                tokens = self.lock();
            }
        }
        tokens
    }

    pub(crate) fn wake(&self) {
        self.give(Token::Wake);
    }

    fn give(&self, token: Token) {
        let mut tokens = self.lock();
        match token {
            Token::Wake => tokens.woken = true,
            Token::Unpark => tokens.unparked = true,
        }
        if tokens.blocked.is_some_and(|blocked| blocked == token || blocked == Token::Unpark) {
            tokens.blocked = None;
            thread_woken(self);
        }
        drop(tokens);
        self.changed.notify_one();
    }

    /// Blocks until `unpark` (then it says true), `wake`, or for `timeout`.
    pub(crate) fn park(&self, timeout: Option<Duration>, reason: &Reason<'_>) -> bool {
        let tokens = self.lock();
        let mut tokens = match timeout {
            None => self.block(tokens, Token::Unpark, reason),
            Some(timeout) => {
                self.changed
                    .wait_timeout_while(tokens, timeout, |tokens| !tokens.has(Token::Unpark))
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        };
        tokens.woken = false;
        std::mem::take(&mut tokens.unparked)
    }

    pub(crate) fn unpark(&self) {
        self.give(Token::Unpark);
    }

    fn lock(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who waits for something: a fiber or a thread. Borrowed: whoever holds it must know that the waiter
/// is still there, or [`retain`](Waiter::retain) it while it knows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    Fiber(NonNull<Header>),
    Thread(NonNull<ThreadParker>),
}

impl Waiter {
    /// A thread. The pointer is the Arc's own: one made from a reference may not be used to count.
    pub(crate) fn thread(parker: &Arc<ThreadParker>) -> Waiter {
        match NonNull::new(Arc::as_ptr(parker).cast_mut()) {
            Some(parker) => Waiter::Thread(parker),
            None => unreachable!("an Arc is somewhere"),
        }
    }

    /// Makes it owned.
    ///
    /// # Safety
    /// The waiter is there.
    pub(crate) unsafe fn retain(self) -> Unparker {
        match self {
            Waiter::Fiber(header) => {
                // SAFETY: the caller's promise.
                unsafe { header.as_ref() }.lifecycle.retain();
            }
            // SAFETY: the pointer came from an Arc that the waiter still has.
            Waiter::Thread(parker) => unsafe { Arc::increment_strong_count(parker.as_ptr()) },
        }
        Unparker { waiter: self }
    }
}

/// An owned [`Waiter`]: can be woken from anywhere, whatever has become of it.
pub(crate) struct Unparker {
    waiter: Waiter,
}

// SAFETY: a fiber's header is made to be signalled from any thread (module `remote`), a parker is Sync.
unsafe impl Send for Unparker {}
// SAFETY: as above.
unsafe impl Sync for Unparker {}

impl Unparker {
    /// The runtime's own wake-up: the waiter looks at its condition again.
    pub(crate) fn wake(&self) {
        match self.waiter {
            Waiter::Fiber(header) => crate::fiber::signal(header, remote::WAKE),
            // SAFETY: the strong count is ours.
            Waiter::Thread(parker) => unsafe { parker.as_ref() }.wake(),
        }
    }

    /// The user's `unpark`.
    #[inline]
    pub(crate) fn unpark(&self) {
        match self.waiter {
            Waiter::Fiber(header) => crate::fiber::signal(header, remote::UNPARK),
            // SAFETY: the strong count is ours.
            Waiter::Thread(parker) => unsafe { parker.as_ref() }.unpark(),
        }
    }

    pub(crate) fn waiter(&self) -> Waiter {
        self.waiter
    }
}

impl Clone for Unparker {
    fn clone(&self) -> Unparker {
        // SAFETY: `self` keeps the waiter there.
        unsafe { self.waiter.retain() }
    }
}

impl Drop for Unparker {
    fn drop(&mut self) {
        match self.waiter {
            // SAFETY: our reference.
            Waiter::Fiber(header) => unsafe { crate::fiber::release(header) },
            // SAFETY: our reference.
            Waiter::Thread(parker) => unsafe { Arc::decrement_strong_count(parker.as_ptr()) },
        }
    }
}
