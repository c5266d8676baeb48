//! The dump as text for people: what many fibers have in common is said once.
//!
//! ```text
//!   4,096 fibers: parked in read, for 1.2 s to 3.4 s; descriptors 7, 8, 9, … 4102
//!       ids 3, 4, 5, … 4098
//!       spawned at src/main.rs:10:5
//!       0: bast::net::stream::TcpStream::read
//!              at …/stream.rs:120
//! ```

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use super::dump::{Dump, FiberDump, WorkerState};
use super::symbols::{Frame, own_line};

/// How many of a list are written out.
const SHOWN: usize = 8;

/// A duration for people.
pub(super) fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 600.0 => format!("{:.0} min", s / 60.0),
        s if s >= 1.0 => format!("{s:.1} s"),
        s => format!("{:.0} ms", s * 1e3),
    }
}

/// A number for people: `4,096`.
pub(super) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `n fibers`, or `1 fiber`.
pub(super) fn count(n: usize, what: &str) -> String {
    format!("{} {what}{}", number(n as u64), if n == 1 { "" } else { "s" })
}

/// The first of a list, and the last.
fn some_of<T: fmt::Display>(all: &[T]) -> String {
    let shown: Vec<String> = all.iter().take(SHOWN).map(T::to_string).collect();
    let mut text = shown.join(", ");
    if let Some(last) = all.get(SHOWN..).and_then(<[T]>::last) {
        text.push_str(&format!(", … {last}"));
    }
    text
}

/// `fiber 17 'name'`.
pub(super) fn who(id: u64, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("fiber {id} '{name}'"),
        None => format!("fiber {id}"),
    }
}

pub(super) fn backtrace(f: &mut impl fmt::Write, frames: &[Frame]) -> fmt::Result {
    let same = |a: &Frame, b: &Frame| (&a.name, &a.file, a.line) == (&b.name, &b.file, b.line);
    let mut at = 0;
    while let Some(frame) = frames.get(at) {
        writeln!(f, "    {at:3}: {frame}")?;
        let repeats = frames[at..].iter().take_while(|other| same(other, frame)).count();
        at += repeats;
        if let Some(place) = frame.place() {
            writeln!(f, "              at {place}")?;
        }
        if repeats > 1 {
            writeln!(f, "         … {} more of the same", repeats - 1)?;
        }
    }
    Ok(())
}

/// What fibers of one entry share.
#[derive(PartialEq, Eq, Hash)]
struct Kind {
    state: &'static str,
    unwinding: bool,
    cancelled: bool,
    what: Option<&'static str>,
    site: usize,
    stack: usize,
    /// A fiber with a name is an entry of its own, as is one that waits for a certain other.
    alone: Option<u64>,
}

fn kind(fiber: &FiberDump) -> Kind {
    Kind {
        state: fiber.state,
        unwinding: fiber.unwinding,
        cancelled: fiber.cancelled,
        what: fiber.waits_in(),
        site: std::ptr::from_ref(fiber.site).addr(),
        stack: fiber.stack,
        alone: (fiber.name.is_some() || fiber.state == "running").then_some(fiber.id),
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workers: usize = self.runtimes.iter().map(|runtime| runtime.workers.len()).sum();
        let live = self.runtimes.iter().flat_map(|r| &r.workers).map(|worker| worker.live).sum();
        writeln!(
            f,
            "bast: {}, {}, {}; taken in {}",
            count(live, "fiber"),
            count(workers, "worker"),
            count(self.runtimes.iter().filter(|runtime| !runtime.bound).count(), "runtime"),
            time(self.took)
        )?;
        for runtime in &self.runtimes {
            for (index, worker) in runtime.workers.iter().enumerate() {
                match runtime.bound {
                    true => write!(f, "runtime {}, bound thread", runtime.number)?,
                    false => write!(f, "runtime {}, worker {index}", runtime.number)?,
                }
                match worker.state {
                    WorkerState::Well { driver } => write!(f, " ({driver})")?,
                    WorkerState::Ended => write!(f, " has ended")?,
                    WorkerState::Held { at_least } if at_least.is_zero() => {
                        write!(f, " is too busy to answer")?;
                    }
                    WorkerState::Held { at_least } => {
                        write!(f, " does not answer: held for {} at least", time(at_least))?;
                        if let Some(fiber) = worker.fibers.first() {
                            write!(f, " by {}", who(fiber.id, fiber.name()))?;
                        }
                    }
                }
                let WorkerState::Ended = worker.state else {
                    writeln!(
                        f,
                        ": {}, {} ready, {} not started",
                        count(worker.live, "fiber"),
                        number(worker.ready as u64),
                        number(worker.fresh as u64)
                    )?;
                    continue;
                };
                writeln!(f)?;
            }
            for (site, tasks) in &runtime.tasks {
                writeln!(
                    f,
                    "runtime {}: {} spawned at {site}",
                    runtime.number,
                    count(*tasks, "task")
                )?;
            }
        }
        for thread in &self.threads {
            write!(f, "thread {}", thread.id)?;
            if let Some(name) = &thread.name {
                write!(f, " '{name}'")?;
            }
            write!(f, " is blocked in {}", thread.wait.what)?;
            if thread.wait.holder != 0 {
                write!(f, ", which {} could end", self.name_of(thread.wait.holder))?;
            }
            writeln!(f)?;
        }
        for group in self.groups() {
            writeln!(f)?;
            self.group(f, &group)?;
        }
        Ok(())
    }
}

