//! HTTP/2 by h2spec, a program that plays the client of each rule of the RFCs, against the two servers on hyper.
//!
//! It is written in Go. Where it is not installed it is built once, into `target/tools`, if there is a Go and a
//! proxy of its modules answers; else the step says how to get it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cmd::{Cmd, is_installed};
use crate::examples::Server;
use crate::steps::{Context, DRIVERS};

/// What is built; and the cases it has, so that a run of none is noticed.
const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";
const CASES: u32 = 146;

/// Longer than a run of all cases takes by minutes.
const LIMIT: Duration = Duration::from_secs(300);

pub(crate) fn run(context: &Context) -> Result<(), String> {
    let Some(h2spec) = program(&context.target) else {
        println!("skipped: h2spec is not installed, and could not be built");
        println!("         (`go install {MODULE}` brings it)");
        return Ok(());
    };
    Cmd::cargo("build -p bast-axum-app -p bast-hyper-app").run()?;
    let programs = context.target.join("debug");
    for driver in DRIVERS {
        for name in ["bast-axum-app", "bast-hyper-app"] {
            let of = |fault| format!("{name} on {driver}: {fault}");
            against(&h2spec, &programs, name, driver).map_err(of)?;
        }
    }
    Ok(())
}

fn against(h2spec: &Path, programs: &Path, name: &str, driver: &str) -> Result<(), String> {
    let server = Server::listening(programs, name, driver)?;
    let cmd = Cmd::new(h2spec).args("--timeout 10 --host 127.0.0.1 --port");
    let cmd = cmd.arg(server.addr.port().to_string()).limit(LIMIT);
    judge(&cmd.run_and_read()?)?;
    server.stop().map(drop)
}

/// Its last line: `146 tests, 145 passed, 1 skipped, 0 failed`.
fn judge(output: &str) -> Result<(), String> {
    let line = output.lines().rev().find(|line| line.contains(" tests, ")).unwrap_or_default();
    let count = |word: &str| {
        let part = line.split(", ").find(|part| part.ends_with(word))?;
        part.split(' ').next()?.parse::<u32>().ok()
    };
    match (count(" tests"), count(" passed"), count(" skipped"), count(" failed")) {
        (Some(CASES), Some(passed), Some(skipped), Some(0))
            if passed + skipped == CASES && skipped <= 1 =>
        {
            Ok(())
        }
        _ => Err(format!("not all of {CASES} cases have passed: {line:?}")),
    }
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
        assert_eq!(
            judge("x\nFinished in 1 s\n146 tests, 146 passed, 0 skipped, 0 failed\n"),
            Ok(())
        );
        for line in [
            "146 tests, 145 passed, 0 skipped, 1 failed",
            "146 tests, 10 passed, 136 skipped, 0 failed",
            "0 tests, 0 passed, 0 skipped, 0 failed",
            "Error: connection refused",
        ] {
            assert!(judge(line).is_err(), "{line}");
        }
    }
}
