//! Cancelling in a program that cannot unwind (`panic = "abort"`).
//!
//! There a cancelled fiber's operations fail, with an error that says so; `sleep` returns early; and the fiber
//! ends as the program's own code lets it. The same program compiled with unwinding shows the other way.
//!
//! ```text
//! cargo run --profile abort -p bast --example no_unwind
//! ```

use std::io::{self, ErrorKind, Read};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bast::net::{TcpListener, TcpStream};
use bast::{Cancelled, JoinHandle, Runtime};

const LONG: Duration = Duration::from_secs(3600);

fn unwinds() -> bool {
    cfg!(panic = "unwind")
}

/// A connection on which nothing ever comes.
fn silent() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    Ok((client, listener.accept()?.0))
}

/// Cancels a fiber once it waits, and shows what it came to.
fn cancel<T: std::fmt::Debug>(what: &str, fiber: JoinHandle<T>) -> Option<T> {
    bast::sleep(Duration::from_millis(20));
    assert!(!fiber.is_finished(), "{what}: it waits");
    fiber.cancel();
    match fiber.join() {
        Ok(value) => {
            assert!(!unwinds(), "{what}: it should have unwound");
            println!("{what}: {value:?}");
            Some(value)
        }
        Err(payload) => {
            assert!(unwinds() && payload.is::<Cancelled>(), "{what}: it panicked");
            println!("{what}: unwound");
            None
        }
    }
}

fn check(error: Option<io::Error>, says: &str) {
    if let Some(error) = error {
        assert!(error.to_string().contains(says), "{error}");
        assert_ne!(error.kind(), ErrorKind::Interrupted, "upon which std tries again");
    }
}

fn show() -> io::Result<()> {
    let (mut client, _server) = silent()?;
    let reader = bast::spawn(move || {
        let first = client.read(&mut [0; 8]).expect_err("nobody writes");
        // It stands: whatever is tried now fails as well. A cleanup says `mask`.
        assert!(client.read_to_end(&mut Vec::new()).is_err());
        bast::mask(|| bast::sleep(Duration::from_millis(1)));
        first
    });
    check(cancel("a read", reader), "the fiber was cancelled");

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let acceptor = bast::spawn(move || listener.accept().expect_err("nobody connects"));
    check(cancel("an accept", acceptor), "the fiber was cancelled");

    let sleeper = bast::spawn(|| {
        let begin = Instant::now();
        bast::sleep(LONG);
        begin.elapsed()
    });
    let slept = cancel("a sleep", sleeper);
    assert!(slept.is_none_or(|slept| slept < LONG));

    let (mut reader, _writer) = io::pipe()?;
    let caller = bast::spawn(move || {
        bast::blocking_interruptible(|| reader.read(&mut [0; 8])).expect_err("nobody writes")
    });
    check(cancel("a blocking call", caller), "the fiber was cancelled");

    // A loop that computes asks by itself, whether or not the program can unwind.
    let computes = bast::spawn(|| {
        let mut rounds = 0u64;
        while !bast::stop_requested() {
            rounds += 1;
        }
        rounds
    });
    bast::sleep(Duration::from_millis(20));
    computes.cancel();
    let rounds = computes.join().expect("nothing in it unwinds");
    println!("a computation: ended after {rounds} rounds");

    let (mut client, _server) = silent()?;
    client.set_read_timeout(Some(LONG))?;
    let timed = bast::timeout(Duration::from_millis(10), || client.read(&mut [0; 8]));
    println!("a timeout around a read: {timed:?}");
    match timed {
        Err(elapsed) => assert!(unwinds(), "{elapsed}"),
        Ok(read) => {
            let error = read.expect_err("nobody writes");
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            check(Some(error), "the time is up");
        }
    }
    // It is over, and so is what it did.
    client.set_read_timeout(Some(Duration::from_millis(1)))?;
    let error = client.read(&mut [0; 8]).expect_err("nobody writes");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    Ok(())
}

fn main() -> ExitCode {
    let runtime = match Runtime::builder().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no_unwind: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("no_unwind: on {}, unwinding: {}", runtime.driver_name(), unwinds());
    if let Err(error) = runtime.run(show) {
        eprintln!("no_unwind: {error}");
        return ExitCode::FAILURE;
    }
    // The end of a runtime cancels what is left.
    let left = runtime.spawn(|| bast::sleep(LONG));
    std::thread::sleep(Duration::from_millis(10));
    if let Err(stuck) = runtime.shutdown(Duration::from_secs(10)) {
        eprintln!("no_unwind: {stuck}");
        return ExitCode::FAILURE;
    }
    assert!(left.is_finished());
    println!("no_unwind: ok");
    ExitCode::SUCCESS
}
