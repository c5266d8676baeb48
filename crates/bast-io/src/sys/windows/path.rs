//! Paths: NUL-terminated bytes, as std encodes an `OsStr` (`as_encoded_bytes`), as Windows' own strings.
//!
//! The bytes are UTF-8 in which a surrogate without its partner may stand as if it were a character (WTF-8).

use std::ffi::{CStr, OsString, c_char};
use std::os::windows::ffi::OsStringExt;
use std::path::PathBuf;

/// The path at `path`; `None` if the bytes are no such encoding.
///
/// # Safety
/// `path` is NUL-terminated, and lent for the call.
pub(crate) unsafe fn decode(path: *const c_char) -> Option<PathBuf> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Some(PathBuf::from(text));
    }
    wide(bytes).map(|wide| PathBuf::from(OsString::from_wide(&wide)))
}

fn wide(mut bytes: &[u8]) -> Option<Vec<u16>> {
    let mut wide = Vec::with_capacity(bytes.len());
    while !bytes.is_empty() {
        let valid = match std::str::from_utf8(bytes) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let (text, rest) = bytes.split_at(valid);
        wide.extend(String::from_utf8_lossy(text).encode_utf16());
        bytes = match rest {
            [] => rest,
            // A surrogate: U+D800 to U+DFFF in three bytes.
            [0xed, b @ 0xa0..=0xbf, c @ 0x80..=0xbf, rest @ ..] => {
                wide.push(0xd000 | (u16::from(b & 0x3f) << 6) | u16::from(c & 0x3f));
                rest
            }
            _ => return None,
        };
    }
    Some(wide)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;

    #[test]
    fn any_name_there_and_back() {
        let lone = OsString::from_wide(&[0x61, 0xd83d, 0x62, 0xdc00]);
        for name in [OsString::from("C:\\a b\\ä€😀"), lone, OsString::new()] {
            let bytes = CString::new(name.as_encoded_bytes()).expect("no NUL");
            // SAFETY: it lives during the call.
            let path = unsafe { decode(bytes.as_ptr()) }.expect("an encoding");
            assert_eq!(path.as_os_str(), name);
        }
        // SAFETY: a constant.
        assert!(unsafe { decode(c"\xff\xfe".as_ptr()) }.is_none());
    }
}
