//! What was asked for, the table of operations and drivers, and the watchdog.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bast_rt::{DriverKind, Runtime, scope};

use crate::lane::Lane;
use crate::race::Random;
use crate::{objects, transfer};

const HELP: &str =
    "races [--rounds N] [--driver uring|epoll|sim] [--op NAME] [--seed N] [--workers N]
      [--canary yes]

Races cancellation against completion. N rounds are shared by all operations and drivers.
The canary throws some results away, as a driver that loses them would: it has to be noticed.";
/// No cell of the table takes a round longer than this, on however slow a machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Fibers that do rounds beside each other.
const LANES: u64 = 8;

/// One round; whether the operation completed.
type Round = fn(&mut Lane) -> bool;

/// The operations, by the names that `bast_io::Op` has for them; some in more than one form.
const OPS: &[(&str, Round)] = &[
    ("Nop", objects::nop),
    ("Socket", objects::socket),
    ("Bind", objects::bind),
    ("Listen", objects::listen),
    ("Shutdown", objects::shutdown),
    ("GetName", objects::name),
    ("SetOpt", objects::set_option),
    ("GetOpt", objects::option),
    ("Accept", objects::accept),
    ("Connect", objects::connect),
    ("Recv", transfer::recv),
    ("Recv-polled", transfer::recv_polled),
    ("Send", transfer::send),
    ("RecvMsg", transfer::recv_msg),
    ("SendMsg", transfer::send_msg),
    ("Read", transfer::read),
    ("Write", transfer::write),
    ("ReadV", transfer::read_v),
    ("WriteV", transfer::write_v),
    ("Read-file", transfer::read_file),
    ("Write-file", transfer::write_file),
    ("Open", objects::open),
    ("Close", objects::close),
    ("Fsync", objects::fsync),
    ("Statx", objects::statx),
    ("Splice", transfer::splice),
    ("SendFile", transfer::send_file),
    ("Poll", transfer::poll),
    ("Call", objects::call),
    ("Call-interruptible", objects::interruptible_call),
];

struct Options {
    rounds: u64,
    drivers: Vec<DriverKind>,
    op: Option<String>,
    seed: u64,
    workers: usize,
    canary: bool,
}

fn options() -> Result<Options, String> {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut options = Options {
        rounds: 20_000,
        drivers: vec![DriverKind::Uring, DriverKind::Epoll, DriverKind::Sim],
        op: None,
        seed: clock.map_or(1, |time| u64::from(time.subsec_nanos()) | 1),
        workers: 2,
        canary: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--help" || arg == "-h" {
            println!("{HELP}");
            std::process::exit(0);
        }
        let value = args.next().ok_or_else(|| format!("{arg} needs a value\n\n{HELP}"))?;
        let bad = |error: &dyn std::fmt::Display| format!("{arg} {value}: {error}");
        match arg.as_str() {
            "--rounds" => options.rounds = value.parse().map_err(|e| bad(&e))?,
            "--driver" => options.drivers = vec![value.parse().map_err(|e| bad(&e))?],
            "--op" => {
                if OPS.iter().all(|(name, _)| *name != value) {
                    let names: Vec<_> = OPS.iter().map(|(name, _)| *name).collect();
                    return Err(format!("no operation {value}: one of {}", names.join(", ")));
                }
                options.op = Some(value);
            }
            "--seed" => options.seed = value.parse().map_err(|e| bad(&e))?,
            "--canary" => options.canary = value == "yes",
            "--workers" => options.workers = value.parse().map_err(|e| bad(&e))?,
            _ => return Err(format!("unknown option {arg}\n\n{HELP}")),
        }
    }
    Ok(options)
}

pub(crate) fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("races: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let ops: Vec<_> = OPS
        .iter()
        .filter(|(name, _)| options.op.as_ref().is_none_or(|wanted| wanted == name))
        .collect();
    let cells = (ops.len() * options.drivers.len()) as u64;
    let rounds = options.rounds.div_ceil(cells).max(LANES);
    println!("races: seed {}, {} workers, {rounds} rounds a cell", options.seed, options.workers);
    println!(
        "{:<20}{:<8}{:>10}{:>12}{:>12}{:>9}",
        "op", "driver", "rounds", "completed", "cancelled", "µs"
    );
    let (begin, mut total) = (Instant::now(), 0);
    for &driver in &options.drivers {
        let workers = if driver == DriverKind::Sim { 1 } else { options.workers };
        let built = Runtime::builder().workers(workers).driver(driver).seed(options.seed).build();
        let runtime = built.map_err(|e| e.to_string())?;
        if let Some(reason) = runtime.fallback_reason() {
            println!("note: {reason}");
        }
        for &&(name, round) in &ops {
            let before = descriptors();
            let dog = Dog::new(format!("{name} on {driver:?}, seed {}", options.seed));
            let begin = Instant::now();
            let counts = runtime.run(|| cell(&dog, name, round, rounds, options, driver));
            let micros = begin.elapsed().as_secs_f64() * 1e6 / rounds as f64;
            let [completed, cancelled] = counts;
            println!(
                "{name:<20}{:<8}{:>10}{completed:>12}{cancelled:>12}{micros:>9.1}",
                runtime.driver_name(),
                completed + cancelled
            );
            total += completed + cancelled;
            let after = descriptors();
            if before != after {
                return Err(format!("{name} on {driver:?}: {before} descriptors became {after}"));
            }
        }
        runtime.shutdown(PATIENCE).map_err(|left| left.to_string())?;
    }
    println!("races: ok, {total} rounds in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// All rounds of one operation on one driver.
fn cell(
    dog: &Dog,
    name: &str,
    round: Round,
    rounds: u64,
    options: &Options,
    driver: DriverKind,
) -> [u64; 2] {
    let mut counts = [[0; 2]; LANES as usize];
    scope(|s| {
        for (index, counts) in (0..).zip(&mut counts) {
            s.spawn(move || {
                let hash = |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
                let seed = name.bytes().fold(options.seed, hash).wrapping_add(index);
                let mut lane = Lane::new(driver, options.workers, Random::new(seed));
                lane.canary = options.canary;
                let share = rounds / LANES + u64::from(index < rounds % LANES);
                for _ in 0..share {
                    counts[usize::from(!round(&mut lane))] += 1;
                    dog.feed();
                }
                lane.finish();
            });
        }
    });
    counts.iter().fold([0; 2], |sum, c| [sum[0] + c[0], sum[1] + c[1]])
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Ends the process if no round ends for a long time.
struct Dog {
    fed: Arc<AtomicU64>,
}

impl Dog {
    fn new(what: String) -> Dog {
        let fed = Arc::new(AtomicU64::new(0));
        let watched = Arc::downgrade(&fed);
        std::thread::spawn(move || {
            let (mut last, mut since) = (u64::MAX, Instant::now());
            while let Some(fed) = watched.upgrade().map(|fed| fed.load(Relaxed)) {
                if fed != last {
                    (last, since) = (fed, Instant::now());
                } else if since.elapsed() > PATIENCE {
                    eprintln!("races: {what}: hangs after {fed} rounds");
                    std::process::abort();
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Dog { fed }
    }

    fn feed(&self) {
        self.fed.fetch_add(1, Relaxed);
    }
}
