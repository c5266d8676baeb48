//! `chat`: everybody sees the same, whoever else is slow, rude or gone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use bast::net::{Shutdown, TcpListener, TcpStream};
use bast_examples::chat::{Limits, Totals, serve};
use serde_json::Value;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Bytes, Error, Message, WebSocket};

use crate::fibers::{help_is_good, on_drivers, with_server};

/// Longer than anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn with_chat(limits: Limits, test: impl FnOnce(SocketAddr)) -> Totals {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    with_server(|stop| serve(&listener, &limits, stop), |_| test(addr)).0
}

fn limits() -> Limits {
    Limits { idle: PATIENCE, ..Limits::default() }
}

fn stream(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A guest, by tungstenite's blocking client.
struct Guest(WebSocket<TcpStream>);

impl Guest {
    /// Comes in; returns when he sees himself in the room.
    fn new(addr: SocketAddr, name: &str) -> Guest {
        let url = format!("ws://{addr}/chat?name={name}");
        let (ws, _) = tungstenite::client(url, stream(addr)).unwrap();
        let mut guest = Guest(ws);
        assert_eq!(guest.news()["hello"], name);
        guest.until("came", name);
        guest
    }

    fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).unwrap();
    }

    /// The next message.
    fn news(&mut self) -> Value {
        loop {
            match self.0.read().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) => self.0.flush().unwrap(),
                other => panic!("{other:?}"),
            }
        }
    }

    fn until(&mut self, key: &str, value: &str) {
        while self.news()[key] != value {}
    }

    /// Closes, and waits for the answer.
    fn leave(mut self) {
        self.0.close(None).unwrap();
        while self.0.read().is_ok() {}
    }

    /// Reads up to the close frame, and the end behind it; returns its code.
    fn close_code(&mut self) -> CloseCode {
        let code = loop {
            match self.0.read() {
                Ok(Message::Close(Some(frame))) => break frame.code,
                Ok(_) => {}
                Err(fault) => panic!("{fault}"),
            }
        };
        match self.0.read() {
            Err(Error::ConnectionClosed) => code,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_hundred_guests_see_all_in_the_same_order() {
    const GUESTS: usize = 100;
    const EACH: usize = 5;
    on_drivers(|| {
        let totals = with_chat(Limits { backlog: 10_000, ..limits() }, |addr| {
            let all_are_in = bast::sync::Barrier::new(GUESTS);
            let seen: Vec<Vec<String>> = bast::par_map(0..GUESTS, GUESTS, |n| {
                let mut guest = Guest::new(addr, &format!("guest-{n}"));
                all_are_in.wait();
                (0..EACH).for_each(|m| guest.say(&format!("{n}: {m}")));
                let mut seen = Vec::new();
                while seen.len() < GUESTS * EACH {
                    if let Some(text) = guest.news()["text"].as_str() {
                        seen.push(text.to_owned());
                    }
                }
                // Nobody leaves before all have seen all.
                all_are_in.wait();
                guest.leave();
                seen
            });
            for n in 0..GUESTS {
                assert_eq!(seen[n], seen[0], "what guest {n} has seen");
                let prefix = format!("{n}: ");
                let own = seen[0].iter().filter_map(|text| text.strip_prefix(&prefix));
                assert!(own.eq((0..EACH).map(|m| m.to_string())), "his own order");
            }
        });
        let (guests, messages) = (GUESTS as u64, (GUESTS * EACH) as u64);
        assert_eq!(totals, Totals { guests, messages, faults: 0 });
    });
}

#[test]
fn a_slow_guest_is_told_what_he_has_missed_and_holds_up_nobody() {
    const MESSAGES: u64 = 400;
    on_drivers(|| {
        // More than the kernel's buffers can take.
        let text = "x".repeat(60_000);
        let totals = with_chat(Limits { backlog: 4, message: 1 << 16, ..limits() }, |addr| {
            let mut slow = Guest::new(addr, "slow");
            let mut quick = Guest::new(addr, "quick");
            for n in 0..MESSAGES {
                quick.say(&format!("{n} {text}"));
                assert!(quick.news()["text"].as_str().unwrap().starts_with(&format!("{n} ")));
            }
            let (mut next, mut lost) = (0, 0);
            while next < MESSAGES {
                let news = slow.news();
                if let Some(missed) = news["missed"].as_u64() {
                    (next, lost) = (next + missed, lost + missed);
                } else if let Some(text) = news["text"].as_str() {
                    assert!(text.starts_with(&format!("{next} ")), "all that he has not missed");
                    next += 1;
                }
            }
            assert!(lost > 0, "the kernel has kept {MESSAGES} messages");
            slow.leave();
            quick.leave();
        });
        assert_eq!(totals, Totals { guests: 2, messages: MESSAGES, faults: 0 });
    });
}

#[test]
fn pings_are_answered_while_messages_fly() {
    on_drivers(|| {
        with_chat(limits(), |addr| {
            let mut guest = Guest::new(addr, "guest");
            for n in 0..100_u8 {
                guest.say("between");
                guest.0.send(Message::Ping(Bytes::from(vec![n]))).unwrap();
                let (mut ponged, mut said) = (false, false);
                while !(ponged && said) {
                    match guest.0.read().unwrap() {
                        Message::Pong(load) => {
                            assert_eq!(load[..], [n]);
                            ponged = true;
                        }
                        Message::Text(_) => said = true,
                        other => panic!("{other:?}"),
                    }
                }
            }
        });
    });
}

/// The guest `rude` sends these bytes as they are, and then nothing; what he gets for it.
fn rude(bytes: &[u8]) -> CloseCode {
    let mut code = None;
    let totals = with_chat(limits(), |addr| {
        let mut witness = Guest::new(addr, "witness");
        let mut rude = Guest::new(addr, "rude");
        rude.0.get_mut().write_all(bytes).unwrap();
        code = Some(rude.close_code());
        witness.until("went", "rude");
        witness.say("still here");
        witness.until("text", "still here");
    });
    assert!(totals.guests == 2 && totals.messages == 1, "{totals:?}");
    code.unwrap()
}

#[test]
fn mistakes_are_answered_by_a_close_that_names_them() {
    const MASK: [u8; 4] = [0; 4]; // leaves the text as it is
    on_drivers(|| {
        let frame =
            |first: u8, text: &[u8]| [&[first, 0x80 | text.len() as u8][..], &MASK, text].concat();
        assert_eq!(rude(&frame(0x81, b"\xff\xfe")), CloseCode::Invalid, "no UTF-8");
        assert_eq!(rude(&frame(0x82, b"binary")), CloseCode::Unsupported);
        assert_eq!(rude(&[0x81, 2, b'h', b'i']), CloseCode::Protocol, "not masked");
        assert_eq!(rude(b"GET / HTTP/1.1\r\n\r\n"), CloseCode::Protocol, "no frame at all");
        // Only announced: nothing of it is waited for, or kept.
        let huge = [&[0x81, 0xff][..], &(1_u64 << 40).to_be_bytes(), &MASK].concat();
        assert_eq!(rude(&huge), CloseCode::Size);
        // In pieces, none of which is too large.
        let piece = [&[0x01, 0xfe, 0x0f, 0xff][..], &MASK, &[b'x'; 4095]].concat();
        let pieces = [&piece[..], &[0x80], &piece[1..]].concat();
        assert_eq!(rude(&pieces), CloseCode::Size);
    });
}

#[test]
fn who_breaks_off_in_the_middle_of_a_frame_is_gone() {
    on_drivers(|| {
        let totals = with_chat(limits(), |addr| {
            let mut witness = Guest::new(addr, "witness");
            for whole in [false, true] {
                let mut broken = Guest::new(addr, "broken");
                broken.0.get_mut().write_all(&[0x81, 0x85, 0, 0, 0, 0, b'h']).unwrap();
                if whole {
                    broken.0.get_ref().shutdown(Shutdown::Both).unwrap();
                }
                drop(broken);
                witness.until("went", "broken");
            }
            witness.leave();
        });
        assert_eq!(totals, Totals { guests: 3, messages: 0, faults: 2 });
    });
}

#[test]
fn who_does_not_answer_a_ping_is_parted_with() {
    on_drivers(|| {
        let limits = Limits { idle: Duration::from_secs(2), ..limits() };
        with_chat(limits, |addr| {
            // He reads, which answers pings, and stays.
            let awake = bast::spawn(move || {
                let mut awake = Guest::new(addr, "awake");
                awake.until("went", "asleep");
            });
            let mut asleep = Guest::new(addr, "asleep");
            let mut ends = Vec::new();
            // Past tungstenite, which would answer.
            asleep.0.get_mut().read_to_end(&mut ends).unwrap();
            let away = u16::from(CloseCode::Away).to_be_bytes();
            assert!(ends.windows(2).any(|two| two == [0x89, 0]), "a ping: {ends:?}");
            assert!(ends.windows(2).any(|two| two == away), "a close: {ends:?}");
            awake.join().unwrap();
        });
    });
}

#[test]
fn the_end_is_a_close_frame_for_everybody() {
    on_drivers(|| {
        let mut guests = Vec::new();
        let totals = with_chat(limits(), |addr| {
            for n in 0..20 {
                let mut guest = Guest::new(addr, &format!("guest-{n}"));
                guests.push(bast::spawn(move || guest.close_code()));
            }
        });
        for guest in guests {
            assert_eq!(guest.join().unwrap(), CloseCode::Away);
        }
        assert_eq!(totals, Totals { guests: 20, messages: 0, faults: 0 });
    });
}

#[test]
fn plain_http_gets_a_page_or_a_clear_answer() {
    on_drivers(|| {
        let totals = with_chat(limits(), |addr| {
            for (request, status, words) in [
                ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200, "<!doctype html>"),
                ("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 200, "Content-Length"),
                ("GET /chat HTTP/1.1\r\nHost: a\r\n\r\n", 400, "Only WebSockets"),
                ("GET /other HTTP/1.1\r\nHost: a\r\n\r\n", 404, "Try /"),
                ("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405, "Only GET"),
                ("\u{1}\u{2}\n\n", 400, "no valid HTTP"),
            ] {
                let mut stream = stream(addr);
                stream.write_all(request.as_bytes()).unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                let line = format!("HTTP/1.1 {status} ");
                assert!(text.starts_with(&line) && text.contains(words), "{request}: {text}");
            }
            // Who takes no name gets one.
            let (mut ws, _) =
                tungstenite::client(format!("ws://{addr}/chat"), stream(addr)).unwrap();
            let hello = ws.read().unwrap();
            assert!(hello.to_text().unwrap().contains(r#""hello":"guest""#), "{hello}");
        });
        assert_eq!((totals.guests, totals.messages), (1, 0));
    });
}

#[test]
fn the_program_ends_by_ctrl_c() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_chat"));
    server.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let addr = first.strip_prefix("chat: http://").unwrap().trim_end_matches('/').parse().unwrap();
    // From a plain thread, for once.
    let mut guest = Guest::new(addr, "thread");
    guest.say("hello");
    guest.until("text", "hello");
    let kill = format!("kill -INT {}", server.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert_eq!(guest.close_code(), CloseCode::Away);
    assert!(server.wait().unwrap().success());
    assert_eq!(lines.last().unwrap().unwrap(), "chat: 1 guests, 1 messages, 0 faults");
}

#[test]
fn help() {
    help_is_good(env!("CARGO_BIN_EXE_chat"), &["--listen", "--backlog", "--message", "--idle"]);
}
