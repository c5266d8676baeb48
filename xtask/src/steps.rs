//! The steps, in the order in which they are run: the quick ones that fail most often come first.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::cmd::{Cmd, is_installed};
use crate::{coverage, cross, ecosystem, examples, h2spec, kqueue, tidy, windows};

/// The drivers every Linux has, the second by falling back where the kernel forbids the first.
pub(crate) const DRIVERS: [&str; 2] = ["uring", "epoll"];

/// One step of the whole.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) options: &'static [&'static str],
    pub(crate) run: fn(&Context) -> Result<(), String>,
}

impl Step {
    pub(crate) fn takes_options(&self) -> bool {
        !self.options.is_empty()
    }
}

/// Every step of `cargo xtask ci`.
pub(crate) const ALL: &[Step] = &[
    Step { name: "fmt", about: "rustfmt agrees", options: &[], run: fmt },
    Step { name: "clippy", about: "clippy has no complaint", options: &[], run: clippy },
    Step {
        name: "tidy",
        about: "the rules of DESIGN: crate edges, words, unsafe, layout",
        options: &[],
        run: tidy::run,
    },
    Step {
        name: "test",
        about: "all tests; bast-rt, bast-sync and bast again on each driver, with 1 and 8 workers",
        options: &[],
        run: test,
    },
    Step { name: "docs", about: "the documentation has no warning", options: &[], run: docs },
    Step {
        name: "coverage",
        about: "every item of std is in bast, or COVERAGE.md says why not",
        options: &[
            "--write     make COVERAGE.md anew",
            "--relist    make the list of std's items anew, from the toolchain's rust-docs",
        ],
        run: coverage::run,
    },
    Step {
        name: "loom",
        about: "the lock-free protocols, every interleaving",
        options: &[],
        run: loom,
    },
    Step {
        name: "asan",
        about: "the tests under AddressSanitizer (nightly)",
        options: &[],
        run: asan,
    },
    Step {
        name: "miri",
        about: "the primitives' own tests under Miri (nightly)",
        options: &[],
        run: miri,
    },
    Step {
        name: "examples",
        about: "the example programs for real, optimised, each used and stopped",
        options: &[],
        run: examples::run,
    },
    Step {
        name: "h2spec",
        about: "HTTP/2 as it stands in the RFCs: axum and hyper on bast, by the program h2spec",
        options: &[],
        run: h2spec::run,
    },
    Step {
        name: "ecosystem",
        about: "reqwest, sqlx, tonic and redis on fibers, against servers that it starts",
        options: &[],
        run: ecosystem::run,
    },
    Step {
        name: "cross",
        about: "clippy for other systems, the tests on aarch64 (by QEMU) and with musl",
        options: &[
            "--package P  of the crates this one; may come more than once",
            "--repeat N   run the tests so often (default 1)",
        ],
        run: cross::run,
    },
    Step {
        name: "kqueue",
        about: "bast-io's tests on kqueue, by libkqueue, where BAST_LIBKQUEUE says that it is",
        options: &[],
        run: kqueue::run,
    },
    Step {
        name: "windows",
        about: "the tests for Windows, by Wine",
        options: &[
            "--package P  of the crates this one; may come more than once",
            "--repeat N   run the tests so often (default 1)",
            "--debian     built by Debian's compiler, also where rustup has a std for Windows",
        ],
        run: windows::run,
    },
    Step {
        name: "races",
        about: "cancellation against completion, and how soon a cancelled fiber ends",
        options: &["--rounds N    of races, shared by all operations and drivers (default 60000)"],
        run: races,
    },
    Step {
        name: "stress",
        about: "random work on each driver with 1, 2 and 8 workers",
        options: &["--seconds N   in all, shared by the combinations (default 60)"],
        run: stress,
    },
];

/// Where things are, and what was asked for.
pub(crate) struct Context {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) metadata: serde_json::Value,
    pub(crate) args: Vec<String>,
}

