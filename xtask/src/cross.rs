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

/// What is looked at, all crates for all of these.
const LINTED: [&str; 5] = [
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "x86_64-unknown-freebsd",
    AARCH64,
    windows::TARGET,
];

/// The crates that are bast.
const ALL: &[&str] = &["bast-coro", "bast-io", "bast-rt", "bast-sync", "bast"];

/// What is run on aarch64 unless crates are named, and what can be. (bast-rt takes a minute of processor time there, and
/// has neither instructions nor system calls of its own.)
const EMULATED: [&[&str]; 2] = [&["bast-coro", "bast-io"], &["bast-coro", "bast-io", "bast-rt"]];

pub(crate) const AARCH64: &str = "aarch64-unknown-linux-gnu";
const MUSL: &str = "x86_64-unknown-linux-musl";

/// What QEMU's user mode cannot do: tests, by a part of their names, and suites.
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
    Unfit {
        package: "bast-io",
        test: "a_forbidden_ring_falls_back_with_the_reason",
        reason: "prctl(PR_SET_SECCOMP) is refused (EINVAL)",
    },
    Unfit {
        package: "bast-io",
        test: "forbidden::without_io_uring",
        reason: "prctl(PR_SET_SECCOMP) is refused (EINVAL)",
    },
    Unfit {
        package: "bast-io",
        test: "no_more_come_than_there_is_room_for",
        reason: "recvmsg loses MSG_CTRUNC, and descriptors for which there is no room stay open",
    },
    Unfit {
        package: "bast-io",
        test: "what_was_just_written_is_in_memory",
        reason: "there is no preadv2 and no cachestat to ask with (ENOSYS)",
    },
    Unfit {
        package: "bast-rt",
        test: "without_a_thread_it_is_an_error",
        reason: "a limit on address space is not passed on",
    },
    Unfit {
        package: "bast-rt",
        test: "a_thousand_runtimes_in_a_row",
        reason: "a thread of QEMU's own is among those it counts",
    },
    // The whole suite: a thread that bast knows nothing of might wake somebody, and so nothing is reported.
    Unfit { package: "bast-rt", test: "stuck", reason: "a thread of QEMU's own is none of bast's" },
];

pub(crate) fn run(context: &Context) -> Result<(), String> {
    let options = Options::new(&context.args, &[])?;
    lint(&options)?;
    musl(&options)?;
    aarch64(&options)
}

fn lint(options: &Options) -> Result<(), String> {
    let packages = options.of(&CRATES.map(|(name, _)| name));
    for target in LINTED {
        if let Err(why) = debian::provide_target(target) {
            println!("skipped: {why}");
            continue;
        }
        let mut cmd = Cmd::cargo("clippy --all-targets --target").args(target);
        for package in &packages {
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
    tests(options, MUSL, (Cmd::cargo(""), ALL), (Cmd::new("env"), &DRIVERS, &[]))
}

/// Cargo, that builds for aarch64: statically linked, so that nothing of that system has to be installed.
pub(crate) fn aarch64_cargo() -> Result<Cmd, String> {
    const GCC: &str = "aarch64-linux-gnu-gcc";
    debian::provide_target(AARCH64)?;
    debian::provide(GCC, &[], "gcc-aarch64-linux-gnu libc6-dev-arm64-cross")?;
    Ok(Cmd::cargo("")
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", GCC)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static"))
}

fn aarch64(options: &Options) -> Result<(), String> {
    let qemu = || debian::provide("qemu-aarch64-static", &[], "qemu-user-static");
    let (cargo, qemu) = match aarch64_cargo().and_then(|cargo| Ok((cargo, qemu()?))) {
        Ok(found) => found,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    // Tests that start themselves again need it, too. Of what takes many rounds, seeds or fibers, a part: QEMU is slow,
    // and it knows no guards of stacks that take no mapping, so that a hundred thousand stacks are too many.
    let runner = Cmd::new(&qemu)
        .env("BAST_TEST_RUNNER", qemu.display())
        .env("BAST_ROUNDS", 2000)
        .env("BAST_SEEDS", 1)
        .env("BAST_RT_TEST_SLOW", 1);
    let packages = EMULATED[usize::from(!options.packages.is_empty())];
    tests(options, AARCH64, (cargo, packages), (runner, &["epoll"], QEMU_CANNOT))
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
            if unfit.iter().any(|u| (u.package, u.test) == (&suite.package, &suite.target)) {
                continue;
            }
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
