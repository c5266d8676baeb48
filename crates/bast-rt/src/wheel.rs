//! The timers of one worker: a hierarchical wheel of intrusive nodes.
//!
//! After Varghese and Lauck, "Hashed and hierarchical timing wheels" (1987): 8 levels of 64 slots; a
//! node lies on the level of the highest 6-bit digit in which its tick differs from the wheel's, in the
//! slot of that digit. Inserting and cancelling are O(1); a node moves down at most 7 times.
//!
//! ```text
//!   level 0   |.|.|#|.|…|   one tick (2^14 ns = 16.4 µs) a slot
//!   level 1   |.|#|.|.|…|   64 ticks a slot; when time reaches it, its nodes go down to level 0
//!   …
//!   level 7                 reaches 146 years
//! ```
//!
//! A node lives on the stack of the fiber that waits, so a timer allocates nothing. Single-threaded:
//! only the worker that owns the wheel touches it or any node in it.

use std::ptr::NonNull;

const TICK_BITS: u32 = 14;
const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = 8;
/// Ticks beyond this are "never": they are kept in the last slot that exists.
const MAX_TICK: u64 = (1 << (DIGIT as u64 * LEVELS as u64)) - 1;

/// One pending timer.
#[derive(Debug)]
pub(crate) struct Timer {
    tick: u64,
    next: Option<NonNull<Timer>>,
    prev: Option<NonNull<Timer>>,
    /// level * SLOTS + slot while linked
    place: Option<u16>,
    /// Whom to wake: the worker's affair.
    pub(crate) owner: *const (),
    /// Set when it has gone off.
    pub(crate) fired: bool,
    /// Whether it interrupts a scope.
    pub(crate) interrupts: bool,
}

impl Timer {
    /// A timer for the clock reading `deadline` (ns). It never goes off early, and up to a tick late.
    #[inline]
    pub(crate) fn new(deadline: u64, owner: *const ()) -> Timer {
        let tick = deadline.div_ceil(1 << TICK_BITS).min(MAX_TICK);
        Timer { tick, next: None, prev: None, place: None, owner, fired: false, interrupts: false }
    }
}

/// The wheel.
pub(crate) struct Wheel {
    /// The last tick that has been worked off.
    now: u64,
    len: usize,
    occupied: [u64; LEVELS],
    slots: Box<[Option<NonNull<Timer>>; LEVELS * SLOTS]>,
}