impl Dump {
    /// A fiber or thread of this dump.
    pub(super) fn name_of(&self, id: u64) -> String {
        if let Some(fiber) = self.fibers().find(|fiber| fiber.id == id) {
            return who(id, fiber.name());
        }
        match self.threads.iter().find(|thread| thread.id == id) {
            Some(thread) => match &thread.name {
                Some(name) => format!("thread {id} '{name}'"),
                None => format!("thread {id}"),
            },
            None => format!("fiber {id}"),
        }
    }

    /// Fibers that wait alike, the largest group first.
    fn groups(&self) -> Vec<Vec<&FiberDump>> {
        let mut places = HashMap::new();
        let mut groups: Vec<Vec<&FiberDump>> = Vec::new();
        for fiber in self.fibers() {
            let at = *places.entry(kind(fiber)).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[at].push(fiber);
        }
        for group in &mut groups {
            group.sort_by_key(|fiber| fiber.id);
        }
        let running = |group: &[&FiberDump]| group.iter().any(|fiber| fiber.state == "running");
        groups.sort_by_key(|group| (!running(group), usize::MAX - group.len(), group[0].id));
        groups
    }

    fn group(&self, f: &mut fmt::Formatter<'_>, group: &[&FiberDump]) -> fmt::Result {
        let first = group[0];
        match group {
            [fiber] => write!(f, "{}", who(fiber.id, fiber.name()))?,
            _ => write!(f, "{}", count(group.len(), "fiber"))?,
        }
        write!(f, ": {}", first.state)?;
        if let Some(what) = first.waits_in() {
            write!(f, " in {what}")?;
        }
        let times = || group.iter().filter_map(|fiber| fiber.since);
        if let (Some(least), Some(most)) = (times().min(), times().max()) {
            write!(f, ", for {}", time(least))?;
            if time(least) != time(most) {
                write!(f, " to {}", time(most))?;
            }
        }
        if let [fiber] = group {
            if let Some(object) = fiber.wait.as_ref().map(|wait| wait.object).filter(|&o| o != 0) {
                write!(f, ", at {object:#x}")?;
            }
            if let Some(id) = fiber.waits_for() {
                write!(f, ", which {} could end", self.name_of(id))?;
            }
        }
        let descriptors: Vec<i32> = group.iter().filter_map(|fiber| fiber.descriptor()).collect();
        match descriptors.len() {
            0 => {}
            1 => write!(f, ", descriptor {}", descriptors[0])?,
            _ => write!(f, ", descriptors {}", some_of(&descriptors))?,
        }
        if first.unwinding {
            write!(f, ", while it unwinds")?;
        }
        if first.cancelled {
            write!(f, ", asked to end")?;
        }
        if first.state == "running"
            && let Some(place) = own_line(self.backtrace(first)).and_then(Frame::place)
        {
            write!(f, ", at {place}")?;
        }
        writeln!(f)?;
        if group.len() > 1 {
            let ids: Vec<u64> = group.iter().map(|fiber| fiber.id).collect();
            writeln!(f, "    ids {}", some_of(&ids))?;
        }
        writeln!(f, "    spawned at {}", first.site)?;
        backtrace(f, self.backtrace(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_for_people() {
        assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(count(1, "fiber"), "1 fiber");
        assert_eq!(time(Duration::from_millis(1_250)), "1.2 s");
        assert_eq!(time(Duration::from_millis(7)), "7 ms");
        assert_eq!(some_of(&[1, 2]), "1, 2");
        assert!(some_of(&(0..100).collect::<Vec<_>>()).ends_with("7, … 99"));
    }
}
