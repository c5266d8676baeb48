//! What one echoed message costs: the drivers, without any runtime above them, beside a hand-written
//! epoll loop.
//!
//! `cargo run --release -p bast-io --example echo_raw -- [connections] [messages per connection]`
//!
//! The server is one thread on the first core, the load one thread on the second; the figure is the
//! server thread's CPU time (user and system) per message of 64 bytes.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;

use bast_io::{Config, Done, Driver, DriverKind, Handle, Kind, Op, Record, Wait};

const SIZE: usize = 64;

fn pin(core: usize) {
    // SAFETY: the set is a local and big enough.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

fn cpu() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a local.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

struct Epoll(RawFd);

impl Epoll {
    fn new() -> Epoll {
        // SAFETY: no memory is involved.
        Epoll(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
    }

    fn add(&self, fd: RawFd, data: usize) {
        let events = (libc::EPOLLIN | libc::EPOLLET | libc::EPOLLRDHUP) as u32;
        let mut e = libc::epoll_event { events, u64: data as u64 };
        // SAFETY: the event is a local.
        assert_eq!(unsafe { libc::epoll_ctl(self.0, libc::EPOLL_CTL_ADD, fd, &raw mut e) }, 0);
    }

    fn wait(&self, events: &mut [libc::epoll_event]) -> usize {
        // SAFETY: there is room for as many.
        let n = unsafe { libc::epoll_wait(self.0, events.as_mut_ptr(), events.len() as i32, -1) };
        // Interrupted: none.
        usize::try_from(n).unwrap_or(0)
    }
}

fn recv(fd: RawFd, buf: &mut [u8]) -> isize {
    // SAFETY: the buffer is as long as said.
    unsafe { libc::recv(fd, buf.as_mut_ptr().cast(), buf.len(), libc::MSG_DONTWAIT) }
}

fn send(fd: RawFd, buf: &[u8]) -> isize {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the buffer is as long as said.
    unsafe { libc::send(fd, buf.as_ptr().cast(), buf.len(), flags) }
}

/// The floor: edge-triggered, stops at a short read.
fn raw(streams: Vec<TcpStream>) {
    let epoll = Epoll::new();
    streams.iter().enumerate().for_each(|(i, s)| epoll.add(s.as_raw_fd(), i));
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; 512];
    let mut open = streams.len();
    // The end of a stream may make two edges.
    let mut ended = vec![false; open];
    let mut buf = [0; 4096];
    while open > 0 {
        let n = epoll.wait(&mut events);
        for e in &events[..n] {
            let fd = streams[e.u64 as usize].as_raw_fd();
            match recv(fd, &mut buf) {
                n if n > 0 => assert_eq!(send(fd, &buf[..n as usize]), n),
                0 if !std::mem::replace(&mut ended[e.u64 as usize], true) => open -= 1,
                _ => {}
            }
        }
    }
}

struct Conn {
    handle: Handle,
    record: Option<Record>,
    buf: [u8; 4096],
    /// What is to be sent; 0 while receiving.
    len: usize,
    sent: usize,
}

impl Conn {
    fn op(&mut self) -> Op {
        let handle = self.handle.as_ref();
        if self.len == 0 {
            Op::Recv { handle, buf: self.buf.as_mut_ptr(), len: self.buf.len(), flags: 0 }
        } else {
            let rest = &self.buf[self.sent..self.len];
            Op::Send { handle, buf: rest.as_ptr(), len: rest.len(), flags: 0 }
        }
    }

    /// `false`: the connection has ended.
    fn done(&mut self, n: i32) -> bool {
        if n <= 0 {
            return false;
        }
        if self.len == 0 {
            (self.len, self.sent) = (n as usize, 0);
        } else {
            self.sent += n as usize;
            if self.sent == self.len {
                self.len = 0;
            }
        }
        true
    }
}

fn driver(kind: DriverKind, streams: Vec<TcpStream>) {
    let mut driver = Driver::new(&Config { kind, ..Config::default() }).expect("driver");
    let mut conns: Vec<Box<Conn>> = streams
        .into_iter()
        .map(|s| {
            let handle = Handle::from_owned(s.into(), Kind::Stream);
            Box::new(Conn { handle, record: None, buf: [0; 4096], len: 0, sent: 0 })
        })
        .collect();
    let mut open = conns.len();
    let run = |driver: &mut Driver, conn: &mut Conn, mut n: Option<i32>| {
        loop {
            if n.is_some_and(|n| !conn.done(n)) {
                return false;
            }
            let (op, tag) = (conn.op(), std::ptr::from_mut(conn).cast());
            let record = NonNull::from(conn.record.insert(Record::new(op, tag)));
            // SAFETY: io 1: the connection stays boxed and alone until the record comes back.
            match unsafe { driver.submit(record) } {
                Some(outcome) => n = Some(outcome.0),
                None => return true,
            }
        }
    };
    for conn in &mut conns {
        run(&mut driver, conn, None);
    }
    let mut done = Done::new();
    while open > 0 {
        driver.poll(Wait::Forever, &mut done).expect("poll");
        while let Some(record) = done.pop() {
            // SAFETY: it came back; its tag is its connection.
            let (conn, n) = unsafe {
                let record = record.as_ref();
                (&mut *record.tag().cast::<Conn>(), record.outcome().0)
            };
            if !run(&mut driver, conn, Some(n)) {
                open -= 1;
            }
        }
    }
}

/// Keeps one message in flight on each connection.
fn load(mut streams: Vec<TcpStream>, messages: usize) {
    pin(1);
    let epoll = Epoll::new();
    let mut left = vec![messages; streams.len()];
    streams.iter().enumerate().for_each(|(i, s)| epoll.add(s.as_raw_fd(), i));
    for s in &mut streams {
        s.write_all(&[1; SIZE]).expect("write");
    }
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; 512];
    let mut open = streams.len();
    let mut buf = [0; 4096];
    while open > 0 {
        let n = epoll.wait(&mut events);
        for e in &events[..n] {
            let i = e.u64 as usize;
            let fd = streams[i].as_raw_fd();
            if left[i] == 0 || recv(fd, &mut buf) <= 0 {
                continue;
            }
            left[i] -= 1;
            if left[i] == 0 {
                open -= 1;
            } else {
                send(fd, &buf[..SIZE]);
            }
        }
    }
}

