//! The command `export`: from its options to a run, and from what that came to to an exit status.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bast::CancelOnDrop;
use bast::signal::CtrlC;
use jiff::Zoned;
use rrd_file::Query;

use crate::cli::{Export, LayoutKind, ReaderKind};
use crate::devices::{Devices, Source, without_password};
use crate::exit::{Exit, say};
use crate::job::{Column, Layout, Shape};
use crate::journal::{Journal, Options};
use crate::names::Names;
use crate::output::{self, Output, Target, journal_of};
use crate::pattern::Pattern;
use crate::pipeline::{Fault, Ifaces, Plan, Watch, run};
use crate::progress::{Progress, Tally};
use crate::reader::Reader;
use crate::reader::auto::Auto;
use crate::reader::native::Native;
use crate::reader::rrdtool::{self, Rrdtool};
use crate::report::Report;
use crate::time::moment;

/// How many files the native reader has in hand for each core: some wait for the disk while one is worked on.
const FILES_PER_CORE: usize = 16;

/// A fiber takes as many files at a time, at most. Those of rrdtool take one: it makes the daemons' work no more even.
const BATCH: usize = 32;

/// Exports, and tells standard error about it.
#[must_use]
pub fn export(args: &Export) -> Exit {
    match try_export(args) {
        Ok(exit) => exit,
        Err(fault) => {
            if !fault.text.is_empty() {
                say(format_args!("rrd-export: {}", fault.text));
            }
            fault.exit
        }
    }
}

fn usage(text: String) -> Fault {
    Fault { exit: Exit::Usage, text }
}

fn try_export(args: &Export) -> Result<Exit, Fault> {
    check_suffix(&args.output)?;
    let before = earlier(args)?;
    let (from, to) = interval(args, &before)?;
    let query = Query { cf: args.cf, from, to, resolution: args.resolution };
    let pattern = Pattern::new(&args.pattern, &args.base).map_err(usage)?;
    let ifaces = Ifaces::new(&args.ifaces).map_err(usage)?;
    let names = args.names.as_deref().map(Names::read).transpose()?.unwrap_or_default();
    let source = Source::parse(&args.devices);
    check_names(args, &source)?;
    let devices = source.read(&args.query)?;
    check_columns(&devices, &pattern)?;
    let shape = shape(args, &devices, names, &before)?;

    let tally = Arc::<Tally>::default();
    let (reader, readers) = reader(args, &tally);
    let batch = if args.reader == ReaderKind::Rrdtool { 1 } else { BATCH };
    let stop = Arc::<AtomicBool>::default();
    let mut report = Report::new(args.report.as_deref(), args.quiet)?;
    let progress = Progress::new(Arc::clone(&tally), devices.total(), args.quiet);
    let _ctrl_c = stop_at_ctrl_c(&stop, args.quiet)?;
    let total = devices.total();
    let plan = Plan { devices, pattern, ifaces, query, shape, reader, readers, batch };
    let mut watch = Watch { tally, progress: &progress, report: &mut report, stop };
    let ended = run(plan, &mut watch, |shape| {
        let opened = Output::open(output::Plan {
            target: target(&args.output),
            shape: shape.clone(),
            options: options(args, &query, shape),
            resume: args.resume,
            every: args.checkpoint,
            sync: !args.no_sync,
            restart: args.restart,
        });
        opened.map_err(|error| error.to_string())
    });
    // What ended the run comes before what became of its report: a full disk may be the cause of both.
    let reported = report.finish();
    let summary = progress.finish();
    let exit = ended?;
    reported?;
    if exit == Exit::NoFiles {
        let pattern = &args.pattern;
        let text = match total {
            0 => format!("{} has no devices: nothing to export", without_password(&args.devices)),
            _ => format!(
                "none of {total} devices has a file: nothing to export; the pattern is {pattern:?} with the base {:?}",
                args.base
            ),
        };
        return Err(Fault { exit, text });
    }
    if !args.quiet {
        say(summary);
        if exit == Exit::Interrupted && target(&args.output) != Target::Stdout {
            say("interrupted: the same command with --resume goes on");
        }
    }
    Ok(exit)
}

