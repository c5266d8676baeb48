//! From instruction pointers to names, files and lines, and which frames of a stack people want to see.
//!
//! ```text
//!   innermost   Worker::show, switch_out, wait::wait, …      ours: left out
//!               bast_rt::suspend::sleep                      the call that the user made: the first line
//!               app::handle, app::serve::{{closure}}         the user's
//!   outermost   catch_unwind, fiber::run, the switch         ours: left out
//! ```
//!
//! Each distinct address is looked up once for a report. The first look-up of a process reads the debug
//! information of the program, which may take a tenth of a second and some stack: this runs on plain
//! threads only.

use std::collections::HashMap;
use std::fmt;
use std::ptr;
use std::rc::Rc;

/// One line of a backtrace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    pub(super) name: Option<String>,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) ip: usize,
}

impl Frame {
    /// The function, if the program's symbols name it.
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The source file, if the program has debug information.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The line in that file.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        self.line
    }

    /// `file:line`, as far as that is known.
    pub(super) fn place(&self) -> Option<String> {
        Some(match (self.file.as_deref()?, self.line) {
            (file, Some(line)) => format!("{file}:{line}"),
            (file, None) => file.to_owned(),
        })
    }

    /// By the file first: with line tables only, the name of an inlined function lacks its crate.
    fn root(&self) -> Root {
        self.file.as_deref().and_then(root_of_file).unwrap_or_else(|| self.root_of_name())
    }

    fn root_of_name(&self) -> Root {
        let Some(name) = &self.name else { return Root::Unknown };
        // `<app::f as core::ops::function::FnOnce<()>>::call_once`: how a function is called by a pointer.
        if name.starts_with('<') && name.contains(" as core::ops::function::Fn") {
            return Root::Std;
        }
        let name = name.trim_start_matches(['<', '&', '*']);
        let name = name.strip_prefix("mut ").unwrap_or(name);
        let root = name.split_once("::").map_or(name, |(root, _)| root);
        // `<i32 as core::iter::Step>::forward`: the type is nobody's, the trait is core's.
        match root.rsplit_once(" as ").map_or(root, |(_, root)| root) {
            "bast" | "bast_rt" | "bast_sync" | "bast_io" | "bast_coro" => Root::Bast,
            "std" | "core" | "alloc" | "backtrace" | "__rust_try" => Root::Std,
            // A function of C: of the system, as a rule.
            _ if !name.contains("::") && !self.is_rust() => Root::Unknown,
            _ => Root::User,
        }
    }

    /// The module of std that its file is: `std::sync::poison::mutex.rs`. An inlined function's name lacks it.
    fn std_module(&self) -> Option<String> {
        let (_, path) = self.file.as_ref()?.split_once("/library/")?;
        Some(path.replace("/src/", "::").replace('/', "::"))
    }

    fn is_rust(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.ends_with(".rs"))
    }
}

/// Whose code a file has, if its path tells: `…/bast-rt/src/worker.rs`, `…/bast-rt-0.1.0/src/worker.rs`.
fn root_of_file(file: &str) -> Option<Root> {
    if file.starts_with("/rustc/") || file.contains("/rustlib/src/") {
        return Some(Root::Std);
    }
    // A registry keeps its packages in a directory of that name, too: the last one counts.
    let (dir, _) = file.rsplit_once("/src/")?;
    let package = dir.rsplit('/').next()?;
    let is = |package: &str, name: &str| {
        package.strip_prefix(name).is_some_and(|rest| {
            let mut rest = rest.chars();
            rest.next().is_none_or(|c| c == '-') && rest.next().is_none_or(|c| c.is_ascii_digit())
        })
    };
    if ["bast", "bast-rt", "bast-sync", "bast-io", "bast-coro"].iter().any(|name| is(package, name))
    {
        Some(Root::Bast)
    } else if is(package, "backtrace") {
        Some(Root::Std)
    } else {
        None
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.ip),
        }
    }
}

/// Whose a frame is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    Bast,
    Std,
    User,
    /// Foreign code, the kernel's page of functions, or a program without symbols.
    Unknown,
}

/// Looks addresses up, each once.
#[derive(Default)]
pub(super) struct Symbols {
    known: HashMap<usize, Rc<[Frame]>>,
}

