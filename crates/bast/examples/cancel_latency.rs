//! How long a cancelled fiber takes to end, for each thing that it may be blocked in.
//!
//! The time from the request until whoever made it has joined the fiber: from a fiber of the same worker,
//! from one of another worker, and from a plain thread. The target is a median below a millisecond;
//! if one is missed this ends with 1.
//!
//! `cargo run --release -p bast --example cancel_latency -- --rounds 300`
//!
//! Another wait is another line in [`WAITS`].

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bast::sync::{Condvar, MVar, Mutex, Notify, RwLock, Semaphore, mpmc, mpsc};
use bast::{
    Builder, Cancelled, DriverKind, JoinHandle, Runtime, blocking_interruptible, park, select,
    sleep, spawn,
};
use bast_io::{Handle, Kind, SockAddr};
// A listener's backlog can be chosen here, and not in std's interface.
use bast_rt::ops;

const HELP: &str = "cancel_latency [--rounds N] [--driver uring|epoll|sim]

The median, the 99th percentile and the maximum, in microseconds.";
const TARGET: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3600);

/// What a fiber is blocked in. The simulator has no time to wait for: its clock jumps.
struct Wait {
    name: &'static str,
    simulated: bool,
    wait: fn(&World),
}

const WAITS: &[Wait] = &[
    Wait { name: "park", simulated: true, wait: |_| park() },
    Wait { name: "sleep", simulated: false, wait: |_| sleep(LONG) },
    Wait { name: "join", simulated: true, wait: |_| join() },
    Wait { name: "read", simulated: true, wait: read },
    Wait { name: "accept", simulated: true, wait: accept },
    Wait { name: "connect", simulated: false, wait: connect },
    Wait { name: "blocking_interruptible", simulated: false, wait: |_| blocking() },
    Wait { name: "Mutex::lock", simulated: true, wait: |world| drop(world.locked.lock()) },
    Wait { name: "RwLock::write", simulated: true, wait: |world| drop(world.read.write()) },
    Wait { name: "Condvar::wait", simulated: true, wait: |_| condvar() },
    Wait { name: "Semaphore::acquire", simulated: true, wait: |_| semaphore() },
    Wait { name: "Notify::wait", simulated: true, wait: |_| Notify::new().wait() },
    Wait { name: "mpsc recv", simulated: true, wait: |_| recv() },
    Wait { name: "mpmc send", simulated: true, wait: |_| send() },
    Wait { name: "MVar::take", simulated: true, wait: |_| MVar::<()>::new_empty().take() },
    Wait { name: "select of 3", simulated: true, wait: |_| select_of_three() },
];

/// What the waits need.
struct World {
    /// Nobody connects to it.
    idle: Handle,
    /// Nobody writes to it.
    silent: (Handle, Handle),
    /// The address of a listener whose backlog is full, and what keeps it so.
    full: SockAddr,
    _full: Vec<Handle>,
    /// Its guard has been forgotten, so nobody ever unlocks it.
    locked: Mutex<()>,
    /// The same, by a reader.
    read: RwLock<()>,
}

fn tcp() -> Handle {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    ops::socket(ops::family(&any), ops::STREAM, 0, Kind::Stream).expect("a socket")
}

