//! `sleepers`: its last line, and its ways to fail.

use std::process::{Command, Output};

fn sleepers(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sleepers")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_last_line_has_the_figures() {
    let output = sleepers(&["2000", "--hold", "5", "--workers", "2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let last = text(&output.stdout).lines().last().unwrap();
    let fields: Vec<(&str, f64)> = last
        .split(' ')
        .map(|field| field.split_once('=').map(|(name, n)| (name, n.parse().unwrap())).unwrap())
        .collect();
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["fibers", "KiB_per_fiber", "spawn_s", "end_s"]);
    assert_eq!(fields[0].1, 2000.0);
    // At least a page of stack each; far less than the whole stack.
    assert!((2.0..64.0).contains(&fields[1].1), "{last}");
    assert!(fields[2].1 > 0.0 && fields[2].1 < 5.0, "{last}");
    assert!(fields[3].1 >= 0.0 && fields[3].1 < 60.0, "{last}");
}

#[test]
fn a_hold_that_is_too_short_is_told() {
    let output = sleepers(&["20000", "--hold", "0.000001"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let fault = text(&output.stderr);
    assert!(fault.contains("--hold") && fault.contains("20000 fibers"), "{fault}");
}

#[test]
fn a_stack_that_is_too_large_is_told() {
    let output = sleepers(&["10", "--stack", "100000000000000000"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stderr).starts_with("sleepers: "), "{}", text(&output.stderr));
}

#[test]
fn where_guards_run_out_the_count_and_the_limit_are_told() {
    const COUNT: u64 = 40_000;
    let output = sleepers(&[&COUNT.to_string(), "--guards", "mprotect"]);
    let fault = text(&output.stderr);
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let limit: u64 = limit.trim().parse().unwrap();
    // Each such guard takes two mappings.
    if limit > 2 * COUNT + 10_000 {
        assert!(output.status.success(), "{fault}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(fault.contains("vm.max_map_count"), "{fault}");
    let told = fault.lines().find_map(|line| line.strip_prefix("sleepers: no more than "));
    let reached = told.and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    let reached = reached.unwrap_or_else(|| panic!("no count in {fault}"));
    assert!(reached > limit / 4 && reached <= limit / 2, "{reached} of {limit} mappings");
}

#[test]
fn numbers_are_checked() {
    for args in [&["0"][..], &[], &["x"], &["5", "--hold", "-1"], &["5", "--workers", "0"]] {
        assert_eq!(sleepers(args).status.code(), Some(2), "{args:?}");
    }
    let help = sleepers(&["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("KiB_per_fiber"));
}
