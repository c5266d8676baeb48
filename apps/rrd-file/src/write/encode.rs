//! The bytes of a file, as the machine it is for lays them out; see [`crate::layout`].

use super::{Database, Reading};
use crate::layout::{FLOAT_COOKIE, LAST_DS, Layout, NAME, PARS};

/// Updates with microseconds; what rrdtool itself makes if there is nothing newer in a file.
const VERSION: u32 = 3;

impl Database {
    /// The file, for this machine.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_to(&mut out);
        out
    }

    /// Appends the file, for this machine.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        self.encode(Layout::NATIVE, VERSION, out);
    }

    pub(crate) fn encode(&self, layout: Layout, version: u32, out: &mut Vec<u8>) {
        let values: usize = self.rings.iter().map(|ring| ring.values.len()).sum();
        let (sources, archives) = (self.inputs.len(), self.rings.len());
        out.reserve(256 * (1 + sources) * (1 + archives) + values * 8);
        let mut file = Encoder { layout, begin: out.len(), out };

        file.text("RRD", 4);
        file.text(&format!("{version:04}"), 5);
        file.pad_to(layout.cookie_at());
        file.double(FLOAT_COOKIE);
        file.number(sources as u64, layout.long);
        file.number(archives as u64, layout.long);
        file.number(self.step, layout.long);
        file.pad_to(layout.static_head());
        for input in &self.inputs {
            file.part(layout.source(), |file| {
                file.text(&input.source.name, NAME);
                file.text(input.source.kind.name(), NAME);
                file.par(input.source.heartbeat);
                file.double(input.source.min);
                file.double(input.source.max);
            });
        }
        for ring in &self.rings {
            file.part(layout.archive(), |file| {
                let begin = file.at();
                file.text(ring.spec.cf.name(), NAME);
                file.pad_to(begin + layout.archive_longs_at());
                file.number(ring.spec.rows, layout.long);
                file.number(ring.spec.steps, layout.long);
                file.pad_to(begin + layout.archive_pars_at());
                file.double(ring.spec.xff);
            });
        }
        file.part(layout.live_head(version), |file| file.number(self.last as u64, layout.time));
        for input in &self.inputs {
            file.part(layout.source_prep(), |file| {
                let begin = file.at();
                file.text(&last(input.last), LAST_DS);
                file.pad_to(begin + layout.prep_pars_at());
                file.par(input.unknown);
                file.double(input.amount);
            });
        }
        for partial in self.rings.iter().flat_map(|ring| &ring.partials) {
            file.part(layout.archive_prep(), |file| {
                let begin = file.at();
                file.double(partial.value);
                file.par(partial.unknown);
                file.pad_to(begin + PARS - 16);
                file.double(partial.primary);
                file.double(partial.secondary);
            });
        }
        for ring in &self.rings {
            file.number(ring.current, layout.long);
        }
        for ring in &self.rings {
            match layout.big_endian {
                true => file.out.extend(ring.values.iter().flat_map(|value| value.to_be_bytes())),
                false => file.out.extend(ring.values.iter().flat_map(|value| value.to_le_bytes())),
            }
        }
    }
}

/// A reading as rrdtool keeps it: the text it was given.
fn last(reading: Reading) -> String {
    match reading {
        Reading::Unknown => "U".into(),
        Reading::Count(count) => count.to_string(),
        Reading::Value(value) => {
            let plain = value.to_string();
            if plain.len() < LAST_DS as usize { plain } else { format!("{value:e}") }
        }
    }
}

struct Encoder<'a> {
    layout: Layout,
    out: &'a mut Vec<u8>,
    begin: usize,
}

impl Encoder<'_> {
    fn at(&self) -> u64 {
        (self.out.len() - self.begin) as u64
    }

    fn pad_to(&mut self, at: u64) {
        self.out.resize(self.begin + at as usize, 0);
    }

    /// A structure of this size, and what is at its beginning.
    fn part(&mut self, size: u64, fill: impl FnOnce(&mut Self)) {
        let end = self.at() + size;
        fill(self);
        self.pad_to(end);
    }

    /// Ends with at least one zero.
    fn text(&mut self, text: &str, size: u64) {
        self.part(size, |file| {
            let len = text.len().min(size as usize - 1);
            file.out.extend_from_slice(&text.as_bytes()[..len]);
        });
    }

    fn number(&mut self, number: u64, size: u64) {
        let unused = 8 - size as usize;
        match self.layout.big_endian {
            true => self.out.extend_from_slice(&number.to_be_bytes()[unused..]),
            false => self.out.extend_from_slice(&number.to_le_bytes()[..size as usize]),
        }
    }

    /// A parameter that is a `long`: in the first bytes of the union.
    fn par(&mut self, number: u64) {
        self.part(8, |file| file.number(number, file.layout.long));
    }

    fn double(&mut self, double: f64) {
        self.out.extend_from_slice(&match self.layout.big_endian {
            true => double.to_be_bytes(),
            false => double.to_le_bytes(),
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::layout::Layout;
    use crate::write::{Archive, Builder, Source};
    use crate::{Cf, Header, Query, fetch};

    /// What each machine that is known writes, in each version, is read. Of some there are files made by rrdtool
    /// as well: see tests/fixtures.
    #[test]
    fn all_machines_and_versions() {
        let mut rrd = Builder::new(1_700_000_100, 300)
            .source(Source::counter("in", 600))
            .source(Source::gauge("t", 600))
            .archive(Archive::new(Cf::Average, 0.5, 1, 7))
            .archive(Archive::new(Cf::Max, 0.5, 3, 5))
            .build()
            .unwrap();
        let queries = [
            Query::new(Cf::Average, 1_700_001_000, 1_700_004_000),
            Query { resolution: Some(900), ..Query::new(Cf::Max, 1_700_000_000, 1_700_004_000) },
        ];
        // The last reading may be short or long, and begin with U: it tells how long times are.
        for row in 1..12 {
            let reading = if row == 11 { 5_u64.into() } else { (10_u64.pow(9) * row).into() };
            rrd.update(1_700_000_100 + row as i64 * 300, &[reading, (row as f64).into()]).unwrap();
            let native = rrd.bytes();
            let machines = [(8, 8, 8), (4, 4, 8), (4, 8, 8), (4, 4, 4), (4, 8, 4)];
            for ((long, time, align), big_endian) in
                machines.into_iter().flat_map(|machine| [(machine, false), (machine, true)])
            {
                // No big-endian machine puts doubles at multiples of four.
                if align == 4 && big_endian {
                    continue;
                }
                let layout = Layout { big_endian, long, time, align };
                for version in 1..=5 {
                    let mut file = Vec::new();
                    rrd.encode(layout, version, &mut file);
                    let header = Header::parse(&file).unwrap();
                    assert_eq!((header.version(), header.layout), (version, layout));
                    assert_eq!(header.file_len(), file.len() as u64);
                    assert_eq!(header.last_update(), rrd.last_update());
                    assert_eq!(header.archives()[1].cf, Some(Cf::Max));
                    for query in &queries {
                        let [ours, theirs] =
                            [&native, &file].map(|file| fetch(file, query).unwrap());
                        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
                    }
                }
            }
        }
    }
}