impl Symbols {
    /// The frames of a stack, inlined functions too. `exact`: the first address is where the code is, and not
    /// where a call returns to.
    fn resolve(&mut self, ips: &[usize], exact: bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (at, &ip) in ips.iter().enumerate() {
            // The look-up takes every address for a return address, and searches one before it.
            let ip = if exact && at == 0 { ip + 1 } else { ip };
            let found = self.known.entry(ip).or_insert_with(|| look_up(ip));
            frames.extend(found.iter().cloned());
        }
        frames
    }

    /// A suspended fiber's stack, from the call that suspends on.
    pub(super) fn suspended(&mut self, ips: &[usize]) -> Vec<Frame> {
        let mut frames = self.resolve(ips, false);
        cut_outer(&mut frames);
        let user = frames.iter().position(|frame| frame.root() == Root::User);
        let inner = &frames[..user.unwrap_or(frames.len())];
        if let Some(first) = inner.iter().rposition(|frame| frame.root() == Root::Bast) {
            frames.drain(..first);
        }
        frames
    }

    /// The stack of a fiber that was interrupted while it ran.
    pub(super) fn interrupted(&mut self, ips: &[usize]) -> Vec<Frame> {
        let mut frames = self.resolve(ips, true);
        cut_outer(&mut frames);
        frames
    }
}

/// Reads the program's debug information, so that the first look-up in earnest is quick.
pub(super) fn warm() {
    look_up(warm as *const () as usize + 1);
}

fn look_up(ip: usize) -> Rc<[Frame]> {
    let mut frames = Vec::new();
    backtrace::resolve(ptr::without_provenance_mut(ip), |symbol| {
        frames.push(Frame {
            name: symbol.name().map(|name| format!("{name:#}")),
            file: symbol.filename().map(|file| file.to_string_lossy().into_owned()),
            line: symbol.lineno(),
            ip,
        });
    });
    if frames.is_empty() {
        frames.push(Frame { name: None, file: None, line: None, ip });
    }
    frames.into()
}

/// Whether it is the function at the outer end of each fiber.
fn is_run(frame: &Frame) -> bool {
    let Some(name) = &frame.name else { return false };
    let in_its_file = || frame.file.as_ref().is_some_and(|file| file.ends_with("/fiber.rs"));
    name.starts_with("bast_rt::fiber::run")
        || (name.starts_with("run<") && frame.root() == Root::Bast && in_its_file())
}

/// Leaves out what called the fiber's code.
fn cut_outer(frames: &mut Vec<Frame>) {
    let Some(run) = frames.iter().rposition(is_run) else { return };
    frames.truncate(run);
    let glue = |frame: &Frame| match frame.root() {
        Root::Std => true,
        Root::Bast => {
            is_run(frame) || frame.name.as_ref().is_some_and(|name| name.contains("{closure"))
        }
        Root::User | Root::Unknown => false,
    };
    while frames.len() > 1 && frames.last().is_some_and(glue) {
        frames.pop();
    }
}

/// The innermost line of the user's own code.
pub(super) fn own_line(frames: &[Frame]) -> Option<&Frame> {
    frames.iter().find(|frame| frame.root() == Root::User && frame.line.is_some())
}

