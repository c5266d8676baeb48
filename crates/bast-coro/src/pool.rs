//! The stacks of one thread.
//!
//! A pool belongs to the thread that made it and is not `Send`. It holds one [`Class`] for each
//! size of stack that was ever asked for; the default one has a field of its own, so that the
//! common path is one pop or one push.

use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::class::{Class, ClassConfig};
use crate::config::{GuardKind, PoolConfig};
use crate::error::{StackError, StackErrorKind};
use crate::guard::Guard;
use crate::os;
use crate::overflow;
use crate::registry::{self, Registration, SlabInfo};
use crate::stack::Stack;

/// One thread's supply of stacks: reserved in slabs, committed page by page, guarded, recycled.
///
/// ```
/// use bast_coro::StackPool;
/// let mut pool = StackPool::new().unwrap();
/// let stack = pool.take().unwrap();
/// assert_eq!(stack.usable_size(), 256 * 1024);
/// pool.give(stack);
/// assert_eq!(pool.stats().live, 0);
/// ```
///
/// A pool that is dropped while stacks of it are out leaves their memory mapped for ever: nobody
/// could say whether code is still suspended there.
pub struct StackPool {
    main: Class,
    others: Vec<Class>,
    guard: Guard,
    config: PoolConfig,
    page: usize,
    /// Its place in the registry is the pool's identity. Kept for ever if stacks are still out at
    /// the end, or a later pool could get the same one and take them for its own.
    id: ManuallyDrop<Registration>,
    _not_send: PhantomData<*mut ()>,
}

/// A count of what a [`StackPool`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Stacks in use.
    pub live: usize,
    /// Stacks that were given back and are ready to be taken again.
    pub free: usize,
    /// Those of the free ones that have kept their pages.
    pub hot: usize,
    /// Slabs of address space.
    pub slabs: usize,
    /// Address space of all stacks, in use and free, in bytes. Memory is used only as far as code got.
    pub bytes: usize,
    /// How stacks are guarded. May move to a costlier kind when the first guards are installed.
    pub guards: GuardKind,
}

impl StackPool {
    /// A pool with default settings. Installs the overflow report (see [`overflow`]).
    pub fn new() -> Result<StackPool, StackError> {
        Self::with_config(PoolConfig::new())
    }

    /// A pool with the given settings. Fails only if the stack size is out of range.
    pub fn with_config(config: PoolConfig) -> Result<StackPool, StackError> {
        overflow::install();
        let page = os::page_size();
        let usable = round(config.stack_size, page)?;
        let id = ManuallyDrop::new(registry::register(SlabInfo::default()));
        let main = Class::new(class_config(0, usable, page, &config, &id));
        let guard = Guard::new(config.guards);
        Ok(StackPool { main, others: Vec::new(), guard, config, page, id, _not_send: PhantomData })
    }

    /// Usable bytes of a default stack.
    pub fn default_size(&self) -> usize {
        self.main.usable
    }

    /// A stack of the default size. A few nanoseconds if one is free.
    #[inline]
    pub fn take(&mut self) -> Result<Stack, StackError> {
        match self.main.take_hot() {
            Some(stack) => Ok(stack),
            None => self.take_slow(0),
        }
    }

    /// A stack of at least `bytes`, rounded up to pages and to
    /// [`PoolConfig::MIN_STACK_SIZE`].
    pub fn take_sized(&mut self, bytes: usize) -> Result<Stack, StackError> {
        let usable = round(bytes, self.page)?;
        if usable == self.main.usable {
            return self.take();
        }
        let index = match self.others.iter().position(|c| c.usable == usable) {
            Some(i) => i + 1,
            None => {
                let index = self.others.len() + 1;
                let config = class_config(index, usable, self.page, &self.config, &self.id);
                self.others.push(Class::new(config));
                index
            }
        };
        match self.others[index - 1].take_hot() {
            Some(stack) => Ok(stack),
            None => self.take_slow(index),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_slow(&mut self, index: usize) -> Result<Stack, StackError> {
        let class = match index {
            0 => &mut self.main,
            i => &mut self.others[i - 1],
        };
        let usable = class.usable;
        class.take_slow(&mut self.guard).map_err(|(kind, source)| {
            let by_mappings =
                kind == StackErrorKind::Guard && self.guard.kind() == GuardKind::Mprotect;
            let limit = if by_mappings { os::map_limit() } else { None };
            StackError::new(kind, source, usable, self.stats().live, limit)
        })
    }

    /// Takes a stack back. A few nanoseconds; now and then it gives memory back in bulk.
    ///
    /// # Panics
    /// If the stack is another pool's.
    #[inline]
    pub fn give(&mut self, stack: Stack) {
        let header = stack.header();
        if header.pool.get() != self.id.place() {
            foreign();
        }
        header.clear_label();
        match header.class.get() {
            0 => self.main.give(stack),
            i => self.others[i - 1].give(stack),
        }
    }

    /// Gives memory back to the system: of each size, the `max_hot` most recently used free
    /// stacks keep their top 16 KiB, all others keep nothing.
    ///
    /// Takes about 0.3 µs for each hot stack, so it is for idle moments. Bursts are taken care of
    /// without it (see [`PoolConfig::hot_limit`]).
    pub fn trim(&mut self, max_hot: usize) {
        for class in std::iter::once(&mut self.main).chain(&mut self.others) {
            class.shed(max_hot);
            class.sweep(max_hot);
        }
    }

    /// What the pool holds, over all sizes.
    pub fn stats(&self) -> PoolStats {
        let mut stats =
            PoolStats { live: 0, free: 0, hot: 0, slabs: 0, bytes: 0, guards: self.guard.kind() };
        for class in std::iter::once(&self.main).chain(&self.others) {
            stats.live += class.live();
            stats.free += class.free();
            stats.hot += class.hot();
            stats.slabs += class.slabs();
            stats.bytes += (class.live() + class.free()) * class.usable;
        }
        stats
    }
}

impl Drop for StackPool {
    fn drop(&mut self) {
        if self.stats().live == 0 {
            // SAFETY: once, and not used after this.
            unsafe { ManuallyDrop::drop(&mut self.id) };
        }
    }
}

impl std::fmt::Debug for StackPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackPool")
            .field("config", &self.config)
            .field("stats", &self.stats())
            .finish()
    }
}

fn class_config(
    index: usize,
    usable: usize,
    page: usize,
    config: &PoolConfig,
    id: &Registration,
) -> ClassConfig {
    ClassConfig {
        index,
        usable,
        page,
        coloured: config.colour,
        pool: id.place(),
        hot_limit: config.hot_limit,
        first_slab: config.first_slab,
    }
}

fn round(bytes: usize, page: usize) -> Result<usize, StackError> {
    if bytes > PoolConfig::MAX_STACK_SIZE {
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        return Err(StackError::new(StackErrorKind::Size, source, bytes, 0, None));
    }
    Ok(bytes.max(PoolConfig::MIN_STACK_SIZE).next_multiple_of(page))
}

#[cold]
#[inline(never)]
fn foreign() -> ! {
    panic!("a stack was given to a pool that it was not taken from")
}
