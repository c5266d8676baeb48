//! `httpfile`: servers of static files under ab and wrk.
//!
//! The parameter is `LOAD-CONNECTIONS-SIZE`: `ab` makes a connection for each request, `abk` keeps them
//! (`-k`), and so does `wrk`. The server's CPU is read as for `pong`.

use crate::child::{LOAD_LIMIT, Server, address};
use crate::micro::Values;
use crate::pong::{self, Load};
use crate::sys;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Tells a server of this or another program which directory to serve.
pub(crate) const ROOT: &str = "BAST_BENCH_ROOT";

const SIZES: [(&str, usize); 3] = [("1k", 1 << 10), ("64k", 64 << 10), ("1m", 1 << 20)];

/// Where Debian and others keep nginx, which may not be on the PATH of a user.
const NGINX: [&str; 3] = ["nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"];

fn nginx() -> Option<&'static str> {
    NGINX.into_iter().find(|program| Command::new(program).arg("-v").output().is_ok())
}

/// How to install what this needs and does not find.
pub(crate) fn missing(subject: &str) -> Option<&'static str> {
    (subject == "nginx" && nginx().is_none())
        .then_some("nginx is not installed: apt-get install -y nginx-light")
}

/// The files, made on first use beside this program.
fn root() -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|e| e.to_string())?;
    let root = here.with_file_name("bast-bench-files");
    fs::create_dir_all(&root).map_err(|e| e.to_string())?;
    for (name, len) in SIZES {
        let path = root.join(name);
        if fs::metadata(&path).map_or(true, |data| data.len() != len as u64) {
            let text: Vec<u8> = (0..len).map(|i| b' ' + (i % 95) as u8).collect();
            fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(root)
}

/// Measures one server with the load that `param` names.
pub(crate) fn measure(subject: &str, param: &str, quick: bool) -> Result<Values, String> {
    let bad = || format!("no such load: {param}");
    let [load, connections, size] = param.split('-').collect::<Vec<_>>()[..] else {
        return Err(bad());
    };
    let connections: usize = connections.parse().map_err(|_| bad())?;
    let len = SIZES.iter().find(|(name, _)| *name == size).ok_or_else(bad)?.1;
    let root = root()?;
    let server = match subject {
        "nginx" => start_nginx(&root)?,
        _ => Server::start_with("httpfile", subject, &[(ROOT, root.as_os_str())])?,
    };
    let url = format!("http://{}/{size}", server.addr);
    // About as many bytes in each run, and each connection is used.
    let requests = if quick { 8_000 } else { 60_000 } / (len >> 14).clamp(1, 20);
    let requests = requests.max(connections);
    let before = server.cpu()?;
    let load: Load = match load {
        "ab" => pong::ab(&url, connections, requests, false)?,
        "abk" => pong::ab(&url, connections, requests, true)?,
        "wrk" => pong::wrk(&url, connections, quick)?,
        _ => return Err(bad()),
    };
    pong::figures(&server, before, &load)
}

/// nginx as its manual tunes it for this. One process without a master, so that its CPU is that of one
/// process, and it ends with this one; a worker does the same work.
fn start_nginx(root: &Path) -> Result<Server, String> {
    let program = nginx().ok_or("nginx is not installed: apt-get install -y nginx-light")?;
    let addr = free(address())?;
    let prefix = root.with_file_name("bast-bench-nginx");
    fs::create_dir_all(&prefix).map_err(|e| e.to_string())?;
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {kind};\n"))
        .collect();
    let conf = format!(
        "daemon off; master_process off; worker_processes 1; pid nginx.pid;\n\
         error_log error.log crit; worker_rlimit_nofile 20000;\n\
         events {{ worker_connections 20000; }}\n\
         http {{\n{temp}types {{ text/plain txt; }} default_type application/octet-stream;\n\
         access_log off; sendfile on; keepalive_requests 1000000000;\n\
         server {{ listen {addr} backlog=16384; root \"{}\"; }}\n}}\n",
        root.display()
    );
    let file = prefix.join("nginx.conf");
    fs::write(&file, conf).map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.arg("-p").arg(&prefix).arg("-c").arg(&file).arg("-e").arg(prefix.join("error.log"));
    let server = Server::adopt(command, addr)?;
    let start = Instant::now();
    while TcpStream::connect(addr).is_err() {
        if start.elapsed() > LOAD_LIMIT / 9 {
            let log = fs::read_to_string(prefix.join("error.log")).unwrap_or_default();
            return Err(format!("nginx does not listen: {log}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}

/// The address with a port that is free: nobody else has this address.
fn free(addr: SocketAddr) -> Result<SocketAddr, String> {
    let listener = std::net::TcpListener::bind(addr).map_err(|e| e.to_string())?;
    listener.local_addr().map_err(|e| e.to_string())
}

/// The directory, for a server in this process.
pub(crate) fn served() -> Result<PathBuf, String> {
    let _ = sys::raise_nofile(20_000);
    env::var_os(ROOT).map(PathBuf::from).ok_or_else(|| format!("{ROOT} is not set"))
}
