//! The async ecosystem in direct style: clients and servers made on tokio, used by bast's fibers.
//!
//! * [`fetch`]: many requests by `reqwest`, a fiber for each. [`origin`]: a server to ask, in process.
//! * [`bank`]: transfers between accounts by `sqlx`: transactions, rollback, cancelled queries; the same on SQLite,
//!   PostgreSQL and MySQL.
//! * [`rpc`]: a `tonic` server whose methods are fibers, and a client in direct style.
//! * [`cache`]: one multiplexed `redis` connection for all fibers, pipelines, publish and subscribe.
//!
//! All of it runs inside [`bast_tokio::run`]: there each future is waited for by bast's own `wait`, and what is
//! dropped (connections that go back to their pool) finds tokio's context as well, also when the fiber unwinds.

pub mod bank;
pub mod cache;
pub mod fetch;
pub mod origin;
pub mod rpc;

/// Whatever went wrong, in words.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// A fault with all its causes: libraries tell the one that helps last.
#[must_use]
pub fn told(fault: &(dyn std::error::Error + 'static)) -> String {
    let mut text = fault.to_string();
    let mut cause = fault.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = inner.source();
    }
    text
}
