//! The I/O manager: give an [`Op`], get a completion.
//!
//! One interface over io_uring, epoll, kqueue, completion ports and an in-memory simulator. It knows nothing of fibers.

#[allow(unsafe_code)]
pub mod addr;
#[allow(unsafe_code)]
pub mod batch;
#[allow(unsafe_code)]
#[cfg_attr(windows, path = "windows/beneath.rs")]
pub mod beneath;
#[allow(unsafe_code)]
pub mod blocking;
#[allow(unsafe_code)]
#[cfg_attr(windows, path = "windows/child.rs")]
pub mod child;
#[allow(unsafe_code)]
#[cfg_attr(windows, path = "windows/conduit.rs")]
pub mod conduit;
#[allow(unsafe_code)]
pub mod driver;
#[allow(unsafe_code)]
#[cfg_attr(windows, path = "windows/fifo.rs")]
pub mod fifo;
#[allow(unsafe_code)]
pub mod foreign;
#[allow(unsafe_code)]
pub mod handle;
#[allow(unsafe_code)]
#[cfg_attr(windows, path = "windows/interrupt.rs")]
mod interrupt;
#[allow(unsafe_code)]
#[cfg(windows)]
#[path = "windows/job.rs"]
pub mod job;
#[allow(unsafe_code)]
mod list;
#[allow(unsafe_code)]
pub mod msg;
#[allow(unsafe_code)]
mod nature;
pub mod op;
pub mod open;
#[allow(unsafe_code)]
pub mod opt;
pub mod outcome;
#[allow(unsafe_code)]
#[cfg_attr(windows, path = "windows/pipe.rs")]
pub mod pipe;
#[allow(unsafe_code)]
pub mod pool;
#[allow(unsafe_code)]
#[cfg_attr(windows, path = "windows/probe.rs")]
pub mod probe;
#[allow(unsafe_code)]
pub mod record;
#[allow(unsafe_code)]
#[cfg(unix)]
pub mod rights;
#[allow(unsafe_code)]
#[cfg_attr(windows, path = "windows/signal.rs")]
pub mod signal;
#[allow(unsafe_code)]
pub mod stat;
#[allow(unsafe_code)]
mod sys;
#[allow(unsafe_code)]
pub mod waker;
#[allow(unsafe_code)]
#[cfg_attr(windows, path = "windows/warm.rs")]
pub mod warm;

pub use addr::SockAddr;
pub use driver::{Config, Driver, DriverKind, Wait};
pub use handle::{Handle, HandleRef, Kind};
pub use interrupt::is_interruption;
pub use op::{Half, Interest, Op, SockOpt};
pub use open::OpenHow;
pub use outcome::Outcome;
pub use pool::{Bounds, Pool, PoolStats};
pub use record::{Done, Record};
pub use stat::Stat;
#[doc(no_inline)]
pub use sys::{c, prefetch};
pub use waker::Waker;
