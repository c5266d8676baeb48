//! Stacks as instruction pointers: taking them down, and keeping each distinct one once.
//!
//! Fibers that wait in the same place have the same stack, so a hundred thousand of them come to a few
//! entries here, and names are looked up for those only.

use std::collections::HashMap;

/// The most frames that are kept, innermost first.
const DEPTH: usize = 128;

/// Room for one stack; filled without allocation.
pub(crate) struct Frames {
    len: usize,
    ips: [usize; DEPTH],
}

impl Frames {
    pub(super) const fn new() -> Frames {
        Frames { len: 0, ips: [0; DEPTH] }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Takes down the calling stack. Allocates nothing; as async-signal-safe as the platform's unwinder,
    /// which on today's systems takes no lock once it has been used.
    #[inline(never)]
    pub(super) fn capture(&mut self) {
        self.clear();
        // SAFETY: what the synchronized form has a lock for is Windows' dbghelp; the unwinder of other
        // systems may run on many threads at once.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                let ip = frame.ip().addr();
                if ip == 0 || self.len == DEPTH {
                    return false;
                }
                self.ips[self.len] = ip;
                self.len += 1;
                true
            });
        }
    }

    /// Leaves out the frames inside of the one that is at `pc`: those of a signal handler. Where the unwinder has not got
    /// out of the handler, or not into the function that was interrupted (musl's have no unwind information), `pc` is
    /// all that is known; 0 says that not even this is.
    pub(super) fn from<'a>(&'a self, pc: &'a usize) -> &'a [usize] {
        let all = self.all();
        match all.iter().position(|&ip| ip == *pc || ip == *pc + 1) {
            Some(first) => &all[first..],
            None if *pc != 0 => std::slice::from_ref(pc),
            None => all,
        }
    }

    pub(super) fn all(&self) -> &[usize] {
        &self.ips[..self.len]
    }
}

/// Distinct stacks, by number.
#[derive(Default)]
pub(super) struct Stacks {
    numbers: HashMap<Box<[usize]>, u32>,
    last: Option<(Box<[usize]>, u32)>,
}

impl Stacks {
    /// The number of a stack.
    pub(super) fn number(&mut self, ips: &[usize]) -> u32 {
        if let Some((last, number)) = &self.last
            && **last == *ips
        {
            return *number;
        }
        let next = self.numbers.len() as u32;
        let number = match self.numbers.get(ips) {
            Some(&number) => number,
            None => {
                self.numbers.insert(ips.into(), next);
                next
            }
        };
        self.last = Some((ips.into(), number));
        number
    }

    /// All of them, in the order of their numbers.
    pub(super) fn into_list(self) -> Vec<Box<[usize]>> {
        let mut list = vec![Box::default(); self.numbers.len()];
        for (ips, number) in self.numbers {
            list[number as usize] = ips;
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_have_one_number() {
        let mut stacks = Stacks::default();
        assert_eq!(stacks.number(&[1, 2]), 0);
        assert_eq!(stacks.number(&[1, 2]), 0);
        assert_eq!(stacks.number(&[1]), 1);
        assert_eq!(stacks.number(&[1, 2]), 0);
        assert_eq!(stacks.number(&[]), 2);
        assert_eq!(stacks.into_list(), [Box::from([1, 2]), Box::from([1]), Box::from([])]);
    }

    #[test]
    fn what_lies_inside_of_an_address_is_left_out() {
        let mut frames = Frames::new();
        frames.capture();
        assert!(frames.len > 3);
        let third = frames.all()[2];
        assert_eq!(frames.from(&third).len(), frames.len - 2);
        assert_eq!(frames.from(&1), [1]);
        assert_eq!(frames.from(&0).len(), frames.len);
    }
}
