//! How other threads end a driver's wait without losing a wake, and without a syscall while the
//! driver is awake.
//!
//! ```text
//!             begin (owner)                   wake (anyone): rings the bell
//!   AWAKE ───────────────────▶ ASLEEP ─────────────────────────────▶ NOTIFIED
//!     │  ▲                        │                                    ▲  │
//!     │  └──────── end (owner) ───┘                                    │  │
//!     │  └──────── end (owner) ───────────────────────────────────────────┘
//!     └──────────────────── wake (anyone): no syscall ─────────────────┘
//! ```
//!
//! **No wake is lost.** All steps are read-modify-writes of one word, hence totally ordered. A wake
//! is ordered either
//! * before `begin`, and after the `end` before it: `begin` finds NOTIFIED and refuses to sleep; or
//! * between `begin` and `end`: it finds ASLEEP (or NOTIFIED, then an earlier wake did) and the
//!   bell is rung, which ends the wait that has begun or is about to.
//!
//! **What was published before the wake is seen after it.** `wake` releases and `end` acquires, and
//! every write in between is a read-modify-write, so that the release sequence of each wake reaches
//! the `end` that follows it: whoever looks at its inbox after `end` sees what was put there before
//! any of those wakes. AcqRel is enough; no other location takes part in the decision to sleep.
//!
//! **A late ring is harmless.** A wake may be between its swap and its ring when the owner
//! returns for another reason; the ring then ends the next wait early, once.

use std::io;
use std::time::Duration;

#[cfg(loom)]
use loom::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicU32, Ordering},
};
#[cfg(not(loom))]
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

#[cfg(not(loom))]
use crate::sys::Bell;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const NOTIFIED: u32 = 2;

/// The state of one sleeper. Only its owner calls [`begin`](Sleep::begin) and [`end`](Sleep::end).
#[derive(Debug)]
pub struct Sleep {
    state: AtomicU32,
}

impl Default for Sleep {
    fn default() -> Sleep {
        Sleep::new()
    }
}

impl Sleep {
    /// Awake.
    #[must_use]
    pub fn new() -> Sleep {
        Sleep { state: AtomicU32::new(AWAKE) }
    }

