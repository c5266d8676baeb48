//! What the example programs share. (`pong` and `echo` are for every system, the others for Unix.)
//!
//! * [`http`] and [`chunked`]: the HTTP/1.x of `pong`, without any I/O.
//! * [`httpfile`]: files over HTTP.
//! * [`options`]: the flags of the servers, and the runtime made of them.
//! * [`server`]: accepting, counting, and stopping on Ctrl-C.
//! * [`limits`]: more descriptors. [`tcp`]: silence and resets.
//! * [`proxy`]: the TCP proxy.
//! * [`accept`] and [`head`]: the same for `https` and `chat`, in a few lines: a group of fibers, a
//!   semaphore, a token; and any stream.
//! * [`https`], [`chat`], [`crawl`]: the programs of these names.
//! * [`run_all`]: many commands, a few at a time.
//! * [`tail`](mod@tail): the end of files, and what is added to it.

pub mod accept;
#[cfg(unix)]
pub mod chat;
pub mod chunked;
#[cfg(unix)]
pub mod crawl;
#[cfg(unix)]
pub mod head;
pub mod http;
#[cfg(unix)]
pub mod httpfile;
#[cfg(unix)]
pub mod https;
#[allow(unsafe_code)]
pub mod limits;
pub mod options;
#[cfg(unix)]
pub mod proxy;
#[cfg(unix)]
pub mod run_all;
pub mod server;
#[cfg(unix)]
pub mod tail;
#[allow(unsafe_code)]
#[cfg(unix)]
pub mod tcp;
