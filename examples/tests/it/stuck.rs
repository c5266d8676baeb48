//! `stuck`: what it shows of bast.
//!
//! `BAST_TEST_STUCK` names another program to try than cargo's, such as one compiled with optimisation.

use std::env;
use std::process::{Command, Output};

fn stuck(args: &[&str], deadlock: &str) -> Output {
    let built = || env!("CARGO_BIN_EXE_stuck").into();
    let mut command = Command::new(env::var_os("BAST_TEST_STUCK").unwrap_or_else(built));
    command.args(args).env("BAST_DEADLOCK", deadlock).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn many_fibers_are_a_few_entries() {
    let output = stuck(&["dump", "3000", "--workers", "2"], "auto");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert_eq!(said.matches("\n1,000 fibers: parked in park").count(), 3, "{said}");
    assert!(said.contains("src/bin/stuck.rs:"), "{said}");
    assert!(said.lines().last().unwrap().starts_with("fibers=3000 dump_s="), "{said}");
}

#[test]
fn a_hog_is_reported_with_its_line() {
    let output = stuck(&["hog", "--hold", "8000"], "auto");
    let said = text(&output.stderr);
    let source = include_str!("../../src/bin/stuck.rs");
    let hog = ["while Instant::now() < end", "for _ in 0..10_000", "n = black_box("];
    // Where the machine has held it up on its way there, the first report says so.
    let places = said.lines().filter_map(|line| line.split_once(", at ")?.1.rsplit_once(':'));
    let here = places.filter(|(file, _)| file.ends_with("examples/src/bin/stuck.rs"));
    let mut lines = here.filter_map(|(_, n)| source.lines().nth(n.parse::<usize>().ok()? - 1));
    assert!(lines.any(|line| hog.iter().any(|code| line.contains(code))), "{said}");
}

#[test]
fn a_hog_that_sleeps_is_told_what_to_use() {
    // Long enough for the names to be looked up on a busy machine.
    let output = stuck(&["hog", "--sleep", "--hold", "8000"], "auto");
    let said = text(&output.stderr);
    assert!(said.contains("'hog' has held worker") && said.contains("use bast::sleep"), "{said}");
}

#[test]
fn a_deadlock_reports_itself() {
    let output = stuck(&["deadlock", "--hold", "8000"], "force");
    let said = text(&output.stderr);
    assert!(said.contains("'green' is blocked indefinitely on JoinHandle::join"), "{said}");
    assert_eq!(said.matches("a cycle: ").count(), 1, "{said}");
    // Its own thread, which ends it, might wake a fiber for all that bast knows.
    let output = stuck(&["deadlock", "--hold", "1000"], "auto");
    assert_eq!(text(&output.stderr), "");
}
