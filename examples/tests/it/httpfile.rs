//! `httpfile` as a program: what it answers over a socket, on each driver.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::process::{DRIVERS, PATIENCE, Server};

/// A directory tree to serve, and something beside it that must not be. Removed with the value.
pub(crate) struct Tree(pub(crate) PathBuf);

impl Tree {
    pub(crate) fn new() -> Tree {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("httpfile-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let base = std::env::temp_dir().join(name);
        let root = base.join("root");
        fs::create_dir_all(root.join("dir/sub dir")).unwrap();
        fs::create_dir_all(root.join("site")).unwrap();
        fs::create_dir_all(root.join(".hidden")).unwrap();
        fs::write(base.join("secret"), "SECRET").unwrap();
        for (path, text) in [
            ("hello.txt", "Hello, world!"),
            ("empty", ""),
            ("a b&<c>.html", "odd"),
            ("site/index.html", "<p>index"),
            ("dir/one.png", "png"),
            (".hidden/key", "KEY"),
        ] {
            let file = root.join(path);
            fs::write(&file, text).unwrap();
            let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            fs::File::options().write(true).open(file).unwrap().set_modified(past).unwrap();
        }
        symlink("hello.txt", root.join("within")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink(base.join("secret"), root.join("absolute")).unwrap();
        symlink("..", root.join("up")).unwrap();
        Tree(base)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    pub(crate) fn serve(&self, driver: &str, args: &[&str]) -> Server {
        let root = self.root();
        Server::httpfile(driver, &[&[root.to_str().unwrap()], args].concat())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Reads one answer. After HEAD, and with 204 and 304, there is no body.
pub(crate) fn read(stream: &mut TcpStream, is_head: bool) -> Answer {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|e| panic!("{e} after {head:?}"));
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, head, body: Vec::new() };
    let len = answer.field("Content-Length").map_or(0, |len| len.parse().unwrap());
    if !is_head && ![204, 304].contains(&status) {
        answer.body.resize(len, 0);
        stream.read_exact(&mut answer.body).unwrap();
    }
    answer
}

pub(crate) fn ask(stream: &mut TcpStream, method: &str, target: &str, fields: &str) -> Answer {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    read(stream, method == "HEAD")
}

#[test]
fn files_are_served_and_described() {
    let tree = Tree::new();
    for driver in DRIVERS {
        let server = tree.serve(driver, &[]);
        let mut stream = server.connect();
        let mut get = |target: &str| ask(&mut stream, "GET", target, "");
        let hello = get("/hello.txt");
        assert_eq!((hello.status, hello.text().as_str()), (200, "Hello, world!"));
        assert_eq!(hello.field("Content-Type"), Some("text/plain; charset=utf-8"));
        assert_eq!(hello.field("Last-Modified"), Some("Sun, 09 Sep 2001 01:46:40 GMT"));
        assert_eq!(hello.field("Accept-Ranges"), Some("bytes"));
        assert!(hello.field("Date").unwrap().ends_with(" GMT"));
        assert!(hello.field("ETag").unwrap().starts_with('"'));
        assert_eq!(get("/empty").field("Content-Length"), Some("0"));
        assert_eq!(get("/dir/one.png").field("Content-Type"), Some("image/png"));
        assert_eq!(get("/a%20b&%3Cc%3E.html?q").text(), "odd");
        assert_eq!(get("/within").text(), "Hello, world!");
        assert_eq!(get("/site/").text(), "<p>index");
        assert_eq!(get("http://x/hello.txt").status, 200);
        assert_eq!(get("/hello.txt/").status, 404);
        assert_eq!(get("/none").status, 404);
        assert_eq!(get("/.hidden/key").status, 404);
        for (target, to) in
            [("/dir", "/dir/"), ("//dir?a=b", "/dir/?a=b"), ("/dir/sub%20dir", "/dir/sub%20dir/")]
        {
            let moved = get(target);
            assert_eq!((moved.status, moved.field("Location")), (301, Some(to)));
        }
        let page = get("/").text();
        let at = |name: &str| page.find(name).unwrap_or_else(|| panic!("{name}: {page}"));
        assert!(at(">dir/<") < at(">site/<") && at(">site/<") < at(">a b&amp;&lt;c&gt;.html<"));
        assert!(at("./a%20b%26%3Cc%3E.html") < at(">hello.txt<") && at("13 B") > 0);
        assert!(!page.contains("hidden") && !page.contains("SECRET"));
        assert!(get("/dir/").text().contains("../"));
        for method in ["POST", "PUT", "DELETE"] {
            let refused = ask(&mut stream, method, "/hello.txt", "");
            assert_eq!((refused.status, refused.field("Allow")), (405, Some("GET, HEAD, OPTIONS")));
        }
        assert_eq!(ask(&mut stream, "OPTIONS", "/", "").status, 204);
        assert_eq!(ask(&mut stream, "BREW", "/", "").status, 501);
        let head = ask(&mut stream, "HEAD", "/hello.txt", "Range: bytes=0-1\r\n");
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("13")));
        assert_eq!(ask(&mut stream, "GET", "/hello.txt", "").status, 200, "still in step");
        server.stop();
    }
}

#[test]
fn nothing_leads_out() {
    let tree = Tree::new();
    for driver in DRIVERS {
        let server = tree.serve(driver, &["--hidden"]);
        for target in [
            "/../secret",
            "/..",
            "/dir/../../secret",
            "/%2e%2e/secret",
            "/..%2fsecret",
            "/%2e%2e%2fsecret",
            "/.%2e/secret",
            "//../secret",
            "/./../secret",
            "/out",
            "/absolute",
            "/up/secret",
            "/up/",
            "/within/../../secret",
            "/%00",
            "/hello.txt%00.png",
            "/%c0%ae%c0%ae/secret",
            "/..\\secret",
            "/..;/secret",
            "/proc/self/root/etc/passwd",
            "/%2fetc%2fpasswd",
            "//etc/passwd",
            "file:///etc/passwd",
            "http://x/../secret",
            "/dir/..",
            "/....//secret",
        ] {
            let mut stream = server.connect();
            let answer = ask(&mut stream, "GET", target, "");
            assert!([400, 404].contains(&answer.status), "{driver} {target}: {answer:?}");
            assert!(!answer.text().contains("SECRET"), "{driver} {target}");
        }
        // (A linked directory that is in the tree twice is another thing.)
        let mut stream = server.connect();
        assert_eq!(ask(&mut stream, "GET", "/.hidden/key", "").text(), "KEY");
        server.stop();
        let server = tree.serve(driver, &["--follow-links", "--no-listing"]);
        let mut stream = server.connect();
        assert_eq!(ask(&mut stream, "GET", "/out", "").text(), "SECRET");
        assert_eq!(ask(&mut stream, "GET", "/../secret", "").status, 400);
        assert_eq!(ask(&mut stream, "GET", "/dir/", "").status, 403);
        server.stop();
    }
}

#[test]
fn conditions_and_ranges_over_a_socket() {
    let tree = Tree::new();
    for driver in DRIVERS {
        let server = tree.serve(driver, &[]);
        let mut stream = server.connect();
        let mut get = |fields: &str| ask(&mut stream, "GET", "/hello.txt", fields);
        let etag = get("").field("ETag").unwrap().to_owned();
        let with = |name: &str| format!("{name}: {etag}\r\n");
        let unchanged = get(&with("If-None-Match"));
        assert_eq!((unchanged.status, unchanged.field("ETag")), (304, Some(etag.as_str())));
        let since = "If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n";
        assert_eq!(get(since).status, 304);
        assert_eq!(get("If-Unmodified-Since: Sun, 09 Sep 2001 01:46:39 GMT\r\n").status, 412);
        assert_eq!(get("If-Match: \"other\"\r\n").status, 412);
        assert_eq!(get(&with("If-Match")).status, 200);
        let part = get("Range: bytes=7-11\r\n");
        assert_eq!((part.status, part.text().as_str()), (206, "world"));
        assert_eq!(part.field("Content-Range"), Some("bytes 7-11/13"));
        assert_eq!(get("Range: bytes=-1\r\n").text(), "!");
        assert_eq!(get(&format!("Range: bytes=0-0\r\n{}", with("If-Range"))).status, 206);
        assert_eq!(get("Range: bytes=0-0\r\nIf-Range: \"other\"\r\n").status, 200);
        let beyond = get("Range: bytes=13-\r\n");
        assert_eq!((beyond.status, beyond.field("Content-Range")), (416, Some("bytes */13")));
        let parts = get("Range: bytes=0-4,-1\r\n");
        assert_eq!(parts.status, 206);
        let kind = parts.field("Content-Type").unwrap();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let plain = "Content-Type: text/plain; charset=utf-8\r\nContent-Range: bytes";
        let want = format!(
            "\r\n--{boundary}\r\n{plain} 0-4/13\r\n\r\nHello\
             \r\n--{boundary}\r\n{plain} 12-12/13\r\n\r\n!\r\n--{boundary}--\r\n"
        );
        assert_eq!(parts.text(), want);
        server.stop();
    }
}

#[test]
fn pipelined_requests_are_answered_in_order_and_a_body_ends_the_connection() {
    let tree = Tree::new();
    for driver in DRIVERS {
        let server = tree.serve(driver, &["--log"]);
        let mut stream = server.connect();
        let one = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        let many = [one("/hello.txt"), one("/none"), one("/dir/one.png")].concat().repeat(30);
        stream.write_all(many.as_bytes()).unwrap();
        for i in 0..90 {
            let want =
                [(200, "Hello, world!"), (404, "There is no such file.\n"), (200, "png")][i % 3];
            let answer = read(&mut stream, false);
            assert_eq!((answer.status, answer.text().as_str()), want);
        }
        let smuggled =
            "GET /hello.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\nGET /secret";
        stream.write_all(smuggled.as_bytes()).unwrap();
        let answer = read(&mut stream, false);
        assert_eq!((answer.status, answer.field("Connection")), (200, Some("close")));
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0, "and nothing else");
        let mut old = server.connect();
        old.write_all(b"GET /hello.txt HTTP/1.0\r\n\r\n").unwrap();
        let mut all = String::new();
        old.read_to_string(&mut all).unwrap();
        assert!(all.contains("Connection: close") && all.ends_with("Hello, world!"), "{all}");
        let mut bad = server.connect();
        bad.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(read(&mut bad, false).status, 400, "no host");
        let logged = server.line();
        assert!(logged.starts_with("127.0.0.1 - - [") && logged.ends_with(" 200 13"), "{logged}");
        server.interrupt();
    }
}

