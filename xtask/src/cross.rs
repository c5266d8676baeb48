//! Other systems and machines, as far as they can be had here: the compiler's and clippy's word for all of them, and
//! the tests where programs can be run.
//!
//! | target | by |
//! |---|---|
//! | aarch64 Linux | QEMU's user mode, which has no io_uring |
//! | x86_64 Linux with musl, linked statically | itself |
//! | macOS, FreeBSD, Windows | clippy alone (`cargo xtask windows` runs the last) |

use crate::cmd::Cmd;
use crate::debian;
use crate::steps::{Context, DRIVERS};
use crate::suites::{CRATES, Options, Report, Unfit, build};
use crate::windows;

/// What is looked at, and how much of it.
const LINTED: &[(&str, &[&str])] = &[
    ("aarch64-apple-darwin", ALL),
    ("x86_64-apple-darwin", ALL),
    ("x86_64-unknown-freebsd", ALL),
    (AARCH64, ALL),
    (windows::TARGET, ALL),
];

/// The crates that are bast.
const ALL: &[&str] = &["bast-coro", "bast-io", "bast-rt", "bast-sync", "bast"];

/// What has been seen to pass on aarch64. (Of bast-io's tests many count descriptors or forbid system calls, and see
/// QEMU's own.)
const CORO: &[&str] = &["bast-coro"];

/// What has been seen to pass with musl.
const IO: &[&str] = &["bast-coro", "bast-io"];

const AARCH64: &str = "aarch64-unknown-linux-gnu";
const MUSL: &str = "x86_64-unknown-linux-musl";

/// What QEMU's user mode cannot do.
const QEMU_CANNOT: &[Unfit] = &[
    Unfit {
        package: "bast-coro",
        test: "memory::",
        reason: "the kernel's account of a process is that of QEMU",
    },
    Unfit {
        package: "bast-coro",
        test: "running_out_of_address_space",
        reason: "a limit on address space is not passed on",
    },
];

pub(crate) fn run(context: &Context) -> Result<(), String> {
    let options = Options::new(&context.args, &[])?;
    lint(&options)?;
    musl(&options)?;
    aarch64(&options)
}

fn lint(options: &Options) -> Result<(), String> {
    for (target, packages) in LINTED {
        if let Err(why) = debian::provide_target(target) {
            println!("skipped: {why}");
            continue;
        }
        let packages = options.of(packages);
        if packages.is_empty() {
            continue;
        }
        let mut cmd = Cmd::cargo("clippy --all-targets --target").args(target);
        for package in packages {
            cmd = cmd.args("-p").args(package);
        }
        cmd.args("-- -D warnings").run()?;
    }
    Ok(())
}

fn musl(options: &Options) -> Result<(), String> {
    if let Err(why) = debian::provide_target(MUSL) {
        println!("skipped: {why}");
        return Ok(());
    }
    // `env` stands for what runs a program, where nothing has to.
    tests(options, MUSL, (Cmd::cargo(""), IO), (Cmd::new("env"), &DRIVERS, &[]))
}

fn aarch64(options: &Options) -> Result<(), String> {
    let found = || {
        debian::provide_target(AARCH64)?;
        debian::provide(
            "aarch64-linux-gnu-gcc",
            &[],
            "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
        )?;
        debian::provide("qemu-aarch64-static", &[], "qemu-user-static")
    };
    let qemu = match found() {
        Ok(qemu) => qemu,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    // Statically linked, so that nothing of that system has to be installed.
    let cargo = Cmd::cargo("")
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc")
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static");
    // Tests that start themselves again need it, too.
    let runner = Cmd::new(&qemu).env("BAST_TEST_RUNNER", qemu.display());
    tests(options, AARCH64, (cargo, CORO), (runner, &["epoll"], QEMU_CANNOT))
}

fn tests(
    options: &Options,
    target: &str,
    (cargo, packages): (Cmd, &[&str]),
    (runner, drivers, unfit): (Cmd, &[&str], &[Unfit]),
) -> Result<(), String> {
    let packages = options.of(packages);
    if packages.is_empty() {
        return Ok(());
    }
    let suites = build(cargo, target, &packages)?;
    let mut report = Report::default();
    for _ in 0..options.repeat {
        for suite in &suites {
            let drivers = if CRATES.contains(&(&suite.package, true)) { drivers } else { &[""] };
            for driver in drivers {
                let runner = match driver.is_empty() {
                    true => runner.clone(),
                    false => runner.clone().env("BAST_DRIVER", driver),
                };
                report.run(suite, &runner, driver, unfit)?;
            }
        }
    }
    report.print(target, unfit);
    Ok(())
}
