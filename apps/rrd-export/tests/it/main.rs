//! Tests of the program and its parts.

mod fleet;
mod job;
mod mixed;
mod outputs;
mod resume;
mod rrdtool;
#[cfg(feature = "servers")]
mod servers;
mod trouble;