#[test]
fn slow_clients_are_not_waited_for() {
    let tree = Tree::new();
    fs::write(tree.root().join("big"), vec![0; 32 << 20]).unwrap();
    for driver in DRIVERS {
        let args = ["--head-timeout", "0.3", "--idle", "0.4", "--max-connections", "20"];
        let server = tree.serve(driver, &args);
        // As many as there may be, and each dribbles.
        let mut slow: Vec<_> = (0..20).map(|_| server.connect()).collect();
        for stream in &mut slow {
            stream.write_all(b"GET /hello.txt HTTP/1.1\r\nX: ").unwrap();
        }
        let dribbler = thread::spawn(move || {
            let start = Instant::now();
            while !slow.is_empty() && start.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(20));
                slow.retain_mut(|stream| stream.write_all(b"x").is_ok());
            }
            slow.len()
        });
        // This one is the 21st, and gets its turn. If the machine holds us up, we are too slow ourselves.
        let mut stream = (0..20)
            .find_map(|_| {
                let mut stream = server.connect();
                (ask(&mut stream, "GET", "/hello.txt", "").status == 200).then_some(stream)
            })
            .expect("a turn");
        assert_eq!(dribbler.join().unwrap(), 0, "{driver}: they are all gone");
        // Idle between two requests: closed, in good order.
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
        // A head that stops is told so.
        let mut stream = server.connect();
        stream.write_all(b"GET / HT").unwrap();
        assert_eq!(read(&mut stream, false).status, 408);
        // An answer that nobody takes is given up, when the server has noticed.
        let given_up = (0..6).any(|n| {
            let mut stream = server.connect();
            stream.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            thread::sleep(Duration::from_secs(1 << n));
            let mut taken = Vec::new();
            let _ = stream.read_to_end(&mut taken);
            taken.len() < 32 << 20
        });
        assert!(given_up, "{driver}");
        server.stop();
    }
}

