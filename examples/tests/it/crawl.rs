//! `crawl`: a small site with everything that a crawler meets, counted exactly.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bast::CancelToken;
use bast::net::{TcpListener, TcpStream};
use bast_examples::accept;
use bast_examples::crawl::report::Report;
use bast_examples::crawl::transport::agent;
use bast_examples::crawl::{Options, Progress, crawl};
use bast_examples::head;
use bast_examples::https::certs::Identity;

use crate::fibers::{help_is_good, on_drivers, with_server};

/// Longer than anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

type Page<'a> = dyn Fn(&str, &mut TcpStream) -> io::Result<()> + Sync + 'a;

/// Serves pages, several on a connection.
fn site(listener: &TcpListener, stop: &CancelToken, page: &Page<'_>) {
    accept::serve(listener, 10_000, stop, |mut stream, _| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let connection = || -> io::Result<()> {
            while let Ok(Some(request)) = head::read(&mut reader) {
                page(&request.uri().to_string(), &mut stream)?;
            }
            Ok(())
        };
        // Whoever waits for his next request does not hold up the end.
        let _ = stop.run(connection);
    });
}

fn with_site(page: &Page<'_>, test: impl FnOnce(SocketAddr)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    with_server(|stop| site(&listener, stop, page), |_| test(addr));
}

