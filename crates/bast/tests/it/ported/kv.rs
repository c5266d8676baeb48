//! A program for `super`: keys and values over TCP, a thread for each connection, and clients that use it at the
//! same time.

use super::std::io::{self, BufRead, BufReader, Write};
use super::std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use super::std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use super::std::sync::{Arc, Barrier, Mutex, RwLock};
use super::std::thread;
use super::std::time::Duration;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Default)]
struct Store {
    values: RwLock<BTreeMap<String, String>>,
    requests: AtomicUsize,
    stopped: AtomicBool,
}

impl Store {
    /// The answer to one line; `None` ends the connection.
    fn answer(&self, line: &str) -> Option<String> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut words = line.trim_end().splitn(3, ' ');
        let command = words.next()?;
        Some(match (command, words.next(), words.next()) {
            ("SET", Some(key), Some(value)) => {
                let old = self.values.write().unwrap().insert(key.into(), value.into());
                old.map_or_else(|| "NEW".into(), |old| format!("WAS {old}"))
            }
            ("GET", Some(key), None) => match self.values.read().unwrap().get(key) {
                Some(value) => format!("<{value}>"),
                None => "NONE".into(),
            },
            ("DEL", Some(key), None) => {
                let there = self.values.write().unwrap().remove(key).is_some();
                if there { "GONE" } else { "NONE" }.into()
            }
            ("QUIT", None, None) => return None,
            _ => format!("what is {command}?"),
        })
    }
}

fn serve(store: &Store, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        let Some(answer) = store.answer(&line) else { break };
        writeln!(stream, "{answer}")?;
        line.clear();
    }
    stream.shutdown(Shutdown::Both)
}

fn client(addr: impl ToSocketAddrs, me: usize) -> io::Result<String> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    let mut answers = BufReader::new(stream.try_clone()?).lines();
    let mut text = String::new();
    for n in 0..10 {
        writeln!(stream, "SET {me}.{n} value {n} of {me}")?;
        assert_eq!(answers.next().unwrap()?, "NEW");
        writeln!(stream, "GET {me}.{n}")?;
        text.push_str(&format!("client {me}: {n} = {}\n", answers.next().unwrap()?));
    }
    writeln!(stream, "DEL {me}.0\nDEL {me}.0\nSING\nQUIT")?;
    for answer in answers {
        text.push_str(&format!("client {me}: {}\n", answer?));
    }
    Ok(text)
}

pub(crate) fn main(_: &Path, out: &mut Vec<u8>) -> io::Result<()> {
    const CLIENTS: usize = 5;
    let store = Arc::new(Store::default());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let addr = listener.local_addr()?;
    let server = thread::spawn({
        let store = Arc::clone(&store);
        move || -> io::Result<usize> {
            let mut connections = Vec::new();
            for stream in listener.incoming() {
                if store.stopped.load(Ordering::Acquire) {
                    break;
                }
                let (store, stream) = (Arc::clone(&store), stream?);
                connections.push(thread::spawn(move || serve(&store, stream)));
            }
            let count = connections.len();
            connections.into_iter().try_for_each(|connection| connection.join().unwrap())?;
            Ok(count)
        }
    });
    let (together, texts) = (Barrier::new(CLIENTS), Mutex::new(BTreeMap::new()));
    thread::scope(|s| {
        for me in 0..CLIENTS {
            let (together, texts) = (&together, &texts);
            s.spawn(move || {
                together.wait();
                let text = client(addr, me).unwrap();
                texts.lock().unwrap().insert(me, text);
            });
        }
    });
    store.stopped.store(true, Ordering::Release);
    TcpStream::connect(addr)?;
    writeln!(out, "{} connections", server.join().unwrap()?)?;
    writeln!(out, "{} requests", store.requests.load(Ordering::Relaxed))?;
    writeln!(out, "{} values", store.values.read().unwrap().len())?;
    texts.into_inner().unwrap().values().try_for_each(|text| write!(out, "{text}"))
}
