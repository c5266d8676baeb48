//! A program that goes on until it is stopped: what it prints, and its end by Ctrl-C.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Child;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::cmd::{Cmd, signal, wait};

/// Where the programs are, and what they run on.
pub(crate) struct Programs {
    pub(crate) dir: PathBuf,
    pub(crate) driver: &'static str,
    /// What runs programs for Windows.
    pub(crate) wine: Option<Cmd>,
}

impl Programs {
    /// The command that starts one.
    pub(crate) fn cmd(&self, name: &str) -> Cmd {
        match &self.wine {
            None => Cmd::new(self.dir.join(name)),
            Some(wine) => wine.clone().arg(self.dir.join(format!("{name}.exe"))),
        }
    }

    /// Keeps a server busy with connections of the program `load`, on the same driver; how many units came back.
    pub(crate) fn load(&self, kind: &str, addr: SocketAddr) -> Result<u64, String> {
        let cmd = self.cmd("load").args(&format!("{kind} {addr}")).env("BAST_DRIVER", self.driver);
        let report = cmd.limit(Duration::from_secs(120)).run_and_read()?;
        judge_load(report.trim_end())
    }
}

/// `load: 100 connections, 21100 answers, 0 failures`
fn judge_load(report: &str) -> Result<u64, String> {
    let units = report
        .strip_prefix("load: 100 connections, ")
        .and_then(|rest| rest.strip_suffix(", 0 failures")?.split_once(' ')?.0.parse().ok());
    units.filter(|units| *units > 0).ok_or_else(|| format!("load says: {report:?}"))
}

/// Killed if it is dropped before it has been stopped.
pub(super) struct Program {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Program {
    pub(super) fn start(cmd: &Cmd) -> Result<Program, String> {
        let mut child = cmd.spawn()?;
        let stdout = child.stdout.take().ok_or("no pipe")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                println!("{line}");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Program { child, lines })
    }

    /// The next line that it prints.
    pub(super) fn line(&self) -> Result<String, String> {
        let line = self.lines.recv_timeout(Duration::from_secs(100));
        line.map_err(|_| "it has printed no line within 100 s".into())
    }

    /// Ctrl-C: it must end soon, with exit status 0, and its last line is returned.
    pub(super) fn stop(mut self) -> Result<Option<String>, String> {
        signal(self.child.id(), "INT");
        let status = wait(&mut self.child, Duration::from_secs(100))?;
        if !status.success() {
            return Err(format!("after Ctrl-C it ended with {status}"));
        }
        let mut last = None;
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(60)) {
            last = Some(line);
        }
        Ok(last)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server under test.
pub(crate) struct Server {
    program: Program,
    pub(crate) addr: SocketAddr,
    /// What it has printed up to its address.
    pub(super) said: String,
}

impl Server {
    /// Starts it on a free port, which it tells: `pong: http://127.0.0.1:4711/ on ...`.
    pub(crate) fn start(cmd: &Cmd) -> Result<Server, String> {
        let program = Program::start(cmd)?;
        let mut said = String::new();
        for _ in 0..2 {
            let line = program.line()?;
            said.push_str(&line);
            said.push('\n');
            let words = line.split(|c: char| c == '/' || c.is_whitespace());
            if let Some(addr) = words.filter_map(|word| word.parse().ok()).next() {
                return Ok(Server { program, addr, said });
            }
        }
        Err(format!("no address in {said:?}"))
    }

    /// One of those that take `--workers` and `--driver`, and say what they run on.
    pub(crate) fn with(programs: &Programs, cmd: Cmd) -> Result<Server, String> {
        let driver = programs.driver;
        let flags = format!("--addr 127.0.0.1:0 --workers 2 --driver {driver}");
        let server = Server::start(&cmd.args(&flags))?;
        if !server.said.contains(driver) {
            println!("note: {driver} is not to be had here, and the program says what it uses");
        }
        Ok(server)
    }

    /// One of those that take `--listen`, and what they run on from the environment.
    pub(super) fn listening(programs: &Programs, name: &str) -> Result<Server, String> {
        let cmd = programs.cmd(name).args("--listen 127.0.0.1:0");
        Server::start(&cmd.env("BAST_WORKERS", 2).env("BAST_DRIVER", programs.driver))
    }

    /// Stops it; its totals.
    pub(crate) fn stop(self) -> Result<String, String> {
        self.program.stop()?.ok_or_else(|| "it has printed no totals".into())
    }
}

#[cfg(test)]
mod tests {
    use super::judge_load;

    #[test]
    fn the_report_of_load_is_judged() {
        assert_eq!(judge_load("load: 100 connections, 21100 answers, 0 failures"), Ok(21100));
        for bad in [
            "",
            "load: 100 connections, 21100 answers, 1 failures",
            "load: 99 connections, 21100 answers, 0 failures",
            "load: 100 connections, 0 bytes, 0 failures",
        ] {
            assert!(judge_load(bad).is_err(), "{bad}");
        }
    }
}
