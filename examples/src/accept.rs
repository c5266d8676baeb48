//! Accepting in direct style: a fiber for each connection, so many at once and no more, and an end
//! that waits for them.
//!
//! ```text
//!   place free? --> accept --> member of the group: handle(stream) ... end: the place is free
//!        ^             |
//!        +-------------+   stop: out of here; those under way get the grace; then they unwind
//! ```
//!
//! Whoever finds no place waits in the kernel's backlog, and costs nothing. Nobody is forgotten: the
//! group returns when all its fibers have ended, however that came about.

use std::fmt::Display;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bast::group::Group;
use bast::net::{TcpListener, TcpStream};
use bast::sync::Semaphore;
use bast::{CancelToken, Cancelled};

/// How long connections under way may take after the stop.
const GRACE: Duration = Duration::from_secs(5);

/// Accepts until `stop` is cancelled, `most` connections at once. Returns when all have ended: those
/// that do not within five seconds unwind from where they wait. Says how many there were.
///
/// # Panics
/// If `handle` does, or no fiber can be had for a connection.
pub fn serve<F>(listener: &TcpListener, most: usize, stop: &CancelToken, handle: F) -> u64
where
    F: Fn(TcpStream, SocketAddr) + Sync,
{
    let places = Semaphore::new(most);
    let mut accepted = 0;
    // The group is an error only if it is interrupted, which is how connections are ended here.
    let _ = bast::group(|group| {
        let accepting = || accept_all(listener, &places, group, &handle, &mut accepted);
        let Err(Cancelled { .. }) = stop.run(accepting);
        if places.acquire_many_timeout(most, GRACE).is_err() {
            group.cancel();
        }
        Ok::<(), Cancelled>(())
    });
    accepted
}

fn accept_all<'scope, 'env, F>(
    listener: &TcpListener,
    places: &'env Semaphore,
    group: &'scope Group<'scope, 'env, Cancelled>,
    handle: &'env F,
    accepted: &mut u64,
) -> std::convert::Infallible
where
    F: Fn(TcpStream, SocketAddr) + Sync,
{
    const PAUSE: Duration = Duration::from_millis(50);
    let complaints = Complaints::new();
    loop {
        let place = places.acquire().expect("nobody closes it");
        match listener.accept() {
            Ok((stream, peer)) => {
                *accepted += 1;
                group.spawn(move || {
                    handle(stream, peer);
                    drop(place);
                    Ok(())
                });
            }
            // The peer gave up before it was accepted: nothing is wrong here.
            Err(fault) if fault.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(fault) => {
                complaints.say(format_args!("accept: {fault}"));
                bast::sleep(PAUSE);
            }
        }
    }
}

/// Ends a connection whose peer may still be sending: a socket closed with unread data is reset, and a
/// reset destroys what the peer has not read yet.
///
/// # Errors
/// The peer has gone, or was silent for a second.
pub fn hang_up(mut stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut buffer = [0; 512];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Says what goes wrong, ten times a second at most: who floods a server should not flood its log.
#[derive(Debug)]
pub struct Complaints {
    /// Since when, how many have been said, how many not.
    second: Mutex<(Instant, u32, u64)>,
}

impl Complaints {
    /// Nothing has gone wrong yet.
    pub fn new() -> Complaints {
        Complaints { second: Mutex::new((Instant::now(), 0, 0)) }
    }

    /// One line on the standard error.
    pub fn say(&self, what: impl Display) {
        const IN_A_SECOND: u32 = 10;
        let unsaid = {
            // Nothing suspends under this lock.
            let mut second = self.second.lock().expect("nothing panics under it");
            if second.0.elapsed() >= Duration::from_secs(1) {
                (second.0, second.1) = (Instant::now(), 0);
            }
            second.1 += 1;
            if second.1 > IN_A_SECOND {
                second.2 += 1;
                return;
            }
            std::mem::take(&mut second.2)
        };
        match unsaid {
            0 => eprintln!("{what}"),
            more => eprintln!("{what} (and {more} more faults before)"),
        }
    }
}

impl Default for Complaints {
    fn default() -> Self {
        Complaints::new()
    }
}

/// Runs a server's `main` in a fiber: `serve` gets a token that Ctrl-C cancels. A second Ctrl-C ends the
/// process at once.
///
/// # Errors
/// What `serve` says, or why there is no runtime (`BAST_WORKERS`, `BAST_DRIVER`).
pub fn until_ctrl_c<T: Send>(
    serve: impl FnOnce(&CancelToken) -> io::Result<T> + Send,
) -> io::Result<T> {
    crate::os::raise_open_files();
    let runtime = bast::Runtime::builder().build()?;
    runtime.run(|| {
        let stop = CancelToken::new();
        // From here on no Ctrl-C is missed.
        let ctrl_c = bast::signal::CtrlC::new()?;
        let listening = bast::spawn({
            let stop = stop.clone();
            move || {
                if ctrl_c.wait().is_ok() {
                    stop.cancel();
                }
                if ctrl_c.wait().is_ok() {
                    std::process::exit(130);
                }
            }
        });
        let outcome = serve(&stop);
        listening.cancel();
        let _ = listening.join();
        outcome
    })
}
