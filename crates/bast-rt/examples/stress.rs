//! A randomized stress of everything that wakes a fiber: no wake may be lost.
//!
//! Many actors run random scenarios (unparks from near and far, joins, timers, sockets, the blocking
//! pool, cancellation) until time is up. Each scenario checks its own result, and a watchdog on a plain
//! thread ends the process with the seed and the scenario if one has not finished within 30 s.
//!
//! `cargo run --release -p bast-rt --example stress -- --seconds 10 --workers 2 --driver uring`

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bast_io::{Half, Handle, Kind, SockAddr};
use bast_rt::{
    Builder, Cancelled, DriverKind, Fiber, Runtime, current, ops, park, park_timeout, run_blocking,
    run_blocking_interruptible, scope, sleep, spawn, spawn_local, timeout, yield_now,
};

const HELP: &str = "stress [--seconds N] [--workers N] [--driver auto|uring|epoll|sim] [--seed N] \
                    [--actors N]\n\nRuns random scenarios and ends with 0 if no wake was lost.";
const PATIENCE: Duration = Duration::from_secs(100);

struct Options {
    seconds: u64,
    workers: usize,
    driver: DriverKind,
    seed: u64,
    actors: usize,
}

fn options() -> Result<Options, String> {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut options = Options {
        seconds: 10,
        workers: 2,
        driver: DriverKind::Auto,
        seed: clock.map_or(1, |time| u64::from(time.subsec_nanos()) | 1),
        actors: 64,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--help" || arg == "-h" {
            println!("{HELP}");
            std::process::exit(0);
        }
        let value = args.next().ok_or_else(|| format!("{arg} needs a value\n\n{HELP}"))?;
        let bad = |error: &dyn std::fmt::Display| format!("{arg} {value}: {error}");
        match arg.as_str() {
            "--seconds" => options.seconds = value.parse().map_err(|e| bad(&e))?,
            "--workers" => options.workers = value.parse().map_err(|e| bad(&e))?,
            "--driver" => options.driver = value.parse().map_err(|e| bad(&e))?,
            "--seed" => options.seed = value.parse().map_err(|e| bad(&e))?,
            "--actors" => options.actors = value.parse().map_err(|e| bad(&e))?,
            _ => return Err(format!("unknown option {arg}\n\n{HELP}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let built = Runtime::builder().workers(options.workers).driver(options.driver).build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("stress: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "stress: {} workers, {}, seed {}, {} s",
        options.workers,
        runtime.driver_name(),
        options.seed,
        options.seconds
    );
    let world = Arc::new(World {
        stop: AtomicBool::new(false),
        started: (0..options.actors).map(|_| AtomicU64::new(0)).collect(),
        running: (0..options.actors).map(|_| AtomicU32::new(0)).collect(),
        begin: Instant::now(),
        workers: options.workers,
        simulated: options.driver == DriverKind::Sim,
        outside: outside(),
    });
    let actors: Vec<_> = (0..options.actors)
        .map(|index| {
            let world = Arc::clone(&world);
            let seed = options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64);
            runtime.spawn(move || act(&world, index, Random(seed | 1)))
        })
        .collect();
    let end = Instant::now() + Duration::from_secs(options.seconds);
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100).min(end - Instant::now()));
        world.check(options.seed);
    }
    world.stop.store(true, Relaxed);
    while !actors.iter().all(bast_rt::JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(20));
        world.check(options.seed);
    }
    let mut totals = [0u64; SCENARIOS.len()];
    for actor in actors {
        match actor.join() {
            Ok(counts) => totals.iter_mut().zip(counts).for_each(|(total, n)| *total += n),
            Err(_) => {
                eprintln!("stress: an actor failed; seed {}", options.seed);
                return ExitCode::FAILURE;
            }
        }
    }
    for ((name, _), total) in SCENARIOS.iter().zip(totals) {
        println!("{total:>10} {name}");
    }
    match runtime.shutdown(PATIENCE) {
        Ok(()) => {
            println!("stress: ok, {} scenarios", totals.iter().sum::<u64>());
            ExitCode::SUCCESS
        }
        Err(left) => {
            eprintln!("stress: {left}; seed {}", options.seed);
            ExitCode::FAILURE
        }
    }
}