impl Context {
    /// Asks cargo, and makes the root of the workspace the current directory.
    pub(crate) fn new(args: &[String]) -> Result<Context, String> {
        let output = Command::new("cargo")
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .map_err(|e| format!("cargo metadata: {e}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let metadata: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
        let path = |key: &str| metadata[key].as_str().map(PathBuf::from).ok_or("no metadata");
        let (root, target) = (path("workspace_root")?, path("target_directory")?);
        std::env::set_current_dir(&root).map_err(|e| format!("{}: {e}", root.display()))?;
        Ok(Context { root, target, metadata, args: args.to_vec() })
    }

    /// The packages of the workspace that have a feature of this name.
    fn packages_with_feature(&self, feature: &str) -> Vec<&str> {
        let packages = self.metadata["packages"].as_array().into_iter().flatten();
        packages
            .filter(|package| package["features"].get(feature).is_some())
            .filter_map(|package| package["name"].as_str())
            .collect()
    }
}

fn fmt(_: &Context) -> Result<(), String> {
    Cmd::cargo("fmt --all -- --check").run()
}

fn clippy(_: &Context) -> Result<(), String> {
    Cmd::cargo("clippy --workspace --all-targets -- -D warnings").run()
}

fn test(_: &Context) -> Result<(), String> {
    Cmd::cargo("test --workspace").run()?;
    for driver in DRIVERS {
        for workers in [1, 8] {
            // One of the four is compiled with optimisation, where races show that a debug build
            // is too slow for.
            let release = if (driver, workers) == ("uring", 8) { "--profile ci" } else { "" };
            Cmd::cargo("test -p bast-rt -p bast-sync -p bast --lib --tests")
                .args(release)
                .env("BAST_DRIVER", driver)
                .env("BAST_WORKERS", workers)
                .run()?;
        }
    }
    // The simulator has one worker. It is not for what runs on plain threads, as the examples in the
    // documentation do: their sockets would be the kernel's, in another world than the fibers'.
    Cmd::cargo("test -p bast-sync -p bast --lib --tests").env("BAST_DRIVER", "sim").run()?;
    // What is only there with the features, and once more what must not change by them.
    Cmd::cargo("test -p bast-rt -p bast --features bast/tracing,bast/rayon,bast-rt/tracing").run()
}

fn docs(_: &Context) -> Result<(), String> {
    Cmd::cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings").run()
}

fn loom(context: &Context) -> Result<(), String> {
    for package in ["bast-io", "bast-rt", "bast-sync"] {
        let output = Cmd::cargo("test --release --lib loom -p")
            .args(package)
            .env("RUSTFLAGS", "--cfg loom")
            .env("LOOM_MAX_PREEMPTIONS", 3)
            .env("CARGO_TARGET_DIR", context.target.join("loom").display())
            .run_and_read()?;
        // A filter that matches no test passes as well. It must not.
        match passed(&output) {
            0 => return Err(format!("{package}: no loom model has been run")),
            models => println!("{package}: {models} models"),
        }
    }
    Ok(())
}

/// How many tests passed, by the summary lines of the test binaries.
fn passed(output: &str) -> u32 {
    let lines = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    lines.filter_map(|line| line.split_once(" passed")?.0.parse::<u32>().ok()).sum()
}

/// What rustup prints when it is asked for this; nothing where there is no rustup.
fn rustup(question: &str) -> String {
    let output = Command::new("rustup").args(question.split(' ')).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default()
}

fn asan(context: &Context) -> Result<(), String> {
    if !rustup("toolchain list").lines().any(|line| line.starts_with("nightly")) {
        println!("skipped: AddressSanitizer needs the nightly toolchain, and rustup has none here");
        println!("         (`rustup toolchain install nightly` brings it)");
        return Ok(());
    }
    let host = Command::new("rustc").arg("-vV").output().map_err(|e| format!("rustc: {e}"))?;
    let host = String::from_utf8_lossy(&host.stdout).into_owned();
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("no host")?;
    let with_feature = context.packages_with_feature("sanitizer");
    let cargo = |what: &str| {
        Cmd::new("rustup")
            .args("run nightly cargo test --target")
            .args(host)
            .args(what)
            .env("RUSTFLAGS", "-Zsanitizer=address")
            .env("CARGO_TARGET_DIR", context.target.join("asan").display())
    };
    // bast-rt's tests find out how deep they are by the addresses of variables, which must then be
    // where they seem to be; and they are told to do less, as everything is slow.
    let strict = "detect_leaks=1:detect_stack_use_after_return=1";
    let plain = "detect_leaks=1:detect_stack_use_after_return=0";
    for (packages, options) in
        [(&["bast-coro", "bast-io", "bast-sync", "bast"][..], strict), (&["bast-rt"], plain)]
    {
        let mut what = String::from("--lib --tests");
        for package in packages {
            what.push_str(&format!(" -p {package}"));
            if with_feature.contains(package) {
                what.push_str(&format!(" --features {package}/sanitizer"));
            }
        }
        cargo(&what).env("ASAN_OPTIONS", options).env("BAST_RT_TEST_SLOW", 1).run()?;
    }
    // Faults on purpose: each must be found, or the run above says nothing.
    for (fault, report) in [
        ("a_use_after_free_in_a_fiber", "AddressSanitizer: heap-use-after-free"),
        ("a_leak_by_a_fiber", "LeakSanitizer: detected memory leaks"),
    ] {
        cargo("-p bast --features bast/sanitizer --test it -- --ignored --exact")
            .args(&format!("canaries::{fault}"))
            .env("ASAN_OPTIONS", strict)
            .must_fail_with(report)?;
    }
    Ok(())
}

/// Fibers switch stacks, which Miri cannot follow; what waits works for plain threads too, and that it can.
fn miri(context: &Context) -> Result<(), String> {
    let components = rustup("component list --toolchain nightly --installed");
    if !components.lines().any(|line| line.starts_with("miri")) {
        println!("skipped: Miri is a component of the nightly toolchain, and rustup has none here");
        println!("         (`rustup toolchain install nightly -c miri -c rust-src` brings it)");
        return Ok(());
    }
    let output = Cmd::new("rustup")
        .args("run nightly cargo miri test -p bast-sync --lib")
        .env("CARGO_TARGET_DIR", context.target.join("miri").display())
        .run_and_read()?;
    match passed(&output) {
        0 => Err("no test has been run under Miri".into()),
        _ => Ok(()),
    }
}

fn races(context: &Context) -> Result<(), String> {
    let rounds = number(context, "races", "--rounds", 60_000)?;
    let races = || Cmd::cargo("run --quiet --profile ci -p bast-rt --example races -- --rounds");
    races().args(&rounds.to_string()).limit(Duration::from_secs(60 + rounds / 100)).run()?;
    // Results are thrown away on purpose: this must be noticed, or the run above says nothing.
    races()
        .args("800 --op Recv --driver uring --canary yes")
        .limit(Duration::from_secs(120))
        .must_fail_with("a byte was lost")?;
    Cmd::cargo("run --quiet --profile ci -p bast --example cancel_latency -- --rounds 50")
        .limit(Duration::from_secs(300))
        .run()
}

/// The value of a step's only option.
fn number(context: &Context, step: &str, option: &str, default: u64) -> Result<u64, String> {
    match context.args.as_slice() {
        [] => Ok(default),
        [given, value] if given == option => {
            value.parse().map_err(|e| format!("{option} {value}: {e}"))
        }
        other => Err(format!("{step} takes {option} N, not {:?}", other.join(" "))),
    }
}

fn stress(context: &Context) -> Result<(), String> {
    const WORKERS: [u32; 3] = [1, 2, 8];
    let seconds = number(context, "stress", "--seconds", 60)?;
    let each = (seconds / (DRIVERS.len() * WORKERS.len()) as u64).max(1);
    Cmd::cargo("build --profile ci -p bast-rt --example stress").run()?;
    for driver in DRIVERS {
        for workers in WORKERS {
            // By cargo, so that the line shown can be typed to repeat it.
            Cmd::cargo("run --quiet --profile ci -p bast-rt --example stress --")
                .args(&format!("--seconds {each} --workers {workers} --driver {driver}"))
                .limit(Duration::from_secs(each + 120))
                .run()?;
        }
    }
    Ok(())
}

/// The tools that can put load on a server, of those that are here.
pub(crate) fn load_tools() -> Vec<&'static str> {
    ["ab", "wrk"].into_iter().filter(|tool| is_installed(tool)).collect()
}

#[cfg(test)]
mod tests {
    use super::{ALL, passed};

    #[test]
    fn names_are_unique_and_every_step_is_explained() {
        for (at, step) in ALL.iter().enumerate() {
            assert!(!step.about.is_empty());
            assert!(ALL[..at].iter().all(|other| other.name != step.name), "{}", step.name);
        }
    }

    #[test]
    fn passed_tests_are_counted() {
        let output = "running 3 tests\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
            test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out\n\
            test result: ok. 12 passed; 0 failed\n";
        assert_eq!(passed(output), 15);
        assert_eq!(passed("test result: FAILED. 3 passed; 1 failed"), 0);
    }
}
