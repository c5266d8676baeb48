//! The program, as it is.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn ecosystem(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ecosystem"));
    command.args(args).env_remove("DATABASE_URL").env_remove("REDIS_URL").stdin(Stdio::null());
    command
}

fn succeeds(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[test]
fn each_command_does_its_work_and_says_so() {
    let load = ["--requests", "200", "--fibers", "20"];
    let run = |what: &[&str]| succeeds(ecosystem(&[what, &load].concat()));
    assert!(run(&["fetch"]).starts_with("200 answered, 200000 bytes, 0 failed"));
    let text = run(&["bank"]);
    assert!(text.contains("refused") && text.ends_with("the sum is still 2000\n"), "{text}");
    assert!(run(&["rpc"]).starts_with("200 sums"));
    if let Some(url) = crate::harness::server("BAST_TEST_REDIS") {
        assert!(run(&["cache", "--redis", &url]).starts_with("200 counts over one connection"));
    }
}

#[test]
fn a_server_is_called_by_another_process_and_stopped_by_ctrl_c() {
    let mut server = ecosystem(&["rpc", "--listen", "127.0.0.1:0"]);
    let mut server = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.next().unwrap();
    let url = line.strip_prefix("rpc: ").unwrap();
    let text = succeeds(ecosystem(&["rpc", "--to", url, "--requests", "50"]));
    assert!(text.starts_with("50 sums"), "{text}");
    let kill = Command::new("kill").args(["-INT", &server.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert!(server.wait().unwrap().success());
    assert!(lines.next().unwrap().starts_with("rpc: stopped"));
}

#[test]
fn help_and_faults_say_what_to_do() {
    let help = succeeds(ecosystem(&["--help"]));
    assert!(help.contains("ecosystem bank --database postgres://"), "{help}");
    for (args, says) in [
        (&["bank", "--database", "oracle://x"][..], "is none of sqlite:, postgres://, mysql://"),
        (&["rpc", "--to", "http://127.0.0.1:1"], "`ecosystem rpc --listen …`"),
        (&["cache", "--redis", "redis://127.0.0.1:1"], "apt install redis-server"),
        (&["fetch", "--fibers", "0"], "--fibers"),
    ] {
        let Output { status, stderr, .. } = ecosystem(args).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(!status.success() && stderr.contains(says), "{args:?}: {stderr}");
    }
}
