//! `https`: rustls on fibers; what clients do wrong on purpose or by accident.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bast::net::{TcpListener, TcpStream};
use bast_examples::https::certs::{Identity, fingerprint};
use bast_examples::https::client::{self, Trust};
use bast_examples::https::{Limits, Totals, serve};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::fibers::{help_is_good, on_drivers, with_server};

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Longer than anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server and a configuration for its clients.
fn with_https(limits: Limits, test: impl FnOnce(SocketAddr, &Arc<ClientConfig>)) -> Totals {
    let identity = Identity::self_signed(&["localhost".into()]).unwrap();
    let trust = Trust::Pin(fingerprint(&identity.chain[0]));
    let (config, trust) = (identity.into_config().unwrap(), trust.into_config().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let server = |stop: &_| serve(&listener, &config, &limits, stop);
    with_server(server, |_| test(addr, &trust)).0
}

fn limits() -> Limits {
    Limits { handshake: PATIENCE, request: PATIENCE, idle: PATIENCE, ..Limits::default() }
}

fn connect(addr: SocketAddr, config: &Arc<ClientConfig>) -> Tls {
    let tls = client::connect("127.0.0.1", addr.port(), config, PATIENCE).unwrap();
    tls.sock.set_read_timeout(Some(PATIENCE)).unwrap();
    tls
}

/// Sends a request; returns the status and the body.
fn ask(tls: &mut BufReader<Tls>, head: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let request = format!("{head} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    tls.get_mut().write_all(request.as_bytes()).unwrap();
    tls.get_mut().write_all(body).unwrap();
    answer(tls, head.starts_with("HEAD"))
}

fn answer(tls: &mut impl BufRead, is_head: bool) -> (u16, Vec<u8>) {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert!(tls.read_line(&mut line).unwrap() > 0, "the end after {lines:?}");
        if line == "\r\n" {
            break;
        }
        lines.push(line.to_ascii_lowercase());
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; if is_head { 0 } else { length.trim().parse().unwrap() }];
    tls.read_exact(&mut body).unwrap();
    (status, body)
}

#[test]
fn pages_and_echoes_on_one_connection() {
    on_drivers(|| {
        let totals = with_https(Limits { body: 1 << 20, ..limits() }, |addr, config| {
            let mut tls = BufReader::new(connect(addr, config));
            let (status, page) = ask(&mut tls, "GET /", b"");
            assert!(status == 200 && String::from_utf8(page).unwrap().contains("TLSv1_3"));
            assert_eq!(ask(&mut tls, "HEAD /", b""), (200, vec![]));
            assert_eq!(ask(&mut tls, "GET /nowhere", b"").0, 404);
            assert_eq!(ask(&mut tls, "DELETE /", b"").0, 405);
            for length in [0, 1, 16 * 1024, 16 * 1024 + 1, 1 << 20] {
                let body: Vec<u8> = (0..length).map(|n| (n * 7 / 5) as u8).collect();
                let (status, back) = ask(&mut tls, "POST /", &body);
                assert!(status == 200 && back == body, "{length} bytes, {}", back.len());
            }
            // Not read, so this is the end of the connection, with a close_notify.
            tls.get_mut().write_all(b"POST / HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n").unwrap();
            assert_eq!(answer(&mut tls, false).0, 413);
            assert_eq!(tls.read(&mut [0]).unwrap(), 0, "the end, in good order");
        });
        assert_eq!(totals, Totals { connections: 1, requests: 10, failed: 0 });
    });
}

#[test]
fn a_thousand_handshakes_at_once() {
    const CLIENTS: usize = 1000;
    bast_examples::os::raise_open_files();
    on_drivers(|| {
        let totals = with_https(limits(), |addr, config| {
            let gate = bast::sync::Barrier::new(CLIENTS);
            bast::for_each_concurrent(0..CLIENTS, CLIENTS, |n| {
                gate.wait();
                let mut tls = BufReader::new(connect(addr, config));
                gate.wait(); // all are connected at the same time
                let body = format!("client {n}").into_bytes();
                assert_eq!(ask(&mut tls, "POST /", &body), (200, body));
            });
        });
        let clients = CLIENTS as u64;
        assert_eq!(totals, Totals { connections: clients, requests: clients, failed: 0 });
    });
}

#[test]
fn who_stalls_is_let_go_and_holds_up_nobody() {
    on_drivers(|| {
        let handshake = Duration::from_secs(1);
        let totals = with_https(Limits { handshake, ..limits() }, |addr, config| {
            let mut silent = TcpStream::connect(addr).unwrap();
            let mut slow = TcpStream::connect(addr).unwrap();
            slow.write_all(&[22, 3, 1]).unwrap();
            // The others are served. (In a second, or a loaded machine makes it two.)
            for _ in 0..20 {
                if let Ok(tls) = client::connect("127.0.0.1", addr.port(), config, PATIENCE) {
                    assert_eq!(ask(&mut BufReader::new(tls), "GET /", b"").0, 200);
                    break;
                }
            }
            for stream in [&mut silent, &mut slow] {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
            }
        });
        assert!(totals.requests == 1 && totals.failed >= 2, "{totals:?}");
    });
}

#[test]
fn what_is_no_tls_is_told_so() {
    on_drivers(|| {
        let totals = with_https(limits(), |addr, _| {
            let mut plain = TcpStream::connect(addr).unwrap();
            plain.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut text = String::new();
            plain.read_to_string(&mut text).unwrap();
            assert!(text.starts_with("HTTP/1.1 400 ") && text.contains("https://"), "{text}");
            let mut garbage = TcpStream::connect(addr).unwrap();
            garbage.write_all(&[0; 100]).unwrap();
            let mut alert = TcpStream::connect(addr).unwrap();
            alert.write_all(&[22; 100]).unwrap();
            for stream in [&mut garbage, &mut alert] {
                let _ = stream.read_to_end(&mut Vec::new());
            }
            // Only looks whether the port is open: no fault.
            drop(TcpStream::connect(addr).unwrap());
        });
        // The last one may not have been accepted before the end.
        assert!(totals.requests == 0 && totals.failed == 3, "{totals:?}");
    });
}

#[test]
fn a_hang_up_without_close_notify_counts_in_the_middle_only() {
    on_drivers(|| {
        let totals = with_https(limits(), |addr, config| {
            let mut idle = BufReader::new(connect(addr, config));
            assert_eq!(ask(&mut idle, "POST /", b"abc").0, 200);
            idle.get_ref().sock.shutdown(Shutdown::Write).unwrap();
            assert_eq!(idle.read(&mut [0]).unwrap(), 0);
            let mut middle = connect(addr, config);
            middle.write_all(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc").unwrap();
            middle.sock.shutdown(Shutdown::Write).unwrap();
            assert!(matches!(middle.read(&mut [0]), Ok(0) | Err(_)), "no answer");
        });
        assert_eq!(totals, Totals { connections: 2, requests: 1, failed: 1 });
    });
}

#[test]
fn the_client_tells_an_answer_that_was_cut_short() {
    on_drivers(|| {
        let identity = Identity::self_signed(&["localhost".into()]).unwrap();
        let trust = Trust::Pin(fingerprint(&identity.chain[0])).into_config().unwrap();
        let config = identity.into_config().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let server = bast::spawn(move || {
            let (mut sock, _) = listener.accept().unwrap();
            let mut conn = rustls::ServerConnection::new(config).unwrap();
            let mut tls = rustls::Stream::new(&mut conn, &mut sock);
            assert!(tls.read(&mut [0; 1000]).unwrap() > 0);
            tls.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf of").unwrap();
        });
        let mut page = Vec::new();
        let fault = client::get(&url.parse().unwrap(), &trust, PATIENCE, &mut page).unwrap_err();
        assert_eq!(fault.kind(), ErrorKind::UnexpectedEof, "{fault}");
        assert!(page.ends_with(b"half of"));
        server.join().unwrap();
    });
}

#[test]
fn so_many_connections_and_no_more() {
    on_drivers(|| {
        let totals = with_https(Limits { connections: 2, ..limits() }, |addr, config| {
            let one = connect(addr, config);
            let two = connect(addr, config);
            let limit = Duration::from_millis(300);
            let third = client::connect("127.0.0.1", addr.port(), config, limit);
            assert_eq!(third.unwrap_err().kind(), ErrorKind::TimedOut);
            drop((one, two));
            assert_eq!(ask(&mut BufReader::new(connect(addr, config)), "GET /", b"").0, 200);
        });
        assert_eq!(totals.requests, 1);
    });
}

#[test]
fn idle_clients_get_a_close_notify_at_the_end() {
    on_drivers(|| {
        let mut idle = None;
        let start = Instant::now();
        let totals = with_https(limits(), |addr, config| {
            let mut tls = BufReader::new(connect(addr, config));
            assert_eq!(ask(&mut tls, "GET /", b"").0, 200);
            idle = Some(bast::spawn(move || tls.read(&mut [0]).unwrap()));
        });
        assert_eq!(idle.unwrap().join().unwrap(), 0, "the end, in good order");
        assert_eq!(totals, Totals { connections: 1, requests: 1, failed: 0 });
        assert!(start.elapsed() < PATIENCE, "nobody waits for the limits");
    });
}

/// Files of a test, which go with it.
struct Files(PathBuf);

impl Files {
    fn new(test: &str) -> Files {
        let dir = std::env::temp_dir().join(format!("bast-https-{test}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Files(dir)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn wrong_files_are_told() {
    let files = Files::new("wrong");
    let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let cert = files.write("cert.pem", &made.cert.pem());
    let key = files.write("key.pem", &made.signing_key.serialize_pem());
    let wrong = files.write("wrong.pem", &other.signing_key.serialize_pem());
    let noise =
        files.write("noise.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----");
    let none = files.0.join("none.pem");
    let load = |cert, key| Identity::load(cert, key).and_then(Identity::into_config);
    load(&cert, &key).unwrap();
    for (cert, key, words) in [
        (&none, &key, ["none.pem", "No such file"]),
        (&cert, &none, ["none.pem", "No such file"]),
        (&key, &key, ["key.pem", "no certificate in it"]),
        (&cert, &cert, ["cert.pem", "no private key in it"]),
        (&cert, &wrong, ["--key", "--cert"]),
        (&noise, &key, ["noise.pem", ""]),
    ] {
        let fault = load(cert, key).unwrap_err();
        assert!(words.iter().all(|word| fault.contains(word)), "{words:?} are not in: {fault}");
    }
}

#[test]
fn the_programs_speak_with_each_other() {
    let files = Files::new("programs");
    let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let cert = files.write("cert.pem", &made.cert.pem());
    let key = files.write("key.pem", &made.signing_key.serialize_pem());
    let https = || Command::new(env!("CARGO_BIN_EXE_https"));
    let mut server = https();
    server.args(["--listen", "127.0.0.1:0"]).arg("--cert").arg(&cert).arg("--key").arg(&key);
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let url = first.strip_prefix("https: ").unwrap().replace("127.0.0.1", "localhost");
    let got = https().args(["--get", &url]).arg("--ca").arg(&cert).output().unwrap();
    let text = String::from_utf8(got.stdout).unwrap();
    assert!(got.status.success() && text.contains("It works"), "{text}");
    // By another name, and with another certificate, it is not believed.
    let wrong = Identity::self_signed(&["localhost".into()]).unwrap();
    let pin = fingerprint(&wrong.chain[0]);
    let by_address = url.replace("localhost", "127.0.0.1");
    for args in
        [["--pin", &pin, "--get", &url], ["--ca", cert.to_str().unwrap(), "--get", &by_address]]
    {
        let got = https().args(args).output().unwrap();
        let text = String::from_utf8(got.stderr).unwrap();
        assert_eq!(got.status.code(), Some(1));
        assert!(text.contains("invalid peer certificate") && text.contains("--pin"), "{text}");
    }
    let kill = format!("kill -INT {}", server.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert!(server.wait().unwrap().success());
    assert_eq!(lines.last().unwrap().unwrap(), "https: 3 connections, 1 requests, 2 failed");
}

#[test]
fn help() {
    help_is_good(env!("CARGO_BIN_EXE_https"), &["--listen", "--cert", "--key", "--get", "--pin"]);
}
