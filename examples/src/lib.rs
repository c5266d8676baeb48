//! What the example programs share.
//!
//! * [`http`] and [`chunked`]: the HTTP/1.x of `pong`, without any I/O.
//! * [`httpfile`]: files over HTTP.
//! * [`options`]: the flags of the servers, and the runtime made of them.
//! * [`server`]: accepting, counting, and stopping on Ctrl-C.
//! * [`limits`]: more descriptors.

pub mod chunked;
pub mod http;
pub mod httpfile;
#[allow(unsafe_code)]
pub mod limits;
pub mod options;
pub mod server;
