//! Which kind of machine has written a file: nothing in it says so, but its numbers make sense in one way only.

use crate::layout::{FLOAT_COOKIE, LAST_DS, Layout};

/// How the machine lays things out, as far as the static head tells, of which all bytes must be there.
pub(crate) fn layout(bytes: &[u8]) -> Option<Layout> {
    let kinds = [(false, 8), (true, 8), (false, 4)];
    let layouts = kinds.map(|(big_endian, align)| Layout { big_endian, long: 8, time: 8, align });
    let fits = |layout: &Layout| {
        let cookie = bytes[layout.cookie_at() as usize..].first_chunk();
        cookie.is_some_and(|cookie| layout.double(*cookie).to_bits() == FLOAT_COOKIE.to_bits())
    };
    let layout = layouts.into_iter().find(fits)?;
    // The number of sources is small: as eight bytes half of it is zero. As four bytes it is followed by the number
    // of archives, and neither is zero.
    let at = layout.counts_at() as usize + if layout.big_endian { 0 } else { 4 };
    if layout.align == 8 && bytes[at..at + 4] == [0; 4] {
        return Some(layout);
    }
    Some(Layout { long: 4, time: 4, ..layout })
}

/// Of how many bytes a `time_t` is, where the live head begins at `live`.
///
/// Where a `long` has four, what follows the live head tells: the last reading of the first source, which is a
/// text, never empty, with zeros up to its end.
pub(crate) fn time_size(bytes: &[u8], layout: Layout, version: u32, live: u64) -> u64 {
    let fits = |time: &u64| {
        let at = live + Layout { time: *time, ..layout }.live_head(version);
        let reading = bytes.get(at as usize..(at + LAST_DS) as usize).unwrap_or_default();
        let text = reading.iter().take_while(|byte| byte.is_ascii_graphic()).count();
        text > 0 && text < reading.len() && reading[text..].iter().all(|byte| *byte == 0)
    };
    if layout.long == 8 { 8 } else { [4, 8].into_iter().find(fits).unwrap_or(4) }
}
