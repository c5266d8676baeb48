//! One program, of which a few threads at a time are stopped by `ptrace`.
//!
//! Who seizes a thread must be the one that waits for it and lets it go. So all of this is done by the only thread of a
//! process of its own, and nobody else waits for its children.

use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// So many threads are stopped at once, at most.
const AT_ONCE: u64 = 3;

/// What the kernel calls the stop that was asked for; any other is a signal on its way, which must go on.
const EVENT_STOP: i32 = 128;

/// A thread that sleeps where nothing interrupts it stops later, or not at all.
const PATIENCE: Duration = Duration::from_secs(3);

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// How a program has ended, if not well.
type End = Result<(), String>;

/// Runs it to its end, which must be a good one. A thread stands still for up to `stop` milliseconds, and none does for up
/// to `pause`.
pub(super) fn run(command: &mut Command, stop: u64, pause: u64) -> Result<(), String> {
    let child = command.spawn().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    let seed = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos() as u64);
    let mut chance = Chance(seed);
    let mut stops = 0;
    let end = loop {
        sleep(Duration::from_millis(1 + chance.below(pause)));
        if let Some(end) = reap(&child) {
            break end;
        }
        let threads = threads_of(&child);
        if threads.is_empty() {
            continue;
        }
        let chosen = (0..=chance.below(AT_ONCE))
            .map(|_| threads[chance.below(threads.len() as u64) as usize]);
        // One that is chosen twice can be seized once.
        let seized: Vec<Pid> = chosen.filter(|thread| seize(*thread)).collect();
        sleep(Duration::from_millis(chance.below(stop)));
        stops += seized.len();
        if let Some(end) = seized.into_iter().find_map(|thread| let_go(thread, &child)) {
            break end;
        }
    };
    println!("threads were stopped {stops} times");
    end
}

fn seize(thread: Pid) -> bool {
    ptrace::seize(thread, Options::empty()).is_ok() && ptrace::interrupt(thread).is_ok()
}

/// Waits until it has stopped, and has it go on; or finds that all is over.
fn let_go(thread: Pid, child: &Child) -> Option<End> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match wait(thread) {
            Ok(WaitStatus::StillAlive) => sleep(Duration::from_millis(1)),
            Ok(status) => return take(status, child),
            Err(_) => {
                // Stopped by a signal without a name here, or gone.
                let _ = ptrace::detach(thread, None);
                return None;
            }
        }
    }
    None
}

/// The end of the program, if it has come. The last word about seized threads that have ended is taken as well: before it
/// there is no end of the whole. So are stops that come late.
fn reap(child: &Child) -> Option<End> {
    loop {
        match wait(Pid::from_raw(-1)) {
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(status) => {
                if let Some(end) = take(status, child) {
                    return Some(end);
                }
            }
        }
    }
}

/// Lets a thread go that has stopped, with the signal if it was one that stopped it.
fn take(status: WaitStatus, child: &Child) -> Option<End> {
    let whole = Pid::from_raw(child.id() as i32);
    // Who is killed meanwhile cannot be let go, and is told of by the next wait.
    match status {
        WaitStatus::PtraceEvent(thread, _, EVENT_STOP) => drop(ptrace::detach(thread, None)),
        WaitStatus::Stopped(thread, signal) => drop(ptrace::detach(thread, signal)),
        WaitStatus::Exited(pid, 0) if pid == whole => return Some(Ok(())),
        WaitStatus::Exited(pid, code) if pid == whole => {
            return Some(Err(format!("ended with {code}")));
        }
        WaitStatus::Signaled(pid, signal, _) if pid == whole => {
            return Some(Err(format!("ended by {signal}")));
        }
        _ => {}
    }
    None
}

fn wait(thread: Pid) -> Result<WaitStatus, Errno> {
    waitpid(thread, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL))
}

fn threads_of(child: &Child) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id()));
    let names = tasks.into_iter().flatten().flatten().map(|task| task.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok().map(Pid::from_raw)).collect()
}
