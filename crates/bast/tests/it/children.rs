//! Twins: child processes and pipes.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use crate::harness::{error_of, needs_kernel, twins};

twins! {
    fn output_is_collected() {
        needs_kernel!();
        let output = Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).output().unwrap();
        assert_eq!((&*output.stdout, &*output.stderr), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(output.status.code(), Some(3));
        assert!(!output.status.success());
        let output = Command::new("cat").output().unwrap();
        assert!(output.stdout.is_empty(), "stdin is empty");
        let output = Command::new("sh").args(["-c", "echo x; echo y >&2"]).stderr(Stdio::null()).output().unwrap();
        assert_eq!((&*output.stdout, &*output.stderr), (&b"x\n"[..], &b""[..]));
    }

    fn both_pipes_are_emptied() {
        needs_kernel!();
        let script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2";
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 600_000));
    }

    fn status_and_signals() {
        needs_kernel!();
        assert!(Command::new("true").status().unwrap().success());
        assert_eq!(Command::new("false").status().unwrap().code(), Some(1));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (None, Some(9)));
        assert_eq!(child.wait().unwrap(), status);
        assert_eq!(child.try_wait().unwrap(), Some(status));
        child.kill().unwrap();
    }

    fn a_conversation() {
        needs_kernel!();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut to = child.stdin.take().unwrap();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        assert!(child.stderr.is_none());
        for n in 0..100 {
            writeln!(to, "message {n}").unwrap();
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            assert_eq!(line, format!("message {n}\n"));
        }
        drop(to);
        assert_eq!(from.read(&mut [0]).unwrap(), 0);
        assert!(child.wait().unwrap().success());
    }

    fn wait_closes_stdin() {
        needs_kernel!();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        assert!(child.stdin.is_none());
    }

    fn environment_and_directory() {
        needs_kernel!();
        let mut command = Command::new("sh");
        command.args(["-c", "echo $BAST_A-$BAST_B-$BAST_C; pwd"]).current_dir("/")
            .env("BAST_A", "1").envs([("BAST_B", "2"), ("BAST_C", "3")]).env_remove("BAST_B");
        assert_eq!(command.get_program(), "sh");
        assert_eq!(command.get_args().len(), 2);
        assert_eq!(command.get_current_dir(), Some("/".as_ref()));
        assert_eq!(command.output().unwrap().stdout, b"1--3\n/\n");
        assert_eq!(command.output().unwrap().stdout, b"1--3\n/\n", "again");
        let output = Command::new("/usr/bin/env").env_clear().output().unwrap();
        assert!(output.stdout.is_empty());
    }

    fn what_cannot_be_run() {
        needs_kernel!();
        let kind = |program: &str| Command::new(program).spawn().map(drop).unwrap_err().kind();
        assert_eq!(kind("bast-no-such-program"), ErrorKind::NotFound);
        assert_eq!(kind("/"), ErrorKind::PermissionDenied);
        let error = Command::new("true").current_dir("/none").spawn().map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    fn one_childs_output_is_anothers_input() {
        needs_kernel!();
        let mut first = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn().unwrap();
        let second = Command::new("tr").args(["a-z", "A-Z"]).stdin(first.stdout.take().unwrap()).output().unwrap();
        assert_eq!(second.stdout, b"HELLO\n");
        assert!(first.wait().unwrap().success());
    }

    fn pipes() {
        needs_kernel!();
        let (mut reader, mut writer) = pipe().unwrap();
        let echo = spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all
        });
        let more = writer.try_clone().unwrap();
        writer.write_all(&[1; 200_000]).unwrap();
        drop(writer);
        (&more).write_all(&[2]).unwrap();
        drop(more);
        assert_eq!(echo.join().unwrap().len(), 200_001);
        let (reader, mut writer) = pipe().unwrap();
        drop(reader);
        assert_eq!(error_of(|| writer.write(b"x")).kind(), ErrorKind::BrokenPipe);
    }

    fn a_child_that_ignores_sigterm_can_be_killed() {
        needs_kernel!();
        let mut child: Child = Command::new("sh").args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"])
            .stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let kill = format!("kill -TERM {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        sleep(Duration::from_millis(50));
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    fn what_unix_knows_of_commands() {
        needs_kernel!();
        let output = Command::new("sh").arg0("other").args(["-c", "echo $0"]).output().unwrap();
        assert_eq!(output.stdout, b"other\n");
        // The group's number is the child's.
        let mut command = Command::new("sh");
        command.args(["-c", "read -r _ _ _ _ group _ < /proc/self/stat; echo $$ $group"]).process_group(0);
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let (pid, group) = text.trim().split_once(' ').unwrap();
        assert_eq!(pid, group);
        assert_eq!(format!("{:?}", Command::new("ls").arg("-l")), r#""ls" "-l""#);
        // Only root may be somebody else.
        let output = Command::new("id").arg("-u").uid(12345).gid(54321).output();
        match output {
            Ok(output) => assert_eq!(output.stdout, b"12345\n"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
        }
    }

    fn a_file_is_a_childs_output() {
        needs_kernel!();
        let path = std::env::temp_dir().join(format!("bast-child-{}-{:?}", std::process::id(), current().id()));
        let file = fs::File::create(&path).unwrap();
        let status = Command::new("echo").arg("hello").stdout(file).status().unwrap();
        let text = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(status.success());
        assert_eq!(text, b"hello\n");
        let (mut reader, writer) = pipe().unwrap();
        let mut child = Command::new("echo").arg("x").stderr(writer.try_clone().unwrap()).stdout(writer).spawn().unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x\n");
        child.wait().unwrap();
    }
}
