//! The libraries as they are, against real servers. `cargo xtask ecosystem` starts PostgreSQL, MariaDB and redis, and
//! tells where they are; without that, what needs them says that it is skipped.

mod bank;
mod cache;
mod fetch;
mod harness;
mod program;
mod rpc;
