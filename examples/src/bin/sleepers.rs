//! `sleepers`: starts N fibers that all sleep until the same moment, and says what they cost.
//!
//! ```text
//!   spawn N fibers ...... all are asleep -> measure memory ...... deadline ... all have ended
//!   |---- spawn_s ------|                                         |-- end_s --|
//!   |---- --hold -------------------------------------------------|
//! ```

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bast::Runtime;
use bast_examples::options::seconds;
use clap::{Parser, ValueEnum};

/// Starts N fibers that all sleep until one common moment; tells memory and time for each.
///
/// The last line is `fibers=N KiB_per_fiber=X spawn_s=Y end_s=Z`: X is what resident memory and
/// page tables grew by while all slept, divided by N; Y the time until the last one was asleep; Z
/// the time from the common moment until all have been joined.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    /// How many fibers.
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    fibers: u32,

    /// Seconds from the start until they wake [default: 2, and 20 more for each million].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    hold: Option<f64>,

    /// Worker threads [default: one for each core].
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,

    /// Bytes of address space for each stack [default: the runtime's].
    #[arg(long, value_name = "BYTES")]
    stack: Option<usize>,

    /// How stacks are guarded.
    #[arg(long, value_enum, default_value_t = Guards::Auto)]
    guards: Guards,
}

#[derive(Clone, Copy, ValueEnum)]
enum Guards {
    /// The cheapest way that the kernel has.
    Auto,
    /// A protected page below each stack, which is a mapping of its own.
    Mprotect,
}

const EXAMPLES: &str = "\
Examples:
  sleepers 100000
  sleepers 1000000 --workers 1
  sleepers 1000000 --hold 60           on a slow machine
  sleepers 100000 --guards mprotect    ends where vm.max_map_count ends";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut builder = Runtime::builder();
    if let Some(workers) = cli.workers {
        builder = builder.workers(workers.into());
    }
    if let Some(stack) = cli.stack {
        builder = builder.stack_size(stack);
    }
    if let Guards::Mprotect = cli.guards {
        builder = builder.guards(bast::StackGuards::Mprotect);
    }
    let count = cli.fibers as usize;
    let hold = cli.hold.unwrap_or(2.0 + 20.0 * f64::from(cli.fibers) / 1e6);
    let outcome = builder
        .build()
        .map_err(|fault| fault.to_string())
        .and_then(|runtime| runtime.run(move || sleep_all(count, Duration::from_secs_f64(hold))));
    match outcome {
        Ok(last_line) => {
            println!("{last_line}");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("sleepers: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// What the sleepers and the one who counts them share.
#[derive(Default)]
struct Sleepers {
    asleep: AtomicUsize,
    /// Those whose first moment came after the common one.
    late: AtomicUsize,
}

fn sleep_all(count: usize, hold: Duration) -> Result<String, String> {
    let memory = memory_kib()?;
    let start = Instant::now();
    let deadline = bast::time::Instant::now() + hold;
    let sleepers = Arc::new(Sleepers::default());
    let mut progress = Progress::new();
    let mut handles = Vec::with_capacity(count);
    for number in 0..count {
        let of_all = Arc::clone(&sleepers);
        let fiber = bast::Builder::new().spawn(move || {
            if bast::time::Instant::now() >= deadline {
                of_all.late.fetch_add(1, Ordering::Relaxed);
            }
            of_all.asleep.fetch_add(1, Ordering::Relaxed);
            bast::time::sleep_until(deadline);
        });
        handles.push(fiber.map_err(|fault| {
            let asleep = sleepers.asleep.load(Ordering::Relaxed);
            format!("no more than {asleep} of {count} fibers could be started: {fault}")
        })?);
        // The new fibers of this worker get to run too, and go to sleep.
        if number % 256 == 255 {
            bast::yield_now();
            progress.say(|| format!("{} of {count} started", number + 1));
        }
    }
    let mut before = 0;
    loop {
        let asleep = sleepers.asleep.load(Ordering::Relaxed);
        if asleep == count {
            break;
        }
        // Only a fiber that got no stack ends before it has slept; the runtime has said why.
        if asleep == before && handles.iter().any(|handle| handle.is_finished()) {
            let asleep = sleepers.asleep.load(Ordering::Relaxed);
            if asleep < count && bast::time::Instant::now() < deadline {
                return Err(format!(
                    "no more than {asleep} of {count} fibers could be started, for the reason above"
                ));
            }
        }
        before = asleep;
        bast::sleep(Duration::from_millis(1));
        progress.say(|| format!("{asleep} asleep"));
    }
    let spawned = start.elapsed();
    if sleepers.late.load(Ordering::Relaxed) > 0 || bast::time::Instant::now() >= deadline {
        return Err(format!(
            "not all {count} fibers were asleep at once: starting them took {:.1} s, and the first \
             ones woke after {:.1} s; try --hold {:.0}",
            spawned.as_secs_f64(),
            hold.as_secs_f64(),
            (spawned.as_secs_f64() * 2.0).ceil() + 1.0
        ));
    }
    let grown = memory_kib()?.saturating_sub(memory);
    println!("{count} fibers are asleep after {:.3} s", spawned.as_secs_f64());
    for handle in handles {
        handle.join().map_err(|_| "a sleeper panicked")?;
        progress.say(|| "waiting for the end of all".into());
    }
    let ended = bast::time::Instant::now().duration_since(deadline);
    Ok(format!(
        "fibers={count} KiB_per_fiber={:.2} spawn_s={:.3} end_s={:.3}",
        grown as f64 / count as f64,
        spawned.as_secs_f64(),
        ended.as_secs_f64()
    ))
}

/// Lines for the impatient, about one a second.
struct Progress {
    last: Instant,
}

impl Progress {
    fn new() -> Progress {
        Progress { last: Instant::now() }
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if self.last.elapsed() >= Duration::from_secs(1) {
            println!("{}", what());
            self.last = Instant::now();
        }
    }
}

/// The resident memory of this process and its page tables, in KiB.
fn memory_kib() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|fault| format!("memory is read from /proc/self/status: {fault}"))?;
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    match (field("VmRSS:"), field("VmPTE:")) {
        (Some(resident), Some(tables)) => Ok(resident + tables),
        _ => Err("/proc/self/status has no VmRSS and VmPTE".into()),
    }
}
