//! The conformance table of `http.rs`: each case is fed whole, cut at each byte, and byte by byte.

use super::{Action, MAX_HEAD, MAX_HEADERS, Session};
use cases::{KEPT, REFUSED};

#[path = "../../tests/it/cases.rs"]
mod cases;

/// Feeds the parts as a server would: keeps what is not used, steps until more bytes are wanted.
/// Returns the answers by name, and whether the connection stays open.
fn answers(parts: &[&[u8]]) -> (Vec<&'static str>, bool) {
    let mut session = Session::new();
    let mut buffer = Vec::new();
    let mut answers = Vec::new();
    for part in parts {
        buffer.extend_from_slice(part);
        loop {
            let step = session.step(&buffer);
            buffer.drain(..step.used);
            match step.action {
                Action::Read => break,
                Action::Interim(text) => answers.push(name(text)),
                Action::Reply(reply) => {
                    answers.push(name(reply.text));
                    assert_eq!(reply.last, reply.text.windows(5).any(|w| w == b"close"));
                    if reply.last {
                        return (answers, false);
                    }
                }
            }
        }
        assert!(buffer.len() < MAX_HEAD, "no more than a head is ever kept");
    }
    (answers, true)
}

/// `pong` for the answer with its body, `head` for the same without, otherwise the status.
fn name(text: &'static [u8]) -> &'static str {
    let text = std::str::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let (status, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    let status = status.strip_prefix("HTTP/1.1 ").unwrap().split_once(' ').unwrap().0;
    if status == "100" {
        assert_eq!((fields, body), ("", ""));
        return status;
    }
    let length = fields.split("\r\n").find_map(|f| f.strip_prefix("Content-Length: ")).unwrap();
    if status != "200" || !body.is_empty() {
        assert_eq!(length.parse::<usize>().unwrap(), body.len());
    }
    let keep = fields.contains("keep-alive");
    match (status, body) {
        ("200", "Pong!") => {
            if keep {
                "pong-keep"
            } else {
                "pong"
            }
        }
        ("200", "") => "head",
        ("200", other) => panic!("body {other:?}"),
        (status, _) => status,
    }
}

/// The same input whole, cut in two at each byte, and byte by byte: the answers are the same.
fn check(input: &[u8], expected: &[&str], open: bool) {
    let shown = String::from_utf8_lossy(input);
    let expected = (expected.to_vec(), open);
    assert_eq!(answers(&[input]), expected, "whole: {shown:?}");
    for cut in 1..input.len() {
        let (a, b) = input.split_at(cut);
        assert_eq!(answers(&[a, b]), expected, "cut at {cut}: {shown:?}");
    }
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(answers(&bytes), expected, "byte by byte: {shown:?}");
}

#[test]
fn requests_are_answered_however_they_are_cut() {
    for (input, expected, open) in KEPT {
        check(input.as_bytes(), expected, *open);
    }
}

#[test]
fn faulty_requests_are_refused_however_they_are_cut() {
    for (input, status) in REFUSED {
        check(input.as_bytes(), &[status], false);
        // The same after a good request: that one is answered first.
        let after = format!("GET / HTTP/1.1\r\nHost: a\r\n\r\n{input}");
        check(after.as_bytes(), &["pong", status], false);
    }
}

#[test]
fn a_waiting_client_is_told_to_continue_before_it_sends_the_body() {
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    assert_eq!(answers(&[head, b"ab"]), (vec!["100", "pong"], true));
    assert_eq!(answers(&[head, b"a", b"b"]), (vec!["100", "pong"], true));
    // It did not wait: there is nothing to tell it.
    assert_eq!(answers(&[&[head, &b"a"[..]].concat(), b"b"]), (vec!["pong"], true));
}

fn with_fields(count: usize) -> Vec<u8> {
    let mut head = String::from("GET / HTTP/1.1\r\nHost: a\r\n");
    for n in 1..count {
        head.push_str(&format!("F{n}: x\r\n"));
    }
    (head + "\r\n").into_bytes()
}

#[test]
fn the_number_of_fields_is_limited() {
    check(&with_fields(MAX_HEADERS), &["pong"], true);
    check(&with_fields(MAX_HEADERS + 1), &["431"], false);
    check(&with_fields(500), &["431"], false);
}

/// A request whose head has exactly this many bytes, most of them in the target or in one field.
fn of_length(length: usize, in_target: bool) -> Vec<u8> {
    let (a, b) = if in_target {
        ("GET /", " HTTP/1.1\r\nHost: a\r\n\r\n")
    } else {
        ("GET / HTTP/1.1\r\nHost: a\r\nX: ", "\r\n\r\n")
    };
    format!("{a}{}{b}", "x".repeat(length - a.len() - b.len())).into_bytes()
}

#[test]
fn the_length_of_a_head_is_limited() {
    for in_target in [false, true] {
        for (length, expected, open) in
            [(MAX_HEAD, "pong", true), (MAX_HEAD + 1, "431", false), (5 * MAX_HEAD, "431", false)]
        {
            let input = of_length(length, in_target);
            for piece in [1, 7, 1000, 1 << 20] {
                let parts: Vec<&[u8]> = input.chunks(piece).collect();
                let expected = (vec![expected], open);
                assert_eq!(answers(&parts), expected, "{length} in pieces of {piece}");
            }
        }
    }
}

#[test]
fn a_body_is_not_kept_whatever_its_length() {
    let mut session = Session::new();
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    assert_eq!(session.step(head).used, head.len());
    assert!(!session.is_between_requests());
    for _ in 0..999 {
        let step = session.step(&[b'x'; 1000]);
        assert_eq!((step.used, step.action), (1000, Action::Read));
    }
    let step = session.step(&[b'x'; 1001]);
    assert_eq!(step.used, 1000);
    assert!(matches!(step.action, Action::Reply(reply) if !reply.last));
    assert!(session.is_between_requests());
}

/// Random bytes, and good requests with random damage, never panic and never use more than there
/// is. The seed is a constant: what fails, fails again.
#[test]
fn random_bytes_do_no_harm() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) as usize % below
    };
    let (mut replies, mut refusals) = (0, 0);
    for _ in 0..20_000 {
        let mut input = Vec::new();
        for _ in 0..1 + next(3) {
            input.extend_from_slice(KEPT[next(KEPT.len())].0.as_bytes());
        }
        for _ in 0..next(4) {
            if input.is_empty() {
                break;
            }
            let at = next(input.len());
            match next(4) {
                0 => input[at] = next(256) as u8,
                1 => input.insert(at, b"\r\n \t:,;0\0"[next(9)]),
                2 => drop(input.remove(at)),
                _ => input.truncate(at + 1),
            }
        }
        let mut session = Session::new();
        let mut start = 0;
        let mut end = 0;
        while end < input.len() {
            end = (end + 1 + next(60)).min(input.len());
            loop {
                let step = session.step(&input[start..end]);
                start += step.used;
                assert!(start <= end);
                match step.action {
                    Action::Read => break,
                    Action::Interim(_) => {}
                    Action::Reply(reply) => {
                        replies += 1;
                        refusals += usize::from(reply.refused);
                    }
                }
            }
        }
    }
    // The damage must leave both kinds, or the loop has tested nothing.
    assert!(replies > 10_000 && refusals > 5_000, "{replies} replies, {refusals} refusals");
}
