//! Servers and clients of the web, and the proxy: each started, used, and stopped.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::number_before;
use super::server::{Programs, Server};
use crate::load::{self, Answer};

/// Some pages that link to each other, and a file for ranges.
const PAGES: usize = 200;
const FILE: usize = 3 << 20;

/// `httpfile`, asked for ranges, and then crawled from one end to the other.
pub(super) fn httpfile(programs: &Programs, dir: &Path) -> Result<(), String> {
    let site = dir.join("site");
    let file = make(&site).map_err(|e| format!("{}: {e}", site.display()))?;
    let server = Server::with(programs, programs.cmd("httpfile").arg(&site))?;
    let get = |path: &str, field: &str| load::get(server.addr, path, field);
    let expect = |answer: Answer, status: &str, body: &[u8]| {
        if answer.head.starts_with(&format!("HTTP/1.1 {status} ")) && answer.body == body {
            return Ok(answer.head);
        }
        Err(format!("not {status} with {} bytes: {}", body.len(), answer.head))
    };
    let head = expect(get("/file", "")?, "200", &file)?;
    let tag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).ok_or("no ETag")?;
    expect(get("/file", &format!("If-None-Match: {tag}\r\n"))?, "304", b"")?;
    let last = FILE - 1;
    expect(get("/file", "Range: bytes=1000000-1999999\r\n")?, "206", &file[1_000_000..2_000_000])?;
    expect(get("/file", &format!("Range: bytes={last}-\r\n"))?, "206", &file[last..])?;
    let escape = get("/%2e%2e/%2e%2e/etc/passwd", "")?;
    if !escape.head.starts_with("HTTP/1.1 4") {
        return Err(format!("a path that leads out was answered: {}", escape.head));
    }
    crawl(programs, &server)?;
    let served = number_before(&server.stop()?, " requests");
    if served < Some(PAGES as u64) {
        return Err(format!("{PAGES} pages were crawled, but it counts {served:?} requests"));
    }
    Ok(())
}

fn make(site: &Path) -> std::io::Result<Vec<u8>> {
    fs::create_dir_all(site)?;
    for n in 0..PAGES {
        let links: String =
            [2 * n + 1, 2 * n + 2].map(|to| format!("<a href={}.html>on</a>", to % PAGES)).concat();
        fs::write(site.join(format!("{n}.html")), links)?;
    }
    let file: Vec<u8> = (0..FILE as u32).map(|n| (n / 251 + n % 256) as u8).collect();
    fs::write(site.join("file"), &file)?;
    Ok(file)
}

fn crawl(programs: &Programs, server: &Server) -> Result<(), String> {
    let report = programs
        .cmd("crawl")
        .args(&format!("http://{}/0.html --json --depth 20 --per-host 100", server.addr))
        .env("BAST_DRIVER", programs.driver)
        .limit(Duration::from_secs(60))
        .run_and_read()?;
    let report: serde_json::Value =
        serde_json::from_str(&report).map_err(|e| format!("crawl's report: {e}"))?;
    if report["pages"] != PAGES || report["broken"].as_array().is_none_or(|b| !b.is_empty()) {
        return Err(format!("not {PAGES} pages without a broken link: {report}"));
    }
    Ok(())
}

/// `https`, asked by itself. It knows the server by the fingerprint, and nobody else's.
pub(super) fn https(programs: &Programs) -> Result<(), String> {
    let server = Server::listening(programs, "https")?;
    let pin = server.said.split_once("--pin ").and_then(|(_, rest)| rest.lines().next());
    let pin = pin.ok_or("no fingerprint")?.to_string();
    let get = |pin: &str| {
        programs
            .cmd("https")
            .args(&format!("--get https://{}/ --pin {pin}", server.addr))
            .env("BAST_DRIVER", programs.driver)
            .limit(Duration::from_secs(30))
    };
    if !get(&pin).run_and_read()?.contains("<h1>It works</h1>") {
        return Err("the page has not come".into());
    }
    let other: String = pin.chars().rev().collect();
    get(&other).must_fail_with("say whom to believe")?;
    let totals = server.stop()?;
    match number_before(&totals, " requests") {
        Some(1) => Ok(()),
        _ => Err(format!("one request was answered, but: {totals}")),
    }
}

/// `chat`: that it can be seen, and that it ends although a guest is silent.
pub(super) fn chat(programs: &Programs) -> Result<(), String> {
    let help = programs.cmd("chat").args("--help").run_and_read()?;
    if !help.contains("Examples:") {
        return Err("its --help has no examples".into());
    }
    let server = Server::listening(programs, "chat")?;
    let page = load::get(server.addr, "/", "")?;
    if !page.head.starts_with("HTTP/1.1 200 ") || page.body.is_empty() {
        return Err(format!("it has no page: {}", page.head));
    }
    let silent = load::connect(server.addr)?;
    server.stop()?;
    drop(silent);
    Ok(())
}

/// `proxy` in front of `echo`, and then in front of nobody.
pub(super) fn proxy(programs: &Programs) -> Result<(), String> {
    let behind = Server::with(programs, programs.cmd("echo"))?;
    let to = |addr| programs.cmd("proxy").args(&format!("--to {addr}"));
    let proxy = Server::with(programs, to(behind.addr))?;
    let bytes = load::echo(proxy.addr, 8, 4 << 20)?;
    behind.stop()?;
    let totals = proxy.stop()?;
    match number_before(&totals, " bytes") {
        Some(counted) if counted == bytes => Ok(()),
        _ => Err(format!("{bytes} bytes went through, but: {totals}")),
    }
}