    /// The owner is about to block. `false`: it was notified and must not; it still calls `end`.
    #[must_use]
    pub fn begin(&self) -> bool {
        self.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The owner is up again. Whether somebody notified it since the last `end`.
    pub fn end(&self) -> bool {
        self.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    /// Notifies. `true`: the owner sleeps, and the caller must now end its wait.
    #[must_use]
    pub fn notify(&self) -> bool {
        self.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP
    }

    /// Whether a notification waits for the owner. A hint: it may change at once.
    #[must_use]
    pub fn is_notified(&self) -> bool {
        self.state.load(Ordering::Relaxed) == NOTIFIED
    }
}

/// Ends the wait of one driver, from any thread.
#[derive(Clone, Debug)]
pub struct Waker {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    sleep: Sleep,
    bell: Bell,
}

impl Waker {
    /// A waker for a new sleeper.
    ///
    /// # Errors
    /// No descriptor was to be had.
    pub fn new() -> io::Result<Waker> {
        Ok(Waker { inner: Arc::new(Inner { sleep: Sleep::new(), bell: Bell::new()? }) })
    }

    /// Makes the current wait of the driver end, or its next one return at once.
    pub fn wake(&self) {
        if self.inner.sleep.notify() {
            self.inner.bell.ring();
        }
    }

    /// The state, for the owner.
    #[must_use]
    pub fn sleep(&self) -> &Sleep {
        &self.inner.sleep
    }

    /// The owner's wait when it has nothing but the waker to wait for. Returns early at a wake,
    /// spuriously, or at the latest after `timeout`.
    pub fn wait(&self, timeout: Option<Duration>) {
        if self.inner.sleep.begin() {
            self.inner.bell.wait(timeout);
        }
        self.inner.sleep.end();
    }

    /// The descriptor that becomes readable when a sleeper has been woken.
    #[cfg(all(target_os = "linux", not(any(loom, bast_kqueue))))]
    pub(crate) fn fd(&self) -> i32 {
        self.inner.bell.fd()
    }

    /// The queue that the owner waits on, with the bell in it.
    #[cfg(all(unix, any(not(target_os = "linux"), bast_kqueue)))]
    pub(crate) fn queue(&self) -> &crate::sys::queue::Queue {
        self.inner.bell.queue()
    }

    /// The completion port, to which a packet is posted when a sleeper has been woken.
    #[cfg(all(windows, not(loom)))]
    pub(crate) fn port(&self) -> &Bell {
        &self.inner.bell
    }

    /// In a model there is no descriptor, and no driver can be made.
    #[cfg(loom)]
    pub(crate) fn fd(&self) -> i32 {
        -1
    }
}

/// The model of a bell.
#[cfg(loom)]
#[derive(Debug)]
struct Bell {
    raised: Mutex<bool>,
    changed: Condvar,
}

#[cfg(loom)]
impl Bell {
    fn new() -> io::Result<Bell> {
        Ok(Bell { raised: Mutex::new(false), changed: Condvar::new() })
    }

    fn ring(&self) {
        *self.raised.lock().unwrap() = true;
        self.changed.notify_one();
    }

    /// A model has no clock: a wait is unbounded, so that a lost wake is a deadlock that loom finds.
    fn wait(&self, _timeout: Option<Duration>) {
        let mut raised = self.raised.lock().unwrap();
        while !*raised {
            raised = self.changed.wait(raised).unwrap();
        }
        *raised = false;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_wake_before_the_wait_is_kept() {
        let waker = Waker::new().expect("a waker");
        waker.wake();
        waker.wake();
        let start = Instant::now();
        waker.wait(Some(Duration::from_secs(20)));
        assert!(start.elapsed() < Duration::from_secs(60));
        // Both wakes ended that one wait.
        assert!(!waker.sleep().is_notified());
        let start = Instant::now();
        waker.wait(Some(Duration::from_millis(20)));
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_wake_from_another_thread_ends_the_wait() {
        let waker = Waker::new().expect("a waker");
        let other = waker.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            other.wake();
        });
        let start = Instant::now();
        waker.wait(Some(Duration::from_secs(20)));
        assert!(start.elapsed() < Duration::from_secs(60));
        thread.join().expect("waker thread");
    }

    #[test]
    fn the_owner_pays_no_syscall_while_awake() {
        let sleep = Sleep::new();
        assert!(!sleep.notify(), "awake: nothing to write");
        assert!(!sleep.begin(), "notified: must not block");
        assert!(sleep.end());
        assert!(sleep.begin());
        assert!(sleep.notify(), "asleep: ring");
        assert!(!sleep.notify(), "once is enough");
        assert!(sleep.end());
        assert!(!sleep.end());
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test -p bast-io --release --lib loom`
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// Two producers post and wake; the owner must see both posts without a timeout. A lost wake
    /// shows as a deadlock. The posts are relaxed: only the waker orders them.
    #[test]
    fn no_wake_is_lost() {
        // Three preemptions find all that this word can do wrong; without a bound the
        // model takes minutes.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let waker = Waker::new().unwrap();
            let inbox = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (waker, inbox) = (waker.clone(), inbox.clone());
                    thread::spawn(move || {
                        inbox.fetch_add(1, Ordering::Relaxed);
                        waker.wake();
                    })
                })
                .collect();
            while inbox.load(Ordering::Relaxed) < 2 {
                waker.wait(None);
            }
            for t in threads {
                t.join().unwrap();
            }
        });
    }

    /// What was written before a wake may be read after the wait that it ended, with no other
    /// synchronisation (loom's `UnsafeCell` reports the race otherwise).
    #[test]
    fn a_wake_publishes() {
        loom::model(|| {
            let waker = Waker::new().unwrap();
            let cell = Arc::new(loom::cell::UnsafeCell::new(0));
            let (w, c) = (waker.clone(), cell.clone());
            let thread = thread::spawn(move || {
                // SAFETY: the owner reads only after the wake.
                c.with_mut(|p| unsafe { *p = 7 });
                w.wake();
            });
            let sleep = waker.sleep();
            let mut notified = false;
            while !notified {
                if sleep.begin() {
                    waker.inner.bell.wait(None);
                }
                notified = sleep.end();
            }
            // SAFETY: the only wake came after the write.
            cell.with(|p| assert_eq!(unsafe { *p }, 7));
            thread.join().unwrap();
        });
    }

    /// Whether some interleaving leaves a sleeper asleep that was woken, with `begin` as given.
    fn some_wake_is_lost(begin: fn(&Sleep) -> bool) -> bool {
        use std::sync::atomic::AtomicBool;
        let lost = std::sync::Arc::new(AtomicBool::new(false));
        let seen = lost.clone();
        loom::model(move || {
            let waker = Waker::new().unwrap();
            let other = waker.clone();
            let thread = thread::spawn(move || other.wake());
            let blocks = begin(waker.sleep());
            thread.join().unwrap();
            // Everything has happened. Would a wait that has begun end?
            if blocks && !*waker.inner.bell.raised.lock().unwrap() {
                seen.store(true, Ordering::Relaxed);
            }
        });
        lost.load(Ordering::Relaxed)
    }

    /// The canary: a sleeper that stores ASLEEP blindly overwrites a notification. The guard must be
    /// able to fail.
    #[test]
    fn a_blind_store_loses_wakes() {
        assert!(!some_wake_is_lost(Sleep::begin));
        assert!(some_wake_is_lost(|sleep| {
            sleep.state.store(ASLEEP, Ordering::SeqCst);
            true
        }));
    }
}
