//! How long files take to be made and read, and values and lines of CSV to be formatted, without any I/O.
//!
//! `cargo run --release -p rrd-file --example speed`

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use rrd_file::write::{Archive, Builder, Reading, Source};
use rrd_file::{Cf, Query, fetch, format_time, format_value};

const VALUES: usize = 100_000;

/// The best of some rounds, in nanoseconds for each of so many.
fn measure(what: &str, each: usize, mut round: impl FnMut(&mut Vec<u8>)) {
    let mut out = Vec::with_capacity(64 * VALUES);
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        out.clear();
        let begun = Instant::now();
        round(&mut out);
        best = best.min(begun.elapsed().as_nanos() as f64 / each as f64);
        black_box(&out);
    }
    println!("{what:<46} {best:>7.1} ns");
}

fn main() {
    let mut seed = 88_172_645_463_325_252_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut set = |make: fn(u64) -> f64| (0..VALUES).map(|_| make(random())).collect::<Vec<_>>();
    let sets = [
        ("rates of counters", set(|n| (n % 1_000_000_000) as f64 / 300.0)),
        ("small integers", set(|n| (n % 1000) as f64)),
        ("zeros", set(|_| 0.0)),
        ("any bits", set(f64::from_bits)),
    ];
    for (name, values) in &sets {
        measure(&format!("{name}, format_value"), VALUES, |out| {
            values.iter().for_each(|value| format_value(*value, out));
        });
        measure(&format!("{name}, write!(\"{{:.10e}}\")"), VALUES, |out| {
            values.iter().for_each(|value| drop(write!(out, "{value:.10e}")));
        });
    }
    measure("times", VALUES, |out| {
        (0..VALUES as i64).for_each(|i| format_time(1_700_000_000 + i, out))
    });
    measure("lines of two names, a time and two values", VALUES / 2, |out| {
        for (row, pair) in sets[0].1.chunks_exact(2).enumerate() {
            out.extend_from_slice(b"switch-17,eth0,");
            format_time(1_700_000_000 + row as i64 * 300, out);
            for value in pair {
                out.push(b',');
                format_value(*value, out);
            }
            out.push(b'\n');
        }
    });

    // A day of two sources every five minutes, with archives as collectors make them.
    let template = Builder::new(1_700_000_100, 300)
        .source(Source::counter("in", 600))
        .source(Source::counter("out", 600))
        .archive(Archive::new(Cf::Average, 0.5, 1, 288))
        .archive(Archive::new(Cf::Average, 0.5, 12, 168))
        .archive(Archive::new(Cf::Max, 0.5, 12, 168))
        .build()
        .expect("a good description");
    let mut file = Vec::new();
    measure("a file of 288 rows of two, made", 1, |_| {
        let mut rrd = template.clone();
        for row in 1..=288 {
            let readings = [row * 30_000, row * row * 1_000].map(|n: u64| Reading::from(n));
            rrd.update(1_700_000_100 + row as i64 * 300, &readings).expect("a good update");
        }
        file.clear();
        rrd.write_to(&mut file);
    });
    let query = Query::new(Cf::Average, 1_700_000_100, 1_700_000_100 + 288 * 300 - 1);
    measure("its 288 rows, fetched", 1, |_| {
        assert_eq!(black_box(fetch(&file, &query)).map(|fetched| fetched.len()), Ok(288));
    });
}
