//! Running other programs: shown as they could be typed, bounded in time, nothing left behind.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any command of any step takes on two slow cores from nothing compiled; what takes
/// longer hangs, and a hang must be a failure.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// A command to run, with what it adds to the environment.
#[derive(Clone)]
pub(crate) struct Cmd {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    dir: Option<PathBuf>,
    limit: Duration,
}

impl Cmd {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Cmd {
        let program = program.as_ref().to_string_lossy().into_owned();
        Cmd { program, args: Vec::new(), env: Vec::new(), dir: None, limit: LIMIT }
    }

    /// The cargo that runs this very program, so that the toolchain is the same.
    pub(crate) fn cargo(args: &str) -> Cmd {
        Cmd::new("cargo").args(args)
    }

    /// Adds arguments, separated by spaces.
    pub(crate) fn args(mut self, args: &str) -> Cmd {
        self.args.extend(args.split_whitespace().map(String::from));
        self
    }

    /// Adds one argument, whatever is in it.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Cmd {
        self.args.push(arg.as_ref().to_string_lossy().into_owned());
        self
    }

    pub(crate) fn env(mut self, key: &str, value: impl fmt::Display) -> Cmd {
        self.env.push((key.into(), value.to_string()));
        self
    }

    /// Runs it in another directory.
    pub(crate) fn dir(mut self, dir: &Path) -> Cmd {
        self.dir = Some(dir.to_owned());
        self
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Cmd {
        self.limit = limit;
        self
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null());
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }

    /// Starts it with its output readable line by line.
    pub(crate) fn spawn(&self) -> Result<Child, String> {
        println!("$ {self}");
        self.command().stdout(Stdio::piped()).spawn().map_err(|e| format!("`{self}`: {e}"))
    }

    /// Starts it with its output thrown away, as servers write about everything.
    pub(crate) fn spawn_quietly(&self) -> Result<Child, String> {
        println!("$ {self}");
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|e| format!("`{self}`: {e}"))
    }

    /// Runs it to its end; what it wrote is in the error only.
    pub(crate) fn run_quietly(&self) -> Result<(), String> {
        let output = self.command().output().map_err(|e| format!("`{self}`: {e}"))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("`{self}`: {}{}", said(&output.stdout), said(&output.stderr))),
        }
    }

    /// Runs it to its end; a failure, or running out of time, is an error that names the command.
    pub(crate) fn run(&self) -> Result<(), String> {
        println!("$ {self}");
        let mut child = self.command().spawn().map_err(|e| format!("`{self}`: {e}"))?;
        let status = wait(&mut child, self.limit).map_err(|e| format!("`{self}` {e}"))?;
        if status.success() { Ok(()) } else { Err(format!("`{self}` ended with {status}")) }
    }

    /// As `run`, but also returns what it wrote to its standard output, which is shown as it comes.
    pub(crate) fn run_and_read(&self) -> Result<String, String> {
        let mut child = self.spawn()?;
        let stdout = child.stdout.take().ok_or("no pipe")?;
        let (sender, receiver) = mpsc::channel();
        // A thread of its own reads, so that a child that neither writes nor ends is noticed.
        let reader = thread::spawn(move || {
            let mut text = String::new();
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                println!("{line}");
                text.push_str(&line);
                text.push('\n');
            }
            let _ = sender.send(text);
        });
        let status = wait(&mut child, self.limit).map_err(|e| format!("`{self}` {e}"))?;
        let text = receiver
            .recv_timeout(Duration::from_secs(60))
            .map_err(|_| format!("`{self}` has ended, but something still holds its output"))?;
        reader.join().map_err(|_| "the reader panicked")?;
        if status.success() { Ok(text) } else { Err(format!("`{self}` ended with {status}")) }
    }
}

