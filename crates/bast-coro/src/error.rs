//! The one error of this crate: there is no stack to be had, with the reason and the remedy.

use std::error::Error;
use std::fmt;
use std::io;

/// Which limit was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackErrorKind {
    /// The system refused to reserve address space.
    AddressSpace,
    /// The system refused one more guard page.
    Guard,
    /// The system refused to commit the first pages of the stack (only on Windows, which counts memory
    /// when it is committed and not when it is touched).
    Memory,
    /// The size asked for is not one a stack can have.
    Size,
}

/// No stack could be had.
///
/// One pointer wide, so that the path on which nothing fails stays in registers.
pub struct StackError(Box<Details>);

struct Details {
    kind: StackErrorKind,
    source: io::Error,
    stack_size: usize,
    live: usize,
    map_limit: Option<u64>,
}

impl StackError {
    #[cold]
    pub(crate) fn new(
        kind: StackErrorKind,
        source: io::Error,
        stack_size: usize,
        live: usize,
        map_limit: Option<u64>,
    ) -> StackError {
        StackError(Box::new(Details { kind, source, stack_size, live, map_limit }))
    }

    /// Which limit was met.
    pub fn kind(&self) -> StackErrorKind {
        self.0.kind
    }

    /// How many stacks of the pool were in use at that moment.
    pub fn live(&self) -> usize {
        self.0.live
    }

    /// The size of stack that was asked for, in bytes.
    pub fn stack_size(&self) -> usize {
        self.0.stack_size
    }

    /// The system's limit on mappings of one process, if it has one and it was the reason.
    pub fn map_limit(&self) -> Option<u64> {
        self.0.map_limit
    }
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { kind, source, stack_size, live, map_limit } = &*self.0;
        match kind {
            StackErrorKind::Size => write!(
                f,
                "a stack cannot have {stack_size} bytes: the largest has {} bytes",
                crate::PoolConfig::MAX_STACK_SIZE
            ),
            StackErrorKind::AddressSpace => write!(
                f,
                "no address space for another stack of {} KiB, {live} stacks exist: {source} \
                 (is there a limit on address space, `ulimit -v`, or vm.overcommit_memory=2?)",
                stack_size / 1024
            ),
            StackErrorKind::Memory => write!(
                f,
                "no memory for the first pages of another stack, {live} stacks exist: {source} (is the \
                 page file too small?)"
            ),
            StackErrorKind::Guard => {
                write!(
                    f,
                    "no guard page for another stack of {} KiB, {live} stacks exist: {source}",
                    stack_size / 1024
                )?;
                match map_limit {
                    Some(limit) => write!(
                        f,
                        "; each guard takes two memory mappings here, and vm.max_map_count is \
                         {limit}. Raise it (sysctl vm.max_map_count={}) or use Linux 6.13 or \
                         later, where guards take none",
                        limit.saturating_mul(4)
                    ),
                    None => Ok(()),
                }
            }
        }
    }
}

impl fmt::Debug for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackError")
            .field("kind", &self.0.kind)
            .field("stack_size", &self.0.stack_size)
            .field("live", &self.0.live)
            .field("map_limit", &self.0.map_limit)
            .field("source", &self.0.source)
            .finish()
    }
}

impl Error for StackError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0.source)
    }
}

impl From<StackError> for io::Error {
    fn from(e: StackError) -> io::Error {
        io::Error::new(io::ErrorKind::OutOfMemory, e)
    }
}
