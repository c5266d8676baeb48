//! Debian's kernel for aarch64, and a busybox for it, from Debian's own packages: downloaded and unpacked into the target
//! directory, never installed. apt is given lists of its own there, so that this machine's know nothing of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cmd::Cmd;
use crate::debian;

/// Debian's name for the smallest kernel that has all that the tests need and a console.
const KERNEL: &str = "linux-image-cloud-arm64";
const BUSYBOX: &str = "busybox-static";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

pub(super) struct Kernel {
    pub(super) image: PathBuf,
    pub(super) busybox: PathBuf,
}

/// The kernel of a suite of Debian, downloaded once into `dir`. The inner error says what cannot be had here.
pub(super) fn provide(dir: &Path, suite: &str) -> Result<Result<Kernel, String>, String> {
    let dir = dir.join(suite);
    let kernel = Kernel { image: dir.join("vmlinuz"), busybox: dir.join("busybox") };
    if !kernel.image.is_file() || !kernel.busybox.is_file() {
        for program in ["apt-get", "dpkg-deb"] {
            if debian::find(program, &[]).is_none() {
                return Ok(Err(format!(
                    "no {program} here to get Debian's kernel for aarch64 with"
                )));
            }
        }
        download(&dir, suite, &kernel)?;
    }
    Ok(Ok(kernel))
}

fn download(dir: &Path, suite: &str, kernel: &Kernel) -> Result<(), String> {
    let (lists, unpacked) = (dir.join("lists"), dir.join("unpacked"));
    for dir in [&lists, &unpacked] {
        let _ = fs::remove_dir_all(dir);
        make_dir(dir)?;
    }
    let sources = dir.join("sources.list");
    // Backports have no busybox.
    let base = suite.trim_end_matches("-backports");
    let lines = [base, suite]
        .map(|suite| format!("deb [signed-by={KEYS}] http://deb.debian.org/debian {suite} main\n"));
    let lines = if base == suite { &lines[..1] } else { &lines[..] };
    write(&sources, lines.concat())?;
    write(&dir.join("status"), "")?;
    let apt = |program: &str| {
        let options = [
            "APT::Architecture=arm64".into(),
            "APT::Architectures=arm64".into(),
            format!("APT::Default-Release={suite}"),
            "APT::Sandbox::User=root".into(),
            "Acquire::Languages=none".into(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".into(),
            "Acquire::http::Timeout=15".into(),
            format!("Dir::State::status={}", dir.join("status").display()),
            format!("Dir::State::Lists={}", lists.display()),
            format!("Dir::Cache={}", lists.display()),
            format!("Dir::Etc::SourceList={}", sources.display()),
            "Dir::Etc::SourceParts=/dev/null".into(),
            "Dir::Etc::PreferencesParts=/dev/null".into(),
        ];
        let cmd = options.iter().fold(Cmd::new(program), |cmd, option| cmd.args("-o").arg(option));
        cmd.dir(&unpacked).limit(Duration::from_secs(300))
    };
    apt("apt-get").args("-qq update").run()?;
    // The name above stands for the newest; since Linux 7 what it names does so again.
    let names = apt("apt-cache").args("depends --recurse --important").args(KERNEL).read()?;
    let parts = |name: &&str| ["linux-image-", "linux-binary-"].iter().any(|p| name.starts_with(p));
    let mut fetch = apt("apt-get").args("-qq download").args(BUSYBOX);
    for name in names.lines().filter(parts).filter(|name| *name != KERNEL) {
        fetch = fetch.arg(name);
    }
    fetch.run()?;
    for package in files(&unpacked)? {
        Cmd::new("dpkg-deb").args("-x").arg(&package).arg(&unpacked).run()?;
    }
    let is_kernel = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
    };
    let is_busybox = |path: &Path| path.ends_with("bin/busybox");
    let found = files(&unpacked)?;
    let take = |what, to, is_it: &dyn Fn(&Path) -> bool| {
        let from = found.iter().find(|path| is_it(path));
        let from = from.ok_or_else(|| format!("no {what} in the packages of {suite}"))?;
        fs::rename(from, to).map_err(|e| format!("{}: {e}", from.display()))
    };
    take("busybox", &kernel.busybox, &is_busybox)?;
    take("kernel", &kernel.image, &is_kernel)?;
    [unpacked, lists].iter().for_each(|dir| drop(fs::remove_dir_all(dir)));
    Ok(())
}

/// All files below a directory.
fn files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let fault = |e| format!("{}: {e}", dir.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        match entry.file_type().map_err(fault)?.is_dir() {
            true => found.extend(files(&entry.path())?),
            false => found.push(entry.path()),
        }
    }
    Ok(found)
}

pub(super) fn make_dir(dir: &Path) -> Result<(), String> {
    fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))
}

pub(super) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