fn target(output: &Path) -> Target {
    match output.as_os_str() == "-" {
        true => Target::Stdout,
        false => Target::File(output.to_owned()),
    }
}

/// A name promises what is in the file: none of these can be written, and CSV under such a name would mislead.
const FOREIGN: [&str; 9] = ["bz2", "xz", "lz4", "lzma", "br", "zip", "7z", "Z", "zlib"];

fn check_suffix(output: &Path) -> Result<(), Fault> {
    match output.extension().and_then(|suffix| suffix.to_str()) {
        Some(suffix) if FOREIGN.contains(&suffix) => Err(usage(format!(
            "--output {}: .{suffix} cannot be written; .csv, .csv.gz, .csv.zst and .parquet can",
            output.display()
        ))),
        _ => Ok(()),
    }
}

/// What the run that is to be resumed has been asked for, and has found out.
fn earlier(args: &Export) -> Result<Options, Fault> {
    let Target::File(path) = target(&args.output) else { return Ok(Options::new()) };
    if !args.resume {
        return Ok(Options::new());
    }
    let options = Journal::options(&journal_of(&path)).map_err(|error| error.to_string())?;
    Ok(options.unwrap_or_default())
}

fn resolved<'a>(before: &'a Options, name: &str) -> Option<&'a str> {
    let name = format!("{}{name}", crate::journal::RESOLVED);
    before.iter().find(|(key, _)| *key == name).map(|(_, value)| &**value)
}

/// The first and the last moment: of the run that is resumed, as `now` is another one today.
fn interval(args: &Export, before: &Options) -> Result<(i64, i64), Fault> {
    let earlier = |name| resolved(before, name).and_then(|text| text.parse().ok());
    if let (Some(from), Some(to)) = (earlier("from"), earlier("to")) {
        return Ok((from, to));
    }
    let now = Zoned::now();
    let to = moment(&args.to, &now, None).map_err(|error| usage(format!("--to: {error}")))?;
    let from =
        moment(&args.from, &now, Some(to)).map_err(|error| usage(format!("--from: {error}")))?;
    if to < from {
        let (from_, to_) = (&args.from, &args.to);
        return Err(usage(format!("--from {from_} ({from}) is after --to {to_} ({to})")));
    }
    Ok((from, to))
}

