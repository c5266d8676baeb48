//! Other ways to do it. Each writes what `rrd-export` does, into a file.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rrd_file::{Cf, Query, format_time, format_value};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::sync::Mutex;

use crate::micro;

/// The files, and the time they are asked for.
pub(super) struct List<'a> {
    from: i64,
    to: i64,
    files: Vec<(&'a str, &'a str)>,
}

type Result<T> = std::result::Result<T, String>;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl<'a> List<'a> {
    pub(super) fn parse(list: &'a str) -> Result<List<'a>> {
        let mut lines = list.lines().filter_map(|line| line.split_once('\t'));
        let (from, to) = lines.next().ok_or("the list is empty")?;
        Ok(List {
            from: from.parse().map_err(text)?,
            to: to.parse().map_err(text)?,
            files: lines.collect(),
        })
    }

    fn command(&self, path: &str) -> String {
        format!("fetch {path} AVERAGE -s {} -e {}\n", self.from, self.to)
    }
}

pub(super) fn run(subject: &str, rrdtools: usize, list: &List<'_>, out: &Path) -> Result<()> {
    match subject {
        "sequential" => in_turn(list, &list.files, out),
        "processes" => processes(list, rrdtools, out),
        "tokio-multi" => tokio_pool(list, rrdtools, out),
        "floor" => floor(list, out),
        _ => Err(format!("{subject} does not run {}", super::NAME)),
    }
}

/// Appends a reply's line as a line of the output. `false`: it is the reply's last.
fn convert(line: &[u8], constant: &str, out: &mut Vec<u8>) -> Result<bool> {
    if line.starts_with(b"OK u:") {
        return Ok(false);
    }
    if line.starts_with(b"ERROR") {
        return Err(String::from_utf8_lossy(line).into_owned());
    }
    // The head is two lines without a time.
    let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Ok(true) };
    out.extend_from_slice(&line[..colon]);
    out.extend_from_slice(constant.as_bytes());
    for (place, value) in line[colon + 1..].trim_ascii().split(|byte| *byte == b' ').enumerate() {
        if place > 0 {
            out.push(b',');
        }
        if !value.ends_with(b"nan") {
            out.extend_from_slice(value);
        }
    }
    out.push(b'\n');
    Ok(true)
}

/// One rrdtool, one file after the other.
fn in_turn(list: &List<'_>, files: &[(&str, &str)], out: &Path) -> Result<()> {
    let mut child = Command::new("rrdtool")
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(text)?;
    let mut stdin = child.stdin.take().ok_or("no pipe")?;
    let mut stdout = BufReader::with_capacity(1 << 16, child.stdout.take().ok_or("no pipe")?);
    let mut out = BufWriter::with_capacity(1 << 17, File::create(out).map_err(text)?);
    let (mut line, mut block) = (Vec::new(), Vec::new());
    for (path, constant) in files {
        stdin.write_all(list.command(path).as_bytes()).map_err(text)?;
        block.clear();
        loop {
            line.clear();
            if stdout.read_until(b'\n', &mut line).map_err(text)? == 0 {
                return Err("rrdtool has ended".into());
            }
            if !convert(&line, constant, &mut block)? {
                break;
            }
        }
        out.write_all(&block).map_err(text)?;
    }
    out.flush().map_err(text)?;
    drop(stdin);
    child.wait().map_err(text).map(drop)
}

/// This program again, with a part of the list for each; then the parts are put together.
fn processes(list: &List<'_>, count: usize, out: &Path) -> Result<()> {
    let here = std::env::current_exe().map_err(text)?;
    let name = |what: &str, n: usize| out.with_extension(format!("{what}{n}"));
    let mut children = Vec::new();
    for (n, files) in list.files.chunks(list.files.len().div_ceil(count)).enumerate() {
        let mut part = format!("{}\t{}\n", list.from, list.to);
        files.iter().for_each(|(path, constant)| part += &format!("{path}\t{constant}\n"));
        fs::write(name("list", n), part).map_err(text)?;
        let mut command = Command::new(&here);
        command.args(["subject", super::NAME, "1", "sequential", "0", "0"]);
        command.env(super::FLEET, name("list", n)).env(super::OUT, name("part", n));
        children.push(command.spawn().map_err(text)?);
    }
    let mut all = File::create(out).map_err(text)?;
    for (n, mut child) in children.into_iter().enumerate() {
        let status = child.wait().map_err(text)?;
        if !status.success() {
            return Err(format!("part {n}: {status}"));
        }
        std::io::copy(&mut File::open(name("part", n)).map_err(text)?, &mut all).map_err(text)?;
        for what in ["list", "part"] {
            fs::remove_file(name(what, n)).map_err(text)?;
        }
    }
    Ok(())
}

