//! The report of deadlocks, in programs that are nothing but deadlocked, or only look so.
//!
//! ```text
//!   this program ──runs itself with a role──▶ plays it, in a process with no thread but bast's
//!        ╰──reads its stderr: the report, once; or, where somebody could still wake somebody, nothing
//! ```
//!
//! Not in `it`: libtest's own threads are threads that the report knows nothing of.

use std::future::{pending, poll_fn};
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use bast_io::signal::{SIGINT, Signal};
use bast_io::{Handle, Kind};
use bast_rt::wait::{Parked, Reason, wait};
use bast_rt::{Builder, JoinHandle, Runtime, block_on, ops, park, sleep, spawn, task};

/// The environment variable that gives a process its role.
const ROLE: &str = "BAST_RT_STUCK_ROLE";
/// How long a program is watched in which there must be no report: it would come after 200 ms.
const SILENCE: Duration = Duration::from_millis(1200);

/// A program, and what its stderr must contain; nothing: there must be no report.
struct Role {
    name: &'static str,
    play: fn(),
    expected: &'static [&'static str],
}

const ROLES: &[Role] = &[
    Role {
        name: "two fibers join each other",
        play: mutual_join,
        expected: &[
            "deadlock",
            "'a' is blocked indefinitely on JoinHandle::join",
            "'b' is blocked indefinitely on JoinHandle::join",
            "a cycle: ",
            "tests/stuck/main.rs",
        ],
    },
    Role {
        name: "two fibers park",
        play: two_parks,
        expected: &[
            "nothing is left that could wake 2 fibers and 1 thread",
            "blocked indefinitely on park",
        ],
    },
    Role {
        name: "three fibers in a cycle",
        play: cycle_of_three,
        expected: &["(Lock::lock) -> ", "a cycle: ", "'0'", "'1'", "'2'"],
    },
    Role {
        name: "a fiber waits for itself",
        play: self_cycle,
        expected: &["'me' is blocked indefinitely on Lock::lock, which fiber ", "a cycle: "],
    },
    Role {
        name: "main falls asleep last",
        play: main_last,
        expected: &["deadlock", "'main' is blocked indefinitely on JoinHandle::join"],
    },
    Role {
        name: "the pool's threads are idle",
        play: after_blocking,
        expected: &["deadlock", "blocked indefinitely on park"],
    },
    Role {
        name: "a future drops its waker",
        play: dropped_waker,
        expected: &["deadlock", "'awaits' is blocked indefinitely on a future"],
    },
    Role { name: "a socket may be readable yet", play: on_socket, expected: &[] },
    Role { name: "a timer is pending", play: on_timer, expected: &[] },
    Role { name: "somebody listens for Ctrl-C", play: on_ctrl_c, expected: &[] },
    Role { name: "a foreign thread unparks later", play: foreign_thread, expected: &[] },
    Role {
        name: "a task whose waker is nowhere",
        play: lost_waker,
        expected: &["deadlock", "'joins' is blocked indefinitely on a future"],
    },
    Role { name: "a foreign thread has the waker of a task", play: foreign_waker, expected: &[] },
    Role { name: "only tasks are pending", play: only_tasks, expected: &[] },
    Role { name: "a task wakes itself", play: spinning_task, expected: &[] },
    Role { name: "a blocking call runs", play: blocking_call, expected: &[] },
    Role { name: "main blocks in std", play: main_in_std, expected: &[] },
    // The canary of the silent ones: it is the unknown thread that keeps the report back.
    Role { name: "main blocks in std, by force", play: main_in_std, expected: &["bast: deadlock"] },
    Role { name: "main waits with a deadline", play: main_with_deadline, expected: &[] },
    Role { name: "a fiber computes", play: hog, expected: &[] },
    Role { name: "wakes go back and forth", play: ping_pong, expected: &[] },
    Role { name: "a fiber has a long dump taken", play: long_dump, expected: &[] },
];

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(ROLE) {
        let role = ROLES.iter().find(|role| role.name == name).expect("a role of this file");
        (role.play)();
        return ExitCode::SUCCESS;
    }
    // On the simulator there is no report.
    if std::env::var("BAST_DRIVER").is_ok_and(|driver| driver == "sim") {
        return ExitCode::SUCCESS;
    }
    let filter: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let mut failed = 0;
    for role in ROLES {
        if !filter.is_empty() && !filter.iter().any(|text| role.name.contains(text.as_str())) {
            continue;
        }
        match run(role) {
            Ok(()) => println!("test {} ... ok", role.name),
            Err(why) => {
                failed += 1;
                println!("test {} ... FAILED\n{why}", role.name);
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(role: &Role) -> Result<(), String> {
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    // What programs for this machine are run by, if the machine is only emulated (`cargo xtask cross`).
    let mut command = match std::env::var_os("BAST_TEST_RUNNER") {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(exe);
            command
        }
        None => Command::new(exe),
    };
    let mut child = command
        .env(ROLE, role.name)
        .env("BAST_DEADLOCK", if role.name.ends_with("by force") { "force" } else { "auto" })
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let stderr = child.stderr.take().expect("piped");
    // Lines as they come: a program that is deadlocked does not end.
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::BufRead::lines(std::io::BufReader::new(stderr)).map_while(Result::ok) {
            let _ = send.send(line + "\n");
        }
    });
    let mut said = String::new();
    let patience = match role.expected {
        [] if role.name.contains("long") => 5 * SILENCE,
        [] => SILENCE,
        _ => Duration::from_secs(60),
    };
    let end = std::time::Instant::now() + patience;
    let complete = |said: &str| role.expected.iter().all(|text| said.contains(text));
    let result = loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => said.push_str(&line),
            Err(_) if role.expected.is_empty() && said.is_empty() => break Ok(()),
            Err(_) => break Err(format!("it said:\n{said}")),
        }
        if !role.expected.is_empty() && complete(&said) {
            break Ok(());
        }
    };
    // Once, and not again.
    if result.is_ok() && !role.expected.is_empty() {
        while let Ok(line) = lines.recv_timeout(Duration::from_millis(400)) {
            said.push_str(&line);
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    match said.matches("bast: deadlock").count() {
        0 | 1 => result,
        n => Err(format!("{n} reports:\n{said}")),
    }
}

/// As a library of locks would make it.
#[derive(Default)]
struct Lock {
    holder: AtomicU64,
}

impl Lock {
    /// Takes it, or waits for ever: nobody here gives one back.
    fn lock(&self) {
        if self.holder.compare_exchange(0, bast_rt::wait::id(), SeqCst, SeqCst).is_ok() {
            return;
        }
        let reason = Reason::new("Lock::lock", self).held_by(&self.holder);
        wait(&reason, None, |wait| {
            loop {
                match wait.park() {
                    Parked::Look | Parked::TimedOut => {}
                    Parked::Interrupted(interruption) => interruption.raise(),
                }
            }
        });
    }
}

fn named<T: Send + 'static>(name: &str, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().name(name.into()).spawn(f).expect("a fiber")
}