/// If a thread is inside one of std's calls that block the thread: which one, and what to use instead.
pub(super) fn blocking_call(frames: &[Frame]) -> Option<(&'static str, &'static str)> {
    const CALLS: &[(&[&str], &str, &str)] = &[
        (&["std::thread", "::sleep"], "std::thread::sleep", "bast::sleep"),
        (&["std::thread", "::park"], "std::thread::park", "bast::park"),
        (&["std::thread", "::scope"], "std::thread::scope", "bast::scope"),
        (&["std::thread", "join"], "std::thread::JoinHandle::join", "bast::spawn"),
        (&["std::sync", "mpsc"], "std::sync::mpsc", "bast::sync::mpsc"),
        (&["std::sync", "mpmc"], "std::sync::mpmc", "bast::sync::mpmc"),
        (&["std::sync", "barrier"], "std::sync::Barrier", "bast::sync::Barrier"),
        (&["std::sync", "condvar"], "std::sync::Condvar", "bast::sync::Condvar"),
        (&["std::sync", "rwlock"], "std::sync::RwLock", "bast::sync::RwLock"),
        (&["std::sync", "mutex"], "std::sync::Mutex", "bast::sync::Mutex"),
        (&["std::sync", "lazy_lock"], "std::sync::LazyLock", "bast::sync::LazyLock"),
        (&["std::sync", "once_lock"], "std::sync::OnceLock", "bast::sync::OnceLock"),
        (&["std::sync", "once"], "std::sync::Once", "bast::sync::Once"),
        (&["std::net"], "std::net", "bast::net"),
        (&["std::process"], "std::process", "bast::blocking"),
        (&["std::fs"], "std::fs", "bast::blocking"),
        (&["std::io"], "a stream of std::io", "bast::blocking"),
        (&["futex"], "a futex", "what bast::sync has"),
    ];
    let inner = frames.iter().position(|frame| frame.root() == Root::User);
    let inner = &frames[..inner.unwrap_or(frames.len())];
    // From the user's side: a `Barrier` waits in a `Condvar`, which waits in a futex.
    inner.iter().rev().find_map(|frame| {
        let name = frame.name.as_deref()?;
        let named = |name: &str| {
            CALLS.iter().find(|(needles, ..)| needles.iter().all(|n| name.contains(n)))
        };
        let call = named(name).or_else(|| named(&format!("{}::{name}", frame.std_module()?)))?;
        Some((call.1, call.2))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inlined_functions_are_known_by_their_file() {
        let root = |name: &str, file: &str| {
            Frame { name: Some(name.into()), file: Some(file.into()), line: Some(1), ip: 0 }.root()
        };
        let is = |found: Root, expected: Root| assert!(found == expected);
        is(root("run<F, T>", "/srv/bast/crates/bast-rt/src/fiber.rs"), Root::Bast);
        is(
            root("{closure#0}", "/r/src/index.crates.io-6f17/bast-sync-0.1.0/src/mutex.rs"),
            Root::Bast,
        );
        is(root("spin", "/srv/bast/examples/src/bin/stuck.rs"), Root::User);
        is(root("serve", "/srv/bastion/src/main.rs"), Root::User);
        is(root("serve", "/srv/bast-server/src/main.rs"), Root::User);
        is(root("trace", "/r/src/index.crates.io-6f17/backtrace-0.3.77/src/lib.rs"), Root::Std);
        is(root("call_once", "/rustc/59807/library/core/src/ops/function.rs"), Root::Std);
        is(root("epoll_wait", "./misc/syscall.c"), Root::Unknown);
    }

    fn frame(name: &str) -> Frame {
        Frame { name: Some(name.into()), file: None, line: Some(1), ip: 0 }
    }

    #[test]
    fn frames_of_the_runtime_are_left_out_below_the_fiber() {
        let names = [
            "bast_rt::suspend::park",
            "app::work",
            "app::main::{{closure}}",
            "core::ops::function::FnOnce::call_once",
            "__rust_try",
            "bast_rt::fiber::run",
            "bast_coro::context::native::start",
        ];
        let mut frames: Vec<Frame> = names.iter().map(|name| frame(name)).collect();
        cut_outer(&mut frames);
        assert_eq!(frames.len(), 3);
        assert_eq!(own_line(&frames).and_then(Frame::function), Some("app::work"));
    }

    #[test]
    fn the_call_of_a_function_by_a_pointer_is_stds() {
        let shim = frame("<bast_rt::suspend::park as core::ops::function::FnOnce<()>>::call_once");
        assert!(shim.root() == Root::Std);
        assert!(frame("<bast_rt::fiber::Fiber as core::fmt::Debug>::fmt").root() == Root::Bast);
    }

    #[test]
    fn calls_that_block_the_thread_are_known_by_the_outermost_name() {
        let stack = |names: &[&str]| names.iter().map(|name| frame(name)).collect::<Vec<_>>();
        let lock = stack(&[
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
            "std::sync::poison::mutex::Mutex<T>::lock",
            "app::f",
        ]);
        assert_eq!(blocking_call(&lock), Some(("std::sync::Mutex", "bast::sync::Mutex")));
        let barrier = stack(&[
            "std::sys::sync::condvar::futex::Condvar::wait",
            "std::sync::poison::condvar::Condvar::wait",
            "std::sync::barrier::Barrier::wait",
            "app::f",
        ]);
        assert_eq!(blocking_call(&barrier), Some(("std::sync::Barrier", "bast::sync::Barrier")));
        assert_eq!(blocking_call(&stack(&["app::f", "std::sync::mpsc::recv"])), None);
    }
}
