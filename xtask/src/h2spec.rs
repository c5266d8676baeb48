//! HTTP/2 by h2spec, a program that plays the client of each rule of the RFCs, against the two servers on hyper.
//!
//! It is written in Go. Where it is not installed it is built once, into `target/tools`, if there is a Go and a
//! proxy of its modules answers; else the step says how to get it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cmd::{Cmd, is_installed};
use crate::examples::Server;
use crate::steps::{Context, DRIVERS, build_plain};

/// What is built.
const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

/// The servers, the cases that they are tried with, and how many these are, so that a run of none is noticed.
///
/// hyper by itself is spared one, "Sends invalid connection preface": on tokio too it closes the connection without
/// having read all, which is a reset, and h2spec waits for the end of the stream. (The test
/// `http2::what_is_no_preface_resets_hyper` of bast-hyper shows it on both.)
const SERVERS: [(&str, &str, u32); 2] = [
    ("bast-axum-app", "", 145),
    ("bast-hyper-app", "generic hpack http2/3.5/1 http2/4 http2/5 http2/6 http2/7 http2/8", 144),
];

/// Longer than a run of all cases takes by minutes.
const LIMIT: Duration = Duration::from_secs(300);

pub(crate) fn run(context: &Context) -> Result<(), String> {
    let Some(h2spec) = program(&context.target) else {
        println!("skipped: h2spec is not installed, and could not be built");
        println!("         (`go install {MODULE}` brings it)");
        return Ok(());
    };
    build_plain("--bin bast-axum-app --bin bast-hyper-app")?;
    let programs = context.target.join("debug");
    for driver in DRIVERS {
        for (name, cases, count) in SERVERS {
            let of = |fault| format!("{name} on {driver}: {fault}");
            let cmd = Cmd::new(&h2spec).args(cases);
            against(cmd, count, &programs.join(name), driver).map_err(of)?;
        }
    }
    Ok(())
}

fn against(h2spec: Cmd, count: u32, program: &Path, driver: &str) -> Result<(), String> {
    // Of HTTP/2 alone, as h2spec expects: one of both versions answers a preface that is none by a 400 of HTTP/1.
    let server = Server::start(
        &Cmd::new(program)
            .args("--http2-only --listen 127.0.0.1:0")
            .env("BAST_WORKERS", 2)
            .env("BAST_DRIVER", driver),
    )?;
    let cmd = h2spec.args("--timeout 10 --host 127.0.0.1 --port");
    let cmd = cmd.arg(server.addr.port().to_string()).limit(LIMIT);
    judge(&cmd.run_and_read()?, count)?;
    server.stop().map(drop)
}

/// Its last line: `145 tests, 145 passed, 0 skipped, 0 failed`.
fn judge(output: &str, cases: u32) -> Result<(), String> {
    let line = output.lines().rev().find(|line| line.contains(" tests, ")).unwrap_or_default();
    let count = |word: &str| {
        let part = line.split(", ").find(|part| part.ends_with(word))?;
        part.split(' ').next()?.parse::<u32>().ok()
    };
    let figures = [" tests", " passed", " skipped", " failed"].map(count);
    if figures == [Some(cases), Some(cases), Some(0), Some(0)] {
        return Ok(());
    }
    Err(format!("not all of {cases} cases have passed: {line:?}"))
}

fn program(target: &Path) -> Option<PathBuf> {
    if is_installed("h2spec") {
        return Some("h2spec".into());
    }
    let tools = target.join("tools");
    let built = tools.join("h2spec");
    if !built.is_file() && is_installed("go") {
        let cmd = Cmd::new("go").args("install").arg(MODULE).env("GOBIN", tools.display());
        if let Err(fault) = cmd.limit(LIMIT).run() {
            println!("note: {fault}");
        }
    }
    built.is_file().then_some(built)
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn every_case_must_have_been_run_and_passed() {
        let all = "x\nFinished in 1 s\n145 tests, 145 passed, 0 skipped, 0 failed\n";
        assert_eq!(judge(all, 145), Ok(()));
        for line in [
            "145 tests, 144 passed, 0 skipped, 1 failed",
            "145 tests, 9 passed, 136 skipped, 0 failed",
            "0 tests, 0 passed, 0 skipped, 0 failed",
            "Error: connection refused",
        ] {
            assert!(judge(line, 145).is_err(), "{line}");
        }
    }
}
