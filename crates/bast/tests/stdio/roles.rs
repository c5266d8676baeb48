//! What the programs under test do.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bast::io::{IsTerminal, stderr, stdin, stdout};
use bast::process::Command;
use bast::{Runtime, print, println, timeout};

use crate::child::ROLE;

pub(crate) fn play(role: &str) {
    match role {
        "lines" => fiber(lines),
        "read_line" => read_line(),
        "long_line_of_stdin" => fiber(|| {
            let (mut long, mut short) = (String::new(), String::new());
            stdin().read_line(&mut long).unwrap();
            stdin().read_line(&mut short).unwrap();
            println!("{} {}", long.trim_end().len(), short.trim_end());
        }),
        "long_line_by_lines" => fiber(|| long_line(stdin().lock())),
        "long_line_by_buf_reader" => fiber(|| long_line(BufReader::new(stdin()))),
        "copy" => fiber(|| {
            let mut all = Vec::new();
            stdin().read_to_end(&mut all).unwrap();
            stdout().write_all(&all).unwrap();
        }),
        "conversation" => fiber(conversation),
        "ticks" => ticks(),
        "cancelled" => fiber(cancelled),
        "returns" => print!("no end of line"),
        "exits" => {
            print!("no end of line");
            std::process::exit(0);
        }
        "exits_in_a_fiber" => fiber(|| {
            print!("no end of line");
            std::process::exit(0);
        }),
        "errors" => fiber(errors),
        "storm" => storm(),
        "everybody" => everybody(),
        "passes_on_crosswise" => fiber(|| {
            let mut both = Command::new(std::env::current_exe().unwrap());
            both.env(ROLE, "both").stdout(stderr()).stderr(stdout());
            assert!(both.status().unwrap().success());
        }),
        "both" => {
            std::println!("out");
            std::eprintln!("err");
        }
        "again" => fiber(again),
        "unwinds" => fiber(unwinds),
        #[cfg(windows)]
        role => crate::system::play(role),
        #[cfg(unix)]
        role => panic!("no such role: {role}"),
    }
}

pub(crate) fn fiber(f: fn()) {
    bast::spawn(f).join().expect("the fiber ends well");
}

pub(crate) fn lines() {
    for line in stdin().lines() {
        print!("<{}>", line.unwrap());
    }
    println!();
}

/// On the program's own thread.
fn read_line() {
    let mut line = String::new();
    while stdin().read_line(&mut line).unwrap() > 0 {
        print!("<{}>", line.trim_end_matches('\n'));
        line.clear();
    }
    println!();
}

fn long_line(from: impl BufRead) {
    let mut lines = from.lines();
    let long = lines.next().unwrap().unwrap().len();
    println!("{long} {}", lines.next().unwrap().unwrap());
}

fn conversation() {
    println!("terminals: {} {}", stdin().is_terminal(), stdout().lock().is_terminal());
    print!("who? ");
    stdout().flush().unwrap();
    let mut line = String::new();
    stdin().read_line(&mut line).unwrap();
    println!("hello {}", line.trim_end());
    assert_eq!(stdin().read_line(&mut line).unwrap(), 0);
    println!("the end");
}

/// One worker, and a fiber on it that waits for input that does not come.
pub(crate) fn ticks() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let _reader = bast::spawn(|| stdin().read_line(&mut String::new()));
        for _ in 0..100 {
            bast::sleep(Duration::from_micros(100));
        }
        println!("100 ticks");
        bast::park();
    });
}

