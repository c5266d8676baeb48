//! `stuck`: programs that go wrong on purpose, and what bast says of them.
//!
//! ```text
//!   dump N      N fibers wait in three places ── dump ── how long it took, per fiber
//!   hog         one fiber computes for a second ── the watchdog says which, and at which line
//!   deadlock    three fibers wait for each other in a circle ── the report says so by itself
//!   metrics     a little work, and the figures of it
//! ```

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bast::Runtime;
use clap::{Parser, Subcommand};

/// Goes wrong on purpose, to show what bast tells about it.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    fault: Fault,

    /// Worker threads [default: one for each core].
    #[arg(long, global = true, value_name = "W", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
}

#[derive(Subcommand)]
enum Fault {
    /// Starts fibers that wait, and dumps them all. The last line is `fibers=N dump_s=X text_KiB=Y`.
    Dump {
        /// How many fibers.
        #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
        fibers: u32,
        /// Print the dump as JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// A fiber computes without a suspension point.
    Hog {
        /// For how many milliseconds.
        #[arg(long, default_value_t = 1000, value_name = "MS")]
        hold: u64,
        /// Block the thread in std::thread::sleep instead of computing.
        #[arg(long)]
        sleep: bool,
    },
    /// Three fibers join each other in a circle. Ends by itself after a while.
    Deadlock {
        /// End after this many milliseconds.
        #[arg(long, default_value_t = 2000, value_name = "MS")]
        hold: u64,
    },
    /// Some work, and its figures.
    Metrics,
}

const EXAMPLES: &str = "\
Examples:
  stuck dump 100000
  stuck hog --sleep
  stuck deadlock
  BAST_DUMP=1 stuck deadlock --hold 60000      and press Ctrl-\\";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut builder = Runtime::builder();
    if let Some(workers) = cli.workers {
        builder = builder.workers(workers.into());
    }
    if let Fault::Hog { .. } = cli.fault {
        builder = builder.watchdog(Duration::from_millis(100));
    }
    let runtime = match builder.build() {
        Ok(runtime) => runtime,
        Err(fault) => {
            eprintln!("stuck: {fault}");
            return ExitCode::FAILURE;
        }
    };
    match cli.fault {
        Fault::Dump { fibers, json } => dump(&runtime, fibers as usize, json),
        Fault::Hog { hold, sleep } => runtime.run(|| hog(Duration::from_millis(hold), sleep)),
        Fault::Deadlock { hold } => deadlock(&runtime, Duration::from_millis(hold)),
        Fault::Metrics => metrics(&runtime),
    }
    ExitCode::SUCCESS
}

fn dump(runtime: &Runtime, count: usize, json: bool) {
    let (stop, waiting) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let fibers: Vec<_> = (0..count)
        .map(|number| {
            let (stop, waiting) = (Arc::clone(&stop), Arc::clone(&waiting));
            runtime.spawn(move || {
                waiting.fetch_add(1, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    match number % 3 {
                        0 => bast::park(),
                        1 => bast::park_timeout(Duration::from_secs(3600)),
                        _ => nested(40),
                    }
                }
            })
        })
        .collect();
    while waiting.load(Ordering::Relaxed) < count {
        std::thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    let dump = bast::dump();
    let text = if json { dump.to_json() } else { dump.to_string() };
    let took = start.elapsed();
    println!("{text}");
    stop.store(true, Ordering::Relaxed);
    fibers.iter().for_each(|fiber| fiber.fiber().unpark());
    fibers.into_iter().for_each(|fiber| fiber.join().expect("it only waits"));
    let kib = text.len() as f64 / 1024.0;
    println!("fibers={count} dump_s={:.3} text_KiB={kib:.1}", took.as_secs_f64());
}

/// A stack as deep as those of real programs.
#[inline(never)]
fn nested(depth: u32) {
    if depth == 0 {
        bast::park()
    } else {
        nested(black_box(depth - 1))
    }
    black_box(depth);
}

fn hog(hold: Duration, sleep: bool) {
    let hog = bast::Builder::new().name("hog".into()).spawn(move || {
        let end = Instant::now() + hold;
        if sleep {
            return std::thread::sleep(hold);
        }
        let mut n = 0u64;
        while Instant::now() < end {
            for _ in 0..10_000 {
                n = black_box(n.wrapping_mul(31) + 1);
            }
        }
    });
    hog.expect("one fiber").join().expect("it only computes");
}

fn deadlock(runtime: &Runtime, hold: Duration) {
    runtime.spawn(move || {
        // Each of the three is given the handle of the next one, and joins it.
        let hands: Vec<_> = (0..3).map(|_| std::sync::mpsc::channel()).collect();
        let (give, take): (Vec<_>, Vec<_>) = hands.into_iter().unzip();
        let names = ["red", "green", "blue"];
        let spawned = take.into_iter().zip(names).map(|(take, name)| {
            bast::Builder::new().name(name.into()).spawn(move || {
                let next: bast::JoinHandle<()> = loop {
                    match take.try_recv() {
                        Ok(next) => break next,
                        Err(_) => bast::yield_now(),
                    }
                };
                next.join().expect("it never ends");
            })
        });
        for (number, fiber) in spawned.enumerate() {
            let fiber = fiber.expect("one fiber");
            give[(number + 2) % 3].send(fiber).expect("it takes it");
        }
    });
    // As a program does that waits for its fibers: in bast. The end comes from a thread that the report
    // cannot know of, so it is told to leave that out of account.
    std::thread::spawn(move || {
        std::thread::sleep(hold);
        std::process::exit(0);
    });
    runtime.run(bast::park);
}

fn metrics(runtime: &Runtime) {
    runtime.run(|| {
        let fibers: Vec<_> = (0..1000)
            .map(|n| {
                bast::spawn(move || {
                    bast::sleep(Duration::from_millis(n % 10));
                    bast::blocking(|| black_box(n));
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().expect("no panic"));
    });
    print!("{}", runtime.metrics());
}