fn answer(out: &mut TcpStream, status: &str, fields: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(out, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{fields}\r\n{body}")
}

fn html(out: &mut TcpStream, body: &str) -> io::Result<()> {
    answer(out, "200 OK", "Content-Type: text/html; charset=utf-8\r\n", body)
}

fn to(out: &mut TcpStream, place: &str) -> io::Result<()> {
    answer(out, "302 Found", &format!("Location: {place}\r\n"), "")
}

fn options(start: &str) -> Options {
    Options {
        start: vec![start.parse().unwrap()],
        depth: 10,
        concurrency: 50,
        per_host: 50,
        timeout: PATIENCE,
        max_body: 1 << 16,
        anywhere: false,
        robots: true,
    }
}

const NO_ROOTS: [&[u8]; 0] = [];

fn run(options: &Options) -> Report {
    let agent = agent(options.timeout, options.per_host, &NO_ROOTS);
    crawl(options, &agent, &Progress::default(), &CancelToken::new())
}

fn broken(report: &Report) -> BTreeMap<&str, (&str, usize)> {
    report.broken.iter().map(|b| (path(&b.link), (&b.why[..], b.on.len()))).collect()
}

fn path(link: &str) -> &str {
    link.strip_prefix("http://127.0.0.1:").map_or(link, |rest| &rest[rest.find('/').unwrap()..])
}

#[test]
fn everything_is_counted() {
    let page = |path: &str, out: &mut TcpStream| match path {
        "/robots.txt" => answer(out, "200 OK", "", "User-agent: *\nDisallow: /private/\n"),
        "/" => html(
            out,
            "<a href=a>a</a> <a href=/b#part>b</a> <a href=/missing>-</a> <a href=/moved>m</a>
             <a href=/circle>c</a> <a href=/lost>l</a> <a href=/huge>h</a> <img src=/picture>
             <a href=/private/x>p</a> <a href=/error>e</a> <a href=/liar>l</a> <a href=/mute>m</a>
             <a href=http://[bad>g</a> <a href=mailto:x@y>x</a> <a href=http://127.0.0.1:9/>o</a>
             <a href=/nowhere>n</a>",
        ),
        "/a" => html(out, "<a href=/b>b</a> <a href=/>home</a> <a href=/missing>-</a>"),
        "/b" => html(out, "<a href=/a>a</a> <a href=/1>1</a>"),
        "/1" => html(out, "<a href=/2>2</a>"),
        "/2" => html(out, "<a href=/3>3</a> <a href=/2>2</a>"),
        "/3" => html(out, "<a href=/4>4</a>"),
        "/moved" => to(out, "/target"),
        "/target" => html(out, "<a href=/a>a</a>"),
        "/circle" => to(out, "/circle2"),
        "/circle2" => to(out, "/circle"),
        "/lost" => to(out, "/missing"),
        "/nowhere" => to(out, "http://[bad"),
        "/huge" => {
            let length = 1_u64 << 40;
            let kind = "Content-Type: text/html";
            write!(out, "HTTP/1.1 200 OK\r\n{kind}\r\nContent-Length: {length}\r\n\r\n")?;
            out.write_all(b"<a href=/in-huge>x</a>")?;
            loop {
                out.write_all(&[b' '; 4096])?; // until the crawler has had enough
            }
        }
        "/in-huge" => html(out, ""),
        "/picture" => answer(out, "200 OK", "Content-Type: image/png\r\n", "<a href=/no>no</a>"),
        "/error" => answer(out, "500 Oh", "Content-Type: text/html\r\n", "<a href=/no>no</a>"),
        "/liar" => {
            out.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        "/mute" => Err(io::ErrorKind::ConnectionAborted.into()),
        "/private/x" => panic!("robots.txt forbids it"),
        _ => answer(out, "404 Not Found", "", "nothing"),
    };
    on_drivers(|| {
        with_site(&page, |addr| {
            let report = run(&Options { depth: 4, ..options(&format!("http://{addr}/")) });
            // /, a, b, target, picture, huge, in-huge, 1, 2 and 3, which is four clicks from /.
            let statuses = BTreeMap::from([(200, 10), (302, 5), (404, 1), (500, 1)]);
            assert_eq!(report.statuses, statuses, "{report}");
            assert_eq!((report.pages, report.failed, report.addresses), (10, 2, 19), "{report}");
            assert_eq!((report.outside, report.too_deep, report.forbidden), (1, 1, 1), "{report}");
            assert_eq!((report.cut, report.interrupted), (1, false));
            assert!(report.bytes > 1 << 16 && report.bytes < (1 << 16) + 2000, "{report}");
            let broken = broken(&report);
            assert_eq!(broken["/missing"], ("404", 2));
            assert_eq!(broken["/error"], ("500", 1));
            assert_eq!(broken["/circle"], ("redirects in a circle", 1));
            let lost = format!("redirects to http://{addr}/missing: 404");
            assert_eq!(broken["/lost"], (&lost[..], 1));
            assert_eq!(broken["/nowhere"], ("redirects to what is no address", 1));
            assert_eq!(broken["http://[bad"], ("no address", 1));
            assert!(broken.contains_key("/liar") && broken.contains_key("/mute"), "{report}");
            assert_eq!(broken.len(), 8, "{report}");
            // Both forms say the same.
            let (text, json) = (report.to_string(), report.to_json());
            assert!(text.contains("19 addresses: 10 pages, 5 redirects, 4 failures;"), "{text}");
            assert!(text.contains(&format!("broken: http://{addr}/error (500) on http://{addr}/")));
            assert_eq!(json["statuses"]["302"], 5);
            assert_eq!(json["broken"].as_array().unwrap().len(), 8);
        });
    });
}

#[test]
fn a_thousand_requests_wait_at_once() {
    const PAGES: usize = 1000;
    bast_examples::os::raise_open_files();
    on_drivers(|| {
        let all_have_come = bast::sync::Barrier::new(PAGES);
        let page = |path: &str, out: &mut TcpStream| match path {
            "/" => {
                let links: Vec<_> = (0..PAGES).map(|n| format!("<a href=/{n}>")).collect();
                html(out, &links.concat())
            }
            "/robots.txt" => answer(out, "404 Not Found", "", ""),
            _ => {
                // Nobody is answered before all have asked.
                all_have_come.wait();
                html(out, "")
            }
        };
        with_site(&page, |addr| {
            let start = format!("http://{addr}/");
            let report = run(&Options { concurrency: PAGES, per_host: PAGES, ..options(&start) });
            assert_eq!((report.pages, report.broken.len()), (PAGES + 1, 0), "{report}");
        });
    });
}

#[test]
fn a_host_gets_so_many_requests_and_connections_are_used_again() {
    // As many as it takes for a suspension under ureq's mutex to hang the workers.
    const PAGES: usize = 3000;
    const AT_ONCE: usize = 30;
    on_drivers(|| {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let page = |path: &str, out: &mut TcpStream| match path {
            "/" => {
                let links: Vec<_> = (0..PAGES).map(|n| format!("<a href=/{n}>")).collect();
                html(out, &links.concat())
            }
            _ => {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                bast::sleep(Duration::from_millis(1));
                now.fetch_sub(1, SeqCst);
                html(out, "")
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let start = format!("http://{}/", listener.local_addr().unwrap());
        let connections = AtomicUsize::new(0);
        with_server(
            |stop| {
                accept::serve(&listener, 100, stop, |mut stream, _| {
                    connections.fetch_add(1, SeqCst);
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let _ = stop.run(|| {
                        while let Ok(Some(request)) = head::read(&mut reader) {
                            page(request.uri().path(), &mut stream).unwrap();
                        }
                    });
                })
            },
            |_| {
                let report = run(&Options { per_host: AT_ONCE, ..options(&start) });
                assert_eq!((report.pages, report.broken.len()), (PAGES + 1, 0), "{report}");
            },
        );
        assert!(most.load(SeqCst) <= AT_ONCE, "{most:?} at once");
        // A closed or a new one now and then does no harm; one for each page would.
        assert!(connections.load(SeqCst) <= 10 * AT_ONCE, "{connections:?} connections");
    });
}

#[test]
fn who_is_too_slow_is_given_up() {
    let page = |path: &str, out: &mut TcpStream| match path {
        "/" => html(out, "<a href=/stalls>s</a> <a href=/drips>d</a> <a href=/quick>q</a>"),
        "/stalls" => {
            bast::sleep(Duration::MAX);
            Ok(())
        }
        "/drips" => {
            out.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")?;
            loop {
                out.write_all(b".")?;
                bast::sleep(Duration::from_millis(20));
            }
        }
        _ => html(out, ""),
    };
    on_drivers(|| {
        with_site(&page, |addr| {
            let timeout = Duration::from_secs(4);
            let report = run(&Options { timeout, ..options(&format!("http://{addr}/")) });
            assert_eq!((report.pages, report.failed), (2, 2), "{report}");
            let broken = broken(&report);
            assert_eq!(broken["/stalls"], ("no answer in 4s", 1));
            assert_eq!(broken["/drips"], ("no answer in 4s", 1));
        });
    });
}

#[test]
fn a_crawl_can_be_stopped_and_tells_what_there_was() {
    on_drivers(|| {
        let stop = CancelToken::new();
        let page = |path: &str, out: &mut TcpStream| match path {
            "/" => html(out, "<a href=/1>1</a> <a href=/2>2</a> <a href=/3>3</a>"),
            "/robots.txt" => answer(out, "404 Not Found", "", ""),
            _ => {
                stop.cancel();
                bast::sleep(Duration::MAX);
                Ok(())
            }
        };
        with_site(&page, |addr| {
            let start = Instant::now();
            let options = options(&format!("http://{addr}/"));
            let agent = agent(PATIENCE, 10, &NO_ROOTS);
            let report = crawl(&options, &agent, &Progress::default(), &stop);
            assert!(report.interrupted && report.to_string().contains("interrupted"), "{report}");
            assert_eq!((report.addresses, report.pages), (1, 1), "{report}");
            assert!(start.elapsed() < PATIENCE, "nobody waits for the limit");
        });
    });
}

#[test]
fn other_hosts_are_left_alone_unless_told() {
    on_drivers(|| {
        let asked = AtomicUsize::new(0);
        let other = |_: &str, out: &mut TcpStream| {
            asked.fetch_add(1, SeqCst);
            html(out, "")
        };
        with_site(&other, |other| {
            let page =
                |_: &str, out: &mut TcpStream| html(out, &format!("<a href=http://{other}/>"));
            with_site(&page, |addr| {
                let options = Options { robots: false, ..options(&format!("http://{addr}/")) };
                let report = run(&options);
                assert_eq!(
                    (report.pages, report.outside, asked.load(SeqCst)),
                    (1, 1, 0),
                    "{report}"
                );
                let report = run(&Options { anywhere: true, ..options });
                assert_eq!(
                    (report.pages, report.outside, asked.load(SeqCst)),
                    (2, 0, 1),
                    "{report}"
                );
            });
        });
    });
}

#[test]
fn hosts_that_are_not_there_are_told_by_name() {
    on_drivers(|| {
        // A port that nobody listens on, for it was ours a moment ago.
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let report = run(&options(&format!("http://{gone}/")));
        assert_eq!((report.pages, report.failed), (0, 1));
        assert!(report.broken[0].why.contains("refused"), "{report}");
        // A name so long that no server is asked for it.
        let report = run(&options(&format!("http://{}.invalid/", "x".repeat(64))));
        assert_eq!((report.pages, report.failed), (0, 1), "{report}");
    });
}

#[test]
fn tls_is_ureqs_own_over_the_same_sockets() {
    on_drivers(|| {
        let identity = Identity::self_signed(&["localhost".into()]).unwrap();
        let roots = identity.chain.clone();
        let config = identity.into_config().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let start = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let limits = bast_examples::https::Limits::default();
        let server = |stop: &CancelToken| {
            bast_examples::https::serve(&listener, &config, &limits, stop);
        };
        with_server(server, |stop| {
            let options = Options { robots: false, ..options(&start) };
            let believing = agent(PATIENCE, 10, &roots);
            let report = crawl(&options, &believing, &Progress::default(), &CancelToken::new());
            assert_eq!((report.pages, report.broken.len()), (1, 0), "{report}");
            let report = run(&options);
            assert!(report.broken[0].why.contains("certificate"), "{report}");
            stop.cancel();
        });
    });
}

#[test]
fn the_program_reports_as_text_and_as_json() {
    on_drivers(|| {
        let page = |path: &str, out: &mut TcpStream| match path {
            "/" => html(out, "<a href=/a>a</a> <a href=/missing>m</a>"),
            "/a" => html(out, ""),
            _ => answer(out, "404 Not Found", "", ""),
        };
        with_site(&page, |addr| {
            let crawl = |path: &str, flags: &'static [&str]| {
                let (start, program) =
                    (format!("http://{addr}{path}"), env!("CARGO_BIN_EXE_crawl"));
                let output = move || Command::new(program).arg(start).args(flags).output().unwrap();
                bast::blocking(output)
            };
            let output = crawl("/", &[]);
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(
                text.contains("3 addresses: 2 pages") && text.contains("/missing (404) on "),
                "{text}"
            );
            assert!(output.stderr.is_empty(), "no bar where there is no terminal");
            let output = crawl("/a", &["--json", "--no-robots"]);
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(output.status.code(), Some(0), "{json}");
            assert_eq!((json["pages"].as_u64(), json["addresses"].as_u64()), (Some(1), Some(1)));
        });
    });
    let wrong = Command::new(env!("CARGO_BIN_EXE_crawl")).arg("ftp://a/").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("https://… is needed"));
}

#[test]
fn help() {
    let flags = ["--depth", "--concurrency", "--per-host", "--timeout", "--json", "robots.txt"];
    help_is_good(env!("CARGO_BIN_EXE_crawl"), &flags);
}
