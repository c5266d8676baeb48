//! Builds the D rival on first use, next to this program, with Debian's `ldc`.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The D rival, built; or why there is none.
pub(crate) fn program() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

/// Whether the subject is a part of the D rival.
pub(crate) fn is(subject: &str) -> bool {
    subject.starts_with("d-")
}

/// Whether there is no compiler to build with.
pub(crate) fn missing() -> bool {
    Command::new("ldc2").arg("--version").output().map_or(true, |o| !o.status.success())
}

fn build() -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|e| e.to_string())?;
    let program = here.with_file_name("bast-bench-d");
    let built = Command::new("ldc2")
        .args(["-O3", "-release", "-w", "--od"])
        .arg(here.with_file_name("bast-bench-d.objects"))
        .arg(format!("--of={}", program.display()))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/rivals/d/diet.d"))
        .output()
        .map_err(|e| format!("ldc2: {e}"))?;
    if !built.status.success() {
        return Err(format!("ldc2: {}", String::from_utf8_lossy(&built.stderr)));
    }
    Ok(program)
}
