//! Truncated and corrupted files: each gives a clear error, or an answer, and never a panic or too much memory.

use std::fs;

use rrd_file::{Error, Header, Query, fetch};

use crate::any_bytes;
use crate::random::Random;
use crate::shape::Shape;
use crate::text;

fn fixture(name: &str) -> Vec<u8> {
    fs::read(format!("{}/{name}.rrd", text::FIXTURES)).unwrap()
}

fn message(file: &[u8]) -> String {
    fetch(file, &Query::new(rrd_file::Cf::Average, 1_700_000_000, 1_700_001_000))
        .unwrap_err()
        .to_string()
}

#[test]
fn errors_say_what_is_wrong() {
    assert_eq!(message(b"hello"), "not an RRD file");
    assert_eq!(message(b""), "truncated: needs 128 bytes, has 0");
    let good = fixture("mixed-x86-64");
    assert_eq!(message(&good[..100]), "truncated: needs 128 bytes, has 100");
    assert_eq!(message(&good[..200]), "truncated: needs 3312 bytes, has 200");
    assert_eq!(message(&good[..5000]), "truncated: needs 6416 bytes, has 5000");
    let changed = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        message(&file)
    };
    assert_eq!(changed(4, b"0009"), "RRD version 0009 is not known (0001 to 0005 are)");
    assert_eq!(changed(4, b"3\0\0\0"), "RRD version 3 is not known (0001 to 0005 are)");
    assert!(
        changed(16, &[0; 8]).starts_with("an RRD file of a machine whose numbers are not known")
    );
    assert_eq!(changed(24, &[0; 8]), "corrupt: no sources, or a step of no seconds");
    let many = "corrupt: 4 sources, 18446744073709551615 archives";
    assert_eq!(changed(32, &[255; 8]), many);
    // Nothing is allocated for so many sources.
    assert_eq!(changed(24, &[255; 4]), "truncated: needs 2714419331224 bytes, has 6416");
    assert_eq!(changed(40, &[0; 8]), "corrupt: no sources, or a step of no seconds");
}

#[test]
fn every_truncation_is_an_error() {
    for machine in text::MACHINES {
        let file = fixture(&format!("mixed-{machine}"));
        let query = Query::new(rrd_file::Cf::Average, 1_700_000_000, 1_700_001_000);
        assert!(fetch(&file, &query).is_ok());
        for len in 0..file.len() {
            match fetch(&file[..len], &query) {
                Err(Error::Truncated { need, has }) => {
                    assert!(has == len as u64 && need > has && need <= file.len() as u64);
                }
                other => panic!("{machine}, {len} bytes: {other:?}"),
            }
        }
        // A reader of parts gets there in three steps.
        let mut read = 0;
        for _ in 0..3 {
            if let Err(Error::Truncated { need, .. }) = Header::parse(&file[..read]) {
                read = need as usize;
            }
        }
        assert_eq!(Header::parse(&file[..read]).unwrap().head_len(), read as u64);
    }
}

#[test]
fn more_rows_than_anybody_has_are_refused() {
    let file = fixture("fine");
    let query = Query::new(rrd_file::Cf::Max, 1_700_000_000, i64::MAX);
    let error = fetch(&file, &query).unwrap_err().to_string();
    assert!(error.contains("ask for less time"), "{error}");
}

/// The property that the fuzzer tests, on files that are nearly good.
#[test]
fn corrupted_files() {
    let mut random = Random::new(7);
    let mut files = text::MACHINES.map(|machine| fixture(&format!("mixed-{machine}"))).to_vec();
    files.push(fixture("fine"));
    files.extend((0..20).map(|_| Shape::random(&mut random).build().bytes()));
    let special = [0, 1, 2, 255, 1 << 31, u64::from(u32::MAX), 1 << 61, 1 << 63, u64::MAX];
    for _ in 0..6_000 {
        let mut data = random.bits().to_le_bytes().to_vec();
        data.extend(random.bits().to_le_bytes());
        data[..4].copy_from_slice(&(1_700_000_000 + random.below(50_000) as u32).to_le_bytes());
        // Less than a day: unknown rows cost time as well.
        data[6] = 0;
        data[10] = random.one_of(&[0, 0, 200, 200, 255]);
        data.extend(&files[random.below(files.len() as u64) as usize]);
        for _ in 0..random.below(4) {
            // Mostly in the head, and mostly where a number begins.
            let at = any_bytes::QUERY + random.below(500) as usize * 4;
            let word = random.one_of(&special).to_le_bytes();
            let word = if random.below(4) == 0 { random.bits().to_le_bytes() } else { word };
            let size = random.one_of(&[1, 4, 8]);
            if let Some(place) = data.get_mut(at..at + size) {
                place.copy_from_slice(&word[..size]);
            }
        }
        if random.below(8) == 0 {
            data.truncate(random.below(data.len() as u64) as usize);
        }
        any_bytes::check(&data);
    }
}
