//! Test binaries: built once, then run in as many ways as there are drivers and numbers of workers, side by side.
//!
//! ```text
//!   cargo test --no-run ──► Binary, Binary, ... ──► commands ──► beside_each_other: some at a time,
//!                                                                each shown when it has ended
//! ```
//!
//! Cargo would run them one after the other; and it builds all dependencies again for each choice of packages (`-p`)
//! that uses other features of them. So there is one choice for each profile, and the rest is done here.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::cmd::Cmd;

/// How many binaries run at once: more than there are cores, as most tests mostly wait.
const AT_ONCE: usize = 3;

/// A program made of tests.
pub(crate) struct Binary {
    /// The name of the directory of its package, which for the crates is that of the package.
    pub(crate) package: String,
    /// `it`, or the name of the library or program whose own tests it has.
    pub(crate) target: String,
    pub(crate) path: PathBuf,
    /// Where cargo runs it.
    pub(crate) dir: PathBuf,
}

impl Binary {
    /// The command that runs it.
    pub(crate) fn cmd(&self) -> Cmd {
        Cmd::new(&self.path).dir(&self.dir)
    }

    /// The command that runs it by `runner`, which takes a program and its arguments.
    pub(crate) fn cmd_by(&self, runner: &Cmd) -> Cmd {
        runner.clone().dir(&self.dir).arg(&self.path)
    }
}

/// Builds by a command of cargo's that runs nothing, and finds the test binaries in what it reports.
pub(crate) fn build(cargo: Cmd) -> Result<Vec<Binary>, String> {
    let cargo = cargo.args("--no-run --message-format json-render-diagnostics");
    let output = cargo.read()?;
    let messages = output.lines().map(serde_json::from_str::<Value>);
    let binaries: Vec<_> = messages.flatten().filter_map(|message| binary(&message)).collect();
    match binaries.is_empty() {
        true => Err(format!("`{cargo}` has built no test")),
        false => Ok(binaries),
    }
}

fn binary(message: &Value) -> Option<Binary> {
    let path = PathBuf::from(message["executable"].as_str()?);
    let dir = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = dir.file_name()?.to_str()?.to_owned();
    let target = message["target"]["name"].as_str()?.to_owned();
    message["profile"]["test"].as_bool()?.then_some(Binary { package, target, path, dir })
}

/// Runs all of these, a few at a time. Of one that passes the summary is shown, of one that fails everything; after
/// a failure no further one is begun. Returns how many tests have passed.
pub(crate) fn beside_each_other(commands: Vec<Cmd>) -> Result<u32, String> {
    let waiting = Mutex::new(commands.into_iter());
    let next = || waiting.lock().ok()?.next();
    let failed = AtomicBool::new(false);
    let work = || {
        let mut tests = 0;
        while let Some(cmd) = (!failed.load(Relaxed)).then(next).flatten() {
            let outcome = run(&cmd);
            failed.fetch_or(outcome.is_err(), Relaxed);
            tests += outcome?;
        }
        Ok(tests)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let ends = threads.into_iter().map(|t| t.join().unwrap_or(Err("a thread panicked".into())));
        // All are waited for, whichever fails first.
        ends.collect::<Vec<Result<u32, String>>>().into_iter().sum()
    })
}

fn run(cmd: &Cmd) -> Result<u32, String> {
    let begun = Instant::now();
    let (status, output) = cmd.run_aside()?;
    let seconds = begun.elapsed().as_secs_f64();
    if !status.success() {
        println!("$ {cmd}\n{output}");
        return Err(format!("`{cmd}` ended with {status}"));
    }
    let tests = count(&output, "passed");
    println!("$ {cmd}\n  {tests} tests passed in {seconds:.1} s");
    Ok(tests)
}

/// How many tests `passed`, or what other word is in the summary lines of test binaries that have not failed.
pub(crate) fn count(output: &str, word: &str) -> u32 {
    let lines = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let parts = lines.flat_map(|line| line.split(';'));
    parts.filter_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u32>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_cargo_are_read() {
        let message = |executable: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/crates/bast/Cargo.toml",
                    "target":{{"name":"it"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let read = |text: &str| binary(&serde_json::from_str(text).unwrap());
        let found = read(&message("\"/t/it-1\"", true)).unwrap();
        assert_eq!((found.package.as_str(), found.target.as_str()), ("bast", "it"));
        assert_eq!(found.cmd().to_string(), "env -C /a/crates/bast /t/it-1");
        let by_wine = found.cmd_by(&Cmd::new("wine").env("A", 1));
        assert_eq!(by_wine.to_string(), "env -C /a/crates/bast A=1 wine /t/it-1");
        assert!(read(&message("\"/t/it\"", false)).is_none());
        assert!(read(&message("null", true)).is_none());
        assert!(read(r#"{"reason":"build-finished"}"#).is_none());
    }

    #[test]
    fn a_failure_beside_others_is_told() {
        let ok = Cmd::new("echo").args("test result: ok. 2 passed; 0 failed");
        assert_eq!(beside_each_other(vec![ok.clone(); 5]), Ok(10));
        let fault = beside_each_other(vec![ok.clone(), Cmd::new("false"), ok]).unwrap_err();
        assert!(fault.contains("`false` ended with exit status: 1"), "{fault}");
    }

    #[test]
    fn passed_tests_are_counted() {
        let output = "running 3 tests\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
            test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out\n\
            test result: ok. 12 passed; 0 failed\n";
        assert_eq!(count(output, "passed"), 15);
        assert_eq!(count(output, "filtered out"), 9);
        assert_eq!(count("test result: FAILED. 3 passed; 1 failed", "passed"), 0);
    }
}
