//! Tests of the RRD format. Those that need rrdtool are run by `cargo xtask rrd`.

mod any_bytes;
mod corrupt;
mod fixtures;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod printf;
mod random;
mod rrdtool;
mod shape;
mod text;
mod write;
