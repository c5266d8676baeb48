//! Guards on Windows: the low page of a slot is reserved with its slab and never committed, so it is a guard
//! from the beginning and costs nothing.

use std::io;

use crate::config::{GuardKind, Guards};

#[derive(Debug)]
pub(crate) struct Guard(());

impl Guard {
    pub(crate) fn new(_: Guards) -> Guard {
        Guard(())
    }

    pub(crate) fn kind(&self) -> GuardKind {
        GuardKind::Reserved
    }

    /// # Safety
    /// None needed: the guards are there.
    pub(crate) unsafe fn install(
        &mut self,
        _first: *mut u8,
        _stride: usize,
        _count: usize,
        _len: usize,
    ) -> io::Result<()> {
        Ok(())
    }
}
