//! What it takes to build for Windows and to run that: a std for the target, a linker, Wine with a world of its own.
//!
//! ```text
//!   target/windows/wine/        the "prefix": Wine's drive C, registry and server (0.7 GB, made once in 10 s)
//!   target/windows/*.dll        what Wine 8 lacks, built from C
//!   target/<target>/            what cargo builds; by Debian's compiler it is target/windows/debian/
//! ```
//!
//! The std is that of the toolchain in use, if rustup has it or can get it. Otherwise Debian's `rustc-web` builds one
//! from Debian's sources: its packages can be had where rustup's server cannot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::TARGET;
use crate::cmd::{Cmd, wait};
use crate::debian;

/// The least version of Debian's compiler that will do, as of `rust-version` in Cargo.toml.
const RUST_VERSION: (u32, u32) = (1, 95);

const GCC: &str = "x86_64-w64-mingw32-gcc";

pub(super) struct Kit {
    dir: PathBuf,
    wine: PathBuf,
    server: PathBuf,
    debian: bool,
}

impl Kit {
    /// Sets up what is not there yet. The inner error says what cannot be had here.
    pub(super) fn new(target: &Path, debian: bool) -> Result<Result<Kit, String>, String> {
        let found = || {
            let debian =
                debian || debian::provide_target(TARGET).inspect_err(|e| println!("{e}")).is_err();
            if debian {
                debian_rust()?;
            }
            debian::provide(GCC, &[], "gcc-mingw-w64-x86-64-win32")?;
            // Debian has the programs themselves there, and scripts of no use to us in PATH.
            let wine = debian::provide("wine64", &["/usr/lib/wine"], "wine64")?;
            let server = debian::provide("wineserver64", &["/usr/lib/wine"], "wine64")
                .or_else(|e| debian::find("wineserver", &[]).ok_or(e))?;
            Ok(Kit { dir: target.join("windows"), wine, server, debian })
        };
        let kit: Kit = match found() {
            Ok(kit) => kit,
            Err(why) => return Ok(Err(why)),
        };
        kit.make_prefix()?;
        kit.make_library()?;
        Ok(Ok(kit))
    }

    fn prefix(&self) -> PathBuf {
        self.dir.join("wine")
    }

    /// Adds what Wine's programs want to know: where they live, and not to show or ask for anything.
    fn at_home(&self, cmd: Cmd) -> Cmd {
        cmd.env("WINEPREFIX", self.prefix().display())
            .env("WINEARCH", "win64")
            .env("WINEDEBUG", "-all")
            .env("WINEDLLOVERRIDES", "mscoree=;mshtml=;winemenubuilder.exe=")
            .env("DISPLAY", "")
    }

    /// A command that runs a program for Windows.
    pub(super) fn wine(&self) -> Cmd {
        self.at_home(Cmd::new(&self.wine))
    }

    fn server(&self, option: &str) -> Cmd {
        self.at_home(Cmd::new(&self.server)).args(option).limit(Duration::from_secs(60))
    }

    /// Made under another name first, so that a run that was broken off leaves none behind.
    fn make_prefix(&self) -> Result<(), String> {
        if !self.prefix().is_dir() {
            let making = Kit {
                dir: self.dir.join("new"),
                wine: self.wine.clone(),
                server: self.server.clone(),
                debian: false,
            };
            let _ = fs::remove_dir_all(&making.dir);
            fs::create_dir_all(&making.dir)
                .map_err(|e| format!("{}: {e}", making.dir.display()))?;
            making.wine().args("wineboot -i").limit(Duration::from_secs(300)).run()?;
            making.server("-w").run()?;
            if !making.prefix().join("system.reg").is_file() {
                return Err("Wine has made no prefix".into());
            }
            let (from, to) = (making.prefix(), self.prefix());
            fs::rename(&from, &to).map_err(|e| format!("{}: {e}", from.display()))?;
        }
        Ok(())
    }

    /// Starts Wine's server, which stays for a while after its last client, so that the next starts sooner. By itself
    /// it would be started by a test, and keep that one's output open.
    pub(super) fn serve(&self) -> Result<(), String> {
        let mut server = self.server("-p60").spawn_quietly()?;
        wait(&mut server, Duration::from_secs(60)).map(drop)
    }

    fn make_library(&self) -> Result<(), String> {
        let name = "bcryptprimitives";
        let dll = self.prefix().join("drive_c/windows/system32").join(format!("{name}.dll"));
        if dll.is_file() {
            return Ok(());
        }
        let source = self.dir.join(format!("{name}.c"));
        fs::write(&source, include_str!("bcryptprimitives.c"))
            .map_err(|e| format!("{}: {e}", source.display()))?;
        Cmd::new(GCC).args("-O2 -shared -o").arg(&dll).arg(&source).args("-ladvapi32").run()
    }

    /// Where cargo builds for Windows.
    pub(super) fn built(&self, target: &Path) -> PathBuf {
        if self.debian { self.dir.join("debian") } else { target.to_owned() }
    }

    /// Cargo, that builds for Windows.
    pub(super) fn cargo(&self) -> Cmd {
        let cargo = match self.debian {
            false => Cmd::cargo(""),
            // By full path, as rustup's programs come first in PATH; the std is built with what it is used by.
            true => Cmd::new("/usr/bin/cargo")
                .args("-Zbuild-std=std,panic_unwind,test")
                .env("CARGO_TARGET_DIR", self.dir.join("debian").display())
                .env("RUSTC", "/usr/bin/rustc")
                .env("RUSTDOC", "/usr/bin/rustdoc")
                .env("RUSTC_BOOTSTRAP", 1),
        };
        cargo
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", GCC)
            .env("CC_x86_64_pc_windows_gnu", GCC)
    }

    /// Cargo, that builds for Windows and runs that.
    pub(super) fn cargo_that_runs(&self) -> Cmd {
        self.at_home(self.cargo())
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", self.wine.display())
    }
}

impl Drop for Kit {
    /// Ends whatever a test has left running.
    fn drop(&mut self) {
        let _ = self.server("-k").run_quietly();
    }
}

/// Debian's compiler of the right version, with its sources.
fn debian_rust() -> Result<(), String> {
    const PACKAGES: &str = "rustc-web cargo-web rust-web-src";
    let version = || {
        let output = Command::new("/usr/bin/rustc").arg("-V").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let version = text.split_whitespace().nth(1)?.to_owned();
        let mut numbers = version.split('.').map_while(|n| n.parse::<u32>().ok());
        let sources = format!("/usr/src/rustc-{version}/library/std/Cargo.toml");
        let new = (numbers.next()?, numbers.next()?) >= RUST_VERSION;
        (new && Path::new(&sources).is_file() && Path::new("/usr/bin/cargo").is_file())
            .then_some(())
    };
    version()
        .or_else(|| {
            debian::install(PACKAGES, Duration::from_secs(600));
            version()
        })
        .ok_or_else(|| {
            let (major, minor) = RUST_VERSION;
            format!(
                "no std of Rust for {TARGET} (`rustup target add {TARGET}`, or Debian: apt install {PACKAGES}, \
                 from {major}.{minor} on)"
            )
        })
}
