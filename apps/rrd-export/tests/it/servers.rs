//! Devices from real servers, which `cargo xtask ecosystem` starts; without it these tests say that they are skipped.

use std::process::{Command, Output};

use crate::fleet::{END, Fleet};

/// A table that no server needs: the rows are in the query itself.
const QUERY: &str = "SELECT 2 AS id, 'two' AS name, 'dc02' AS dc, 1.5 AS weight, NULL AS nothing \
                     UNION ALL SELECT 1, 'one', 'dc01', 2.5, NULL ORDER BY 1 DESC";

fn test(variable: &str, query: &str) {
    let Ok(url) = std::env::var(variable) else {
        println!("skipped: {variable} names no server (`cargo xtask ecosystem` starts one)");
        return;
    };
    let fleet = Fleet::new(10);
    let run = |query: &str, columns: &str| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rrd-export"));
        command.args(["--devices", &url, "--query", query, "--columns", columns, "-o", "-"]);
        command.args(["--from", &(END - 1).to_string(), "--to", &(END - 1).to_string(), "--base"]);
        command.arg(fleet.dir.path()).output().unwrap()
    };
    let output = run(query, "id,name,dc,weight,iface");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 11, "{text}");
    assert!(lines[1].starts_with("2,two,dc02,1.5,eth0,"), "{}", lines[1]);
    assert!(lines[10].starts_with("1,one,dc01,2.5,eth4,"), "{}", lines[10]);
    for (query, told) in [
        ("SELECT id FROM no_such_table", "no_such_table"),
        ("SELECT 1 AS host", "no column is called id, only: host"),
    ] {
        let output = run(query, "time");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn devices_from_postgresql() {
    test("BAST_TEST_POSTGRES", &QUERY.replace("1.5", "CAST(1.5 AS float8)"));
}

#[test]
fn devices_from_mysql() {
    test("BAST_TEST_MYSQL", &QUERY.replace("1.5", "1.5e0"));
}
