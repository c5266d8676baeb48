//! `run-all`: commands that succeed, fail, hang, are deaf, and are many.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bast_examples::run_all::job::{Form, parse};
use bast_examples::run_all::report::Summary;
use bast_examples::run_all::{Plan, Stop, run};
use serde_json::Value;

use crate::process::PATIENCE;

fn start(args: &[&str], lines: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-all"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child
}

/// Status, stdout, stderr.
fn run_all(args: &[&str], lines: &str) -> (i32, String, String) {
    let Output { status, stdout, stderr } = start(args, lines).wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// A command that ignores SIGTERM, with its children.
const DEAF: &str = r#"sh -c "trap '' TERM; echo ready; while :; do sleep 1; done""#;

#[test]
fn commands_succeed_and_fail() {
    let (status, out, err) =
        run_all(&["-j", "2"], "echo 'a  b'\n\n# nothing\nsh -c 'echo err >&2'\n");
    assert_eq!((status, &out[..]), (0, "a  b\n"), "{err}");
    assert!(err.contains("err\n") && err.contains("2 commands: 2 succeeded"), "{err}");
    let lines = "sh -c 'echo said; exit 3'\nsh -c 'kill -9 $$'\nno-such-program x\ntrue";
    let (status, out, err) = run_all(&["-k"], lines);
    assert_eq!((status, &out[..]), (1, "said\n"));
    assert!(err.contains("line 1: sh -c 'echo said; exit 3': exit status 3\n"), "{err}");
    assert!(err.contains("line 2: sh -c 'kill -9 $$': ended by signal 9\n"), "{err}");
    assert!(err.contains("no-such-program: command not found\n"), "{err}");
    assert!(err.contains("4 commands: 1 succeeded, 3 failed, 0 timed out"), "{err}");
    let (status, out, _) = run_all(&["--", "echo", "<{}>"], "a b\nc'd\n");
    assert_eq!(
        (status, out.lines().filter(|line| ["<a b>", "<c'd>"].contains(line)).count()),
        (0, 2)
    );
    let (_, out, _) = run_all(&["--shell"], "echo a | tr a b");
    assert_eq!(out, "b\n");
}

#[test]
fn the_first_failure_ends_all() {
    let begun = Instant::now();
    // The second one fails when the first has begun.
    let begins = std::env::temp_dir().join(format!("run-all-begins-{}", std::process::id()));
    let file = begins.display();
    let lines = format!(
        "sh -c 'touch {file}; exec sleep 1000'\n\
         sh -c 'until rm {file}; do sleep 0.01; done 2> /dev/null; false'\n\
         echo never\necho never"
    );
    let (status, _, err) = run_all(&["-j", "2"], &lines);
    assert_eq!(status, 1);
    assert!(err.contains("0 succeeded, 1 failed, 0 timed out, 1 stopped, 2 not run"), "{err}");
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let (status, out, err) = run_all(&[], "echo no\necho 'x\n");
    assert_eq!((status, &out[..]), (2, ""));
    assert_eq!(err, "run-all: line 2: missing closing quote: echo 'x\n");
    let (status, _, err) = run_all(&["-f", "/none/such"], "");
    assert!(status == 2 && err.contains("/none/such: No such file"), "{err}");
    for args in [&["-j", "0"][..], &["-t", "0"], &["--prefix", "--json"]] {
        assert_eq!(run_all(args, "").0, 2, "{args:?}");
    }
    assert_eq!(run_all(&[], "").0, 0);
}

#[test]
fn who_takes_too_long_is_ended_even_if_deaf() {
    let lines = format!("{DEAF}\nsleep 1000\necho done");
    let (status, out, err) = run_all(&["-k", "-j", "3", "-t", "3", "--grace", "0.1"], &lines);
    assert_eq!(status, 1);
    assert!(out.contains("ready\n") && out.contains("done\n"), "{out}");
    assert!(err.contains("1 succeeded, 0 failed, 2 timed out"), "{err}");
    assert_eq!(err.matches("took too long, and was ended").count(), 2, "{err}");
}

#[test]
fn a_daemon_that_keeps_the_pipes_is_not_waited_for() {
    let (status, out, _) = run_all(&["--grace", "0.1"], "sh -c 'setsid sleep 5 & echo x'");
    assert_eq!((status, &out[..]), (0, "x\n"));
}

#[test]
fn ctrl_c_ends_what_runs() {
    let mut child =
        start(&["-p", "-j", "2", "--grace", "0.2"], &format!("{DEAF}\n{DEAF}\necho never"));
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut ready = String::new();
    for _ in 0..2 {
        out.read_line(&mut ready).unwrap();
    }
    assert!(ready.contains("1: ready\n") && ready.contains("2: ready\n"), "{ready}");
    let interrupt = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &interrupt]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("2 stopped, 1 not run"), "{err}");
}

#[test]
fn output_is_kept_together_whatever_its_size() {
    // 300,000 bytes are more than a pipe holds.
    let one = |letter| {
        format!(
            "sh -c 'head -c 300000 /dev/zero | tr \"\\0\" {letter}; echo; head -c 300000 /dev/zero | tr \"\\0\" {letter} >&2; echo >&2'\n"
        )
    };
    let lines: String = ('a'..='h').map(one).collect();
    let (status, out, err) = run_all(&["-j", "8"], &lines);
    assert_eq!(status, 0);
    for text in [out, err] {
        let long: Vec<_> = text.lines().filter(|line| line.len() == 300_000).collect();
        assert_eq!(long.len(), 8);
        assert!(long.iter().all(|line| line.bytes().all(|byte| byte == line.as_bytes()[0])));
    }
    let (_, out, _) = run_all(&["-p"], "printf 'a\\nb'\nprintf c");
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1: a", "1: b", "2: c"]);
}

#[test]
fn json() {
    let (status, out, _) = run_all(&["--json", "-k"], "sh -c 'echo x; exit 7'\nno-such-program");
    assert_eq!(status, 1);
    let mut values: Vec<Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = values.pop().unwrap();
    assert_eq!(
        (&summary["summary"]["failed"], &summary["summary"]["succeeded"]),
        (&2.into(), &0.into())
    );
    values.sort_by_key(|value| value["line"].as_u64());
    assert_eq!((&values[0]["code"], &values[0]["stdout"]), (&7.into(), &"x\n".into()));
    assert_eq!(values[1]["end"], "not-started");
}

/// Children of this process that nobody has asked for their status, by their program's name.
fn zombies(program: &str) -> usize {
    let ours = format!(" Z {} ", std::process::id());
    let name = format!("({program})");
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter(|stat| stat.contains(&name) && stat.contains(&ours)).count()
}

#[test]
fn a_thousand_children_thirty_two_at_a_time() {
    let jobs = parse(&"true\n".repeat(1000), &Form::Commands).unwrap();
    let plan = Plan {
        limit: 32,
        timeout: Some(PATIENCE),
        grace: Duration::from_secs(1),
        keep_going: false,
        by_line: false,
    };
    let reports = AtomicUsize::new(0);
    let summary = bast::scope(|s| {
        let all = s.spawn(|| {
            run(&plan, &Stop::default(), jobs, &|_, _| (), |report| {
                assert!(report.end.is_success());
                reports.fetch_add(1, SeqCst);
            })
        });
        all.join().unwrap()
    });
    assert_eq!((summary.succeeded, reports.into_inner()), (1000, 1000));
    assert_eq!(Summary { seconds: 0.0, succeeded: 0, ..summary }, Summary::default());
    assert_eq!(zombies("true"), 0);
}