/// What is written must not be what is read, nor the other thing that is written.
fn check_names(args: &Export, source: &Source) -> Result<(), Fault> {
    let devices = match source {
        Source::Sqlite(path) | Source::Tsv(path) => Some(path.as_path()),
        Source::Server(_) => None,
    };
    let (output, report) = (Some(args.output.as_path()), args.report.as_deref());
    let known = |path: Option<&Path>| {
        let path = path.filter(|path| *path != Path::new("-") && !path.starts_with("/dev"))?;
        Some(bast::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
    };
    for (one, what, other, which) in [
        (output, "--output", devices, "--devices"),
        (output, "--output", args.names.as_deref(), "--names"),
        (output, "--output", report, "--report"),
        (report, "--report", devices, "--devices"),
        (report, "--report", args.names.as_deref(), "--names"),
    ] {
        if let (Some(one), Some(other)) = (known(one), known(other))
            && one == other
        {
            return Err(usage(format!("{what} and {which} are the same file: {}", one.display())));
        }
    }
    Ok(())
}

fn check_columns(devices: &Devices, pattern: &Pattern) -> Result<(), String> {
    match pattern.columns().find(|column| !has(devices, column)) {
        None => Ok(()),
        Some(column) => {
            let there = devices.columns().join(", ");
            Err(format!(
                "the pattern needs a column {column:?}, and the devices have {there}: see --query and --pattern"
            ))
        }
    }
}

/// Whether there is a column, or something that stands for it.
fn has(devices: &Devices, column: &str) -> bool {
    column == "name" || devices.columns().iter().any(|name| name == column)
}

fn shape(args: &Export, devices: &Devices, names: Names, before: &Options) -> Result<Shape, Fault> {
    let mut columns = Vec::new();
    for name in &args.columns {
        columns.push(match name.as_str() {
            "time" => Column::Time,
            "iface" => Column::Iface,
            "path" => Column::Path,
            _ if has(devices, name) => Column::Device(name.clone()),
            _ => {
                let there = devices.columns().join(", ");
                return Err(usage(format!(
                    "--columns: {name:?} is none of time, iface, path, {there}"
                )));
            }
        });
    }
    let layout = match args.layout {
        LayoutKind::Wide => Layout::Wide,
        LayoutKind::Long => Layout::Long,
    };
    let (mut metrics, mut exact) = (args.metrics.clone(), false);
    if metrics.is_empty()
        && let Some(found) = resolved(before, "metrics")
    {
        metrics = found.split(',').map(str::to_owned).collect();
        exact = true;
    }
    Ok(Shape { columns, layout, metrics, exact, names: Arc::new(names), header: !args.no_header })
}

fn reader(args: &Export, tally: &Tally) -> (Arc<dyn Reader>, usize) {
    let cores = bast::available_parallelism().map_or(1, usize::from);
    let rrdtool = Rrdtool::new(rrdtool::Options {
        program: args.rrdtool.clone(),
        daemons: args.daemons.map_or(cores, usize::from),
        timeout: args.rrdtool_timeout,
    });
    let (reader, readers): (Arc<dyn Reader>, usize) = match args.reader {
        ReaderKind::Native => (Arc::new(Native), cores * FILES_PER_CORE),
        ReaderKind::Auto => {
            let auto = Auto::new(rrdtool, Arc::clone(&tally.fallbacks));
            (Arc::new(auto), cores * FILES_PER_CORE)
        }
        ReaderKind::Rrdtool => {
            // One more has its rows made into text.
            let readers = rrdtool.readers() + cores;
            (Arc::new(rrdtool), readers)
        }
    };
    (reader, args.readers.map_or(readers, |readers| readers as usize))
}

/// What has to be the same when this run is resumed.
fn options(args: &Export, query: &Query, shape: &Shape) -> Options {
    let mut options = Options::new();
    let mut put = |name: &str, value: String| options.push((name.to_owned(), value));
    put("--devices", without_password(&args.devices));
    put("--query", args.query.clone());
    put("--base", args.base.to_string_lossy().into_owned());
    put("--pattern", args.pattern.clone());
    put("--ifaces", args.ifaces.join(","));
    put("--from", args.from.clone());
    put("--to", args.to.clone());
    put("--cf", args.cf.to_string());
    put("--resolution", query.resolution.map_or_else(String::new, |seconds| seconds.to_string()));
    put("--columns", args.columns.join(","));
    put("--layout", format!("{:?}", args.layout));
    put("--metrics", args.metrics.join(","));
    put("--names", format!("{:?}", args.names));
    put("--no-header", args.no_header.to_string());
    put("resolved.from", query.from.to_string());
    put("resolved.to", query.to.to_string());
    if shape.exact {
        put("resolved.metrics", shape.metrics.join(","));
    }
    options
}

/// The first Ctrl-C ends the run after the files in hand, the second at once.
fn stop_at_ctrl_c(stop: &Arc<AtomicBool>, quiet: bool) -> Result<CancelOnDrop<()>, String> {
    let ctrl_c = CtrlC::new().map_err(|error| format!("cannot listen for Ctrl-C: {error}"))?;
    let stop = Arc::clone(stop);
    let fiber = bast::spawn(move || {
        while ctrl_c.wait().is_ok() {
            if stop.swap(true, Ordering::Relaxed) {
                std::process::exit(Exit::Interrupted as i32);
            }
            if !quiet {
                say("\nending with the files in hand; Ctrl-C again ends at once");
            }
        }
    });
    Ok(fiber.cancel_on_drop())
}
