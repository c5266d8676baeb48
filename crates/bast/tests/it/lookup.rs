//! Names of hosts: what resolves, what does not, and a resolver that hangs.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bast::net::{TcpStream, lookup_host};

use crate::harness::{on_bast, on_std, simulated};

fn everywhere(body: fn()) {
    on_bast::run(body);
    on_std::run(body);
}

#[test]
fn names_and_addresses() {
    everywhere(|| {
        let all = |host: &str| lookup_host(host).unwrap().collect::<Vec<SocketAddr>>();
        assert_eq!(all("127.0.0.1:80"), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(all("[::1]:443"), ["[::1]:443".parse().unwrap()]);
        let local = all("localhost:81");
        assert!(!local.is_empty());
        assert!(local.iter().all(|addr| addr.ip().is_loopback() && addr.port() == 81));
        assert_eq!(lookup_host(("localhost", 81)).unwrap().collect::<Vec<_>>(), local);
        assert_eq!(
            lookup_host((String::from("localhost"), 81)).unwrap().collect::<Vec<_>>(),
            local
        );
    });
}

#[test]
fn errors_say_what_is_wrong() {
    everywhere(|| {
        for (host, what) in [
            ("no port", "invalid socket address"),
            ("localhost:http", "invalid port value"),
            ("localhost:65536", "invalid port value"),
            // "invalid" never exists, and a dot at the end lets no domain be added to it.
            ("no-such-host.invalid.:80", "no-such-host.invalid."),
            ("a\0b:80", "a\\0b"),
            // (On Windows that is this machine.)
            #[cfg(unix)]
            (":80", "\"\""),
        ] {
            let error = lookup_host(host).map(Vec::from_iter).unwrap_err();
            assert!(error.to_string().contains(what), "{host:?}: {error}");
        }
        assert_eq!(lookup_host("no port").unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn many_at_a_time() {
    // More than are looked up at a time.
    let fibers: Vec<_> =
        (0..100).map(|_| bast::spawn(|| lookup_host("localhost:1").unwrap().count())).collect();
    assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap() > 0));
}

/// Set for the copy of this program whose name server is silent.
const SILENT: &str = "BAST_TEST_SILENT_NAME_SERVER";

const SERVER: &str = "127.0.0.2:53";
/// What makes the name server speak, and what ends it.
const SPEAK: &[u8] = b"speak";
const END: &[u8] = b"end";

fn tell_server(what: &[u8]) {
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(what, SERVER).unwrap();
}

/// A name server that says nothing until it is told to speak; then it knows no name, also for those who have asked before.
fn serve(socket: UdpSocket) {
    let (mut asked, mut speaks) = (Vec::new(), false);
    loop {
        let mut packet = [0; 512];
        let (n, from) = socket.recv_from(&mut packet).unwrap();
        match &packet[..n] {
            END => return,
            SPEAK => speaks = true,
            _ => asked.push((packet, n, from)),
        }
        if !speaks {
            continue;
        }
        for (mut packet, n, from) in asked.drain(..) {
            // An answer: there is no such name.
            (packet[2], packet[3]) = (packet[2] | 0x80, 0x83);
            let _ = socket.send_to(&packet[..n], from);
        }
    }
}

/// Runs this program again, for the test `name` alone, with a name server that does not answer. Whether that is possible: a
/// mount of its own is the super-user's right.
fn with_silent_name_server(name: &str) -> bool {
    let Ok(socket) = UdpSocket::bind(SERVER) else { return false };
    let server = std::thread::spawn(move || serve(socket));
    let dir = crate::fs::Temp::new();
    let conf = dir.join("resolv.conf");
    std::fs::write(&conf, "nameserver 127.0.0.2\noptions timeout:30 attempts:1\n").unwrap();
    let script = "mount --make-rprivate / && mount --bind \"$1\" /etc/resolv.conf && echo mounted \
                  && shift && exec \"$@\"";
    let child = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(&conf)
        .args(crate::harness::runner())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(SILENT, "1")
        .stdin(Stdio::null())
        .output();
    tell_server(END);
    server.join().unwrap();
    let Ok(child) = child else { return false };
    let said = String::from_utf8_lossy(&child.stdout);
    if !said.contains("mounted") {
        return false;
    }
    assert!(child.status.success(), "{said}\n{}", String::from_utf8_lossy(&child.stderr));
    true
}

#[test]
fn a_resolver_that_hangs_is_left_behind() {
    if simulated() {
        // There a call that blocks runs on the worker, which stands still meanwhile.
        return;
    }
    if std::env::var_os(SILENT).is_none() {
        if !with_silent_name_server("lookup::a_resolver_that_hangs_is_left_behind") {
            eprintln!(
                "skipped: no mounts of its own here (that needs root, `unshare` and port 53)"
            );
        }
        return;
    }
    let patience = Duration::from_secs(29); // the resolver's is 30 s, and twice that for two families
    let start = Instant::now();
    // From a plain thread and from fibers; far more than may be under way.
    let soon = Duration::from_millis(50);
    assert!(bast::timeout(soon, || lookup_host("silent.test:80")).is_err());
    let fibers: Vec<_> = (0..200)
        .map(|_| bast::spawn(move || bast::timeout(soon, || TcpStream::connect("silent.test:80"))))
        .collect();
    for fiber in fibers {
        assert!(fiber.join().unwrap().is_err());
    }
    let waiting = bast::spawn(|| lookup_host("silent.test:80").map(drop));
    std::thread::sleep(soon);
    waiting.cancel();
    assert!(waiting.join().unwrap_err().is::<bast::Cancelled>());
    assert!(start.elapsed() < patience, "{:?}", start.elapsed());
    // Those left behind have few threads, and calls of other kinds find some.
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    assert!(threads < 60, "{threads} threads");
    assert_eq!(bast::spawn(|| bast::blocking(|| 6 * 7)).join().unwrap(), 42);
    assert!(start.elapsed() < patience, "{:?}", start.elapsed());
    // An address needs no turn; a name waits for one, and has its answer when the resolver has one.
    tell_server(SPEAK);
    assert!(bast::spawn(|| lookup_host("127.0.0.1:1").is_ok()).join().unwrap());
    assert!(bast::spawn(|| lookup_host("localhost:1").unwrap().count() > 0).join().unwrap());
}
