//! A data set of a given size, always the same for the same seed: for trying things out, for tests and measurements.
//!
//! ```text
//!   DIR/dc01/17/eth0.rrd     a device's files: traffic_in, traffic_out, …; counters' rates with a daily wave, noise and gaps
//!   DIR/devices.sqlite       table devices (id, name, dc)
//! ```
//!
//! What is in a file depends on the seed, the device and the file alone, not on how many there are or who writes them. The
//! files are whole RRD files: rrdtool reads and updates them.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use indicatif::ProgressBar;
use jiff::Zoned;
use rrd_file::Cf;
use rrd_file::write::{Archive, Builder, Database, Kind, Source};
use rusqlite::{Connection, OpenFlags};

use crate::cli;
use crate::exit::{Exit, say};
use crate::time::moment;

/// What to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The directory; made if it is not there.
    pub dir: PathBuf,
    /// Rows in the devices' table.
    pub devices: u64,
    /// RRD files, spread over the devices.
    pub files: u64,
    /// Data centres, over which devices are spread.
    pub dcs: u64,
    /// Rows in the archive of each file.
    pub rows: u64,
    /// Sources in each file.
    pub sources: u64,
    /// Seconds between rows.
    pub step: u64,
    /// When the last row ends, in seconds since the epoch.
    pub end: i64,
    /// Chance begins here.
    pub seed: u64,
}

/// What the sources are called, at first.
const SOURCES: [&str; 4] = ["traffic_in", "traffic_out", "errors_in", "errors_out"];

impl Plan {
    fn file(&self, device: u64, number: u64, template: &Database) -> Result<Vec<u8>, String> {
        let mut chance = Chance(self.seed ^ device.rotate_left(32) ^ number);
        let mut file = template.clone();
        let begin = self.begin();
        let level = 1e3 * 10f64.powf(chance.unit() * 6.0);
        let mut values = vec![0.0.into(); self.sources as usize];
        // A gap in a third of the files: somewhere, of up to a tenth of the rows.
        let gap = chance.next().is_multiple_of(3).then(|| chance.next() % self.rows);
        let gap = gap.map_or(0..0, |at| at..at + 1 + chance.next() % (self.rows / 10 + 1));
        for row in 0..self.rows {
            let time = begin + ((row + 1) * self.step) as i64;
            let day = (time % 86_400) as f64 / 86_400.0 * std::f64::consts::TAU;
            for value in &mut values {
                let noise = 0.5 + chance.unit();
                *value = match gap.contains(&row) {
                    true => f64::NAN.into(),
                    false => (level * (1.2 - day.cos()) * noise).into(),
                };
            }
            file.update(time, &values).map_err(|error| error.to_string())?;
        }
        Ok(file.bytes())
    }

    /// When the first row begins: at a multiple of the step, so that no value is spread over two rows.
    fn begin(&self) -> i64 {
        let step = self.step as i64;
        self.end.div_euclid(step) * step - (self.rows * self.step) as i64
    }

    fn template(&self) -> Result<Database, String> {
        let mut builder = Builder::new(self.begin(), self.step);
        for number in 0..self.sources {
            let name =
                SOURCES.get(number as usize).map_or(format!("source{number}"), |n| n.to_string());
            builder = builder.source(Source::new(Kind::Gauge, &name, 2 * self.step));
        }
        let archive = Archive::new(Cf::Average, 0.5, 1, self.rows);
        builder.archive(archive).build().map_err(|error| error.to_string())
    }

    fn dc(&self, device: u64) -> String {
        format!("dc{:02}", device % self.dcs + 1)
    }

    /// Which files a device has, by number: as many as others, or one more.
    fn files_of(&self, device: u64) -> std::ops::Range<u64> {
        let share = |device: u64| {
            (u128::from(self.files) * u128::from(device) / u128::from(self.devices)) as u64
        };
        0..share(device + 1) - share(device)
    }
}

