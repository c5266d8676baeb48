//! The tests of `bast-tokio`, of `apps/ecosystem` and of what `rrd-export` asks of databases, in debug mode, against real
//! servers that are started here.
//!
//! ```text
//!   directory of its own in /tmp, of the user nobody if this is root (databases refuse root)
//!     postgres/   data, socket    BAST_TEST_POSTGRES=postgres://…?host=…/postgres     stopped by SIGINT
//!     mariadb/    data, socket    BAST_TEST_MYSQL=mysql://…?socket=…                  stopped by SIGTERM
//!     redis/      socket          BAST_TEST_REDIS=redis+unix://…                      stopped by SIGTERM
//! ```
//!
//! No ports, so that none can be taken; no data of anybody is touched. What is not installed is installed where
//! root can do so by apt; elsewhere its tests say that they are skipped.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::binaries::{self, beside_each_other};
use crate::cmd::{Cmd, is_installed, signal, wait};
use crate::debian;
use crate::steps::{Context, DRIVERS};

/// Nobody's, by number, on every Linux.
const NOBODY: u32 = 65534;

/// Databases make their files and come up in a few seconds, on a bad day in many.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn run(_: &Context) -> Result<(), String> {
    let at = std::env::temp_dir().join(format!("bast-ecosystem-{}", std::process::id()));
    // Removed after the servers have ended, as it is declared before them.
    let place = Place::new(at)?;
    let mut servers = Vec::new();
    for kind in KINDS {
        if !is_there(kind) {
            debian::install(kind.package, Duration::from_secs(120));
        }
        if is_there(kind) {
            servers.push((kind.start)(&place)?);
        } else {
            println!("skipped: no {} here (Debian: apt install {})", kind.program, kind.package);
        }
    }
    let binaries = binaries::build(Cmd::cargo("test --workspace"))?;
    // One driver after the other: they would disturb each other in the databases.
    for driver in DRIVERS {
        let runs = binaries.iter().filter_map(|binary| {
            let cmd = match (binary.package.as_str(), binary.target.as_str()) {
                ("bast-tokio" | "ecosystem", _) => binary.cmd(),
                ("rrd-export", "it") => binary.cmd().args("servers::"),
                _ => return None,
            };
            let cmd = cmd.env("BAST_DRIVER", driver);
            Some(servers.iter().fold(cmd, |cmd, server| cmd.env(server.variable, &server.url)))
        });
        beside_each_other(runs.collect())?;
    }
    Ok(())
}

/// A kind of server that the tests want.
struct Kind {
    program: &'static str,
    package: &'static str,
    start: fn(&Place) -> Result<Server, String>,
}

const KINDS: &[Kind] = &[
    Kind { program: "postgres", package: "postgresql", start: postgres },
    Kind { program: "mariadbd", package: "mariadb-server", start: mariadb },
    Kind { program: "redis-server", package: "redis-server", start: redis },
];

/// Where a program is: Debian has those of PostgreSQL in a directory for each version, and not in `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut dirs: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    dirs.sort();
    dirs.push("/usr/sbin".into());
    let path = std::env::var_os("PATH").unwrap_or_default();
    dirs.extend(std::env::split_paths(&path));
    dirs.into_iter().map(|dir| dir.join(program)).find(|path| path.is_file())
}

fn is_there(kind: &Kind) -> bool {
    find(kind.program).is_some()
}

/// A directory for the servers, removed in the end, and who they run as.
struct Place {
    at: PathBuf,
    root: bool,
}

impl Place {
    fn new(at: PathBuf) -> Result<Place, String> {
        fs::create_dir(&at).map_err(|e| format!("{}: {e}", at.display()))?;
        // Who owns what this process has just made.
        let root = fs::metadata(&at).map_err(|e| e.to_string())?.uid() == 0;
        Ok(Place { at, root })
    }

