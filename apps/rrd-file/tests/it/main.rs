//! Tests of the RRD format. Those that need rrdtool are run by `cargo xtask rrd`.

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod printf;
mod random;