/// What a fiber is given after it has begun.
fn hand_over<T: Send + 'static>() -> (mpsc::Sender<T>, impl FnOnce() -> T + Send) {
    let (send, receive) = mpsc::channel();
    let take = move || loop {
        match receive.try_recv() {
            Ok(value) => break value,
            Err(_) => sleep(Duration::from_millis(1)),
        }
    };
    (send, take)
}

fn mutual_join() {
    let (give_a, take_a) = hand_over::<JoinHandle<()>>();
    let (give_b, take_b) = hand_over::<JoinHandle<()>>();
    let a = named("a", move || take_a().join().expect("never"));
    let b = named("b", move || take_b().join().expect("never"));
    give_a.send(b).expect("it takes it");
    give_b.send(a).expect("it takes it");
    park();
}

fn two_parks() {
    spawn(park);
    spawn(park).join().expect("never");
}

fn cycle_of_three() {
    let (locks, held) = (Arc::<[Lock; 3]>::default(), Arc::new(AtomicU64::new(0)));
    let fibers: Vec<_> = (0..3)
        .map(|n| {
            let (locks, held) = (Arc::clone(&locks), Arc::clone(&held));
            named(&n.to_string(), move || {
                locks[n].lock();
                held.fetch_add(1, SeqCst);
                // Who comes too late finds its lock taken, and there is no cycle.
                while held.load(SeqCst) < 3 {
                    sleep(Duration::from_millis(1));
                }
                locks[(n + 1) % 3].lock();
            })
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().expect("never"));
}

fn self_cycle() {
    let fiber = named("me", || {
        let lock = Lock::default();
        lock.lock();
        lock.lock();
    });
    fiber.join().expect("never");
}

fn main_last() {
    let fiber = spawn(park);
    std::thread::sleep(Duration::from_millis(500));
    fiber.join().expect("never");
}

fn after_blocking() {
    let fiber = spawn(|| {
        bast_rt::run_blocking(|| std::thread::sleep(Duration::from_millis(10)));
        park();
    });
    fiber.join().expect("never");
}

fn dropped_waker() {
    let fiber = named("awaits", || {
        let mut polls = 0;
        block_on(std::future::poll_fn(|context| {
            polls += 1;
            drop(context.waker().clone());
            if polls == 100 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        }));
    });
    fiber.join().expect("never");
}

fn on_socket() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a mode");
    let listener = Handle::from_owned(listener.into(), Kind::Listener);
    spawn(park);
    let fiber = spawn(move || ops::accept(&listener, None).map(drop));
    fiber.join().expect("never").expect("never");
}

