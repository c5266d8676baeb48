//! Builds the Go rival on first use, next to this program; nothing is fetched.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The Go rival, built; or why there is none.
pub(crate) fn program() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

/// Whether the subject is a part of the Go rival: `go`, or `go-timer`.
pub(crate) fn is(subject: &str) -> bool {
    subject.split('-').next() == Some("go")
}

/// Whether there is a Go to build with.
pub(crate) fn missing() -> bool {
    Command::new("go").arg("version").output().map_or(true, |o| !o.status.success())
}

fn build() -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|e| e.to_string())?;
    let program = here.with_file_name("bast-bench-go");
    let built = Command::new("go")
        .args(["build", "-trimpath", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/rivals/go"))
        .envs([("GOPROXY", "off"), ("GOTOOLCHAIN", "local"), ("GOFLAGS", "-mod=mod")])
        .envs([("GOWORK", "off"), ("CGO_ENABLED", "0")])
        .output()
        .map_err(|e| format!("go: {e}"))?;
    if !built.status.success() {
        return Err(format!("go build: {}", String::from_utf8_lossy(&built.stderr)));
    }
    Ok(program)
}
