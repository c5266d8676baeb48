//! A program under test: this one, with a role. It is killed if it takes too long, and when it is dropped.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// The environment variable that gives a process its role.
pub(crate) const ROLE: &str = "BAST_STDIO_ROLE";
const PATIENCE: Duration = Duration::from_secs(120);

/// What programs for this machine are run by, if the machine is only emulated (`cargo xtask cross`).
pub(crate) fn runner() -> Option<std::ffi::OsString> {
    std::env::var_os("BAST_TEST_RUNNER")
}

pub(crate) struct Child {
    process: Arc<Mutex<std::process::Child>>,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    _alive: mpsc::Sender<()>,
}

impl Child {
    pub(crate) fn start(role: &str, stdin: Stdio) -> Child {
        Child::start_with(role, stdin, Stdio::piped())
    }

    pub(crate) fn start_with(role: &str, stdin: Stdio, stdout: Stdio) -> Child {
        let this = std::env::current_exe().unwrap();
        let mut command = match runner() {
            Some(runner) => {
                let mut command = Command::new(runner);
                command.arg(this);
                command
            }
            None => Command::new(this),
        };
        if role == "exits_in_a_fiber"
            && let Ok(options) = std::env::var("ASAN_OPTIONS")
        {
            // LeakSanitizer does not look at the stack of a thread that exits on another one.
            command.env("ASAN_OPTIONS", options + ":detect_leaks=0");
        }
        Child::spawn(command.env(ROLE, role).stdin(stdin).stdout(stdout))
    }

    /// As the command says, but for its stderr.
    pub(crate) fn spawn(command: &mut Command) -> Child {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().map(BufReader::new));
        let process = Arc::new(Mutex::new(process));
        let (alive, ended) = mpsc::channel();
        let watched = Arc::clone(&process);
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = watched.lock().unwrap().kill();
            }
        });
        Child { process, stdin, stdout, _alive: alive }
    }

    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.stdin.take().expect("a pipe")
    }

    /// The next line of its stdout, if there is one.
    pub(crate) fn maybe_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let n = self.stdout.as_mut().expect("a pipe").read_line(&mut line).unwrap();
        (n > 0).then(|| line.trim_end().to_owned())
    }

    pub(crate) fn line(&mut self) -> String {
        self.maybe_line().unwrap_or_else(|| panic!("no line; stderr: {}", self.stderr()))
    }

    pub(crate) fn kill(&mut self) {
        self.process.lock().unwrap().kill().unwrap();
    }

    /// All of its stderr.
    pub(crate) fn stderr(&mut self) -> String {
        let stderr = self.process.lock().unwrap().stderr.take();
        let mut text = String::new();
        stderr.expect("not read yet").read_to_string(&mut text).unwrap();
        text
    }

    /// It ends, and well.
    pub(crate) fn end(&mut self) {
        drop(self.stdin.take());
        loop {
            let status = self.process.lock().unwrap().try_wait().unwrap();
            if let Some(status) = status {
                let stderr = if status.success() { String::new() } else { self.stderr() };
                assert!(status.success(), "{status}: {stderr}");
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// All of its stdout; and it ends.
    pub(crate) fn output(mut self) -> String {
        let mut text = String::new();
        self.stdout.as_mut().expect("a pipe").read_to_string(&mut text).unwrap();
        self.end();
        text
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let mut process = self.process.lock().unwrap();
        let _ = process.kill();
        let _ = process.wait();
    }
}
