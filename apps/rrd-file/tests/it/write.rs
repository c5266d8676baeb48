//! The writer: consolidation by hand, and what it refuses. Against rrdtool it is tested in `rrdtool.rs`.

use rrd_file::write::{Archive, Builder, Kind, Reading, Source};
use rrd_file::{Cf, Error, Query, fetch};

const START: i64 = 1_700_000_400;

fn builder() -> Builder {
    Builder::new(START, 100)
}

/// The rows of one source in one archive, by a query that no other archive can answer.
fn rows(archive: Archive, source: Source, updates: &[(i64, Reading)]) -> Vec<f64> {
    let query = Query::new(archive.cf, START, START + 100 * archive.steps as i64 * 2 - 1);
    let mut rrd = builder().source(source).archive(archive).build().unwrap();
    for (after, reading) in updates {
        rrd.update(START + after, &[*reading]).unwrap();
    }
    fetch(&rrd.bytes(), &query).unwrap().values
}

fn same(found: &[f64], expected: &[f64]) {
    let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(same),
        "{found:?} instead of {expected:?}",
    );
}

#[test]
fn each_function_has_its_row() {
    let readings = [3.0, 1.0, 8.0, 4.0, f64::NAN, 5.0, f64::NAN, f64::NAN];
    let updates: Vec<_> = (1..).map(|n| n * 100).zip(readings.map(Reading::from)).collect();
    let rows = |cf| rows(Archive::new(cf, 0.5, 4, 9), Source::gauge("a", 150), &updates);
    same(&rows(Cf::Average), &[4.0, f64::NAN]);
    same(&rows(Cf::Min), &[1.0, f64::NAN]);
    same(&rows(Cf::Max), &[8.0, f64::NAN]);
    same(&rows(Cf::Last), &[4.0, f64::NAN]);
}

#[test]
fn what_may_be_unknown_is_left_out() {
    let updates =
        [(100, 4.0.into()), (200, Reading::Unknown), (300, 8.0.into()), (400, 6.0.into())];
    let rows = |xff| rows(Archive::new(Cf::Average, xff, 4, 9), Source::gauge("a", 150), &updates);
    same(&rows(0.25), &[6.0, f64::NAN]);
    same(&rows(0.2), &[f64::NAN, f64::NAN]);
}

#[test]
fn counters_wrap_and_limits_hold() {
    let one = |source, readings: [u64; 3]| {
        let updates = [(0, 0), (100, 1), (200, 2)].map(|(at, n)| (at + 1, readings[n].into()));
        rows(Archive::new(Cf::Average, 0.5, 1, 9), source, &updates)
    };
    // Of the first step one second is unknown. By a wrap at 32 bits rrdtool means one at 2^32 - 1.
    let counter = || Source::counter("a", 300);
    same(&one(counter(), [4_294_967_196, 4_294_967_246, 1]), &[0.5, 0.5]);
    let narrow = Source { max: 0.4, ..counter() };
    same(&one(narrow, [4_294_967_196, 4_294_967_246, 1]), &[f64::NAN, f64::NAN]);
    let derive = Source::new(Kind::Derive, "a", 300);
    same(&one(derive, [1000, 900, 800]), &[-1.0, -1.0]);
}

#[test]
fn bad_descriptions_are_refused() {
    let gauge = |name: &str| Source::gauge(name, 600);
    let archive = |steps, rows| Archive::new(Cf::Average, 0.5, steps, rows);
    let good = builder().source(gauge("a")).archive(archive(1, 10));
    assert!(good.clone().build().is_ok());
    let bad = [
        Builder::new(5, 100).source(gauge("a")).archive(archive(1, 10)),
        Builder::new(START, 0).source(gauge("a")).archive(archive(1, 10)),
        builder().source(gauge("a")),
        builder().archive(archive(1, 10)),
        good.clone().source(gauge("a")),
        good.clone().source(gauge("")),
        good.clone().source(gauge("with space")),
        good.clone().source(gauge("twenty-characters-xx")),
        good.clone().source(Source::gauge("b", 0)),
        good.clone().source(Source { min: 1.0, max: 1.0, ..gauge("b") }),
        good.clone().archive(archive(0, 10)),
        good.clone().archive(archive(1, 0)),
        good.clone().archive(archive(u64::MAX, 2)),
        good.clone().archive(archive(1, u64::MAX)),
        good.clone().archive(Archive::new(Cf::Average, 1.0, 1, 10)),
        good.clone().archive(Archive::new(Cf::Seasonal, 0.5, 1, 10)),
    ];
    for (number, builder) in bad.into_iter().enumerate() {
        assert!(matches!(builder.build(), Err(Error::BadSpec(_))), "{number}");
    }
}

#[test]
fn bad_updates_change_nothing() {
    let builder = builder().source(Source::counter("a", 600)).source(Source::gauge("b", 600));
    let mut rrd = builder.archive(Archive::new(Cf::Average, 0.5, 1, 10)).build().unwrap();
    rrd.update(START + 100, &[7_u64.into(), 1.5.into()]).unwrap();
    let before = rrd.bytes();
    let count = Reading::from(8_u64);
    for (time, readings) in [
        (START + 100, &[count, count][..]),
        (START - 1, &[count, count]),
        (START + 200, &[count]),
        (START + 200, &[count, count, count]),
        (START + 200, &[1.5.into(), count]),
        (START + 200, &[Reading::from(-1_i64), count]),
        (i64::MAX, &[count, count]),
    ] {
        assert!(matches!(rrd.update(time, readings), Err(Error::BadSpec(_))), "{readings:?}");
        assert!(rrd.bytes() == before);
    }
}
