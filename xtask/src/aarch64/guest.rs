//! The emulated machine: its first file system, its processor, and what it says on its console.
//!
//! ```text
//!   kernel + cpio archive (busybox, init.sh, list, the test binaries) ──▶ qemu-system-aarch64 ──console──▶ lines
//!                                                                                             "@@ suite", "@@ ended 0"
//! ```

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::kernel::{Kernel, make_dir, write};
use crate::binaries::Binary;
use crate::cmd::Cmd;
use crate::debian;

/// A binary takes so many seconds at most, on a machine that is emulated by a busy one.
const LIMIT: u64 = 900;
/// To boot takes ten seconds, or a minute if the machine has much else to do.
const BOOT: u64 = 180;

/// One run of a suite: the line of the list that the guest reads.
pub(super) struct Run<'a> {
    pub(super) suite: &'a Binary,
    /// For people: crate, suite, driver.
    pub(super) title: String,
    /// What stands before and after the binary, without spaces inside.
    pub(super) env: Vec<String>,
    pub(super) args: Vec<String>,
}

/// How a run has ended.
pub(super) struct Outcome {
    pub(super) output: String,
    pub(super) status: String,
    pub(super) seconds: f64,
}

pub(super) struct Qemu(PathBuf);

impl Qemu {
    pub(super) fn provide() -> Result<Qemu, String> {
        debian::provide("cpio", &[], "cpio")?;
        debian::provide("qemu-system-aarch64", &[], "qemu-system-arm").map(Qemu)
    }

    /// Runs these in one machine, one after the other. What has no outcome was not reached.
    pub(super) fn run(
        &self,
        dir: &Path,
        kernel: &Kernel,
        runs: &[Run<'_>],
    ) -> Result<Vec<Option<Outcome>>, String> {
        let archive = dir.join("initrd");
        pack(&dir.join("root"), &archive, kernel, runs)?;
        let limit = BOOT + LIMIT * runs.len() as u64;
        // neoverse-n1: of the processors that QEMU knows a server's, with the atomic instructions of ARMv8.1. Two of
        // them, each emulated by a thread.
        let output = Cmd::new(&self.0)
            .args("-machine virt,gic-version=3 -cpu neoverse-n1 -smp 2 -m 3072")
            .args("-nodefaults -display none -serial stdio -no-reboot")
            .args("-kernel")
            .arg(&kernel.image)
            .args("-initrd")
            .arg(&archive)
            .args("-append")
            .arg("console=ttyAMA0 quiet panic=-1")
            .limit(Duration::from_secs(limit))
            .run_and_read()?;
        let _ = fs::remove_file(&archive);
        Ok(outcomes(&output, runs.len()))
    }
}

/// Makes the archive that the kernel unpacks into memory.
fn pack(root: &Path, archive: &Path, kernel: &Kernel, runs: &[Run<'_>]) -> Result<(), String> {
    let copy = |from: &Path, to: PathBuf| {
        fs::copy(from, to).map(drop).map_err(|e| format!("{}: {e}", from.display()))
    };
    let _ = fs::remove_dir_all(root);
    ["bin", "suites"].iter().try_for_each(|dir| make_dir(&root.join(dir)))?;
    copy(&kernel.busybox, root.join("bin/busybox"))?;
    let init = root.join("init");
    write(&init, include_str!("init.sh"))?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&init, executable).map_err(|e| format!("{}: {e}", init.display()))?;
    let mut list = String::new();
    for run in runs {
        let name = run.suite.path.file_name().unwrap_or_default();
        let to = root.join("suites").join(name);
        if !to.is_file() {
            copy(&run.suite.path, to)?;
        }
        let (env, args) = (run.env.join(" "), run.args.join(" "));
        let title = run.title.replace(' ', "/");
        let (dir, name) = (run.suite.dir.display(), name.to_string_lossy());
        list.push_str(&format!("{LIMIT} {title} {dir} {env} /suites/{name} {args}\n"));
    }
    write(&root.join("list"), list)?;
    let script = "find . | cpio --quiet -o -H newc -O \"$0\"";
    Cmd::new("sh").args("-c").arg(script).arg(archive).dir(root).run()?;
    fs::remove_dir_all(root).map_err(|e| format!("{}: {e}", root.display()))
}

/// What the console says, run by run.
fn outcomes(console: &str, runs: usize) -> Vec<Option<Outcome>> {
    let mut parts = console.split("@@ begins ").skip(1).map(outcome);
    (0..runs).map(|_| parts.next().flatten()).collect()
}

/// What was said from the title of a run on. A test that is killed may leave a line unended.
fn outcome(said: &str) -> Option<Outcome> {
    let (output, rest) = said.split_once("@@ ended ")?;
    let (status, rest) = rest.split_once('\n')?;
    let (begun, ended) = rest.split_once("@@ took ")?.1.lines().next()?.split_once(' ')?;
    let seconds = ended.trim().parse::<f64>().ok()? - begun.parse::<f64>().ok()?;
    Some(Outcome { output: output.into(), status: status.trim().into(), seconds })
}

#[cfg(test)]
mod tests {
    use super::outcomes;

    #[test]
    fn the_console_is_read_run_by_run() {
        let console = "Linux 7\r\n@@ begins a/it\ntest x ... ok\n@@ ended 0\n@@ took 1.5 4.00\n\
            @@ begins b/it\ntest y ... @@ ended 137\n@@ took 4.00 9.00\n@@ begins c/it\ntest";
        let found = outcomes(console, 4);
        let seen: Vec<_> =
            found.iter().map(|o| o.as_ref().map(|o| (o.status.as_str(), o.seconds))).collect();
        assert_eq!(seen, [Some(("0", 2.5)), Some(("137", 5.0)), None, None]);
        assert!(found[0].as_ref().unwrap().output.contains("test x ... ok"));
    }
}
