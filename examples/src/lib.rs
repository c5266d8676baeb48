//! What the example programs share.
//!
//! * [`http`] and [`chunked`]: the HTTP/1.x of `pong`, without any I/O.
//! * [`httpfile`]: files over HTTP.
//! * [`options`]: the flags of the servers, and the runtime made of them.
//! * [`server`]: accepting, counting, and stopping on Ctrl-C.
//! * [`os`]: what the system has to do for them. [`tcp`]: resets.
//! * [`proxy`]: the TCP proxy.
//! * [`accept`] and [`head`]: the same for `https` and `chat`, in a few lines: a group of fibers, a
//!   semaphore, a token; and any stream.
//! * [`https`], [`chat`], [`crawl`]: the programs of these names.
//! * [`run_all`]: many commands, a few at a time.
//! * [`tail`](mod@tail): the end of files, and what is added to it.

pub mod accept;
pub mod chat;
pub mod chunked;
pub mod crawl;
pub mod head;
pub mod http;
pub mod httpfile;
pub mod https;
pub mod options;
#[allow(unsafe_code)]
#[cfg_attr(unix, path = "os/unix.rs")]
#[cfg_attr(windows, path = "os/windows.rs")]
pub mod os;
pub mod proxy;
pub mod run_all;
pub mod server;
pub mod tail;
pub mod tcp;
