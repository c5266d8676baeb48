//! hyper 1, and with it axum and tower, on bast, with no tokio runtime.
//!
//! ```text
//!   axum, tower ──▶ serve ──▶ hyper ──▶ Io             bast's sockets, polled
//!                                   ├──▶ BastExecutor   tasks on bast's workers
//!                                   └──▶ BastTimer      timers of bast's workers
//!   hyper-util's client ──▶ Connector ──▶ Io
//! ```
//!
//! * [`serve`](serve()) is `axum::serve` for bast: a listener and a tower service.
//! * [`Io`], [`BastExecutor`], [`BastTimer`] are what hyper asks of a runtime, for who puts it together by hand.
//! * [`Compat`] takes any stream of futures-io: TLS, say.
//! * [`Connector`] is for hyper-util's client with its pool.
//!
//! Handlers are polled by tasks, in which nothing may block. Direct style is a fiber away:
//! `bast::spawn(|| …).await`, which is a future like any other.
//!
//! ```no_run
//! use axum::{Router, routing::get};
//! use bast::future::Wait;
//! use bast::net::TcpListener;
//!
//! # fn main() -> std::io::Result<()> {
//! let app = Router::new().route("/", get(async || {
//!     // Blocks a fiber, and neither a worker nor anybody else.
//!     let text = bast::spawn(|| bast::fs::read_to_string("Cargo.toml")).await.unwrap();
//!     text.unwrap_or_default()
//! }));
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let ctrl_c = bast::spawn(bast::signal::ctrl_c);
//! let stop = async { drop(ctrl_c.await) };
//! bast_hyper::serve(listener, app).with_graceful_shutdown(stop).wait()
//! # }
//! ```
//!
//! It has no code for any one system. Its tests are run on Linux and, on Windows' completion ports, by Wine
//! (`cargo xtask windows --package bast-hyper`).

#[allow(unsafe_code)]
mod compat;
#[cfg(feature = "client")]
mod connect;
mod exec;
#[allow(unsafe_code)]
mod io;
#[cfg(feature = "serve")]
mod serve;
mod timer;

pub use compat::Compat;
#[cfg(feature = "client")]
pub use connect::Connector;
pub use exec::{BastExecutor, FiberExecutor};
pub use io::Io;
#[cfg(feature = "serve")]
pub use serve::{PeerAddr, Serve, Web, serve};
pub use timer::BastTimer;
