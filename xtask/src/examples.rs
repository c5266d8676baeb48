//! The example programs, built in release mode and run for real: started, used, and stopped by
//! Ctrl-C as a person would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::cmd::{Cmd, signal, wait};
use crate::load;
use crate::steps::{Context, DRIVERS, load_tools};

pub(crate) fn run(context: &Context) -> Result<(), String> {
    Cmd::cargo("build --release -p bast-examples").run()?;
    let programs = context.target.join("release");
    // An example of bast and not of bast-examples, whose dependencies would all be built once more.
    for profile in ["release", "abort"] {
        Cmd::cargo("build -p bast --example no_unwind --profile").args(profile).run()?;
    }
    for driver in DRIVERS {
        no_unwind(context, driver)?;
        pong(&programs, driver).map_err(|e| format!("pong on {driver}: {e}"))?;
        echo(&programs, driver).map_err(|e| format!("echo on {driver}: {e}"))?;
    }
    sleepers(&programs, 100_000)?;
    stuck(&programs, 100_000)
}

/// A server under test; killed if it is dropped before it has been stopped.
struct Server {
    child: Child,
    addr: SocketAddr,
    /// What it prints after its first line.
    rest: mpsc::Receiver<String>,
}

impl Server {
    /// Starts it on a free port, which its first line tells: `pong: http://127.0.0.1:4711/ on ...`.
    fn start(programs: &Path, name: &str, driver: &str) -> Result<Server, String> {
        let mut child = Cmd::new(programs.join(name))
            .args("--addr 127.0.0.1:0 --workers 2 --driver")
            .args(driver)
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no pipe")?;
        let (sender, rest) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                println!("{line}");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut server = Server { child, addr: SocketAddr::from(([127, 0, 0, 1], 0)), rest };
        let first = server.line()?;
        let address = first.split(|c: char| c == '/' || c.is_whitespace());
        server.addr = address
            .filter_map(|word| word.parse::<SocketAddr>().ok())
            .next()
            .ok_or_else(|| format!("no address in {first:?}"))?;
        if !first.contains(driver) {
            println!("note: {driver} is not to be had here, and the program says what it uses");
        }
        Ok(server)
    }

    fn line(&self) -> Result<String, String> {
        let line = self.rest.recv_timeout(Duration::from_secs(20));
        line.map_err(|_| "it has printed no line within 20 s".into())
    }

    /// Ctrl-C: it must end soon, with exit status 0, and its last line is returned.
    fn stop(mut self) -> Result<String, String> {
        signal(self.child.id(), "INT");
        let status = wait(&mut self.child, Duration::from_secs(15))?;
        if !status.success() {
            return Err(format!("after Ctrl-C it ended with {status}"));
        }
        let mut last = Err("it has printed no totals".to_string());
        while let Ok(line) = self.rest.recv_timeout(Duration::from_secs(5)) {
            last = Ok(line);
        }
        last
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pong(programs: &Path, driver: &str) -> Result<(), String> {
    let server = Server::start(programs, "pong", driver)?;
    let url = format!("http://{}/", server.addr);
    let mut answered = load::requests(server.addr, 16, 200)?;
    let tools = load_tools();
    if tools.contains(&"ab") {
        answered += load::ab(&url, false, 5_000)?;
        answered += load::ab(&url, true, 20_000)?;
    }
    if tools.contains(&"wrk") {
        answered += load::wrk(&url, 64, 2)?;
    }
    if tools.is_empty() {
        println!("note: neither ab nor wrk is installed; our own client alone has been used");
    }
    // One connection stays open and idle: the end must not wait for it.
    let idle = load::connect(server.addr)?;
    let totals = server.stop()?;
    drop(idle);
    let served = number_before(&totals, " requests").ok_or(format!("no totals: {totals:?}"))?;
    // wrk leaves requests behind when its time is over, so there may be more.
    if served < answered {
        return Err(format!("{answered} requests were answered, but it counts {served}"));
    }
    Ok(())
}

/// The number in front of a word, as in `pong: 3 connections, 17 requests`.
fn number_before(line: &str, word: &str) -> Option<u64> {
    line.split_once(word)?.0.split(' ').next_back()?.parse().ok()
}

fn echo(programs: &Path, driver: &str) -> Result<(), String> {
    const LENGTH: usize = 4 << 20;
    let server = Server::start(programs, "echo", driver)?;
    let sent: Vec<u8> =
        (0..LENGTH as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (addr, sent) = (server.addr, sent.clone());
            thread::spawn(move || -> Result<bool, String> {
                let mut stream = load::connect(addr)?;
                let mut reader = stream.try_clone().map_err(|e| e.to_string())?;
                let bytes = sent.clone();
                let writer = thread::spawn(move || {
                    stream.write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write))
                });
                let mut back = Vec::with_capacity(LENGTH);
                reader.read_to_end(&mut back).map_err(|e| format!("receive: {e}"))?;
                let written = writer.join().map_err(|_| "the writer panicked")?;
                written.map_err(|e| format!("send: {e}"))?;
                Ok(back == sent)
            })
        })
        .collect();
    for client in clients {
        if !client.join().map_err(|_| "a client panicked")?? {
            return Err("what came back is not what was sent".into());
        }
    }
    server.stop().map(drop)
}