fn cancelled() {
    /// Cancels a fiber that reads, when the input has been read as far as there is.
    fn interrupted(read: fn()) {
        let reader = bast::spawn(read);
        bast::sleep(Duration::from_millis(60));
        reader.cancel();
        assert!(reader.join().unwrap_err().is::<bast::Cancelled>());
        println!("interrupted");
    }
    interrupted(|| drop(stdin().read_line(&mut String::new())));
    let line = timeout(Duration::from_millis(60), || stdin().lines().next());
    assert!(line.is_err());
    println!("interrupted");
    let mut line = String::new();
    stdin().read_line(&mut line).unwrap();
    interrupted(|| drop(stdin().read_exact(&mut [0; 9])));
    let mut four = [0; 4];
    stdin().read_exact(&mut four).unwrap();
    interrupted(|| drop(stdin().read_to_end(&mut Vec::new())));
    interrupted(|| drop(stdin().read_to_string(&mut String::new())));
    interrupted(|| drop(stdin().lock().read_until(b'.', &mut Vec::new())));
    let all = std::io::read_to_string(stdin()).unwrap();
    println!("<{}><{}><{all}>", line.trim_end(), String::from_utf8_lossy(&four));
}

fn errors() {
    std::panic::set_hook(Box::new(|_| ()));
    let line = stdout().write_all(b"a line\n").unwrap_err().kind();
    stdout().write_all(b"no line").unwrap();
    let flushed = stdout().flush().unwrap_err().kind();
    let panicked = bast::spawn(|| println!("x")).join().unwrap_err();
    let message = panicked.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("failed printing to stdout: "), "{message}");
    bast::eprintln!("{line:?} {flushed:?} panicked");
}

/// Fibers that print long lines to a slow reader, and are interrupted in the middle of them.
fn storm() {
    const FIBERS: usize = 50;
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let fibers: Vec<_> = (0..FIBERS)
        .map(|fiber| {
            let acknowledged = Arc::clone(&acknowledged);
            bast::spawn(move || {
                for number in 0..60 {
                    let rest = vec![number.to_string(); 398].join(" ");
                    let limit =
                        Duration::from_micros(if number % 3 == 0 { 200 } else { 60_000_000 });
                    if timeout(limit, || println!("{fiber} {number} {rest}")).is_ok() {
                        acknowledged.fetch_add(1, Relaxed);
                    }
                }
            })
        })
        .collect();
    for (n, fiber) in fibers.into_iter().enumerate() {
        if n % 7 == 0 {
            bast::sleep(Duration::from_millis(5));
            fiber.cancel();
        }
        let _ = fiber.join();
    }
    println!("acknowledged {}", acknowledged.load(Relaxed));
}

/// Fibers of two runtimes, and a plain thread.
fn everybody() {
    let build = || Runtime::builder().workers(2).build().unwrap();
    let (one, two) = (build(), build());
    let print = |who: &'static str| move || (0..500).for_each(|n| println!("{who} {n}"));
    let fibers = [one.spawn(print("fiber of one")), two.spawn(print("fiber of two"))];
    let thread = std::thread::spawn(print("thread"));
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    thread.join().unwrap();
}

fn again() {
    let mut lock = stdout().lock();
    let other = bast::spawn(|| println!("other"));
    write!(lock, "outer ").unwrap();
    bast::sleep(Duration::from_millis(10));
    println!("inner");
    drop(lock);
    other.join().unwrap();
}

/// Says something when it is dropped.
struct Says(&'static str);

impl Drop for Says {
    fn drop(&mut self) {
        println!("{}", self.0);
    }
}

/// Fibers that print as they unwind, while somebody else has the lock.
fn unwinds() {
    std::panic::set_hook(Box::new(|_| ()));
    let lock = stdout().lock();
    let cancelled = bast::spawn(|| {
        let _says = Says("cancelled");
        bast::park();
    });
    let panicked = bast::spawn(|| {
        let _says = Says("panicked");
        panic!("on purpose");
    });
    let late = bast::spawn(|| {
        let _ = timeout(Duration::from_millis(5), || {
            let _says = Says("late");
            bast::park();
        });
        bast::park();
    });
    bast::sleep(Duration::from_millis(20));
    cancelled.cancel();
    late.cancel();
    bast::sleep(Duration::from_millis(20));
    println!("first");
    drop(lock);
    assert!(cancelled.join().is_err());
    assert!(panicked.join().is_err());
    assert!(late.join().is_err());
}
