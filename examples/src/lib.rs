//! What the example programs share.
//!
//! * [`http`] and [`chunked`]: the HTTP/1.x of `pong`, without any I/O.
//! * [`options`]: the flags of the servers, and the runtime made of them.
//! * [`server`]: accepting, counting, and stopping on Ctrl-C.
//! * [`limits`]: more descriptors.
//! * [`tail`](mod@tail): the end of files, and what is added to it.

pub mod chunked;
pub mod http;
#[allow(unsafe_code)]
pub mod limits;
pub mod options;
pub mod server;
pub mod tail;
