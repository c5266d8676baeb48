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
    let path = dir.join("commands");
    let run_all = |commands: &str, flags: &str| {
        fs::write(&path, commands).map_err(|e| format!("{}: {e}", path.display()))?;
        let cmd = programs.cmd("run-all").args(flags).arg("-f").arg(&path);
        Ok::<_, String>(cmd.env("BAST_DRIVER", programs.driver).limit(Duration::from_secs(120)))
    };
    // To begin a program takes Wine long; and it has none that sleeps.
    let (count, shell, and, bad, patience) = match &programs.wine {
        None => (200, "sh -c", "; ", "true\nfalse\nsleep 100\n".to_owned(), 3),
        Some(_) => {
            let server = programs.dir.join("echo.exe");
            let bad = format!(
                "cmd /C 'exit 0'\ncmd /C 'exit 1'\n'{}' --addr 127.0.0.1:0\n",
                server.display()
            );
            (30, "cmd /C", "&", bad, 20)
        }
    };
    let commands: String =
        (0..count).map(|n| format!("{shell} 'echo a{n}{and}echo b{n}'\n")).collect();
    let printed = run_all(&commands, "-j 16")?.run_and_read()?;
    // Each command's lines are together, the commands in the order in which they ended.
    let mut pairs: Vec<_> =
        printed.lines().collect::<Vec<_>>().chunks(2).map(<[_]>::concat).collect();
    let mut wanted: Vec<_> = (0..count).map(|n| format!("a{n}b{n}")).collect();
    pairs.sort();
    wanted.sort();
    if pairs != wanted {
        return Err("what the commands printed is torn or lost".into());
    }
    let flags = format!("-k -t {patience}");
    run_all(&bad, &flags)?.must_fail_with("3 commands: 1 succeeded, 1 failed, 1 timed out")
}
