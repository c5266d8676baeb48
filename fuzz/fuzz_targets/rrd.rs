//! Any bytes as an RRD file: an answer that fits the question, or an error; no panic, no huge allocation.
//!
//! ```text
//!   cargo install cargo-fuzz
//!   mkdir -p fuzz/corpus/rrd
//!   for f in apps/rrd-file/tests/fixtures/*.rrd; do (head -c 16 /dev/zero; cat $f) > fuzz/corpus/rrd/${f##*/}; done
//!   cargo +nightly fuzz run rrd -- -max_len=8192 -rss_limit_mb=1024 -max_total_time=300
//! ```
//!
//! What the same property finds without the fuzzer, with a seeded generator, is in the tests of rrd-file.

#![no_main]

#[path = "../../apps/rrd-file/tests/it/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| any_bytes::check(data));
