//! The same databases and the same questions, to rrdtool itself. Run by `cargo xtask rrd`.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rrd_file::write::Reading;
use rrd_file::{Cf, Header, Query, fetch};

use crate::random::Random;
use crate::shape::Shape;
use crate::text;

/// A `rrdtool -`, which answers commands one after the other, in a directory that is removed in the end.
struct Rrdtool {
    child: Child,
    commands: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    dir: PathBuf,
}

impl Rrdtool {
    fn start(name: &str) -> Rrdtool {
        let dir = std::env::temp_dir().join(format!("rrd-file-{name}-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let mut command = Command::new("rrdtool");
        command.arg("-").current_dir(&dir).env("TZ", "UTC").env("LC_ALL", "C");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let replies = BufReader::new(child.stdout.take().unwrap());
        Rrdtool { commands: child.stdin.take(), child, replies, dir }
    }

    /// What it says before `OK`, or its error.
    fn ask(&mut self, command: &str) -> Result<String, String> {
        writeln!(self.commands.as_ref().unwrap(), "{command}").unwrap();
        let mut reply = String::new();
        loop {
            let begin = reply.len();
            assert!(self.replies.read_line(&mut reply).unwrap() > 0, "{command}: it has ended");
            match &reply[begin..] {
                line if line.starts_with("ERROR: ") => return Err(line.trim_end().into()),
                line if line.starts_with("OK ") => {
                    reply.truncate(begin);
                    return Ok(reply);
                }
                _ => {}
            }
        }
    }

    fn create(&mut self, file: &str, shape: &Shape) {
        let mut command = format!("create {file} --start {} --step {}", shape.start, shape.step);
        let limit = |n: f64| if n.is_nan() { "U".into() } else { n.to_string() };
        for source in &shape.sources {
            let (kind, name) = (format!("{:?}", source.kind).to_uppercase(), &source.name);
            let (min, max) = (limit(source.min), limit(source.max));
            write!(command, " DS:{name}:{kind}:{}:{min}:{max}", source.heartbeat).unwrap();
        }
        for archive in &shape.archives {
            let (cf, xff) = (archive.cf, archive.xff);
            write!(command, " RRA:{cf}:{xff}:{}:{}", archive.steps, archive.rows).unwrap();
        }
        self.ask(&command).unwrap();
        self.update(file, shape, 0);
    }

    /// The updates from this number on.
    fn update(&mut self, file: &str, shape: &Shape, from: usize) {
        for updates in shape.updates[from..].chunks(30) {
            let mut command = format!("update {file}");
            for (time, readings) in updates {
                write!(command, " {time}").unwrap();
                for reading in readings {
                    match reading {
                        Reading::Unknown => command.push_str(":U"),
                        Reading::Value(value) => write!(command, ":{value}").unwrap(),
                        Reading::Count(count) => write!(command, ":{count}").unwrap(),
                    }
                }
            }
            self.ask(&command).unwrap();
        }
    }

    /// Everything in two files has to be the same, but for where their rings begin.
    fn compare_dumps(&mut self, file: &str, theirs: &str) {
        let [ours, theirs] = [file, theirs].map(|file| self.ask(&format!("dump {file}")).unwrap());
        let mut lines = ours.lines().zip(theirs.lines()).enumerate();
        if let Some((line, (ours, theirs))) = lines.find(|(_, (ours, theirs))| ours != theirs) {
            panic!("{file}, line {line}: {ours} instead of {theirs}");
        }
        assert_eq!(ours.len(), theirs.len());
    }

    /// Its answer and ours have to be the same text, or both an error. Says whether there is an answer.
    fn compare(&mut self, file: &str, query: &Query) -> bool {
        let theirs = self.ask(&format!("fetch {file} {}", text::arguments(query)));
        let bytes = fs::read(self.dir.join(file)).unwrap();
        match (fetch(&bytes, query), theirs) {
            (Ok(ours), Ok(theirs)) => {
                assert_eq!(text::rows(&ours), text::normal(&theirs), "{file}: {query:?}");
                true
            }
            (Err(_), Err(_)) => false,
            (ours, theirs) => panic!("{file}: {query:?}: {ours:?} instead of {theirs:?}"),
        }
    }
}

impl Drop for Rrdtool {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.child.wait();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

#[test]
#[ignore = "needs rrdtool: cargo xtask rrd"]
fn five_hundred_databases() {
    let mut rrdtool = Rrdtool::start("databases");
    let (mut answers, mut errors) = (0, 0);
    for seed in 0..500 {
        let random = &mut Random::new(seed);
        let mut shape = Shape::random(random);
        let (ours, theirs) = (format!("{seed}-ours.rrd"), format!("{seed}.rrd"));
        rrdtool.create(&theirs, &shape);
        fs::write(rrdtool.dir.join(&ours), shape.build().bytes()).unwrap();
        rrdtool.compare_dumps(&ours, &theirs);
        rrdtool.ask(&format!("info {ours}")).unwrap();
        for _ in 0..10 {
            let query = shape.query(random);
            match rrdtool.compare(&theirs, &query) & rrdtool.compare(&ours, &query) {
                true => answers += 1,
                false => errors += 1,
            }
        }
        // Where we have begun rrdtool goes on.
        let from = shape.updates.len();
        shape.update(random, 20);
        rrdtool.update(&ours, &shape, from);
        rrdtool.update(&theirs, &shape, from);
        rrdtool.compare_dumps(&ours, &theirs);
    }
    assert!(answers > 3000 && errors > 100, "{answers} answers, {errors} errors");
}

#[test]
#[ignore = "needs rrdtool: cargo xtask rrd"]
fn functions_that_predict() {
    let mut rrdtool = Rrdtool::start("predict");
    let create = "create hw.rrd --start 1700000000 --step 300 DS:a:GAUGE:600:U:U \
                  RRA:AVERAGE:0.5:1:50 RRA:MHWPREDICT:60:0.1:0.0035:12";
    rrdtool.ask(create).unwrap();
    for n in 1..80 {
        let update = format!("update hw.rrd {}:{}", 1_700_000_000 + n * 300, n % 12 * 10);
        rrdtool.ask(&update).unwrap();
    }
    let bytes = fs::read(rrdtool.dir.join("hw.rrd")).unwrap();
    assert_eq!(Header::parse(&bytes).unwrap().version(), 4);
    for cf in [Cf::MhwPredict, Cf::Seasonal, Cf::DevPredict, Cf::DevSeasonal, Cf::Failures] {
        assert!(rrdtool.compare("hw.rrd", &Query::new(cf, 1_700_001_000, 1_700_020_000)));
    }
    assert!(!rrdtool.compare("hw.rrd", &Query::new(Cf::HwPredict, 1_700_001_000, 1_700_020_000)));
}

/// What has been committed is what this rrdtool says.
#[test]
#[ignore = "needs rrdtool: cargo xtask rrd"]
fn fixtures_are_as_rrdtool_says() {
    let mut rrdtool = Rrdtool::start("fixtures");
    let mut compared = 0;
    for fixture in text::fixtures() {
        let path = Path::new(text::FIXTURES).join(&fixture.file);
        fs::copy(path, rrdtool.dir.join(&fixture.file)).unwrap();
        for (query, answer) in &fixture.answers {
            let command = format!("fetch {} {}", fixture.file, text::arguments(query));
            match rrdtool.ask(&command) {
                Ok(reply) => assert_eq!(text::normal(&reply), *answer, "{command}"),
                // It reads only what its own machine has written.
                Err(error) => assert!(!fixture.file.contains("x86-64"), "{command}: {error}"),
            }
            compared += 1;
        }
    }
    assert!(compared > 20);
}
