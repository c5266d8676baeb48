//! The tools for a shell: `tail` and `run-all`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::server::{Program, Programs};

/// A file is followed while it grows and is replaced.
pub(super) fn tail(programs: &Programs, dir: &Path) -> Result<(), String> {
    let at = |e: std::io::Error| format!("{}: {e}", dir.display());
    let path = dir.join("log");
    fs::write(&path, "one\ntwo\nthree\n").map_err(at)?;
    let cmd = programs.cmd("tail").args("-f -n 2").arg(&path);
    let program = Program::start(&cmd.env("BAST_DRIVER", programs.driver))?;
    let expect = |want: &str| match program.line()? {
        line if line == want => Ok(()),
        line => Err(format!("not {want:?} but {line:?}")),
    };
    expect("two")?;
    expect("three")?;
    let mut file = OpenOptions::new().append(true).open(&path).map_err(at)?;
    file.write_all(b"four\n").map_err(at)?;
    expect("four")?;
    fs::rename(&path, dir.join("log.1")).map_err(at)?;
    fs::write(&path, "five\n").map_err(at)?;
    expect("five")?;
    match program.stop()? {
        None => Ok(()),
        Some(line) => Err(format!("it prints {line:?} at its end")),
    }
}

/// Commands that succeed, one that fails, and one that takes too long.
pub(super) fn run_all(programs: &Programs, dir: &Path) -> Result<(), String> {
    const COMMANDS: usize = 200;
    let path = dir.join("commands");
    let run_all = |commands: &str, flags: &str| {
        fs::write(&path, commands).map_err(|e| format!("{}: {e}", path.display()))?;
        let cmd = programs.cmd("run-all").args(flags).arg("-f").arg(&path);
        Ok::<_, String>(cmd.env("BAST_DRIVER", programs.driver).limit(Duration::from_secs(120)))
    };
    let commands: String =
        (0..COMMANDS).map(|n| format!("sh -c 'echo a{n}; echo b{n}'\n")).collect();
    let printed = run_all(&commands, "-j 16")?.run_and_read()?;
    // Each command's lines are together, the commands in the order in which they ended.
    let mut pairs: Vec<_> =
        printed.lines().collect::<Vec<_>>().chunks(2).map(<[_]>::concat).collect();
    let mut wanted: Vec<_> = (0..COMMANDS).map(|n| format!("a{n}b{n}")).collect();
    pairs.sort();
    wanted.sort();
    if pairs != wanted {
        return Err("what the commands printed is torn or lost".into());
    }
    run_all("true\nfalse\nsleep 100\n", "-k -t 3")?
        .must_fail_with("3 commands: 1 succeeded, 1 failed, 1 timed out")
}