    /// A directory for one server.
    fn dir(&self, name: &str) -> Result<PathBuf, String> {
        let dir = self.at.join(name);
        let made = fs::create_dir(&dir).and_then(|()| match self.root {
            true => chown(&dir, Some(NOBODY), Some(NOBODY)),
            false => Ok(()),
        });
        made.map_err(|e| format!("{}: {e}", dir.display())).map(|()| dir)
    }

    /// A command in a directory, as nobody if this is root. It dies with this process, whatever ends that.
    fn command(&self, dir: &Path, program: &str) -> Result<Cmd, String> {
        let program = find(program).ok_or_else(|| format!("no {program}"))?;
        let mut cmd = Cmd::new("env").arg("-C").arg(dir);
        if is_installed("setpriv") {
            cmd = cmd.args("setpriv --pdeathsig KILL");
            if self.root {
                cmd = cmd.args("--reuid 65534 --regid 65534 --clear-groups");
            }
            cmd = cmd.arg("--");
        } else if self.root {
            return Err("setpriv (Debian: util-linux) is missing, and servers refuse root".into());
        }
        Ok(cmd.arg(program))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.at);
    }
}

/// A server that runs, and ends when it is dropped.
struct Server {
    child: Child,
    variable: &'static str,
    url: String,
    /// The signal at which it ends.
    end: &'static str,
}

impl Server {
    /// Starts it, and waits until it answers.
    fn start(
        cmd: &Cmd,
        end: &'static str,
        (variable, url): (&'static str, String),
        answers: impl Fn() -> bool,
    ) -> Result<Server, String> {
        let mut server = Server { child: cmd.spawn_quietly()?, variable, url, end };
        let begun = Instant::now();
        while !answers() {
            if let Some(status) = server.child.try_wait().map_err(|e| e.to_string())? {
                return Err(format!("`{cmd}` ended with {status}"));
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("`{cmd}` does not answer"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            signal(self.child.id(), self.end);
            // It is killed if that takes too long.
            let _ = wait(&mut self.child, PATIENCE);
        }
    }
}

fn postgres(place: &Place) -> Result<Server, String> {
    let dir = place.dir("postgres")?;
    let initdb =
        place.command(&dir, "initdb")?.args("-D data -U bast -A trust -N --no-locale -E UTF8");
    initdb.run_quietly()?;
    // In one directory with its data, on the socket alone, and not safe against power cuts.
    let cmd = place.command(&dir, "postgres")?.args("-D data -F -c listen_addresses= -k").arg(&dir);
    let ready = place.command(&dir, "pg_isready")?.args("-q -h").arg(&dir);
    let url = format!("postgres://bast@localhost/postgres?host={}", dir.display());
    Server::start(&cmd, "INT", ("BAST_TEST_POSTGRES", url), || ready.run_quietly().is_ok())
}

fn mariadb(place: &Place) -> Result<Server, String> {
    let dir = place.dir("mariadb")?;
    let data = format!("--no-defaults --datadir={}", dir.join("data").display());
    let install = place.command(&dir, "mariadb-install-db")?.args(&data);
    let install = install.args("--skip-test-db --auth-root-authentication-method=normal");
    install.run_quietly()?;
    let socket = dir.join("socket");
    let cmd = place.command(&dir, "mariadbd")?.args(&data).args("--skip-networking");
    let cmd = cmd.arg(format!("--socket={}", socket.display()));
    let url = format!("mysql://root@localhost/mysql?socket={}", socket.display());
    Server::start(&cmd, "TERM", ("BAST_TEST_MYSQL", url), || UnixStream::connect(&socket).is_ok())
}

fn redis(place: &Place) -> Result<Server, String> {
    let dir = place.dir("redis")?;
    let socket = dir.join("socket");
    let cmd = place.command(&dir, "redis-server")?.args("--port 0 --appendonly no --save");
    let cmd = cmd.arg("").arg("--unixsocket").arg(&socket);
    let url = format!("redis+unix://{}", socket.display());
    Server::start(&cmd, "TERM", ("BAST_TEST_REDIS", url), || UnixStream::connect(&socket).is_ok())
}