fn listener(backlog: i32) -> (Handle, SockAddr) {
    let handle = tcp();
    ops::bind(&handle, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("bind");
    ops::listen(&handle, backlog).expect("listen");
    let handle = handle.into_kind(Kind::Listener);
    let address = ops::local_addr(&handle).expect("an address");
    (handle, address)
}

impl World {
    fn new() -> World {
        let (listening, address) = listener(16);
        let client = spawn(move || {
            let client = tcp();
            ops::connect(&client, &address, None).expect("connect");
            client
        });
        let (server, _) = ops::accept(&listening, None).expect("accept");
        let (full, address) = listener(0);
        let mut keep = vec![full];
        for _ in 0..4 {
            let filler = tcp();
            // The first ones are taken, and from then on the kernel drops what comes.
            let _ = ops::connect(&filler, &address, Some(Duration::from_millis(20)));
            keep.push(filler);
        }
        let client = client.join().expect("connect");
        let (locked, read) = (Mutex::new(()), RwLock::new(()));
        std::mem::forget(locked.lock());
        std::mem::forget(read.read());
        World {
            idle: listener(16).0,
            silent: (client, server),
            full: address,
            _full: keep,
            locked,
            read,
        }
    }
}

fn join() {
    /// Whom it waits for ends with it.
    struct Cancel(bast_rt::Fiber);
    impl Drop for Cancel {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let never = spawn(park);
    let _end = Cancel(never.fiber());
    let _ = never.join();
}

fn read(world: &World) {
    ops::read(&world.silent.0, &mut [0; 8], None).expect("a read");
}

fn accept(world: &World) {
    ops::accept(&world.idle, None).expect("an accept");
}

fn connect(world: &World) {
    ops::connect(&tcp(), &world.full, None).expect("a connect");
}

fn blocking() {
    let (mut reader, _writer) = std::io::pipe().expect("a pipe");
    blocking_interruptible(|| reader.read(&mut [0])).expect("nobody writes");
}

fn condvar() {
    let (lock, condvar) = (Mutex::new(()), Condvar::new());
    drop(condvar.wait(lock.lock().expect("it is new")));
}

fn semaphore() {
    let none = Semaphore::new(0);
    drop(none.acquire());
}

fn recv() {
    let (_sender, receiver) = mpsc::channel::<()>();
    receiver.recv().expect("there is a sender");
}

fn send() {
    let (sender, _receiver) = mpmc::sync_channel(1);
    sender.send(1).expect("there is a receiver");
    sender.send(2).expect("there is a receiver");
}

fn select_of_three() {
    let (_sender, receiver) = mpsc::channel::<()>();
    let (empty, full) = (MVar::<()>::new_empty(), MVar::new(1));
    select! {
        got = bast::select::recv(&receiver) => got.expect("there is a sender"),
        () = bast::select::take(&empty) => unreachable!(),
        () = bast::select::put(&full, 2) => unreachable!(),
    }
}

/// Who asks.
#[derive(Clone, Copy)]
enum From {
    Worker(usize),
    Thread,
}

/// One round: where the victim waits, and how long its end takes.
fn once(runtime: &Runtime, wait: fn(&World), world: &Arc<World>, from: From) -> Duration {
    let begun = Arc::new(AtomicBool::new(false));
    let (begins, theirs) = (Arc::clone(&begun), Arc::clone(world));
    let victim = runtime.run(|| {
        Builder::new()
            .worker(0)
            .spawn(move || {
                begins.store(true, SeqCst);
                wait(&theirs);
            })
            .expect("there is a worker 0")
    });
    let ask = move |victim: JoinHandle<()>| {
        let begin = Instant::now();
        victim.cancel();
        let end = victim.join().expect_err("it never returns by itself");
        let took = begin.elapsed();
        assert!(end.is::<Cancelled>());
        took
    };
    match from {
        From::Thread => {
            while !begun.load(SeqCst) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_micros(500));
            ask(victim)
        }
        From::Worker(worker) => runtime.run(move || {
            let asker = move || {
                while !begun.load(SeqCst) {
                    sleep(Duration::from_micros(20));
                }
                sleep(Duration::from_micros(500));
                ask(victim)
            };
            let asker = Builder::new().worker(worker).spawn(asker).expect("the worker exists");
            asker.join().expect("the asker")
        }),
    }
}

fn run(rounds: usize, drivers: &[DriverKind]) -> Result<bool, String> {
    println!(
        "{:<8}{:<24}{:<14}{:>9}{:>9}{:>9}",
        "driver", "blocked in", "from", "median", "p99", "max"
    );
    let mut good = true;
    for &driver in drivers {
        let simulated = driver == DriverKind::Sim;
        let workers = if simulated { 1 } else { 2 };
        let built = Runtime::builder().workers(workers).driver(driver).build();
        let runtime = built.map_err(|e| e.to_string())?;
        let world = Arc::new(runtime.run(World::new));
        let all = [
            ("same worker", From::Worker(0)),
            ("other worker", From::Worker(1)),
            ("plain thread", From::Thread),
        ];
        for wait in WAITS.iter().filter(|wait| wait.simulated || !simulated) {
            for (name, from) in all {
                if simulated && matches!(from, From::Worker(1)) {
                    continue;
                }
                let measure = || {
                    let mut took: Vec<Duration> =
                        (0..rounds).map(|_| once(&runtime, wait.wait, &world, from)).collect();
                    took.sort_unstable();
                    [rounds / 2, rounds * 99 / 100, rounds - 1].map(|i| took[i])
                };
                // The machine may be busy with something else: once more then, ten times at most.
                let mut figures = measure();
                for _ in 1..10 {
                    if figures[0] < TARGET {
                        break;
                    }
                    figures = measure();
                }
                let [median, p99, max] = figures;
                let micros = |d: Duration| d.as_secs_f64() * 1e6;
                println!(
                    "{:<8}{:<24}{name:<14}{:>9.1}{:>9.1}{:>9.1}{}",
                    runtime.driver_name(),
                    wait.name,
                    micros(median),
                    micros(p99),
                    micros(max),
                    if median < TARGET { "" } else { "  MISSED" }
                );
                good &= median < TARGET;
            }
        }
        runtime.run(move || drop(world));
        runtime.shutdown(Duration::from_secs(20)).map_err(|left| left.to_string())?;
    }
    Ok(good)
}

fn main() -> ExitCode {
    let mut rounds = 300;
    let mut drivers = vec![DriverKind::Uring, DriverKind::Epoll, DriverKind::Sim];
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().unwrap_or_default();
        let understood = match arg.as_str() {
            "--rounds" => value.parse().ok().filter(|n| *n > 0).map(|n| rounds = n),
            "--driver" => value.parse().ok().map(|driver| drivers = vec![driver]),
            _ => None,
        };
        if understood.is_none() {
            println!("{HELP}");
            return if arg == "--help" { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    }
    match run(rounds, &drivers) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cancel_latency: {error}");
            ExitCode::FAILURE
        }
    }
}
