//! What the example programs share.
//!
//! * [`http`] and [`chunked`]: the HTTP/1.x of `pong`, without any I/O.
//! * [`httpfile`]: files over HTTP.
//! * [`options`]: the flags of the servers, and the runtime made of them.
//! * [`server`]: accepting, counting, and stopping on Ctrl-C.
//! * [`limits`]: more descriptors. [`tcp`]: silence and resets.
//! * [`proxy`]: the TCP proxy.

pub mod chunked;
pub mod http;
pub mod httpfile;
#[allow(unsafe_code)]
pub mod limits;
pub mod options;
pub mod proxy;
pub mod server;
#[allow(unsafe_code)]
pub mod tcp;
