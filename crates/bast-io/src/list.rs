//! An intrusive queue of records: the wait lists of the drivers and the pool's queue.
//!
//! ```text
//!   head ──▶ record ◀──next/prev──▶ record ◀── tail
//! ```
//!
//! The links are in the records, so that queueing allocates nothing. A record is on at most one list.

use std::ptr::NonNull;

use crate::Record;

/// Records in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct List {
    head: Option<NonNull<Record>>,
    tail: Option<NonNull<Record>>,
}

impl List {
    pub(crate) const fn new() -> List {
        List { head: None, tail: None }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    pub(crate) const fn front(&self) -> Option<NonNull<Record>> {
        self.head
    }

    #[cfg(any(unix, test))]
    pub(crate) const fn back(&self) -> Option<NonNull<Record>> {
        self.tail
    }

    /// # Safety
    /// `record` is lent (io 1), is on no list, and nobody else touches its links meanwhile.
    pub(crate) unsafe fn push_back(&mut self, record: NonNull<Record>) {
        let r = record.as_ptr();
        // SAFETY: the caller's promise, and io 1 for the record that is on the list already.
        unsafe {
            (*r).next = None;
            (*r).prev = self.tail;
            match self.tail {
                Some(tail) => (*tail.as_ptr()).next = Some(record),
                None => self.head = Some(record),
            }
        }
        self.tail = Some(record);
    }

    /// # Safety
    /// `record` is on this list.
    pub(crate) unsafe fn remove(&mut self, record: NonNull<Record>) {
        let r = record.as_ptr();
        // SAFETY: io 1: it and its neighbours are lent as long as they are on the list.
        unsafe {
            match (*r).prev {
                Some(prev) => (*prev.as_ptr()).next = (*r).next,
                None => self.head = (*r).next,
            }
            match (*r).next {
                Some(next) => (*next.as_ptr()).prev = (*r).prev,
                None => self.tail = (*r).prev,
            }
            (*r).next = None;
            (*r).prev = None;
        }
    }

    /// Takes the oldest.
    #[cfg(any(unix, test))]
    pub(crate) fn pop_front(&mut self) -> Option<NonNull<Record>> {
        let record = self.head?;
        // SAFETY: it is the head.
        unsafe { self.remove(record) };
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;

    #[test]
    fn order_and_removal() {
        let mut records: Vec<Record> =
            (0..4).map(|_| Record::new(Op::Nop, std::ptr::null_mut())).collect();
        let p: Vec<_> = records.iter_mut().map(NonNull::from).collect();
        let mut list = List::new();
        // SAFETY: the records outlive the list and are on it once.
        unsafe {
            p.iter().for_each(|r| list.push_back(*r));
            list.remove(p[1]); // middle
            list.remove(p[3]); // tail
            list.push_back(p[1]);
            list.remove(p[0]); // head
        }
        assert_eq!(list.front(), Some(p[2]));
        assert_eq!(list.back(), Some(p[1]));
        assert_eq!(list.pop_front(), Some(p[2]));
        assert_eq!(list.pop_front(), Some(p[1]));
        assert_eq!(list.pop_front(), None);
        assert!(list.is_empty() && list.back().is_none());
    }
}
