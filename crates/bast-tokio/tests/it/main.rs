//! Futures of tokio's, awaited from fibers, from threads and from tokio itself.

mod contexts;
mod ends;
mod futures;
mod harness;
