//! The built program, as a user runs it. Cheap benchmarks only; each test is bounded.

mod diet;

use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs the program; a run that takes longer than 100 s is killed and fails the test.
fn bench(args: &[&str]) -> Output {
    bench_within(Duration::from_secs(100), args)
}

fn bench_within(limit: Duration, args: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bast-bench"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let start = Instant::now();
    // What these runs print fits into the pipes.
    while child.try_wait().expect("the child can be waited for").is_none() {
        if start.elapsed() > limit {
            child.kill().expect("the child can be killed");
            panic!("{args:?} took longer than {limit:?}");
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("the output is read")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_quick_run_gives_a_table_and_json_lines() {
    let file = std::env::temp_dir().join(format!("bast-bench-{}.json", std::process::id()));
    let path = file.to_str().expect("a temporary directory with a plain name");
    let run = ["run", "yield", "ping-pong", "--quick", "--repeat", "1", "--json", path];
    let only = ["--subject", "threads,bast", "--param", "1,park"];
    let out = bench(&[&run[..], &only[..]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let json = fs::read_to_string(&file).expect("the JSON file is there");
    fs::remove_file(&file).expect("the JSON file can be removed");
    let mut seen = Vec::new();
    for line in json.lines() {
        let v: serde_json::Value = serde_json::from_str(line).expect("a JSON object a line");
        let text = |key: &str| v[key].as_str().expect("text").to_owned();
        assert_eq!(v.as_object().expect("an object").len(), 7, "{line}");
        assert_eq!((text("unit").as_str(), &v["n"]), ("ns", &serde_json::json!(1)));
        assert!(v["median"].as_f64().expect("a number") > 0.0, "{line}");
        assert_eq!(v["median"], v["min"], "of one round");
        seen.push(format!("{} {} {}", text("bench"), text("param"), text("subject")));
    }
    let want = ["yield 1 bast", "yield 1 threads", "ping-pong park bast", "ping-pong park threads"];
    assert_eq!(seen, want);
    let table = text(&out.stdout);
    // A rival may be as fast as bast, to two digits.
    let own = table.lines().filter(|line| line.contains(" bast ") && line.ends_with(" 1.00x"));
    assert_eq!(own.count(), 2, "{table}");
    assert!(text(&out.stderr).contains("(round 1 of 1)"), "progress goes to stderr");
}

#[test]
fn a_quick_echo_measures_a_server() {
    let args = ["run", "echo", "--quick", "--repeat", "1", "--param", "1"];
    let out = bench(&[&args[..], &["--subject", "raw-epoll,bast-epoll"]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let table = text(&out.stdout);
    assert_eq!(table.matches("cpu us/message").count(), 2, "{table}");
    assert_eq!(table.matches("messages/s").count(), 2, "{table}");
}

/// Every subject of the benchmarks in `src/sync`, once, as a child: a figure comes out, and what is
/// checked inside is right.
#[test]
fn each_subject_of_the_waiting_benchmarks_gives_a_figure() {
    let list = text(&bench(&["list"]).stdout);
    let mut name = "";
    let mut ran = 0;
    for line in list.lines() {
        let Some(line) = line.strip_prefix("  ") else {
            name = line.split(':').next().unwrap_or("");
            continue;
        };
        let mut words = line.split_whitespace();
        let param = words.next().unwrap_or("");
        let waits = ["lock", "contended", "mvar", "channel", "select", "timeout", "cancel", "sink"];
        if param == "units:" || !(waits.contains(&name) || param == "oneshot") {
            continue;
        }
        for subject in words.filter(|s| !s.starts_with("go")) {
            let out = bench(&["subject", name, param, subject, "1", "3"]);
            let (figure, errors) = (text(&out.stdout), text(&out.stderr));
            assert!(out.status.success(), "{name} {param} {subject}: {errors}");
            let ns: f64 =
                figure.trim().strip_prefix("ns\t").expect("ns").parse().expect("a number");
            assert!(ns > 0.0, "{name} {param} {subject}: {figure}");
            ran += 1;
        }
    }
    assert!(ran > 80, "{ran} subjects");
}

/// The OCaml rival where it can be built: elsewhere its subjects are skipped, and the run says how to get it.
#[test]
fn curves_become_a_report() {
    let folder = std::env::temp_dir().join(format!("bast-bench-curves-{}", std::process::id()));
    let path = folder.to_str().expect("a temporary directory with a plain name");
    let args = ["run", "recurse", "--quick", "--repeat", "1", "--curves", path];
    let only = ["--subject", "bast,plain,lwt", "--param", "medium-50,medium-200,medium-600"];
    let out = bench(&[&args[..], &only[..]].concat());
    let errors = text(&out.stderr);
    assert!(out.status.success(), "{errors}");
    let table = text(&out.stdout);
    assert!(table.contains("recurse medium: slope, to that of a plain call"), "{table}");
    let lwt = errors.contains("apt-get install -y ocaml-nox") || table.contains("Lwt's time");
    assert!(lwt, "{errors}{table}");
    for ending in ["csv", "json", "html"] {
        let file = fs::read_to_string(folder.join(format!("delimcc.{ending}"))).expect("a file");
        assert!(file.contains("plain"), "{file}");
    }
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn a_run_says_whether_it_met_the_targets() {
    let args = ["run", "timeout", "--quick", "--repeat", "1", "--subject", "bast"];
    let table = text(&bench(&args).stdout);
    assert!(table.contains("timeout around what is ready"), "{table}");
}

#[test]
fn list_and_help_explain() {
    let list = text(&bench(&["list"]).stdout);
    let first =
        ["yield", "spawn-join", "ping-pong", "sleepers", "timer-delay", "children", "echo", "pong"];
    let waits = ["lock", "contended", "mvar", "channel", "select", "timeout", "cancel", "sink"];
    let waits = waits.into_iter().chain(["basic", "recurse", "recurse2"]);
    for name in first.into_iter().chain(waits) {
        assert!(list.contains(&format!("{name}: ")), "{list}");
    }
    let help = text(&bench(&["--help"]).stdout);
    assert!(help.contains("run micro --quick") && !help.contains("\n  serve"), "{help}");
}

#[test]
fn mistakes_are_errors() {
    for args in [
        &["run", "nothing"][..],
        &["run", "yield", "--subject", "nobody"],
        &["run", "yield", "--repeat", "0"],
        &["run", "yield", "--json", "/nonexistent/x.json"],
        &["subject", "yield", "many", "threads", "1", "1"],
    ] {
        let out = bench(args);
        assert!(!out.status.success(), "{args:?}");
        assert!(!out.stderr.is_empty(), "{args:?}");
    }
}
