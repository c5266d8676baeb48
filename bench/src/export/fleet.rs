//! The data set, and whether an output has all of its lines.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The last row of every file.
const END: i64 = 1_700_000_100;
const ROWS: i64 = 288;
const STEP: i64 = 300;

/// Files beside this program; they stay there for the next run.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    dir: PathBuf,
    exporter: PathBuf,
    /// What every output has.
    lines: (usize, u64),
}

/// How many lines, and a sum over them that does not depend on their order. The header is not counted.
fn fingerprint(path: &Path) -> Result<(usize, u64), String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines = text.lines().filter(|line| !line.starts_with("time,"));
    Ok(lines.fold((0, 0u64), |(count, sum), line| {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        (count + 1, sum.wrapping_add(hasher.finish()))
    }))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {}: {text}", output.status))
    }
}

impl Fleet {
    /// The data set with so many files; made when it is first wanted.
    pub(super) fn get(files: usize) -> Result<Fleet, String> {
        static KNOWN: Mutex<Vec<(usize, Fleet)>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, fleet)) = known.iter().find(|(size, _)| *size == files) {
            return Ok(fleet.clone());
        }
        let fleet = Fleet::make(files)?;
        known.push((files, fleet.clone()));
        Ok(fleet)
    }

    fn make(files: usize) -> Result<Fleet, String> {
        let here = env::current_exe().map_err(|e| e.to_string())?;
        // Its dependencies (SQLite, Parquet) are not for everybody who builds this program.
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--release", "--no-default-features", "--package", "rrd-export"]);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        let target = here.parent().and_then(Path::parent).ok_or("this program is nowhere")?;
        build.arg("--target-dir").arg(target);
        succeed(&mut build)?;
        let exporter = target.join("release/rrd-export");
        let dir = here.with_file_name(format!("bast-bench-rrd-{files}"));
        if !dir.join("list").exists() {
            let _ = fs::remove_dir_all(&dir);
            let mut generate = Command::new(&exporter);
            generate.arg("generate").arg(&dir).args(["--end", &END.to_string(), "--quiet"]);
            generate.args(["--files", &files.to_string(), "--rows", &ROWS.to_string()]);
            succeed(&mut generate)?;
        }
        let mut fleet = Fleet { dir, exporter, lines: (0, 0) };
        let reference = fleet.out();
        let mut native = fleet.exporter()?;
        succeed(native.args(["--reader", "native", "--output"]).arg(&reference))?;
        fleet.lines = fingerprint(&reference)?;
        if fleet.lines.0 != files * ROWS as usize {
            return Err(format!("{} lines of {files} files with {ROWS} rows", fleet.lines.0));
        }
        fleet.write_list(&reference)?;
        Ok(fleet)
    }

    /// The list of files in the order of the reference: path, tab, the constant columns.
    fn write_list(&self, reference: &Path) -> Result<(), String> {
        let text = fs::read_to_string(reference).map_err(|e| e.to_string())?;
        let mut list = format!("{}\t{}\n", END - ROWS * STEP, END - 1);
        let mut last = "";
        for line in text.lines().skip(1) {
            let columns = line.splitn(5, ',').collect::<Vec<_>>();
            let constant = line.strip_prefix(columns[0]).and_then(|l| l.strip_suffix(columns[4]));
            let constant = constant.ok_or_else(|| format!("not a row: {line}"))?;
            if constant != last {
                last = constant;
                let [dc, id, iface] = [columns[1], columns[2], columns[3]];
                list += &format!("{}/{dc}/{id}/{iface}.rrd\t{constant}\n", self.dir.display());
            }
        }
        fs::write(self.list(), list).map_err(|e| e.to_string())
    }

    pub(super) fn list(&self) -> PathBuf {
        self.dir.join("list")
    }

    pub(super) fn out(&self) -> PathBuf {
        self.dir.join("out.csv")
    }

    /// Our program, without a reader and an output.
    pub(super) fn exporter(&self) -> Result<Command, String> {
        let mut command = Command::new(&self.exporter);
        command.arg("--devices").arg(self.dir.join("devices.sqlite")).arg("--base").arg(&self.dir);
        let (from, to) = ((END - ROWS * STEP).to_string(), (END - 1).to_string());
        command.args(["--from", &from, "--to", &to, "--quiet"]);
        // Nobody else in the table waits for the disk.
        command.arg("--no-sync");
        Ok(command)
    }

    /// # Errors
    /// The output is not what it has to be.
    pub(super) fn check(&self, out: &Path) -> Result<(), String> {
        let lines = fingerprint(out)?;
        let _ = fs::remove_file(out);
        if lines == self.lines { Ok(()) } else { Err(format!("{} lines, or other ones", lines.0)) }
    }
}
