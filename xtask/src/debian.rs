//! Installing what a step needs from Debian's packages, where this is Debian and root may.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cmd::{Cmd, is_installed};

/// Whether this process may install packages.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|of_process| of_process.uid() == 0)
}

/// Tries to install packages, separated by spaces; the caller looks for itself what is there then.
pub(crate) fn install(packages: &str, limit: Duration) {
    if !is_root() || !is_installed("apt-get") {
        return;
    }
    // Another step may be at it: apt waits for some of its own locks, and not for that of its lists.
    let lock = fs::File::create(std::env::temp_dir().join("bast-xtask-apt.lock"));
    let _ours_until_the_end = lock.and_then(|file| file.lock().map(|()| file));
    // Runlevel 1: services are not started by being installed.
    let apt = |what: &str| {
        let options = "-qq -o Acquire::http::Timeout=15 -o DPkg::Lock::Timeout=60";
        let cmd = Cmd::new("apt-get").args(options).args(what);
        let cmd = cmd.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", 1);
        cmd.limit(limit).run()
    };
    let install = format!("install -y --no-install-recommends {packages}");
    // Lists may be old, and name what is not there any more.
    let outcome = apt(&install).or_else(|_| {
        let _ = apt("update");
        apt(&install)
    });
    if let Err(fault) = outcome {
        println!("note: {fault}");
    }
}

/// A program by its name, from `PATH` or one of these directories besides.
pub(crate) fn find(program: &str, besides: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(besides.iter().map(PathBuf::from));
    dirs.map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// A program and the package that brings it, which is installed if it has to be and can be. If it is not there
/// then, the error says how to get it.
pub(crate) fn provide(program: &str, besides: &[&str], package: &str) -> Result<PathBuf, String> {
    find(program, besides)
        .or_else(|| {
            install(package, Duration::from_secs(600));
            find(program, besides)
        })
        .ok_or_else(|| format!("no {program} here (Debian: apt install {package})"))
}

/// Whether a compiler's std for a target of Rust is installed, or can be by rustup.
pub(crate) fn provide_target(target: &str) -> Result<(), String> {
    let has = || {
        let cmd = std::process::Command::new("rustc")
            .args(["--print", "target-libdir", "--target", target])
            .output();
        let dir = cmd.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        dir.is_ok_and(|dir| !dir.is_empty() && Path::new(&dir).is_dir())
    };
    if !has() && is_installed("rustup") {
        let add = Cmd::new("rustup").args("target add").arg(target);
        if let Err(fault) = add.limit(Duration::from_secs(120)).run() {
            println!("note: {fault}");
        }
    }
    match has() {
        true => Ok(()),
        false => Err(format!("Rust has no std for {target} here (`rustup target add {target}`)")),
    }
}
