//! What a child on Windows is given, and what it is not: arguments, environment, directory, handles; and many at once.

use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bast::net::{TcpListener, TcpStream};
use bast::process::{Child, Command};

use crate::fs::Temp;
use crate::harness::on_bast::run;
use crate::harness::{needs_kernel, until};
use crate::windows_children::{end, has_ended, of, open, tree};

/// The lines that a child says, of one kind.
fn said(command: &mut Command, kind: &str) -> Vec<String> {
    let output = command.output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix(kind));
    lines.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn arguments_arrive_as_they_are() {
    needs_kernel!();
    run(|| {
        let odd = [
            "",
            " ",
            "a b",
            "\ttab",
            "\"",
            "\"\"",
            "a\"b",
            "\\",
            "a\\",
            "a b\\",
            "\\\\",
            "\\\"",
            "a\\\\\"b c\\\\",
            "\"a b\"",
            "*",
            "?",
            "%PATH%",
            "^",
            "&",
            "|",
            "<>",
            "'",
            "-x",
            "/x",
            "größe €",
            "\u{1f980}",
            "a,b;c=d",
        ];
        let expected: Vec<_> = odd.iter().map(|arg| format!("{arg:?}")).collect();
        assert_eq!(said(of("says").arg("--").args(odd), "arg"), expected);
    });
}

#[test]
fn environment_and_directory() {
    needs_kernel!();
    run(|| {
        let dir = Temp::new();
        let mut command = of("says");
        command.current_dir(&*dir).env("BAST_TEST_A", "one = größe");
        command.envs([("BAST_TEST_B", "2"), ("bast_test_c", "3")]).env_remove("BAST_TEST_B");
        for _ in 0..2 {
            let env = said(&mut command, "env");
            let expected = [
                r#"BAST_TEST_A Some("one = größe")"#,
                "BAST_TEST_B None",
                r#"BAST_TEST_C Some("3")"#,
            ];
            assert_eq!(env, expected, "names know no case");
            let own = std::fs::canonicalize(&*dir).unwrap();
            let theirs: Vec<_> = said(&mut command, "dir");
            let theirs: PathBuf = theirs[0].trim_matches('"').replace("\\\\", "\\").into();
            assert_eq!(std::fs::canonicalize(theirs).unwrap(), own);
        }
        let none = of("says").current_dir(dir.join("none")).spawn().unwrap_err();
        // (Windows says `NotADirectory`, Wine `NotFound`.)
        assert!(matches!(none.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory), "{none}");
    });
}

#[test]
fn every_exit_code_is_told() {
    needs_kernel!();
    run(|| {
        // 259 is what Windows says of a process that still runs.
        for code in [0, 1, 259, -1, i32::MIN, 0xC000_0005_u32.cast_signed()] {
            let mut child = of("exit")
                .env("BAST_TEST_A", code.to_string())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let status = child.wait().unwrap();
            assert_eq!((status.code(), status.success()), (Some(code), code == 0));
            assert_eq!(child.wait().unwrap(), status, "again");
            assert_eq!(child.try_wait().unwrap(), Some(status));
        }
    });
}

#[test]
fn a_wait_that_was_given_up_can_be_begun_again() {
    needs_kernel!();
    run(|| {
        let mut child = of("copy").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        // `wait` would close it.
        let stdin = child.stdin.take();
        for _ in 0..3 {
            assert!(bast::timeout(Duration::from_millis(10), || child.wait()).is_err());
        }
        assert!(child.try_wait().unwrap().is_none());
        drop(stdin);
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn a_mebibyte_there_and_back() {
    const LEN: usize = 1 << 20;
    needs_kernel!();
    run(|| {
        let mut child = of("copy").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let bytes: Vec<u8> = (0..LEN).map(|n| (n % 251) as u8).collect();
        let mut all = Vec::new();
        bast::scope(|s| {
            s.spawn(|| stdin.write_all(&bytes).map(|()| drop(stdin)).unwrap());
            stdout.read_to_end(&mut all).unwrap();
        });
        assert!(child.wait().unwrap().success());
        // libtest has said something before.
        assert!(all.ends_with(&bytes), "{} bytes", all.len());
    });
}

#[test]
fn a_hundred_children_at_once() {
    const CHILDREN: usize = 100;
    needs_kernel!();
    run(|| {
        let children: Vec<_> = (0..CHILDREN)
            .map(|n| {
                bast::spawn(move || {
                    let mut child = Command::new("cmd");
                    let code = n.to_string();
                    // It waits for the end of its input.
                    child
                        .args(["/c", "set /p x= & exit", &code])
                        .stdin(Stdio::piped())
                        .stdout(Stdio::null());
                    child.kill_on_drop(n % 2 == 0).spawn().unwrap()
                })
            })
            .collect();
        let children: Vec<Child> =
            children.into_iter().map(|child| child.join().unwrap()).collect();
        let waits: Vec<_> =
            children.into_iter().map(|mut child| bast::spawn(move || child.wait())).collect();
        for (n, wait) in waits.into_iter().enumerate() {
            assert_eq!(wait.join().unwrap().unwrap().code(), Some(n as i32));
        }
    });
}

/// A handle that some child had by accident would keep a pipe or a connection open as long as that lives.
#[test]
fn a_child_has_no_handles_but_those_it_was_given() {
    needs_kernel!();
    run(|| {
        let (mut reader, writer) = bast::io::pipe().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        // From several threads at once, each with pipes of its own.
        let children: Vec<_> = (0..8)
            .map(|_| {
                std::thread::spawn(|| {
                    of("copy").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
                })
            })
            .collect();
        let children: Vec<Child> =
            children.into_iter().map(|child| child.join().unwrap()).collect();
        drop((writer, client));
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        // Each hears of the end of its input, while the others still have theirs.
        for mut child in children {
            assert!(child.try_wait().unwrap().is_none());
            drop(child.stdin.take());
            assert!(child.wait().unwrap().success());
        }
    });
}

#[test]
fn a_child_outlives_its_parent() {
    needs_kernel!();
    run(|| {
        // (Its output is not read to the end: what is inherited once is inherited on, by std's children too.)
        let (mut child, grandchild) = tree(&mut of("parent"));
        assert!(child.wait().unwrap().success());
        assert!(!has_ended(&grandchild));
        assert!(end(&grandchild));
        until("it has ended", || has_ended(&grandchild));
    });
}

#[test]
fn killing_what_has_ended_is_no_error() {
    needs_kernel!();
    run(|| {
        for kill_on_drop in [false, true] {
            let mut child = of("exit")
                .env("BAST_TEST_A", "4")
                .stdout(Stdio::null())
                .kill_on_drop(kill_on_drop)
                .spawn()
                .unwrap();
            until("it has ended", || child.try_wait().unwrap().is_some());
            child.kill().unwrap();
            assert_eq!(child.terminate(Duration::ZERO).unwrap().code(), Some(4));
            assert_eq!(child.wait().unwrap().code(), Some(4));
        }
        // A tree whose root has ended by itself: what it has started ends with it.
        let (mut child, grandchild) = tree(of("tree").kill_on_drop(true));
        let root = open(child.id()).unwrap();
        assert!(end(&root));
        until("it has ended", || has_ended(&root));
        assert!(!has_ended(&grandchild));
        child.terminate(Duration::ZERO).unwrap();
        until("the grandchild has ended", || has_ended(&grandchild));
    });
}
