//! The driver of macOS and FreeBSD on this machine: bast-io's tests on kqueue, as libkqueue has it over epoll.
//!
//! ```text
//!   --cfg bast_kqueue: bast-io as on those systems ──▶ kqueue(), kevent() ──▶ libkqueue.a ──▶ Linux
//! ```
//!
//! Debian 12 has no package of the library, so that somebody has to say where it is: `BAST_LIBKQUEUE`.

use crate::cmd::Cmd;
use crate::steps::Context;

const HOW: &str = "git clone https://github.com/mheily/libkqueue, \
    cmake -DSTATIC_KQUEUE=ON -DENABLE_TESTING=OFF, make; then BAST_LIBKQUEUE=DIRECTORY of libkqueue.a";

/// What only a kernel can do: libkqueue takes a socket's error to put it into its event (the call that should tell
/// of a reset finds the end), and closes descriptors of its own a while after those that it is told of.
const SKIPPED: &str = "--skip the_end_comes_with_the_last_bytes --skip streams::epoll::reset \
    --skip no_descriptor_leaks --skip queued_opens";

pub(crate) fn run(context: &Context) -> Result<(), String> {
    let place = std::env::var("BAST_LIBKQUEUE").unwrap_or_default();
    if place.is_empty() {
        println!("skipped: no libkqueue here ({HOW})");
        return Ok(());
    }
    if !std::path::Path::new(&place).join("libkqueue.a").is_file() {
        return Err(format!("BAST_LIBKQUEUE={place} has no libkqueue.a ({HOW})"));
    }
    // The simulator is the same as without: only the tests on a kernel.
    for tests in ["--lib", &format!("--test it -- epoll {SKIPPED}")] {
        Cmd::cargo("test -p bast-io")
            .args(tests)
            .env("RUSTFLAGS", format!("--cfg bast_kqueue -L native={place}"))
            .env("CARGO_TARGET_DIR", context.target.join("kqueue").display())
            .run()?;
    }
    Ok(())
}