struct World {
    stop: AtomicBool,
    /// When each actor began its scenario (ms + 1), and which.
    started: Vec<AtomicU64>,
    running: Vec<AtomicU32>,
    begin: Instant,
    workers: usize,
    simulated: bool,
    outside: Vec<mpsc::Sender<Fiber>>,
}

impl World {
    fn millis(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn check(&self, seed: u64) {
        for (index, started) in self.started.iter().enumerate() {
            let at = started.load(Relaxed);
            if at != 0 && self.millis().saturating_sub(at - 1) > PATIENCE.as_millis() as u64 {
                let scenario = SCENARIOS[self.running[index].load(Relaxed) as usize].0;
                eprintln!(
                    "stress: actor {index} is stuck in '{scenario}': a lost wake? seed {seed}"
                );
                std::process::abort();
            }
        }
    }
}

/// Plain threads that unpark whatever fiber they are sent.
fn outside() -> Vec<mpsc::Sender<Fiber>> {
    (0..2)
        .map(|_| {
            let (sender, receiver) = mpsc::channel::<Fiber>();
            std::thread::spawn(move || receiver.into_iter().for_each(|fiber| fiber.unpark()));
            sender
        })
        .collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

type Scenario = fn(&World, &mut Random);

const SCENARIOS: [(&str, Scenario); 13] = [
    ("unpark, ping-pong", ping_pong),
    ("unpark from plain threads", from_outside),
    ("unpark before, during, after", early_unpark),
    ("join a tree", tree),
    ("join from afar", placed),
    ("timers", timers),
    ("scope", scoped),
    ("blocking pool", pool),
    ("sockets", sockets),
    ("receive timeouts", receive_timeouts),
    ("cancel", cancel),
    ("nested timeouts", nested_timeouts),
    ("interrupted calls", interrupted_calls),
];

fn act(world: &World, index: usize, mut random: Random) -> [u64; SCENARIOS.len()] {
    let mut counts = [0; SCENARIOS.len()];
    while !world.stop.load(Relaxed) {
        let which = random.below(SCENARIOS.len() as u64) as usize;
        world.running[index].store(which as u32, Relaxed);
        world.started[index].store(world.millis() + 1, Relaxed);
        (SCENARIOS[which].1)(world, &mut random);
        counts[which] += 1;
        world.started[index].store(0, Relaxed);
        if random.below(4) == 0 {
            yield_now();
        }
    }
    counts
}

fn ping_pong(_: &World, random: &mut Random) {
    let turn = Arc::new(AtomicU64::new(0));
    let rounds = 1 + random.below(200);
    let ping = current();
    let pong = spawn({
        let turn = Arc::clone(&turn);
        move || {
            for round in 0..rounds {
                while turn.load(SeqCst) != 2 * round + 1 {
                    park();
                }
                turn.store(2 * round + 2, SeqCst);
                ping.unpark();
            }
        }
    });
    let other = pong.fiber();
    for round in 0..rounds {
        turn.store(2 * round + 1, SeqCst);
        other.unpark();
        while turn.load(SeqCst) != 2 * round + 2 {
            park();
        }
    }
    pong.join().expect("pong");
}

fn from_outside(world: &World, random: &mut Random) {
    for _ in 0..1 + random.below(20) {
        let thread = random.below(world.outside.len() as u64) as usize;
        world.outside[thread].send(current()).expect("the threads live as long as the process");
        if random.below(2) == 0 {
            yield_now();
        }
        park();
    }
}

fn early_unpark(_: &World, random: &mut Random) {
    let parker = spawn(park);
    for _ in 0..random.below(3) {
        yield_now();
    }
    parker.fiber().unpark();
    parker.join().expect("parker");
    current().unpark();
    park();
    // The token has been used up: this one times out.
    park_timeout(Duration::from_micros(50));
}

fn tree(_: &World, random: &mut Random) {
    fn node(depth: u64, width: u64) -> u64 {
        if depth == 0 {
            return 1;
        }
        let children: Vec<_> = (0..width).map(|_| spawn(move || node(depth - 1, width))).collect();
        children.into_iter().map(|child| child.join().expect("child")).sum()
    }
    let (depth, width) = (random.below(4), 1 + random.below(5));
    assert_eq!(node(depth, width), width.pow(depth as u32));
}

fn placed(world: &World, random: &mut Random) {
    let worker = random.below(world.workers as u64) as usize;
    let naps = random.below(3);
    let there = Builder::new()
        .worker(worker)
        .spawn(move || {
            for _ in 0..naps {
                yield_now();
            }
            spawn_local(|| 7).join().expect("local")
        })
        .expect("the worker exists");
    assert_eq!(there.join().expect("there"), 7);
}

fn timers(_: &World, random: &mut Random) {
    let nap = Duration::from_micros(random.below(2_000));
    let before = bast_rt::Instant::now();
    sleep(nap);
    assert!(before.elapsed() >= nap, "woke early");
}

fn scoped(_: &World, random: &mut Random) {
    let mut cells = vec![0u64; 1 + random.below(8) as usize];
    scope(|s| {
        for (index, cell) in cells.iter_mut().enumerate() {
            s.spawn(move || {
                yield_now();
                *cell = index as u64 + 1;
            });
        }
    });
    assert!(cells.iter().zip(1..).all(|(cell, expected)| *cell == expected));
}

fn pool(_: &World, random: &mut Random) {
    let nap = Duration::from_micros(random.below(300));
    assert_eq!(
        run_blocking(|| {
            std::thread::sleep(nap);
            5
        }),
        5
    );
}

fn listener() -> (Handle, SockAddr) {
    // Each on an address of its own: one address would run out of ports in TIME_WAIT.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let [_, a, b, c] = NEXT.fetch_add(1, Relaxed).to_be_bytes();
    let any = SocketAddr::from((Ipv4Addr::new(127, a, b, c.max(1)), 0));
    let handle = ops::socket(ops::family(&any), ops::STREAM, 0, Kind::Stream).expect("a socket");
    ops::bind(&handle, &SockAddr::from(any)).expect("bind");
    ops::listen(&handle, 16).expect("listen");
    let handle = handle.into_kind(Kind::Listener);
    let addr = ops::local_addr(&handle).expect("an address");
    (handle, addr)
}

fn connect(addr: &SockAddr) -> std::io::Result<Handle> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let handle = ops::socket(ops::family(&any), ops::STREAM, 0, Kind::Stream).expect("a socket");
    ops::connect(&handle, addr, None)?;
    Ok(handle)
}

fn pair() -> (Handle, Handle) {
    let (listener, addr) = listener();
    let client = spawn(move || connect(&addr));
    let (server, _) = ops::accept(&listener, None).expect("accept");
    // Only if nobody cancels us here may the client not fail.
    (client.join().expect("client").expect("connect"), server)
}

fn sockets(_: &World, random: &mut Random) {
    let (client, server) = pair();
    let total = 1 + random.below(300_000) as usize;
    let chunk = 1 + random.below(20_000) as usize;
    let echo = spawn(move || {
        let mut buffer = vec![0; chunk];
        loop {
            let got = ops::recv(&server, &mut buffer, 0, None).expect("recv");
            if got == 0 {
                return;
            }
            let mut sent = 0;
            while sent < got {
                sent += ops::send(&server, &buffer[sent..got], 0, None).expect("send");
            }
        }
    });
    // A reader and a writer on one handle at once.
    let received = scope(|s| {
        let reader = s.spawn(|| {
            let mut buffer = vec![0; 8192];
            let mut received = 0usize;
            loop {
                let got = ops::recv(&client, &mut buffer, 0, None).expect("recv");
                if got == 0 {
                    return received;
                }
                for byte in &buffer[..got] {
                    assert_eq!(*byte, (received % 251) as u8, "a byte at the wrong place");
                    received += 1;
                }
            }
        });
        let data: Vec<u8> = (0..total).map(|at| (at % 251) as u8).collect();
        let mut sent = 0;
        while sent < total {
            sent += ops::send(&client, &data[sent..], 0, None).expect("send");
        }
        ops::shutdown(&client, Half::Write).expect("shutdown");
        reader.join().expect("reader")
    });
    assert_eq!(received, total);
    echo.join().expect("echo");
}

fn receive_timeouts(_: &World, random: &mut Random) {
    let (client, server) = pair();
    let patience = Duration::from_micros(1 + random.below(500));
    let delay = Duration::from_micros(random.below(600));
    let sender = spawn(move || {
        sleep(delay);
        ops::send(&server, b"x", 0, None).expect("send");
        server
    });
    let mut buffer = [0; 4];
    let mut tries = 0;
    // Timeout or byte, whichever wins: the byte arrives exactly once.
    loop {
        match ops::recv(&client, &mut buffer, 0, Some(patience)) {
            Ok(got) => break assert_eq!((got, buffer[0]), (1, b'x')),
            Err(_) => tries += 1,
        }
        assert!(tries < 1_000_000, "the byte was lost");
    }
    drop(sender.join().expect("sender"));
    assert_eq!(ops::recv(&client, &mut buffer, 0, None).expect("end"), 0);
}

fn cancel(_: &World, random: &mut Random) {
    let kind = random.below(6);
    let victim = spawn(move || match kind {
        0 => loop {
            park();
        },
        1 => sleep(Duration::from_secs(3600)),
        2 => {
            let (client, _server) = pair();
            ops::recv(&client, &mut [0; 8], 0, None).expect("recv");
        }
        3 => {
            let (listener, _) = listener();
            ops::accept(&listener, None).expect("accept");
        }
        4 => {
            let never = spawn(|| {
                loop {
                    park();
                }
            });
            struct CancelOnDrop(Option<bast_rt::JoinHandle<()>>);
            impl Drop for CancelOnDrop {
                fn drop(&mut self) {
                    if let Some(handle) = self.0.take() {
                        handle.cancel();
                        assert!(handle.join().is_err());
                    }
                }
            }
            let guard = CancelOnDrop(Some(never));
            loop {
                park();
                let _ = &guard;
            }
        }
        _ => loop {
            yield_now();
        },
    });
    match random.below(3) {
        0 => {}
        1 => yield_now(),
        _ => sleep(Duration::from_micros(random.below(200))),
    }
    victim.cancel();
    let payload = victim.join().expect_err("it never returns by itself");
    assert!(payload.is::<Cancelled>(), "it ended otherwise");
}

/// Each level catches its own expiry; what is in between is dropped.
fn nested_timeouts(_: &World, random: &mut Random) {
    fn level(depth: usize, spans: &[Duration; 4], naps: &[Duration; 4], reached: &AtomicU32) {
        reached.fetch_max(depth as u32 + 1, Relaxed);
        if let Some(span) = spans.get(depth) {
            let inner = timeout(*span, || level(depth + 1, spans, naps, reached));
            assert!(inner.is_err() || reached.load(Relaxed) == spans.len() as u32 + 1);
            match depth % 3 {
                0 => sleep(naps[depth]),
                1 => park_timeout(naps[depth]),
                _ => (0..naps[depth].subsec_micros() % 8).for_each(|_| yield_now()),
            }
        } else {
            sleep(naps[0]);
        }
    }
    let mut times = || [0; 4].map(|_: u8| Duration::from_micros(random.below(400)));
    let (spans, naps) = (times(), times());
    let reached = AtomicU32::new(0);
    level(0, &spans, &naps, &reached);
    assert!(reached.load(Relaxed) >= 1);
}

/// A read from a pipe on the blocking pool, until its time is up or the byte comes, whichever is first: the
/// byte is read once.
fn interrupted_calls(world: &World, random: &mut Random) {
    use std::io::{Read, Write};
    if world.simulated {
        return; // there a call holds up the whole world, and so whoever could end it
    }
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    let span = Duration::from_micros(random.below(500));
    let delay = Duration::from_micros(random.below(500));
    let sender = spawn(move || {
        sleep(delay);
        writer.write_all(b"x").expect("room in a pipe");
        writer
    });
    let mut byte = [0];
    let first = timeout(span, || run_blocking_interruptible(|| reader.read(&mut byte)));
    let got = match first {
        Ok(got) => got.expect("a pipe that works"),
        Err(_) => run_blocking(|| reader.read(&mut byte)).expect("a pipe that works"),
    };
    assert_eq!((got, byte), (1, *b"x"));
    drop(sender.join().expect("sender"));
}
