//! The feeding benchmark: every subject feeds a few people, and everybody ends with exactly what was fed.
//! No times are looked at.

use crate::{bench, bench_within, text};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Runs a small grid; gives the points of each subject in the CSV's first feedings by people.
fn feed(name: &str, subjects: &str) -> (BTreeMap<String, usize>, String) {
    let folder = std::env::temp_dir().join(format!("bast-diet-{name}-{}", std::process::id()));
    let out = folder.to_str().expect("a temporary directory with a plain name");
    let grid = ["diet", "--quick", "--repeat", "1", "--people", "1,3,64", "--nutrients", "7"];
    // Two compilers may have to build their programs first.
    let limit = Duration::from_secs(180);
    let run = bench_within(limit, &[&grid[..], &["--out", out, "--subject", subjects]].concat());
    let errors = text(&run.stderr);
    // A child whose people were not fed exactly fails, and so does the run.
    assert!(run.status.success(), "{errors}");
    let table = text(&run.stdout);
    assert!(table.contains("64x7") && table.contains("us again"), "{table}");
    let mut rows = csv::Reader::from_path(folder.join("diet.csv")).expect("the CSV is there");
    let mut points = BTreeMap::new();
    for row in rows.records() {
        let row = row.expect("a row");
        assert!(row[6].parse::<f64>().expect("a median") > 0.0, "{row:?}");
        if row[1].contains("again") {
            *points.entry(row[4].to_owned()).or_insert(0) += 1;
        }
    }
    let json = fs::read_to_string(folder.join("diet.json")).expect("the JSON is there");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(json["command"].as_str().expect("a command").contains("diet --quick"));
    let page = fs::read_to_string(folder.join("diet.html")).expect("the page is there");
    assert!(page.contains("<svg") && page.contains("7 nutrients"));
    fs::remove_dir_all(folder).expect("the folder can be removed");
    (points, errors)
}

#[test]
fn everybody_is_fed_by_every_subject_of_this_program() {
    let names = [
        "bast-1",
        "bast-all",
        "bast-task-1",
        "bast-task-all",
        "coroutine",
        "threads",
        "threads-yield",
        "tokio-current",
        "tokio-multi",
    ];
    let (points, _) = feed("rust", &names.join(","));
    assert_eq!(points.keys().map(String::as_str).collect::<Vec<_>>(), names);
    assert!(points.values().all(|n| *n == 3), "{points:?}");
}

#[test]
fn everybody_is_fed_in_d_and_go_where_their_compilers_are() {
    // `threads` is there, so that something is drawn where neither compiler is.
    let (points, notes) = feed("rivals", "threads,d,go");
    for (subjects, why) in [(["d-fibers", "d-threads"], "ldc2"), (["go-1", "go-all"], "`go`")] {
        for subject in subjects {
            let skipped = notes.contains(&format!("subject {subject} is skipped"));
            assert!(points.get(subject) == Some(&3) || skipped && notes.contains(why), "{notes}");
        }
    }
}

#[test]
fn two_thousand_threads_eat_or_the_error_names_the_limit() {
    let run = bench(&["subject", "diet", "2048x1", "threads", "0", "0"]);
    let (figures, error) = (text(&run.stdout), text(&run.stderr));
    assert!(figures.contains("fed\t6144\n") || error.contains("threads-max"), "{error}");
}

#[test]
fn mistakes_are_told() {
    for (args, what) in [
        (&["diet", "--subject", "nobody"][..], "there are: bast-1"),
        (&["diet", "--people", "0"], "--people"),
        (&["subject", "diet", "12", "threads", "0", "0"], "64x1000"),
        (&["subject", "diet", "1x1", "nobody", "0", "0"], "no subject nobody"),
    ] {
        let run = bench(args);
        assert!(!run.status.success(), "{args:?}");
        assert!(text(&run.stderr).contains(what), "{}", text(&run.stderr));
    }
}
