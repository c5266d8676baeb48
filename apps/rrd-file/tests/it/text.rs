//! What `rrdtool fetch` prints, and files with what it has printed.

use std::fs;

use rrd_file::{Fetched, Query, format_value};

/// The rows as `rrdtool fetch` prints them, but for NaN, which may be `nan` or `-nan`.
pub(crate) fn rows(fetched: &Fetched) -> String {
    let mut text = Vec::new();
    for (time, values) in fetched.rows() {
        text.extend_from_slice(format!("{time:>10}:").as_bytes());
        for value in values {
            text.push(b' ');
            format_value(*value, &mut text);
            if value.is_nan() {
                text.extend_from_slice(b"nan");
            }
        }
        text.push(b'\n');
    }
    let names: String = fetched.sources.iter().map(|name| format!("{name:>20}")).collect();
    format!("{:11}{names}\n\n{}", "", String::from_utf8(text).unwrap())
}

/// What rrdtool has printed, with one kind of NaN. (Names have no space between them if they are long.)
pub(crate) fn normal(reply: &str) -> String {
    reply.replace(" -nan", " nan")
}

/// The arguments of `rrdtool fetch FILE`.
pub(crate) fn arguments(query: &Query) -> String {
    let Query { cf, from, to, resolution } = query;
    let resolution = resolution.map(|seconds| format!(" -r {seconds}")).unwrap_or_default();
    format!("{cf} -s {from} -e {to}{resolution}")
}

/// Where files made by rrdtool are: `make.sh` there has made them.
pub(crate) const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

/// Of each of these there is a file `mixed-MACHINE`, all with the same values.
pub(crate) const MACHINES: [&str; 5] = ["x86-64", "s390x", "i386", "armhf", "armhf-2038"];

/// A file, and what rrdtool has answered about it.
pub(crate) struct Fixture {
    pub(crate) file: String,
    pub(crate) answers: Vec<(Query, String)>,
}

/// All of them. A question is a line that begins with `> `.
pub(crate) fn fixtures() -> Vec<Fixture> {
    let mut fixtures = Vec::new();
    for entry in fs::read_dir(FIXTURES).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let text = fs::read_to_string(&path).unwrap();
            let parts = text.split("> ").skip(1).map(|part| part.split_once('\n').unwrap());
            let answers = parts.map(|(question, answer)| (parse(question), normal(answer)));
            let file = path.file_stem().unwrap().to_str().unwrap().into();
            fixtures.push(Fixture { file, answers: answers.collect() });
        }
    }
    fixtures.sort_by(|a: &Fixture, b| a.file.cmp(&b.file));
    fixtures
}

fn parse(question: &str) -> Query {
    let words: Vec<&str> = question.split(' ').collect();
    let number = |at: usize| words[at].parse().unwrap();
    let mut query = Query::new(words[0].parse().unwrap(), number(2), number(4));
    query.resolution = words.get(6).map(|seconds| seconds.parse().unwrap());
    query
}