impl Cmd {
    /// Runs a deliberate fault: it must end in failure, and its errors must contain `report`. What it
    /// writes is not shown, as it is no failure of this run.
    pub(crate) fn must_fail_with(&self, report: &str) -> Result<(), String> {
        println!("$ {self}  # must fail: {report}");
        let mut command = self.command();
        let spawned = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|e| format!("`{self}`: {e}"))?;
        let stderr = child.stderr.take().ok_or("no pipe")?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(stderr).split(b'\n').map_while(Result::ok);
            let text: Vec<String> =
                lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect();
            let _ = sender.send(text.join("\n"));
        });
        let status = wait(&mut child, self.limit).map_err(|e| format!("`{self}` {e}"))?;
        let text = receiver
            .recv_timeout(Duration::from_secs(60))
            .map_err(|_| format!("`{self}` has ended, but something still holds its errors"))?;
        if status.success() {
            return Err(format!("`{self}` did not fail: the fault was not noticed"));
        }
        if !text.contains(report) {
            return Err(format!("`{self}` failed without {report:?}:\n{text}"));
        }
        Ok(())
    }
}

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@".contains(c);
            if !text.is_empty() && text.chars().all(plain) {
                text.to_string()
            } else {
                format!("'{text}'")
            }
        };
        for (key, value) in &self.env {
            write!(f, "{key}={} ", quoted(value))?;
        }
        write!(f, "{}", quoted(&self.program))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

/// Waits for the end of a child, but not longer than this; then it and its descendants are killed.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            return Ok(status);
        }
        if start.elapsed() > limit {
            kill_tree(child);
            return Err(format!("did not end within {} s and was killed", limit.as_secs()));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Kills a child that hangs, and whatever it has started (where /proc can tell).
fn kill_tree(child: &mut Child) {
    let mut doomed = vec![child.id()];
    let mut at = 0;
    while at < doomed.len() {
        doomed.extend(children_of(doomed[at]));
        at += 1;
    }
    for pid in doomed {
        signal(pid, "KILL");
    }
    let _ = child.wait();
}

fn children_of(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // "pid (name) state ppid ...", where the name may contain anything
        let after_name = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        after_name.split_whitespace().nth(1) == Some(&parent.to_string())
    })
    .collect()
}

/// Sends a signal by the shell's own `kill`, which every Unix has.
pub(crate) fn signal(pid: u32, name: &str) {
    let script = format!("kill -{name} {pid}");
    let _ = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
}

/// Whether a program of this name can be found.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| Path::new(&dir).join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_can_be_typed() {
        let cmd = Cmd::cargo("test -p bast").env("RUSTFLAGS", "--cfg loom").env("N", 3);
        assert_eq!(cmd.to_string(), "RUSTFLAGS='--cfg loom' N=3 cargo test -p bast");
    }

    #[test]
    fn a_failure_names_the_command() {
        assert_eq!(Cmd::new("true").run(), Ok(()));
        let fault = Cmd::new("false").run().unwrap_err();
        assert!(fault.contains("`false` ended with exit status: 1"), "{fault}");
        assert!(Cmd::new("no-such-program").run().unwrap_err().contains("no-such-program"));
    }

    #[test]
    fn a_fault_must_be_noticed_by_its_name() {
        let shell = |script: &str| {
            let mut cmd = Cmd::new("sh");
            cmd.args = vec!["-c".into(), script.into()];
            cmd.must_fail_with("leak")
        };
        assert_eq!(shell("echo a leak >&2; exit 1"), Ok(()));
        assert!(shell("echo a leak >&2").unwrap_err().contains("did not fail"));
        assert!(shell("echo other >&2; exit 1").unwrap_err().contains("failed without"));
    }

    #[test]
    fn output_is_returned() {
        let text = Cmd::new("echo").args("a b").run_and_read();
        assert_eq!(text.as_deref(), Ok("a b\n"));
    }

    #[test]
    fn what_hangs_is_killed_with_all_it_started() {
        let start = Instant::now();
        let mut cmd = Cmd::new("sh").limit(Duration::from_millis(300));
        // The inner shell does not replace itself by the sleep, so there are three generations.
        cmd.args = vec!["-c".into(), "sh -c 'sleep 60; true'; true".into()];
        let fault = cmd.run_and_read().unwrap_err();
        assert!(fault.contains("was killed"), "{fault}");
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
