//! What holds for any bytes whatever. The fuzzer in `fuzz/` includes this file.

use rrd_file::{Cf, Error, Header, Query, fetch};

const FUNCTIONS: [Cf; 5] = [Cf::Average, Cf::Min, Cf::Max, Cf::Last, Cf::Seasonal];

/// So many bytes are the query, the rest is the file.
pub(crate) const QUERY: usize = 16;

/// Any bytes give an answer that fits the question, or an error.
pub(crate) fn check(data: &[u8]) {
    let Some((query, file)) = data.split_first_chunk::<QUERY>() else { return };
    let from = i64::from(u32::from_le_bytes([query[0], query[1], query[2], query[3]]));
    let length = i64::from(u32::from_le_bytes([query[4], query[5], query[6], 0]));
    let resolution = u64::from(u16::from_le_bytes([query[8], query[9]]));
    // Mostly sensible; at times the longest there is.
    let to = if query[10] == 255 { i64::MAX - length } else { from + length };
    let cf = FUNCTIONS[usize::from(query[11]) % FUNCTIONS.len()];
    check_file(file, &Query { cf, from, to, resolution: (query[10] > 127).then_some(resolution) });
}

fn check_file(file: &[u8], query: &Query) {
    let header = match Header::parse(file) {
        Ok(header) => header,
        Err(Error::Truncated { need, has }) => {
            assert!(need > has && has == file.len() as u64);
            return;
        }
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let len = usize::try_from(header.head_len()).unwrap();
    assert!(len <= file.len() && header.head_len() <= header.file_len());
    match Header::parse(&file[..len - 1]) {
        Err(Error::Truncated { need, .. }) => assert!(need <= header.head_len()),
        other => panic!("{other:?}"),
    }

    let whole = fetch(file, query);
    let selection = match Header::parse(&file[..len]).unwrap().select(query) {
        Ok(selection) => selection,
        Err(error) => {
            let whole = whole.unwrap_err();
            assert!(whole == error || header.check_len(file.len() as u64) == Err(whole));
            return;
        }
    };
    let part = |range: &std::ops::Range<u64>| file.get(range.start as usize..range.end as usize);
    let parts: Option<Vec<&[u8]>> = selection.ranges().iter().map(part).collect();
    let Some(parts) = parts else {
        assert!(matches!(whole, Err(Error::Truncated { .. })));
        return;
    };
    let fetched = selection.decode(&parts).unwrap();
    if let Ok(whole) = whole {
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert!(bits(&whole.values) == bits(&fetched.values));
    }
    assert_eq!(fetched.len() * header.sources().len(), fetched.values.len());
    let times: Vec<i64> = fetched.rows().map(|(time, _)| time).collect();
    let step = fetched.step as i64;
    assert!(fetched.start <= query.from && query.from - fetched.start < step);
    assert!(times.last().is_some_and(|last| *last > query.to && last - query.to <= step));
    assert!(times.iter().all(|time| time % step == 0));
}
