//! What a pool of stacks can be told: size, kind of guards, colouring, how much stays hot.

/// How a stack is guarded at its low end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Guards {
    /// The cheapest kind that this kernel has.
    #[default]
    Auto,
    /// Page protection even where there is something better. Each guard splits a mapping, so the
    /// number of stacks is limited (on Linux to half of `vm.max_map_count`).
    Mprotect,
}

/// The kind of guard a pool turned out to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardKind {
    /// `MADV_GUARD_INSTALL`, many guards in one `process_madvise`. Costs no mappings.
    Vectored,
    /// `MADV_GUARD_INSTALL`, one call for each guard. Costs no mappings.
    Single,
    /// `mprotect(PROT_NONE)`: two mappings for each stack.
    Mprotect,
    /// Address space that is reserved and never committed: Windows, whatever was asked for.
    Reserved,
}

/// Settings of a [`StackPool`](crate::StackPool).
///
/// ```
/// use bast_coro::{PoolConfig, StackPool};
/// let pool = StackPool::with_config(PoolConfig::new().stack_size(64 * 1024)).unwrap();
/// assert_eq!(pool.default_size(), 64 * 1024);
/// ```
#[derive(Clone, Debug)]
pub struct PoolConfig {
    pub(crate) stack_size: usize,
    pub(crate) guards: Guards,
    pub(crate) colour: bool,
    pub(crate) hot_limit: usize,
    pub(crate) first_slab: usize,
}

impl PoolConfig {
    /// 256 KiB of address space: TLS handshakes and database clients need 10 to 24 KiB, a panic
    /// with a backtrace 64 KiB and more. Only touched pages are ever committed.
    pub const DEFAULT_STACK_SIZE: usize = 256 * 1024;
    /// Smaller requests are rounded up to this.
    pub const MIN_STACK_SIZE: usize = 16 * 1024;
    /// Larger requests are refused.
    pub const MAX_STACK_SIZE: usize = 1 << 32;

    /// The defaults.
    pub const fn new() -> PoolConfig {
        PoolConfig {
            stack_size: Self::DEFAULT_STACK_SIZE,
            guards: Guards::Auto,
            colour: true,
            hot_limit: 2048,
            first_slab: 64,
        }
    }

    /// Usable bytes of a default stack, rounded up to pages.
    pub const fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// How to guard stacks.
    pub const fn guards(mut self, guards: Guards) -> Self {
        self.guards = guards;
        self
    }

    /// Whether the tops of neighbouring stacks are offset by cache lines, so that they do not
    /// compete for the same sets of the first-level cache. On by default.
    pub const fn colour(mut self, on: bool) -> Self {
        self.colour = on;
        self
    }

    /// How many free stacks of each size keep their pages through a trim. Trimming starts by
    /// itself when about twice as many are free.
    pub const fn hot_limit(mut self, stacks: usize) -> Self {
        self.hot_limit = stacks;
        self
    }

    /// How many stacks the first slab of each size holds. Each further slab doubles.
    pub const fn first_slab(mut self, stacks: usize) -> Self {
        self.first_slab = stacks;
        self
    }
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self::new()
    }
}
