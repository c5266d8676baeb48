//! The driver of macOS and FreeBSD on this machine: the crates' tests on kqueue, as libkqueue has it over epoll.
//!
//! ```text
//!   --cfg bast_kqueue: bast-io as on those systems ──▶ kqueue(), kevent() ──▶ libkqueue.a ──▶ Linux
//! ```
//!
//! No package can be had that would do: Debian 12 and later have none, and Ubuntu's is 2.3.1, which knows no
//! `EV_RECEIPT` and stands still when two threads make the first queue at once. So somebody has to say where the library
//! is: `BAST_LIBKQUEUE`.

use crate::binaries;
use crate::cmd::Cmd;
use crate::steps::Context;
use crate::suites::{CRATES, Options, Report, Unfit};

const HOW: &str = "git clone https://github.com/mheily/libkqueue, \
    cmake -DSTATIC_KQUEUE=ON -DENABLE_TESTING=OFF, make; then BAST_LIBKQUEUE=DIRECTORY of libkqueue.a";

/// What is run. bast-coro knows no queue; and bast waits for children by a queue within a queue, which libkqueue never
/// says is ready: what it gives out is an eventfd, and the child's pidfd is in an epoll beside it.
const PACKAGES: &[&str] = &["bast-io", "bast-rt", "bast-sync"];

/// What only a kernel can do.
const UNFIT: &[Unfit] = &[
    Unfit { package: "bast-io", test: "the_end_comes_with_the_last_bytes", reason: TAKEN },
    Unfit { package: "bast-io", test: "streams::epoll::reset", reason: TAKEN },
    Unfit { package: "bast-io", test: "no_descriptor_leaks", reason: LATE },
    Unfit { package: "bast-io", test: "queued_opens", reason: LATE },
    Unfit { package: "bast-rt", test: "no_descriptor_is_lost_when_they_run_out", reason: SHORT },
];

const TAKEN: &str =
    "libkqueue takes a socket's error for its event, and the next call finds the end";
const LATE: &str = "libkqueue closes descriptors of its own a while after those that it is told of";
const SHORT: &str = "libkqueue has descriptors of its own, and says EBADF where it finds none";

/// bast-rt's programs that are deadlocked: libkqueue has a thread of its own, which might wake somebody.
const STUCK: (&str, &str) = ("bast-rt", "stuck");

pub(crate) fn run(context: &Context) -> Result<(), String> {
    let options = Options::new(&context.args, &[])?;
    let place = std::env::var("BAST_LIBKQUEUE").unwrap_or_default();
    if place.is_empty() {
        println!("skipped: no libkqueue here ({HOW})");
        return Ok(());
    }
    if !std::path::Path::new(&place).join("libkqueue.a").is_file() {
        return Err(format!("BAST_LIBKQUEUE={place} has no libkqueue.a ({HOW})"));
    }
    let mut cargo = Cmd::cargo("test --lib --tests")
        .env("RUSTFLAGS", format!("--cfg bast_kqueue -L native={place}"))
        .env("CARGO_TARGET_DIR", context.target.join("kqueue").display());
    for package in options.some_of(PACKAGES)? {
        cargo = cargo.args("-p").args(package);
    }
    let suites = binaries::build(cargo)?;
    let mut report = Report::default();
    for _ in 0..options.repeat {
        for suite in &suites {
            if (suite.package.as_str(), suite.target.as_str()) == STUCK {
                continue;
            }
            let mut env = Cmd::new("env");
            if CRATES.contains(&(&suite.package, true)) {
                env = env.env("BAST_DRIVER", "kqueue");
            }
            report.run(suite, &env, "kqueue", UNFIT)?;
        }
    }
    report.print("kqueue (libkqueue)", UNFIT);
    println!("  {}: {}, libkqueue has a thread that might wake somebody", STUCK.0, STUCK.1);
    Ok(())
}
