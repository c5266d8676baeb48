//! Files of mixed shapes through the whole program: what rrdtool says of them is what we say of them, line by line.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Output, Stdio};

use rrd_file::Cf;
use rrd_file::write::{Archive, Builder, Kind, Reading, Source};

const FILES: u64 = 500;

const BEGIN: i64 = 1_700_000_000;

/// Several sources, steps and archives, runs of unknown values, counters that wrap, updates between the steps.
fn database(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % end
    };
    let step = [10, 60, 300, 300, 3600][below(5) as usize];
    let kinds = [Kind::Gauge, Kind::Counter, Kind::Derive, Kind::Absolute];
    let kinds: Vec<Kind> = (0..1 + below(4)).map(|_| kinds[below(4) as usize]).collect();
    let mut builder = Builder::new(BEGIN, step);
    for (number, kind) in kinds.iter().enumerate() {
        builder = builder.source(Source::new(*kind, &format!("ds{number}"), step * (1 + below(3))));
    }
    for _ in 0..1 + below(5) {
        let cf = [Cf::Average, Cf::Average, Cf::Min, Cf::Max, Cf::Last][below(5) as usize];
        let xff = [0.0, 0.5, 0.9][below(3) as usize];
        let steps = [1, 1, 3, 12][below(4) as usize];
        builder = builder.archive(Archive::new(cf, xff, steps, 5 + below(50)));
    }
    let mut file = builder.build().unwrap();
    let (mut time, mut count) = (BEGIN, 0);
    for _ in 0..below(200) {
        let gap = if below(15) == 0 { step * (1 + below(20)) } else { 0 };
        time += (step / 2 + 1 + below(step) + gap) as i64;
        count = (count + i128::from(below(1 << 29))) % (1 << 32);
        let unknown = below(10) == 0;
        let reading = |kind: &Kind| match kind {
            _ if unknown => Reading::Unknown,
            Kind::Counter | Kind::Derive => Reading::Count(count),
            Kind::Gauge | Kind::Absolute => Reading::Value(count as f64 / 128.0),
        };
        let readings: Vec<Reading> = kinds.iter().map(reading).collect();
        file.update(time, &readings).unwrap();
    }
    file.bytes()
}

#[test]
#[ignore = "needs rrdtool: cargo xtask rrd"]
fn five_hundred_files_of_mixed_shapes() {
    let dir = tempfile::tempdir().unwrap();
    let mut devices = String::from("id\n");
    for file in 0..FILES {
        fs::write(dir.path().join(format!("{file}.rrd")), database(file)).unwrap();
        writeln!(devices, "{file}").unwrap();
    }
    fs::write(dir.path().join("devices.tsv"), devices).unwrap();
    let (mut rows, mut failed) = (0, 0);
    for (cf, from, to, resolution) in [
        ("AVERAGE", 0, 20_000, "1"),
        ("AVERAGE", 1_234, 5_678, "3600"),
        ("MIN", -7_200, 40_001, "300"),
        ("MAX", 3_599, 100_003, "900"),
        ("LAST", 17, 30_000, "60"),
    ] {
        let export = |reader: &str| {
            let at = |what: &str| dir.path().join(format!("{reader}-{cf}-{from}.{what}"));
            let mut command = Command::new(env!("CARGO_BIN_EXE_rrd-export"));
            command.args([
                "--quiet",
                "--layout",
                "long",
                "--columns",
                "time,id",
                "-p",
                "{base}/{id}.rrd",
            ]);
            command.args(["--cf", cf, "--resolution", resolution, "--reader", reader]);
            command.args([format!("--from={}", BEGIN + from), format!("--to={}", BEGIN + to)]);
            command.arg("-b").arg(dir.path()).arg("-d").arg(dir.path().join("devices.tsv"));
            command.arg("-o").arg(at("csv")).arg("--report").arg(at("tsv")).stdin(Stdio::null());
            let Output { status, stderr, .. } = command.output().unwrap();
            let told = String::from_utf8_lossy(&stderr);
            assert!(matches!(status.code(), Some(0 | 3)), "{reader} {cf}: {told}");
            // The reasons are in other words.
            let report = fs::read_to_string(at("tsv")).unwrap();
            let paths = report.lines().map(|line| line.split('\t').next().unwrap().to_owned());
            (fs::read_to_string(at("csv")).unwrap(), paths.collect::<Vec<_>>())
        };
        let (ours, theirs) = (export("native"), export("rrdtool"));
        let differ = ours.0.lines().zip(theirs.0.lines()).find(|(ours, theirs)| ours != theirs);
        assert_eq!(differ, None, "{cf} from {from}");
        assert!(ours == theirs, "{cf} from {from}: other files failed, or one has more lines");
        rows += ours.0.lines().count() - 1;
        failed += ours.1.len() - 1;
    }
    assert!(rows > 10_000 && failed > 100, "{rows} rows, {failed} failed");
}
