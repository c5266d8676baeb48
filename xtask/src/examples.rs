//! The example programs, built with optimisation and run for real: started, used, and stopped by
//! Ctrl-C as a person would.

mod server;
mod tools;
mod web;

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::binaries::{self, beside_each_other};
use crate::cmd::Cmd;
use crate::load;
use crate::steps::{Context, DRIVERS, build_optimised, build_plain, load_tools};
pub(crate) use server::{Programs, Server};

pub(crate) fn run(context: &Context) -> Result<(), String> {
    build_optimised("--bins --example no_unwind")?;
    let dir = context.target.join("ci");
    // An example of bast and not of bast-examples, whose dependencies would all be built once more.
    build_plain("")?;
    Cmd::cargo("build -p bast --example no_unwind --profile abort").run()?;
    for driver in DRIVERS {
        no_unwind(context, driver)?;
        let programs = Programs { dir: dir.clone(), driver, wine: None };
        use_each(&programs, context)?;
    }
    sleepers(&dir, 100_000)?;
    stuck(&dir, 100_000)
}

/// Starts, uses and stops each program that goes on until it is stopped, and those that go with them.
pub(crate) fn use_each(programs: &Programs, context: &Context) -> Result<(), String> {
    let dir = context.target.join("xtask-examples");
    let at = |e: std::io::Error| format!("{}: {e}", dir.display());
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).map_err(at)?;
    let of = |name| move |fault| format!("{name} on {}: {fault}", programs.driver);
    pong(programs).map_err(of("pong"))?;
    echo(programs).map_err(of("echo"))?;
    web::proxy(programs).map_err(of("proxy"))?;
    web::httpfile(programs, &dir).map_err(of("httpfile"))?;
    web::https(programs).map_err(of("https"))?;
    web::chat(programs).map_err(of("chat"))?;
    tools::tail(programs, &dir).map_err(of("tail"))?;
    tools::run_all(programs, &dir).map_err(of("run-all"))?;
    fs::remove_dir_all(&dir).map_err(at)
}

fn pong(programs: &Programs) -> Result<(), String> {
    let server = Server::with(programs, programs.cmd("pong"))?;
    let url = format!("http://{}/", server.addr);
    let mut answered = load::requests(server.addr, 100, 40)?;
    answered += programs.load("pong", server.addr)?;
    // Wine is no place to be fast in.
    let tools = if programs.wine.is_some() { Vec::new() } else { load_tools() };
    if tools.contains(&"ab") {
        answered += load::ab(&url, false, 5_000)?;
        answered += load::ab(&url, true, 20_000)?;
    }
    if tools.contains(&"wrk") {
        answered += load::wrk(&url, 64, 2)?;
    }
    if tools.is_empty() {
        println!("note: neither ab nor wrk has been used, our own clients alone");
    }
    // One connection stays open and idle: the end must not wait for it.
    let idle = load::connect(server.addr)?;
    let totals = server.stop()?;
    drop(idle);
    match number_before(&totals, " requests") {
        // wrk leaves requests behind when its time is over, so there may be more.
        Some(served) if served == answered || served > answered && !tools.is_empty() => Ok(()),
        _ => Err(format!("{answered} requests were answered, but: {totals}")),
    }
}

/// The number in front of a word, as in `pong: 3 connections, 17 requests`.
fn number_before(line: &str, word: &str) -> Option<u64> {
    line.split_once(word)?.0.split(' ').next_back()?.parse().ok()
}

fn echo(programs: &Programs) -> Result<(), String> {
    let server = Server::with(programs, programs.cmd("echo"))?;
    let bytes = load::echo(server.addr, 8, 4 << 20)? / 2
        + load::echo(server.addr, 100, 50_000)? / 2
        + programs.load("echo", server.addr)?;
    let totals = server.stop()?;
    match number_before(&totals, " bytes") {
        Some(counted) if counted == bytes => Ok(()),
        _ => Err(format!("{bytes} bytes came back, but: {totals}")),
    }
}

/// In a program that cannot unwind, and in one that can, cancelled fibers end and nothing aborts.
fn no_unwind(context: &Context, driver: &str) -> Result<(), String> {
    for (profile, unwinds) in [("abort", false), ("debug", true)] {
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
    // The machine may be busy with something else: the best of five.
    let mut judged = Ok(());
    for _ in 0..5 {
        let output = run(&format!("dump {count}"), "auto")?;
        judged = judge_dump(output.lines().last().unwrap_or_default(), count);
        if judged.is_ok() {
            break;
        }
    }
    judged?;
    // What the others say is judged by their own tests: again here, as an optimised program has fewer
    // frames and names. Only the program is optimised, as the tests take longer to compile than to run.
    let tests = binaries::build(Cmd::cargo("test --workspace"))?;
    let tests = tests.iter().find(|b| b.package == "examples" && b.target == "programs");
    let tests = tests.ok_or("the examples have no tests")?.cmd().args("stuck::");
    match beside_each_other(vec![tests.env("BAST_TEST_STUCK", programs.join("stuck").display())])? {
        0 => return Err("no test of stuck has been run".into()),
        _ => println!("stuck, optimised: as its tests expect"),
    }
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
