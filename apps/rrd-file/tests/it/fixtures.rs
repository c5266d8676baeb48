//! Files that rrdtool has made on several machines, and what it has said of them.

use std::fs;
use std::path::Path;

use rrd_file::{Header, fetch};

use crate::text;

#[test]
fn answers_are_those_of_rrdtool() {
    let mut compared = 0;
    for fixture in text::fixtures() {
        let file = fs::read(Path::new(text::FIXTURES).join(&fixture.file)).unwrap();
        for (query, answer) in &fixture.answers {
            let ours = fetch(&file, query).unwrap();
            assert_eq!(text::rows(&ours), *answer, "{}: {query:?}", fixture.file);
            compared += 1;
        }
    }
    assert!(compared > 40, "{compared}");
}

#[test]
fn the_head_is_the_same_on_each_machine() {
    let heads = text::MACHINES.map(|machine| {
        let file = fs::read(format!("{}/mixed-{machine}.rrd", text::FIXTURES)).unwrap();
        let header = Header::parse(&file).unwrap();
        assert_eq!(header.file_len(), file.len() as u64);
        let archive =
            |a: &rrd_file::Archive| format!("{:?} {} {} {}", a.cf, a.xff, a.steps, a.rows);
        let archives: Vec<_> = header.archives().iter().map(archive).collect();
        (format!("{:?}", header.sources()), archives, header.step(), header.last_update())
    });
    assert!(heads.iter().all(|head| *head == heads[0]), "{heads:#?}");
    let (sources, archives, step, last) = &heads[0];
    assert!(
        sources.contains(
            r#"name: "temperature", kind: "GAUGE", heartbeat: 600, min: -20.0, max: NaN"#
        )
    );
    assert!(sources.contains(r#"last: "222""#), "{sources}");
    assert_eq!(archives[2], "Some(Max) 0.1 6 16");
    assert_eq!((*step, *last), (300, 1_700_033_823));
}