impl Wheel {
    /// A wheel that starts at the clock reading `now` (ns).
    pub(crate) fn new(now: u64) -> Wheel {
        Wheel {
            now: now >> TICK_BITS,
            len: 0,
            occupied: [0; LEVELS],
            slots: Box::new([None; LEVELS * SLOTS]),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Arms a timer.
    ///
    /// # Safety
    /// The node is not linked, and stays where it is until it has fired or been removed.
    pub(crate) unsafe fn insert(&mut self, timer: NonNull<Timer>) {
        self.len += 1;
        // SAFETY: the caller's promise.
        unsafe { self.link(timer) };
    }

    /// Disarms a timer; nothing happens if it has fired.
    ///
    /// # Safety
    /// The node is linked here, or is not linked at all.
    pub(crate) unsafe fn remove(&mut self, mut timer: NonNull<Timer>) {
        // SAFETY: the caller's promise; neighbours are linked, so alive.
        unsafe {
            let timer = timer.as_mut();
            let Some(place) = timer.place.take() else { return };
            let place = usize::from(place);
            match timer.prev {
                Some(mut prev) => prev.as_mut().next = timer.next,
                None => self.slots[place] = timer.next,
            }
            if let Some(mut next) = timer.next {
                next.as_mut().prev = timer.prev;
            }
            if self.slots[place].is_none() {
                self.occupied[place / SLOTS] &= !(1 << (place % SLOTS));
            }
        }
        self.len -= 1;
    }

    /// When the wheel next has something to do (ns), if it holds anything. That may be earlier than
    /// the earliest timer: then `expire` only moves nodes down.
    pub(crate) fn next(&self) -> Option<u64> {
        self.next_slot().map(|(tick, _)| tick << TICK_BITS)
    }

    /// Fires everything due at the clock reading `now` (ns), earliest tick first.
    pub(crate) fn expire(&mut self, now: u64, mut fire: impl FnMut(NonNull<Timer>)) {
        let until = now >> TICK_BITS;
        while let Some((tick, place)) = self.next_slot() {
            if tick > until {
                break;
            }
            self.now = tick;
            let mut list = self.slots[place].take();
            self.occupied[place / SLOTS] &= !(1 << (place % SLOTS));
            // Lists are newest first; fire equal ticks in the order of their insertion.
            let mut reversed = None;
            while let Some(mut timer) = list {
                // SAFETY: a linked node is alive (insert's contract).
                let t = unsafe { timer.as_mut() };
                list = t.next;
                t.next = reversed;
                reversed = Some(timer);
            }
            while let Some(mut timer) = reversed {
                // SAFETY: as above; `next` is read before the owner can take the node away.
                let t = unsafe { timer.as_mut() };
                reversed = t.next;
                t.place = None;
                if t.tick <= tick {
                    t.fired = true;
                    self.len -= 1;
                    fire(timer);
                } else {
                    // SAFETY: unlinked just now.
                    unsafe { self.link(timer) };
                }
            }
        }
        self.now = self.now.max(until);
    }

    /// The occupied slot that comes first, with the tick at which it starts. Lower levels come before
    /// higher ones: they share more leading digits with `now`.
    fn next_slot(&self) -> Option<(u64, usize)> {
        if self.len == 0 {
            return None;
        }
        (0..LEVELS).find(|&level| self.occupied[level] != 0).map(|level| {
            let slot = self.occupied[level].trailing_zeros();
            let shift = DIGIT * level as u32;
            let above = self.now >> (shift + DIGIT) << (shift + DIGIT);
            (above | u64::from(slot) << shift, level * SLOTS + slot as usize)
        })
    }

    unsafe fn link(&mut self, mut timer: NonNull<Timer>) {
        // SAFETY: the caller's promise.
        let t = unsafe { timer.as_mut() };
        // Already due: the next tick takes it.
        let tick = t.tick.max(self.now + 1).min(MAX_TICK);
        let level = ((tick ^ self.now).max(1).ilog2() / DIGIT) as usize;
        let slot = (tick >> (DIGIT * level as u32)) as usize % SLOTS;
        let place = level * SLOTS + slot;
        t.place = Some(place as u16);
        t.prev = None;
        t.next = self.slots[place];
        if let Some(mut next) = t.next {
            // SAFETY: linked, so alive.
            unsafe { next.as_mut() }.prev = Some(timer);
        }
        self.slots[place] = Some(timer);
        self.occupied[level] |= 1 << slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 1 << TICK_BITS;

    /// Random inserts, removals and jumps against a sorted model.
    #[test]
    fn fires_exactly_what_is_due() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for _ in 0..200 {
            let mut clock = random(1 << 50);
            let mut wheel = Wheel::new(clock);
            let mut live: Vec<(u64, Box<Timer>)> = Vec::new();
            for _ in 0..400 {
                match random(4) {
                    0 | 1 => {
                        let spread = 1 << random(45);
                        let deadline = clock + random(spread);
                        let mut timer = Box::new(Timer::new(deadline, std::ptr::null()));
                        // SAFETY: boxed, removed below before it is dropped.
                        unsafe { wheel.insert(NonNull::from(&mut *timer)) };
                        live.push((deadline, timer));
                    }
                    2 if !live.is_empty() => {
                        let (_, mut timer) = live.swap_remove(random(live.len() as u64) as usize);
                        // SAFETY: inserted above.
                        unsafe { wheel.remove(NonNull::from(&mut *timer)) };
                    }
                    _ => {
                        let bits = random(42);
                        clock += random(1 << bits);
                        let mut fired = 0;
                        wheel.expire(clock, |_| fired += 1);
                        let due = |(deadline, timer): &(u64, Box<Timer>)| {
                            if timer.fired {
                                assert!(*deadline <= clock, "early");
                            } else {
                                assert!(*deadline + 2 * TICK > clock, "late: {deadline} {clock}");
                            }
                            timer.fired
                        };
                        let before = live.len();
                        live.retain(|entry| !due(entry));
                        assert_eq!(before - live.len(), fired);
                        if let Some(next) = wheel.next() {
                            assert!(next > clock - TICK);
                            let first = live.iter().map(|(d, _)| *d).min().unwrap();
                            assert!(next <= first.div_ceil(TICK).max(clock / TICK + 1) * TICK);
                        }
                    }
                }
                assert_eq!(wheel.len, live.len());
            }
            wheel.expire(u64::MAX >> 1, |_| ());
            assert!(wheel.is_empty() && live.iter().all(|(_, t)| t.fired));
        }
    }
}
