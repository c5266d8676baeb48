//! Databases of random shape: several sources of every kind and archives of every function, with updates at and
//! between the steps, gaps, unknown readings, counters that wrap, and queries about all that.

use rrd_file::write::{Archive, Builder, Database, Kind, Reading, Source};
use rrd_file::{Cf, Query};

use crate::random::Random;

pub(crate) struct Shape {
    pub(crate) start: i64,
    pub(crate) step: u64,
    pub(crate) sources: Vec<Source>,
    pub(crate) archives: Vec<Archive>,
    pub(crate) updates: Vec<(i64, Vec<Reading>)>,
}

const PLAIN: [Cf; 4] = [Cf::Average, Cf::Min, Cf::Max, Cf::Last];

impl Shape {
    pub(crate) fn random(random: &mut Random) -> Shape {
        let step = random.one_of(&[1, 10, 60, 300, 300, 300, 3600]);
        let start = 1_600_000_000 + random.below(100_000_000) as i64;
        let kinds = [Kind::Gauge, Kind::Counter, Kind::Derive, Kind::Absolute];
        let sources = (0..1 + random.below(4)).map(|number| {
            let heartbeat = step * (1 + random.below(4)) + random.below(2);
            let mut source = Source::new(random.one_of(&kinds), &format!("ds_{number}"), heartbeat);
            source.min = random.one_of(&[f64::NAN, f64::NAN, 0.0, -50.0]);
            source.max = random.one_of(&[f64::NAN, f64::NAN, 1e9, 500.0]);
            source
        });
        let sources: Vec<_> = sources.collect();
        let archives = (0..1 + random.below(5)).map(|_| {
            let xff = random.one_of(&[0.0, 0.25, 0.5, 0.999]);
            let steps = random.one_of(&[1, 1, 2, 3, 6, 12]);
            Archive::new(random.one_of(&PLAIN), xff, steps, 1 + random.below(40))
        });
        let archives = archives.collect();
        let mut shape = Shape { start, step, sources, archives, updates: Vec::new() };
        shape.update(random, 150);
        shape
    }

    /// Adds so many random updates at most.
    pub(crate) fn update(&mut self, random: &mut Random, most: u64) {
        let mut time = self.updates.last().map_or(self.start, |(time, _)| *time);
        let regular = random.below(2) == 0;
        let mut counts = vec![0; self.sources.len()];
        for _ in 0..random.below(most) {
            let wait = match random.below(20) {
                0 => self.step * random.below(30) + 1,
                1..4 => 1 + random.below(self.step),
                _ if regular => self.step - time as u64 % self.step,
                _ => self.step / 2 + 1 + random.below(self.step),
            };
            time += wait as i64;
            let readings = self.sources.iter().zip(&mut counts);
            let readings = readings.map(|(source, count)| reading(random, source.kind, count));
            self.updates.push((time, readings.collect()));
        }
    }

    pub(crate) fn build(&self) -> Database {
        let mut builder = Builder::new(self.start, self.step);
        for source in &self.sources {
            builder = builder.source(source.clone());
        }
        for archive in &self.archives {
            builder = builder.archive(archive.clone());
        }
        let mut rrd = builder.build().unwrap();
        for (time, readings) in &self.updates {
            rrd.update(*time, readings).unwrap();
        }
        rrd
    }

    /// About times around those of the updates, aligned or not, of any length.
    pub(crate) fn query(&self, random: &mut Random) -> Query {
        let last = self.updates.last().map_or(self.start, |(time, _)| *time);
        let span = (last - self.start) as u64 + 20 * self.step;
        let mut from = self.start - 10 * self.step as i64 + random.below(span) as i64;
        let mut to = from + random.below(span) as i64;
        if random.below(3) == 0 {
            from -= from % self.step as i64;
            to = (to - to % self.step as i64).max(from);
        }
        if random.below(40) == 0 {
            to = from - 1 - random.below(10) as i64;
        }
        let cf = if random.below(40) == 0 { Cf::Failures } else { random.one_of(&PLAIN) };
        let resolutions = [None, None, Some(1), Some(self.step * 3), Some(self.step * 12 - 1)];
        Query { cf, from, to, resolution: random.one_of(&resolutions) }
    }
}

fn reading(random: &mut Random, kind: Kind, count: &mut i128) -> Reading {
    if random.below(12) == 0 {
        return Reading::Unknown;
    }
    *count = match (kind, random.below(15)) {
        (Kind::Counter, 0) => i128::from(random.bits() >> random.below(40)),
        (Kind::Counter, _) => (*count + i128::from(random.below(100_000))) % (1 << 32),
        _ => i128::from(random.below(100_000)) - 30_000,
    };
    match kind {
        Kind::Counter | Kind::Derive => Reading::Count(*count),
        Kind::Gauge | Kind::Absolute if *count % 3 == 0 => Reading::Count(*count),
        Kind::Gauge | Kind::Absolute => Reading::Value(*count as f64 / 128.0),
    }
}
