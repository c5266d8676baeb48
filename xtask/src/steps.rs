//! The steps, in the order in which they are run: the quick ones that fail most often come first.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::binaries::{self, beside_each_other};
use crate::cmd::{Cmd, is_installed};
use crate::{
    aarch64, coverage, cross, ecosystem, examples, h2spec, kqueue, rrd, stalls, tidy, windows,
};

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
        name: "windows",
        about: "the tests and the example programs for Windows, by Wine",
        options: &[
            "--package P  of the crates this one; may come more than once",
            "--repeat N   run the tests so often (default 1)",
            "--programs   the example programs alone",
            "--debian     built by Debian's compiler, also where rustup has a std for Windows",
        ],
        run: windows::run,
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
        name: "rrd",
        about: "the RRD format and the export, against rrdtool itself",
        options: &[],
        run: rrd::run,
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
        name: "aarch64",
        about: "the tests on a kernel for aarch64, in a machine that QEMU emulates (long)",
        options: &[
            "--package P  of the crates this one; may come more than once",
            "--repeat N   run the tests so often (default 1)",
        ],
        run: aarch64::run,
    },
    Step {
        name: "kqueue",
        about: "the tests on kqueue, by libkqueue, where BAST_LIBKQUEUE says that it is",
        options: &[
            "--package P  of the crates this one; may come more than once",
            "--repeat N   run the tests so often (default 1)",
        ],
        run: kqueue::run,
    },
    Step {
        name: "stalls",
        about: "the tests with threads that are stopped at random (long)",
        options: &[
            "--package P  of the crates this one; may come more than once",
            "--repeat N   run the tests so often (default 1), with other stops and workers each time",
        ],
        run: stalls::run,
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

    /// Whether a package of the workspace has a feature of this name.
    fn has_feature(&self, package: &str, feature: &str) -> bool {
        let mut packages = self.metadata["packages"].as_array().into_iter().flatten();
        packages.any(|p| p["name"] == package && p["features"].get(feature).is_some())
    }
}

fn fmt(_: &Context) -> Result<(), String> {
    Cmd::cargo("fmt --all -- --check").run()
}

fn clippy(_: &Context) -> Result<(), String> {
    Cmd::cargo("clippy --workspace --all-targets -- -D warnings").run()
}

/// What is compiled with optimisation is compiled for all of these together: with others the features of what they
/// depend on are others, and everything is built again.
const OPTIMISED: &str = "--profile ci -p bast-rt -p bast-sync -p bast -p bast-examples";

/// Builds, with optimisation, what these options of cargo's select: in `target/ci`.
pub(crate) fn build_optimised(what: &str) -> Result<(), String> {
    Cmd::cargo("build").args(OPTIMISED).args(what).run()
}

/// Builds, without optimisation, what these options of cargo's select, with the same features as all the tests: cargo
/// takes those only if there is a test or an example among it.
pub(crate) fn build_plain(what: &str) -> Result<(), String> {
    Cmd::cargo("build --workspace --example no_unwind").args(what).run()
}

fn test(_: &Context) -> Result<(), String> {
    const REPEATED: [&str; 3] = ["bast-rt", "bast-sync", "bast"];
    Cmd::cargo("test --workspace").run()?;
    let plain = binaries::build(Cmd::cargo("test --workspace"))?;
    // One of the four is compiled with optimisation, where races show that a debug build is too slow for.
    let optimised = Cmd::cargo("test")
        .args(OPTIMISED)
        .args("--lib --test it --test soundness --test stdio --test stuck");
    let optimised = binaries::build(optimised)?;
    let mut runs = Vec::new();
    for driver in DRIVERS {
        for workers in [1, 8] {
            let binaries = if (driver, workers) == ("uring", 8) { &optimised } else { &plain };
            for binary in binaries.iter().filter(|b| REPEATED.contains(&b.package.as_str())) {
                runs.push(binary.cmd().env("BAST_DRIVER", driver).env("BAST_WORKERS", workers));
            }
        }
    }
    // The simulator has one worker. It is not for what runs on plain threads, as the examples in the
    // documentation do: their sockets would be the kernel's, in another world than the fibers'.
    for binary in plain.iter().filter(|b| ["bast-sync", "bast"].contains(&b.package.as_str())) {
        runs.push(binary.cmd().env("BAST_DRIVER", "sim"));
    }
    let tests = beside_each_other(runs)?;
    println!("{tests} tests passed, on other drivers and with other numbers of workers");
    // What is only there with the features, and once more what must not change by them.
    Cmd::cargo("test -p bast-rt -p bast --features bast/tracing,bast/rayon,bast-rt/tracing").run()
}

