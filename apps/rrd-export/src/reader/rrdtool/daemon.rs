//! One `rrdtool -`: a child that answers commands line by line.
//!
//! Two askers use it at a time, so that it has its next command when it is done with one. The reading end goes from asker
//! to asker like a baton, in the order in which the commands were sent:
//!
//! ```text
//!   asker 1: command ──────▶ reads its reply ─ baton ─╮
//!   asker 2:          command ─────── waits for it ───┴▶ reads its reply ─ baton ─▶ (the next one)
//! ```
//!
//! An asker who cannot pass the baton on (the daemon has died or is stuck, he is cancelled in the middle of a reply) drops
//! it. Nobody after him gets one, and all know that this daemon is of no use: a reply is never taken for another's.
//!
//! Commands are short and a pipe holds 64 KiB, so sending does not wait for a daemon that waits for us to read.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::mem;
use std::path::Path;
use std::process::Stdio;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bast::JoinHandle;
use bast::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use bast::sync::{Mutex, oneshot};
use rrd_file::Query;

use super::reply::{Replies, Reply};

/// How many askers a daemon has at a time.
pub(super) const ASKERS: usize = 2;

/// How much of what a daemon complains of is kept: the end, in bytes.
const LAST_WORDS: usize = 2048;

/// How long a daemon that has closed its output may take to end and to tell why.
const GRACE: Duration = Duration::from_millis(200);

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The daemon was lost with somebody else's command.
    Earlier,
    /// It was lost with this one: what happened.
    Lost(String),
}

pub(super) struct Daemon {
    sending: Mutex<Sending>,
    child: Mutex<(Child, Option<JoinHandle<LastWords>>)>,
    /// Only ever set; what it guards is behind the locks, so any order will do.
    dead: AtomicBool,
}

struct Sending {
    stdin: ChildStdin,
    /// Brings the reading end when all earlier replies have been read.
    baton: oneshot::Receiver<Replies<ChildStdout>>,
}

/// A command that speaks the language the replies are parsed in.
pub(super) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    // A locale may want its own decimal point.
    command.env("LC_ALL", "C").kill_on_drop(true);
    command
}

/// It has ended when its owner has: no zombie is left, and what it took is counted as its parent's children's.
impl Drop for Daemon {
    fn drop(&mut self) {
        let (child, _) = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Daemon {
    pub(super) fn start(program: &Path) -> io::Result<Daemon> {
        let mut child = command(program)
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = child.stdout.take().expect("a pipe");
        let stderr = child.stderr.take().expect("a pipe");
        let listener = bast::spawn(move || listen(stderr));
        let (first, baton) = oneshot::channel();
        let _ = first.send(Replies::new(stdout));
        Ok(Daemon {
            sending: Mutex::new(Sending { stdin, baton }),
            child: Mutex::new((child, Some(listener))),
            dead: AtomicBool::new(false),
        })
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Sends a command and reads the reply; each may take as long as `limit`.
    ///
    /// # Cancellation
    /// A suspension point. The daemon is lost then.
    pub(super) fn ask(
        &self,
        command: &[u8],
        query: &Query,
        limit: Duration,
    ) -> Result<Reply, Trouble> {
        // Whoever leaves this function without having sent it leaves the next asker without the reading end.
        let (pass, next) = oneshot::channel();
        let (baton, sent) = {
            let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
            let baton = mem::replace(&mut sending.baton, next);
            let mut stdin = &sending.stdin;
            (baton, bast::timeout(limit, || stdin.write_all(command)))
        };
        let Ok(mut replies) = baton.recv() else {
            self.dead.store(true, Ordering::Relaxed);
            return Err(Trouble::Earlier);
        };
        let reply = match sent {
            Ok(Ok(())) => bast::timeout(limit, || replies.read(query)),
            Ok(Err(error)) => Ok(Err(error)),
            Err(elapsed) => Err(elapsed),
        };
        match reply {
            Ok(Ok(reply)) => {
                let _ = pass.send(replies);
                Ok(reply)
            }
            Ok(Err(error)) => Err(Trouble::Lost(self.bury(&error))),
            Err(_) => {
                let what = format!("rrdtool has not answered for {} s", limit.as_secs_f64());
                self.dead.store(true, Ordering::Relaxed);
                let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).0.kill();
                Err(Trouble::Lost(what))
            }
        }
    }

    /// Ends a daemon whose stream has ended, and says what is known of why.
    fn bury(&self, error: &io::Error) -> String {
        self.dead.store(true, Ordering::Relaxed);
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let (child, listener) = &mut *child;
        let mut what = match error.kind() {
            io::ErrorKind::InvalidData => format!("rrdtool has answered something odd, {error}"),
            _ => match bast::timeout(GRACE, || child.wait()) {
                Ok(Ok(status)) => format!("rrdtool has ended ({status})"),
                _ => format!("rrdtool does not answer any more ({error})"),
            },
        };
        let _ = child.kill();
        if let Some(listener) = listener.take()
            && let Ok(Ok(words)) = bast::timeout(GRACE, || listener.join())
            && !words.is_empty()
        {
            what += ": ";
            what += String::from_utf8_lossy(&Vec::from(words)).trim();
        }
        what
    }
}

/// The end of what a daemon complained of.
type LastWords = VecDeque<u8>;

fn listen(mut stderr: ChildStderr) -> LastWords {
    let (mut words, mut buffer) = (LastWords::new(), [0; 512]);
    while let Ok(count @ 1..) = stderr.read(&mut buffer) {
        words.extend(&buffer[..count]);
        words.drain(..words.len().saturating_sub(LAST_WORDS));
    }
    words
}
