//! Options of a [`Coroutine`] that is to be made.

use std::cell::RefCell;
use std::rc::Rc;

use crate::config::PoolConfig;
use crate::coroutine::Coroutine;
use crate::error::StackError;
use crate::pool::StackPool;
use crate::yielder::Yielder;

/// Name and stack size of a [`Coroutine`] to be made.
///
/// ```
/// use bast_coro::Builder;
/// let deep = Builder::new().name("deep").stack_size(1 << 20).create(|_| 1).unwrap();
/// assert_eq!(deep.name(), Some("deep"));
/// assert_eq!(deep.stack_size(), 1 << 20);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    name: Option<Box<str>>,
    stack_size: Option<usize>,
}

impl Builder {
    /// No name, default size.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// A name, for messages.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into().into_boxed_str());
        self
    }

    /// Bytes of stack; rounded up, see [`StackPool::take_sized`].
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = Some(bytes);
        self
    }

    /// A coroutine with a stack of its own.
    pub fn create<R, F>(self, body: F) -> Result<Coroutine<R>, StackError>
    where
        F: FnOnce(&Yielder<'_>) -> R + 'static,
    {
        let size = self.stack_size.unwrap_or(PoolConfig::DEFAULT_STACK_SIZE);
        let config = PoolConfig::new().stack_size(size).first_slab(1).hot_limit(1);
        let pool = StackPool::with_config(config)?;
        Coroutine::make(self.name, Rc::new(RefCell::new(pool)), size, body)
    }

    /// A coroutine with a stack from `pool`, by default of the pool's default size.
    pub fn create_in<R, F>(
        self,
        pool: &Rc<RefCell<StackPool>>,
        body: F,
    ) -> Result<Coroutine<R>, StackError>
    where
        F: FnOnce(&Yielder<'_>) -> R + 'static,
    {
        let size = self.stack_size.unwrap_or_else(|| pool.borrow().default_size());
        Coroutine::make(self.name, Rc::clone(pool), size, body)
    }
}