/// The command `generate`.
#[must_use]
pub fn command(args: &cli::Generate) -> Exit {
    let now = Zoned::now();
    let end = match moment(&args.end, &now, None) {
        Ok(end) => end,
        Err(error) => {
            say(format_args!("rrd-export: --end: {error}"));
            return Exit::Usage;
        }
    };
    let cli::Generate { ref dir, devices, files, dcs, rows, sources, step, seed, .. } = *args;
    let plan = Plan { dir: dir.clone(), devices, files, dcs, rows, sources, step, end, seed };
    let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(files) };
    let begun = Instant::now();
    let outcome = generate(&plan, |files| bar.inc(files));
    bar.finish_and_clear();
    match outcome {
        Ok(()) if args.quiet => Exit::Complete,
        Ok(()) => {
            let dir = dir.display();
            let seconds = begun.elapsed().as_secs_f64();
            say(format_args!(
                "{files} files of {devices} devices in {seconds:.1} s; to export them:"
            ));
            let (from, to) = (plan.begin(), plan.begin() + (rows * step) as i64 - 1);
            say(format_args!(
                "  rrd-export --devices {dir}/devices.sqlite --base {dir} --from {from} --to {to}"
            ));
            Exit::Complete
        }
        Err(error) => {
            say(format_args!("rrd-export: {error}"));
            Exit::Fatal
        }
    }
}

/// Makes the data set, with as many fibers as there are workers; `made` is told of each device's files. Existing files of
/// the same names are replaced, but not a `devices.sqlite` of somebody else's.
///
/// # Errors
/// What could not be written, or makes no sense.
pub fn generate(plan: &Plan, made: impl Fn(u64) + Sync) -> Result<(), String> {
    if plan.devices == 0 || plan.dcs == 0 {
        return Err("there must be a device and a data centre".into());
    }
    let at = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let template = plan.template()?;
    bast::blocking(|| {
        fs::create_dir_all(&plan.dir).map_err(|error| at(&plan.dir, error))?;
        let path = plan.dir.join("devices.sqlite");
        let named = |error| format!("{}: {error}", path.display());
        if !is_ours(&path).map_err(named)? {
            let text = "was not made by `generate`: choose another directory, or move it away";
            return Err(format!("{} {text}", path.display()));
        }
        database(plan, &path).map_err(named)
    })?;
    let workers = bast::available_parallelism().map_or(1, usize::from);
    let write = |device: u64| -> Result<(), String> {
        let dir = plan.dir.join(plan.dc(device)).join((device + 1).to_string());
        let files = plan.files_of(device);
        let count = files.end;
        bast::blocking(|| {
            fs::create_dir_all(&dir).map_err(|error| at(&dir, error))?;
            for number in files {
                let path = dir.join(format!("eth{number}.rrd"));
                fs::write(&path, plan.file(device, number, &template)?)
                    .map_err(|error| at(&path, error))?;
            }
            Ok::<_, String>(())
        })?;
        made(count);
        Ok(())
    };
    let outcome = RefCell::new(Ok(()));
    let devices = (0..plan.devices).take_while(|_| outcome.borrow().is_ok());
    bast::group::par_map_unordered(devices, workers, write, |result| {
        if result.is_err() {
            *outcome.borrow_mut() = result;
        }
    });
    outcome.into_inner()
}

/// What a database that was made here says of itself, "bast".
const APPLICATION: i32 = 0x6261_7374;

/// Whether this name is free for the data set's own database.
fn is_ours(path: &Path) -> rusqlite::Result<bool> {
    if !path.try_exists().unwrap_or(true) {
        return Ok(true);
    }
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    Ok(database.pragma_query_value(None, "application_id", |row| row.get(0)) == Ok(APPLICATION))
}

fn database(plan: &Plan, path: &Path) -> rusqlite::Result<()> {
    let _ = fs::remove_file(path);
    let mut database = Connection::open(path)?;
    database.pragma_update(None, "application_id", APPLICATION)?;
    let transaction = database.transaction()?;
    transaction.execute_batch(
        "CREATE TABLE devices (id INTEGER PRIMARY KEY, name TEXT NOT NULL, dc TEXT NOT NULL)",
    )?;
    {
        let mut insert = transaction.prepare("INSERT INTO devices VALUES (?, ?, ?)")?;
        for device in 0..plan.devices {
            let dc = plan.dc(device);
            insert.execute((
                (device + 1) as i64,
                format!("host{:06}.{dc}.example", device + 1),
                dc,
            ))?;
        }
    }
    transaction.commit()
}

/// SplitMix64: the same numbers on every machine, whatever version of whatever crate.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0, and less than 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