/// What a non-waiting poll costs that finds nothing: schedulers make many of them.
fn idle_poll(kind: DriverKind) {
    let mut driver = Driver::new(&Config { kind, ..Config::default() }).expect("driver");
    let mut done = Done::new();
    let polls = 1_000_000;
    let start = cpu();
    for _ in 0..polls {
        driver.poll(Wait::No, &mut done).expect("poll");
    }
    println!("{:6} idle poll: {:.1} ns", driver.name(), (cpu() - start) as f64 / f64::from(polls));
}

fn measure(name: &str, connections: usize, messages: usize, serve: impl FnOnce(Vec<TcpStream>)) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
    let addr = listener.local_addr().expect("address");
    let pairs: Vec<_> = (0..connections)
        .map(|_| {
            let client = TcpStream::connect(addr).expect("connect");
            let server = listener.accept().expect("accept").0;
            client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).expect("nodelay");
            (client, server)
        })
        .collect();
    let (clients, servers) = pairs.into_iter().unzip();
    let thread = std::thread::spawn(move || load(clients, messages));
    let start = cpu();
    serve(servers);
    let each = (cpu() - start) as f64 / (connections * messages) as f64 / 1000.0;
    thread.join().expect("load");
    println!("{name:6} {connections:5} connections: {each:.2} µs of CPU per message");
}

pub(crate) fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<usize>().expect("a number"));
    let connections = args.next().unwrap_or(64);
    let messages = args.next().unwrap_or(400_000 / connections);
    pin(0);
    for kind in [DriverKind::Epoll, DriverKind::Uring] {
        idle_poll(kind);
    }
    for _ in 0..3 {
        measure("raw", connections, messages, raw);
        for (name, kind) in [("epoll", DriverKind::Epoll), ("uring", DriverKind::Uring)] {
            measure(name, connections, messages, |s| driver(kind, s));
        }
    }
}
