//! A growing ring: the queue of ready fibers.
//!
//! An array of pointers rather than links inside the fibers, because the worker looks a few places
//! ahead to prefetch: with more fibers than the caches and the TLB hold, the miss on the next stack is
//! most of what a switch costs.

/// A FIFO of plain values whose storage is a power of two.
pub(crate) struct Ring<T: Copy> {
    slots: Box<[Option<T>]>,
    head: usize,
    len: usize,
}

impl<T: Copy> Ring<T> {
    pub(crate) fn new() -> Ring<T> {
        Ring { slots: vec![None; 64].into_boxed_slice(), head: 0, len: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        if self.len == self.slots.len() {
            self.grow();
        }
        let at = (self.head + self.len) & (self.slots.len() - 1);
        self.slots[at] = Some(value);
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.slots[self.head];
        self.head = (self.head + 1) & (self.slots.len() - 1);
        self.len -= 1;
        value
    }

    /// The value `ahead` places behind the front, if the queue is that long.
    #[inline]
    pub(crate) fn peek(&self, ahead: usize) -> Option<T> {
        if ahead < self.len {
            self.slots[(self.head + ahead) & (self.slots.len() - 1)]
        } else {
            None
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![None; self.slots.len() * 2].into_boxed_slice();
        for (to, from) in slots.iter_mut().zip(0..self.len) {
            *to = self.slots[(self.head + from) & (self.slots.len() - 1)];
        }
        self.slots = slots;
        self.head = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Ring;
    use std::collections::VecDeque;

    #[test]
    fn behaves_like_a_deque_through_growth_and_wrapping() {
        let (mut ring, mut model) = (Ring::new(), VecDeque::new());
        let mut next = 0usize;
        for round in 0..2_000usize {
            for _ in 0..(round * 7) % 13 {
                ring.push(next);
                model.push_back(next);
                next += 1;
            }
            for _ in 0..(round * 5) % 11 {
                assert_eq!(ring.pop(), model.pop_front());
            }
            assert_eq!(ring.len, model.len());
            assert_eq!(ring.peek(3), model.get(3).copied());
        }
        assert!(next > 5_000 && ring.len > 500, "the ring must have grown");
    }
}
