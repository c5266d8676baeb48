//! `cargo xtask`: what continuous integration does, each step also by hand.
//!
//! ```text
//!   .ci/run -> cargo xtask ci -> fmt, clippy, tidy, test, ... in the order of steps::ALL, two at a time
//!                                 |
//!                                 +-- one that fails ends the run, and the command
//!                                     that repeats it alone is printed
//! ```

mod aarch64;
mod binaries;
mod ci;
mod cmd;
mod coverage;
mod cross;
mod debian;
mod ecosystem;
mod examples;
mod h2spec;
mod kqueue;
mod load;
mod rrd;
mod stalls;
mod steps;
mod suites;
mod tidy;
mod windows;

use std::process::ExitCode;
use std::time::Instant;

use steps::{ALL, Context, Step};

fn help() -> String {
    let mut text = String::from(
        "The steps of bast's continuous integration.\n\n\
         Usage: cargo xtask <STEP> [OPTIONS]\n\
         \x20      cargo xtask ci [--list] [--from STEP] [--skip STEP,...] [--lanes N]\n\n\
         ci begins the steps in this order and stops at the first failure:\n\n",
    );
    for step in ALL {
        text.push_str(&format!("  {:<10} {}\n", step.name, step.about));
        for option in step.options {
            text.push_str(&format!("  {:<12} {option}\n", ""));
        }
    }
    text.push_str(
        "\nOptions of ci:\n  \
         --list             print the names of the steps, and run none\n  \
         --from STEP        begin with this step\n  \
         --skip STEP,...    leave these out\n  \
         --lanes N          so many steps at a time (default 2); what one says is shown when it ends\n\n\
         Examples:\n  \
         cargo xtask ci                        everything, as the CI machine does it\n  \
         cargo xtask ci --from docs            the rest, after a fault was mended\n  \
         cargo xtask tidy                      one step\n  \
         cargo xtask stress --seconds 600      ten minutes, shared by all combinations\n",
    );
    text
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() || args.iter().any(|a| a == "-h" || a == "--help" || a == "help") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let result = match args[0].as_str() {
        "ci" => ci::run(&args[1..]),
        #[cfg(target_os = "linux")]
        stalls::RUNNER => stalls::stalled(&args[1..]),
        name => match find(name) {
            Ok(step) => Context::new(&args[1..]).and_then(|context| run(step, &context)),
            Err(fault) => Err(fault),
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("\nerror: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn find(name: &str) -> Result<&'static Step, String> {
    ALL.iter()
        .find(|step| step.name == name)
        .ok_or_else(|| format!("there is no step {name:?}; `cargo xtask --help` lists them"))
}

fn run(step: &Step, context: &Context) -> Result<(), String> {
    let begun = Instant::now();
    println!("\n=== {}: {}", step.name, step.about);
    if !step.takes_options() && !context.args.is_empty() {
        return Err(format!("{} takes no options, not {:?}", step.name, context.args.join(" ")));
    }
    let result = (step.run)(context);
    let seconds = begun.elapsed().as_secs_f64();
    match result {
        Ok(()) => {
            println!("=== {} passed in {seconds:.1} s{}", step.name, cpu_time());
            Ok(())
        }
        Err(fault) => Err(format!(
            "{} failed after {seconds:.1} s: {fault}\nto repeat this step alone: cargo xtask {}",
            step.name, step.name
        )),
    }
}

/// The processor's time of all that this process has run to its end, where /proc can tell: what a step costs does not
/// depend on what runs beside it.
fn cpu_time() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may contain anything: the 14th and 15th are in user mode and kernel, in hundredths.
    let after_name = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let fields = after_name.split_whitespace().skip(13).take(2);
    match fields.map_while(|field| field.parse::<u64>().ok()).sum::<u64>() {
        0 => String::new(),
        hundredths => format!(" ({} s of the processors)", hundredths / 100),
    }
}