/// Tasks with an rrdtool each, which take files and put blocks down under a lock.
fn tokio_pool(list: &List<'_>, count: usize, out: &Path) -> Result<()> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let work: Vec<_> =
        list.files.iter().map(|(path, c)| (list.command(path), (*c).to_owned())).collect();
    let out = File::create(out).map_err(text)?;
    micro::tokio_runtime("tokio-multi", cores)?.block_on(async move {
        let work = std::sync::Arc::new(std::sync::Mutex::new(work.into_iter()));
        let out = BufWriter::with_capacity(1 << 17, out);
        let out = std::sync::Arc::new(Mutex::new(out));
        let tasks: Vec<_> = (0..count)
            .map(|_| {
                let (work, out) = (work.clone(), out.clone());
                tokio::spawn(async move {
                    let mut child = tokio::process::Command::new("rrdtool")
                        .arg("-")
                        .stdin(Stdio::piped())
                        .stdout(Stdio::piped())
                        .spawn()
                        .map_err(text)?;
                    let mut stdin = child.stdin.take().ok_or("no pipe")?;
                    let stdout = child.stdout.take().ok_or("no pipe")?;
                    let mut stdout = tokio::io::BufReader::with_capacity(1 << 16, stdout);
                    let (mut line, mut block) = (Vec::new(), Vec::new());
                    loop {
                        let next = work.lock().map_err(text)?.next();
                        let Some((command, constant)) = next else { break };
                        stdin.write_all(command.as_bytes()).await.map_err(text)?;
                        block.clear();
                        loop {
                            line.clear();
                            if stdout.read_until(b'\n', &mut line).await.map_err(text)? == 0 {
                                return Err("rrdtool has ended".to_owned());
                            }
                            if !convert(&line, &constant, &mut block)? {
                                break;
                            }
                        }
                        out.lock().await.write_all(&block).map_err(text)?;
                    }
                    drop(stdin);
                    child.wait().await.map_err(text).map(drop)
                })
            })
            .collect();
        for task in tasks {
            task.await.map_err(text)??;
        }
        out.lock().await.flush().map_err(text)
    })
}

/// What nobody can do without: read every file, decode it, format it; a thread for each core, and no more.
fn floor(list: &List<'_>, out: &Path) -> Result<()> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let query = Query::new(Cf::Average, list.from, list.to);
    let out = std::sync::Mutex::new(File::create(out).map_err(text)?);
    let part = |files: &[(&str, &str)]| -> Result<()> {
        let mut block = Vec::with_capacity(1 << 18);
        for (place, (path, constant)) in files.iter().enumerate() {
            let bytes = fs::read(path).map_err(text)?;
            for (time, values) in rrd_file::fetch(&bytes, &query).map_err(text)?.rows() {
                format_time(time, &mut block);
                block.extend_from_slice(constant.as_bytes());
                for (place, value) in values.iter().enumerate() {
                    if place > 0 {
                        block.push(b',');
                    }
                    format_value(*value, &mut block);
                }
                block.push(b'\n');
            }
            if block.len() >= 1 << 17 || place + 1 == files.len() {
                out.lock().map_err(text)?.write_all(&block).map_err(text)?;
                block.clear();
            }
        }
        Ok(())
    };
    thread::scope(|s| {
        let parts = list.files.chunks(list.files.len().div_ceil(cores));
        let threads: Vec<_> = parts.map(|files| s.spawn(|| part(files))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a panic".to_owned())?)
    })
}
