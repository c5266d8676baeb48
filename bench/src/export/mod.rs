//! The job of "Async OCaml with Lwt": RRD files into one CSV, by `apps/rrd-export` and by what the document had.
//!
//! ```text
//! fleet.rs   rrd-export generate: the data set, once; the list of its files, for the rivals
//! rivals.rs  rrdtool in turn, a process for each core, tokio with a pool; and the floor: read, decode, format
//! tree.rs    a measurement: wall, the processor time of all its processes, and the most memory that they had together
//! ../../rivals/ocaml/export.ml   Lwt with a pool, as in the document
//! ```
//!
//! The parameter is the number of rrdtools; `native` is without. Everybody writes the same lines into a file, in any order:
//! who does not is no measurement. The files are in the page cache, so what is measured is the programs.

mod chart;
mod fleet;
mod rivals;
mod tree;

pub(crate) use chart::study;

use crate::micro::{Job, Values};
use crate::registry::{Bench, Kind, both, full, units};
use crate::{child, ocaml};
use fleet::Fleet;
use std::env;
use std::process::Command;

/// Where a subject finds the data set.
const FLEET: &str = "BAST_BENCH_FLEET";
/// Where it writes.
const OUT: &str = "BAST_BENCH_OUT";

const NAME: &str = "rrd-export";

/// For the registry.
pub(crate) const BENCH: Bench = Bench {
    name: NAME,
    about: "5,000 RRD files into one CSV with N rrdtools, or by a reader of our own: wall, CPU and memory of the whole tree",
    kind: Kind::Export,
    units: &[units::WALL_S, units::CPU_TREE, units::TREE_MB],
    params: &[
        both("1", &["bast", "sequential", "tokio-multi", "lwt"]),
        both("2", &["bast", "processes", "tokio-multi", "lwt"]),
        full("4", &["bast", "tokio-multi", "lwt"]),
        full("8", &["bast", "tokio-multi", "lwt"]),
        both("native", &["bast-native", "floor"]),
    ],
};

/// Why it cannot be run, if it cannot: how to install what it needs.
pub(crate) fn missing(param: &str) -> Option<&'static str> {
    let there =
        || Command::new("rrdtool").arg("--version").output().is_ok_and(|o| o.status.success());
    (param != "native" && !there())
        .then_some("rrdtool is not installed: apt-get install -y rrdtool")
}

/// Runs a subject once.
pub(crate) fn measure(subject: &str, param: &str, quick: bool) -> Result<Values, String> {
    let fleet = Fleet::get(if quick { 1000 } else { 5000 })?;
    let out = fleet.out();
    let mut command = match subject {
        "bast" | "bast-native" => {
            let mut command = fleet.exporter()?;
            match subject {
                "bast" => command.args(["--reader", "rrdtool", "--daemons", param]),
                _ => command.args(["--reader", "native"]),
            };
            command.arg("--output").arg(&out);
            command
        }
        _ if ocaml::is(subject) => {
            let mut command = Command::new(ocaml::exporter()?);
            command.args([param.as_ref(), fleet.list().as_os_str(), out.as_os_str()]);
            command
        }
        _ => {
            let mut command = child::command(subject, 1)?;
            command.args(["subject", NAME, param, subject, "0", "0"]);
            command.env(FLEET, fleet.list()).env(OUT, &out);
            command
        }
    };
    let used = tree::measure(&mut command)?;
    fleet.check(&out)?;
    Ok(vec![
        (units::WALL_S, used.wall.as_secs_f64()),
        (units::CPU_TREE, used.cpu.as_secs_f64()),
        (units::TREE_MB, used.megabytes),
    ])
}

/// Whether this module has the benchmark.
pub(crate) fn has(job: &Job) -> bool {
    job.bench == NAME
}

/// Runs a rival, in a process of its own.
pub(crate) fn run(subject: &str, job: &Job) -> Result<Values, String> {
    let path = |name| env::var_os(name).ok_or_else(|| format!("{name} is not set"));
    let (list, out) = (path(FLEET)?, path(OUT)?);
    let text = std::fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let list = rivals::List::parse(&text)?;
    rivals::run(subject, job.param.parse().unwrap_or(1), &list, out.as_ref())?;
    Ok(Values::new())
}