/// The documentation of all crates. Whoever needs it does this, which is nothing where it has been done.
pub(crate) fn docs(_: &Context) -> Result<(), String> {
    document("--workspace", "")
}

/// Makes the documentation of these, without a warning.
pub(crate) fn document(packages: &str, target: &str) -> Result<(), String> {
    let cmd = Cmd::cargo("doc --no-deps").args(packages).args(target);
    cmd.env("RUSTDOCFLAGS", "-D warnings").run()
}

fn loom(context: &Context) -> Result<(), String> {
    let build = Cmd::cargo("test --profile ci --lib -p bast-io -p bast-rt -p bast-sync")
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", context.target.join("loom").display());
    for binary in binaries::build(build)? {
        let run = binary.cmd().args("loom").env("LOOM_MAX_PREEMPTIONS", 3);
        // A filter that matches no test passes as well. It must not.
        match beside_each_other(vec![run])? {
            0 => return Err(format!("{}: no loom model has been run", binary.package)),
            models => println!("{}: {models} models", binary.package),
        }
    }
    Ok(())
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
    let mut build =
        Cmd::new("rustup").args("run nightly cargo test --lib --test * --target").args(host);
    for package in ["bast-coro", "bast-io", "bast-rt", "bast-sync", "bast"] {
        build = build.args("-p").args(package);
        if context.has_feature(package, "sanitizer") {
            build = build.args("--features").args(&format!("{package}/sanitizer"));
        }
    }
    let binaries = binaries::build(
        build
            .env("RUSTFLAGS", "-Zsanitizer=address")
            .env("CARGO_TARGET_DIR", context.target.join("asan").display()),
    )?;
    // bast-rt's tests find out how deep they are by the addresses of variables, which must then be
    // where they seem to be; and they are told to do less, as everything is slow.
    let strict = "detect_leaks=1:detect_stack_use_after_return=1";
    let plain = "detect_leaks=1:detect_stack_use_after_return=0";
    let runs = binaries.iter().map(|binary| {
        let options = if binary.package == "bast-rt" { plain } else { strict };
        binary.cmd().env("ASAN_OPTIONS", options).env("BAST_RT_TEST_SLOW", 1)
    });
    beside_each_other(runs.collect())?;
    // Faults on purpose: each must be found, or the run above says nothing.
    let is_of_bast =
        |b: &&binaries::Binary| (b.package.as_str(), b.target.as_str()) == ("bast", "it");
    let binary = binaries.iter().find(is_of_bast).ok_or("bast has no tests")?;
    for (fault, report) in [
        ("a_use_after_free_in_a_fiber", "AddressSanitizer: heap-use-after-free"),
        ("a_leak_by_a_fiber", "LeakSanitizer: detected memory leaks"),
    ] {
        binary
            .cmd()
            .args(&format!("--ignored --exact canaries::{fault}"))
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
    match binaries::count(&output, "passed") {
        0 => Err("no test has been run under Miri".into()),
        _ => Ok(()),
    }
}

fn races(context: &Context) -> Result<(), String> {
    let rounds = number(context, "races", "--rounds", 60_000)?;
    build_optimised("--example races --example cancel_latency")?;
    let examples = context.target.join("ci/examples");
    let races = || Cmd::new(examples.join("races")).args("--rounds");
    races().args(&rounds.to_string()).limit(Duration::from_secs(60 + rounds / 100)).run()?;
    // Results are thrown away on purpose: this must be noticed, or the run above says nothing.
    races()
        .args("800 --op Recv --driver uring --canary yes")
        .limit(Duration::from_secs(120))
        .must_fail_with("a byte was lost")?;
    Cmd::new(examples.join("cancel_latency"))
        .args("--rounds 50")
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
    build_optimised("--example stress")?;
    for driver in DRIVERS {
        for workers in WORKERS {
            Cmd::new(context.target.join("ci/examples/stress"))
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
    use super::ALL;

    #[test]
    fn names_are_unique_and_every_step_is_explained() {
        for (at, step) in ALL.iter().enumerate() {
            assert!(!step.about.is_empty());
            assert!(ALL[..at].iter().all(|other| other.name != step.name), "{}", step.name);
        }
    }
}
