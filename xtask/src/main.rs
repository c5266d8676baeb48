//! `cargo xtask`: what continuous integration does, each step also by hand.
//!
//! ```text
//!   .ci/run -> cargo xtask ci -> fmt, clippy, tidy, test, ... in the order of steps::ALL
//!                                 |
//!                                 +-- the first that fails ends the run, and the command
//!                                     that repeats it alone is printed
//! ```

mod cmd;
mod coverage;
mod cross;
mod debian;
mod ecosystem;
mod examples;
mod h2spec;
mod kqueue;
mod load;
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
         \x20      cargo xtask ci [--list] [--from STEP] [--skip STEP,...]\n\n\
         ci runs every step in this order and stops at the first failure:\n\n",
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
         --skip STEP,...    leave these out\n\n\
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
        "ci" => ci(&args[1..]),
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

fn ci(args: &[String]) -> Result<(), String> {
    let mut skipped: Vec<&str> = Vec::new();
    let mut first = ALL[0].name;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--list" => {
                ALL.iter().for_each(|step| println!("{:<10} {}", step.name, step.about));
                return Ok(());
            }
            "--from" => first = find(rest.next().ok_or("--from wants a step")?)?.name,
            "--skip" => {
                for name in rest.next().ok_or("--skip wants steps")?.split(',') {
                    skipped.push(find(name)?.name);
                }
            }
            other => return Err(format!("ci does not know {other:?}; see `cargo xtask --help`")),
        }
    }
    let context = Context::new(&[])?;
    let start = Instant::now();
    let mut seconds = Vec::new();
    for step in ALL.iter().skip_while(|step| step.name != first) {
        if skipped.contains(&step.name) {
            println!("\n=== {} skipped, as asked", step.name);
            continue;
        }
        let begun = Instant::now();
        run(step, &context)?;
        seconds.push((step.name, begun.elapsed().as_secs_f64()));
    }
    println!("\n=== passed");
    for (name, seconds) in seconds {
        println!("{name:<10} {seconds:>7.1} s");
    }
    println!("{:<10} {:>7.1} s", "total", start.elapsed().as_secs_f64());
    Ok(())
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
            println!("=== {} passed in {seconds:.1} s", step.name);
            Ok(())
        }
        Err(fault) => Err(format!(
            "{} failed after {seconds:.1} s: {fault}\nto repeat this step alone: cargo xtask {}",
            step.name, step.name
        )),
    }
}