/// In a program that cannot unwind, and in one that can, cancelled fibers end and nothing aborts.
fn no_unwind(context: &Context, driver: &str) -> Result<(), String> {
    for (profile, unwinds) in [("abort", false), ("release", true)] {
        let output = Cmd::new(context.target.join(profile).join("examples/no_unwind"))
            .env("BAST_DRIVER", driver)
            .limit(Duration::from_secs(30))
            .run_and_read()?;
        let said = |text: &str| output.contains(text);
        if !said(&format!("unwinding: {unwinds}")) || !said("no_unwind: ok") {
            return Err(format!("no_unwind ({profile}) on {driver} has not said that all is well"));
        }
    }
    Ok(())
}

fn sleepers(programs: &Path, count: u64) -> Result<(), String> {
    let output = Cmd::new(programs.join("sleepers"))
        .args(&count.to_string())
        .limit(Duration::from_secs(120))
        .run_and_read()?;
    let last = output.lines().last().unwrap_or_default();
    judge_sleepers(last, count)
}

/// The last line has exactly the fields `fibers KiB_per_fiber spawn_s end_s`, and sane values.
fn judge_sleepers(line: &str, count: u64) -> Result<(), String> {
    let fault = || format!("not a last line of sleepers: {line:?}");
    let fields: Option<Vec<(&str, f64)>> = line
        .split(' ')
        .map(|field| {
            let (name, value) = field.split_once('=')?;
            Some((name, value.parse().ok()?))
        })
        .collect();
    let fields = fields.ok_or_else(fault)?;
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    if names != ["fibers", "KiB_per_fiber", "spawn_s", "end_s"] || fields[0].1 != count as f64 {
        return Err(fault());
    }
    // A fiber has a stack of at least one page; a quarter of a MiB each would be its whole address
    // space made resident.
    if !(1.0..256.0).contains(&fields[1].1) || fields[2].1 <= 0.0 || fields[3].1 < 0.0 {
        return Err(fault());
    }
    Ok(())
}

/// The programs that go wrong on purpose: what bast says of each.
fn stuck(programs: &Path, count: u64) -> Result<(), String> {
    let run = |args: &str, deadlock: &str| {
        Cmd::new(programs.join("stuck"))
            .args(args)
            .env("BAST_DEADLOCK", deadlock)
            .limit(Duration::from_secs(120))
            .run_and_read()
    };
    let output = run(&format!("dump {count}"), "auto")?;
    judge_dump(output.lines().last().unwrap_or_default(), count)?;
    // What the others say is judged by their own tests: again here, as an optimised program has fewer
    // frames and names.
    Cmd::cargo("test --release -p bast-examples --test it stuck").run()?;
    let output = run("metrics", "auto")?;
    if !output.contains("1001 spawned, 1001 ended") {
        return Err(format!("not the metrics of 1,001 fibers: {output:?}"));
    }
    Ok(())
}

/// `fibers=N dump_s=X text_KiB=Y`, in the time that the design allows.
fn judge_dump(line: &str, count: u64) -> Result<(), String> {
    let time = line.strip_prefix(&format!("fibers={count} dump_s=")).and_then(|rest| {
        rest.split_once(" text_KiB=").and_then(|(time, _)| time.parse::<f64>().ok())
    });
    match time {
        Some(time) if time < 2.0 => Ok(()),
        Some(time) => Err(format!("{count} fibers took {time} s to dump; 2 s are allowed")),
        None => Err(format!("not a last line of stuck: {line:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{judge_dump, judge_sleepers, number_before};

    #[test]
    fn the_time_of_a_dump_is_judged() {
        assert_eq!(judge_dump("fibers=10 dump_s=0.781 text_KiB=9.4", 10), Ok(()));
        assert!(judge_dump("fibers=10 dump_s=2.001 text_KiB=9.4", 10).is_err());
        assert!(judge_dump("fibers=11 dump_s=0.781 text_KiB=9.4", 10).is_err());
        assert!(judge_dump("", 10).is_err());
    }

    #[test]
    fn the_last_line_of_sleepers_is_judged() {
        let good = "fibers=10 KiB_per_fiber=4.61 spawn_s=0.022 end_s=0.010";
        assert_eq!(judge_sleepers(good, 10), Ok(()));
        assert!(judge_sleepers(good, 11).is_err());
        assert!(judge_sleepers(&good.replace("4.61", "0.01"), 10).is_err());
        assert!(judge_sleepers(&good.replace("end_s", "ended"), 10).is_err());
        assert!(judge_sleepers(&format!("{good} more"), 10).is_err());
        assert!(judge_sleepers("", 10).is_err());
    }

    #[test]
    fn totals_are_read() {
        let line = "pong: 3 connections, 17 requests (2 refused)";
        assert_eq!(number_before(line, " requests"), Some(17));
        assert_eq!(number_before(line, " connections"), Some(3));
        assert_eq!(number_before(line, " faults"), None);
    }
}