fn on_timer() {
    spawn(park);
    spawn(|| sleep(Duration::from_secs(3600))).join().expect("never");
}

fn on_ctrl_c() {
    spawn(park);
    let fiber = spawn(|| {
        let signal = Signal::new(SIGINT).expect("a listener");
        ops::read(signal.handle(), &mut [0; 8], None)
    });
    fiber.join().expect("never").expect("never");
}

fn foreign_thread() {
    let fiber = spawn(park);
    let handle = fiber.fiber();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        handle.unpark();
    });
    fiber.join().expect("it is woken");
}

fn lost_waker() {
    let task = task::spawn(pending::<()>());
    let joins = Builder::new().name("joins".into()).spawn(|| task.join().is_ok());
    joins.expect("there is a stack").join().expect("it is not cancelled");
}

fn foreign_waker() {
    let mut woken = false;
    let task = task::spawn(poll_fn(move |context| {
        if std::mem::replace(&mut woken, true) {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(700));
            waker.wake();
        });
        Poll::Pending
    }));
    spawn(|| task.join()).join().expect("no panic").expect("it is woken");
}

/// Nobody waits for them: perhaps that is all that they are for.
fn only_tasks() {
    task::spawn(pending::<()>()).join().expect("it is not cancelled");
}

fn spinning_task() {
    spawn(park);
    let task = task::spawn(async {
        loop {
            task::yield_now().await;
        }
    });
    task.join().expect("it is not cancelled")
}

fn blocking_call() {
    spawn(park);
    let fiber = spawn(|| bast_rt::run_blocking(|| std::thread::sleep(Duration::from_millis(2000))));
    fiber.join().expect("it ends");
}

/// For longer than anybody looks.
fn main_in_std() {
    spawn(park);
    std::thread::sleep(Duration::from_secs(60));
}

fn main_with_deadline() {
    spawn(park);
    bast_rt::park_timeout(Duration::from_secs(3));
}

fn hog() {
    spawn(park);
    let fiber = spawn(|| {
        let end = std::time::Instant::now() + Duration::from_secs(3);
        while std::time::Instant::now() < end {
            std::hint::black_box(0);
        }
    });
    fiber.join().expect("it ends");
}

/// Two runtimes whose fibers wake each other: at nearly every moment all workers sleep.
fn ping_pong() {
    let (one, two) = (Runtime::builder(), Runtime::builder());
    let (one, two) = (one.workers(2).build(), two.workers(1).build());
    let (one, two) = (one.expect("a runtime"), two.expect("a runtime"));
    let (give, take) = hand_over::<bast_rt::Fiber>();
    let pong = one.spawn(move || {
        let other = take();
        loop {
            park();
            other.unpark();
        }
    });
    let other = pong.fiber();
    let ping = two.spawn(move || {
        loop {
            other.unpark();
            park();
            // Now and then as long as one look of the report.
            if (bast_rt::wait::turn() >> 32).is_multiple_of(4096) {
                sleep(Duration::from_millis(90));
            }
        }
    });
    give.send(ping.fiber()).expect("it takes it");
    let _ = std::io::stderr().flush();
    let _: Result<(), _> = ping.join();
}

/// The thread that takes the dump will wake the fiber that asked for it.
fn long_dump() {
    /// Each number has a stack of its own, so that there is much to look up.
    fn left(n: u32, depth: u32) {
        deeper(n, depth);
        std::hint::black_box(n);
    }
    fn right(n: u32, depth: u32) {
        deeper(n, depth);
        std::hint::black_box(depth);
    }
    fn deeper(n: u32, depth: u32) {
        match (depth, n & 1) {
            (0, _) => park(),
            (_, 0) => left(n >> 1, depth - 1),
            (_, _) => right(n >> 1, depth - 1),
        }
    }
    for n in 0..1024 {
        spawn(move || deeper(n, 10));
    }
    let fiber = spawn(|| {
        std::hint::black_box(bast_rt::dump());
        // A report would need as much time again to be written.
        sleep(Duration::from_secs(60));
    });
    fiber.join().expect("it ends");
}
