//! Test suites of the crates, built for another system and run by something that stands for it.
//!
//! ```text
//!   cargo test --no-run ──► the test binaries ──► one after the other, each in its crate's directory, with a
//!                                                 limit of time ──► a line of the table
//! ```
//!
//! Cargo could run them itself. Here a binary that hangs is killed and named, repetitions cost nothing but
//! themselves, and it is told in the end what ran and what was left out, and why.

use std::time::{Duration, Instant};

use crate::binaries::{self, Binary};
use crate::cmd::Cmd;

/// The crates, from the ground up, each with whether a driver can be chosen for its tests. The last two stand on bast.
pub(crate) const CRATES: [(&str, bool); 7] = [
    ("bast-coro", false),
    ("bast-io", false),
    ("bast-rt", true),
    ("bast-sync", true),
    ("bast", true),
    ("bast-hyper", true),
    ("bast-tokio", true),
];

/// A binary takes a minute or two of it in the slowest emulation.
const LIMIT: Duration = Duration::from_secs(400);

/// A test that is not run, with the reason.
pub(crate) struct Unfit {
    pub(crate) package: &'static str,
    /// A part of its name.
    pub(crate) test: &'static str,
    pub(crate) reason: &'static str,
}

/// What has been run, for the report.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<String>,
    ignored: Vec<String>,
}

/// Builds all tests of these packages by `cargo`, a command of cargo's without its arguments; and the programs that
/// they test.
pub(crate) fn build(cargo: Cmd, target: &str, packages: &[&str]) -> Result<Vec<Binary>, String> {
    let mut cmd = cargo.args("test --lib --test * --target").args(target);
    for package in packages {
        cmd = cmd.args("-p").args(package);
    }
    let mut suites = binaries::build(cmd)?;
    // From the ground up: what fails below need not be looked for above.
    let place = |name: &str| CRATES.iter().position(|(known, _)| *known == name);
    suites.sort_by_key(|suite| place(&suite.package).unwrap_or(CRATES.len()));
    Ok(suites)
}

impl Report {
    /// Runs a suite by `runner`, a command that takes the binary and its arguments. `how` is for the report.
    pub(crate) fn run(
        &mut self,
        suite: &Binary,
        runner: &Cmd,
        how: &str,
        unfit: &[Unfit],
    ) -> Result<(), String> {
        let mut cmd = suite.cmd_by(runner).limit(LIMIT);
        for unfit in unfit.iter().filter(|unfit| unfit.package == suite.package) {
            cmd = cmd.args("--skip").args(unfit.test);
        }
        let begun = Instant::now();
        let output = cmd.run_and_read()?;
        self.add(suite, how, &output, begun.elapsed().as_secs_f64());
        Ok(())
    }

    /// Notes a run that has passed, by what it wrote.
    pub(crate) fn add(&mut self, suite: &Binary, how: &str, output: &str, seconds: f64) {
        // A runner of tests of its own (`harness = false`) may say nothing, but then it counts nothing either.
        let [passed, ignored] = ["passed", "ignored"].map(|word| binaries::count(output, word));
        for line in output.lines() {
            if let Some((test, reason)) = line.split_once(" ... ignored") {
                let test = test.trim_start_matches("test ");
                self.ignored.push(format!("{}: {test}{reason}", suite.package));
            }
        }
        self.lines.push(format!(
            "{:<10} {:<14} {how:<6} {passed:>4} passed {ignored:>3} ignored {seconds:>7.1} s",
            suite.package, suite.target,
        ));
    }

    /// Prints what was run, and what was not.
    pub(crate) fn print(mut self, system: &str, unfit: &[Unfit]) {
        println!("\n{system}: run");
        self.lines.iter().for_each(|line| println!("  {line}"));
        self.ignored
            .extend(unfit.iter().map(|u| format!("{}: {}, {}", u.package, u.test, u.reason)));
        self.ignored.sort();
        self.ignored.dedup();
        if !self.ignored.is_empty() {
            println!("{system}: not run");
            self.ignored.iter().for_each(|line| println!("  {line}"));
        }
    }
}

/// What a step of suites can be told.
pub(crate) struct Options {
    pub(crate) packages: Vec<String>,
    pub(crate) repeat: u32,
    /// The other options that were given.
    pub(crate) flags: Vec<String>,
}

impl Options {
    /// `--package P` (more than once), `--repeat N`, and these without a value.
    pub(crate) fn new(args: &[String], flags: &[&str]) -> Result<Options, String> {
        let mut options = Options { packages: Vec::new(), repeat: 1, flags: Vec::new() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
            match arg.as_str() {
                "--package" => options.packages.push(value()?.clone()),
                "--repeat" => {
                    let n = value()?;
                    options.repeat = n.parse().map_err(|e| format!("--repeat {n}: {e}"))?;
                }
                flag if flags.contains(&flag) => options.flags.push(flag.into()),
                other => return Err(format!("{other:?} is no option of this step")),
            }
        }
        if let Some(name) = options.packages.iter().find(|p| CRATES.iter().all(|(c, _)| c != p)) {
            let all = CRATES.map(|(name, _)| name).join(", ");
            return Err(format!("--package {name}: the crates are {all}"));
        }
        Ok(options)
    }

    /// Of these packages the ones that were asked for.
    pub(crate) fn of<'a>(&self, packages: &[&'a str]) -> Vec<&'a str> {
        let asked = |name: &&&str| {
            self.packages.is_empty() || self.packages.iter().any(|package| package == **name)
        };
        packages.iter().filter(asked).copied().collect()
    }

    /// As [`of`](Options::of); an error if that is none. (cargo would take no package for all of them.)
    pub(crate) fn some_of<'a>(&self, packages: &[&'a str]) -> Result<Vec<&'a str>, String> {
        let some = self.of(packages);
        match some.is_empty() {
            true => Err(format!("this step has only {}", packages.join(", "))),
            false => Ok(some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let parse = |text: &str| {
            let args: Vec<String> = text.split_whitespace().map(String::from).collect();
            Options::new(&args, &["--debian"])
        };
        let options = parse("--package bast --repeat 20 --debian").ok().unwrap();
        assert_eq!(options.of(&["bast-io", "bast"]), ["bast"]);
        assert!(options.some_of(&["bast"]).is_ok() && options.some_of(&["bast-io"]).is_err());
        assert_eq!((options.repeat, options.flags), (20, vec!["--debian".into()]));
        assert_eq!(parse("").ok().unwrap().of(&["bast-io", "bast"]), ["bast-io", "bast"]);
        for bad in ["--repeat", "--repeat x", "--package bats", "--fast"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