#[test]
fn a_file_that_shrinks_ends_the_connection() {
    let tree = Tree::new();
    let path = tree.root().join("big");
    let data: Vec<u8> = (0..32u32 << 20).map(|i| (i / 4096 + 1) as u8 | 1).collect();
    for driver in DRIVERS {
        fs::write(&path, &data).unwrap();
        let server = tree.serve(driver, &[]);
        let mut stream = server.connect();
        stream.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut got = vec![0; 1 << 16];
        stream.read_exact(&mut got).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
        let _ = stream.read_to_end(&mut got); // the end, or a reset
        let begin = got.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let body = &got[begin..];
        assert!(body.len() < data.len(), "{driver}: it was not sent in full");
        // What was under way when it shrank may have been cut to zeroes by the kernel; nothing else.
        assert!(body.iter().zip(&data).all(|(a, b)| a == b || *a == 0), "{driver}: garbage");
        // The others are served.
        assert_eq!(ask(&mut server.connect(), "GET", "/hello.txt", "").status, 200);
        server.stop();
    }
}

#[test]
fn two_hundred_clients_get_every_byte() {
    let tree = Tree::new();
    let mut state = 1u64;
    let data: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(3_000_001)
    .collect();
    fs::write(tree.root().join("big"), &data).unwrap();
    let huge = data.repeat(20);
    fs::write(tree.root().join("huge"), &huge).unwrap();
    for driver in DRIVERS {
        let server = tree.serve(driver, &[]);
        thread::scope(|s| {
            for i in 0..200usize {
                let (mut stream, data) = (server.connect(), &data);
                s.spawn(move || {
                    for size in [1usize, 1000, 16_384, 16_385, 200_000] {
                        let first = i * 7_919;
                        let range = format!("Range: bytes={first}-{}\r\n", first + size - 1);
                        let part = ask(&mut stream, "GET", "/big", &range);
                        assert!(part.status == 206 && part.body == data[first..first + size]);
                    }
                });
            }
            for (target, want) in [("/huge", &huge), ("/big", &data)] {
                let mut stream = server.connect();
                s.spawn(move || assert!(ask(&mut stream, "GET", target, "").body == *want));
            }
        });
        let (connections, served, complaints) = server.stop();
        assert_eq!((connections, served), (202, 1002), "{complaints:?}");
    }
}

#[test]
fn what_is_no_directory_is_refused_at_the_start() {
    for (args, want) in [
        (&["/no/such/directory"][..], "/no/such/directory"),
        (&["/etc/passwd"], "not a directory"),
        (&["--max-connections", "0"], "at least 1"),
    ] {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_httpfile")).args(args).output();
        let out = out.unwrap();
        let text = String::from_utf8_lossy(&out.stderr).to_lowercase();
        assert!(!out.status.success() && text.contains(want), "{text}");
    }
}
