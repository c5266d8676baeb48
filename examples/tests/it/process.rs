//! Starting a server, talking to it, stopping it. Everything waits for a bounded time.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The drivers that every server test is run on.
pub(crate) const DRIVERS: [&str; 2] = ["uring", "epoll"];

/// Longer than anything here takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100);

/// A server under test. It is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) addr: SocketAddr,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Server {
    pub(crate) fn pong(driver: &str, args: &[&str]) -> Server {
        Server::start(Command::new(env!("CARGO_BIN_EXE_pong")), driver, args)
    }

    pub(crate) fn echo(driver: &str, args: &[&str]) -> Server {
        Server::start(Command::new(env!("CARGO_BIN_EXE_echo")), driver, args)
    }

    pub(crate) fn proxy(driver: &str, args: &[&str]) -> Server {
        Server::start(Command::new(env!("CARGO_BIN_EXE_proxy")), driver, args)
    }

    /// `proxy` with so many descriptors and no more.
    pub(crate) fn proxy_with_descriptors(driver: &str, limit: u32, args: &[&str]) -> Server {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_proxy")]);
        Server::start(shell, driver, args)
    }

    pub(crate) fn httpfile(driver: &str, args: &[&str]) -> Server {
        Server::start(Command::new(env!("CARGO_BIN_EXE_httpfile")), driver, args)
    }

    /// `pong` with so many descriptors and no more: the hard limit too, so that it cannot raise it.
    pub(crate) fn pong_with_descriptors(driver: &str, limit: u32) -> Server {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_pong")]);
        Server::start(shell, driver, &[])
    }

    fn start(mut command: Command, driver: &str, args: &[&str]) -> Server {
        command.args(["--addr", "127.0.0.1:0", "--workers", "2", "--driver", driver]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server can be started");
        let stdout = lines_of(child.stdout.take().unwrap());
        let stderr = lines_of(child.stderr.take().unwrap());
        let mut server =
            Server { child, addr: SocketAddr::from(([127, 0, 0, 1], 0)), stdout, stderr };
        let first = server.stdout.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            panic!("no first line; stderr: {:?}", server.stderr.try_iter().collect::<Vec<_>>())
        });
        assert!(first.contains(" on 2 workers, "), "{first}");
        let words = first.split(|c: char| c == '/' || c.is_whitespace());
        server.addr = words.filter_map(|word| word.parse().ok()).next().expect("an address");
        server
    }

    /// A connection with bounded waits.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.addr, PATIENCE).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// The next line of its standard output.
    pub(crate) fn line(&self) -> String {
        self.stdout.recv_timeout(PATIENCE).expect("a line")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.signal("INT");
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.pid());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for the end after Ctrl-C; returns the status and how long it took.
    pub(crate) fn wait(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, start.elapsed());
            }
            assert!(start.elapsed() < PATIENCE, "the server does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ctrl-C; the server must end well. Returns the two numbers of its last line: connections, and
    /// what was served; and the lines on its standard error.
    pub(crate) fn stop(mut self) -> (u64, u64, Vec<String>) {
        self.interrupt();
        let (status, _) = self.wait();
        let complaints: Vec<String> = self.stderr.iter().collect();
        assert!(status.success(), "{status}; {complaints:?}");
        let (connections, served) = self.totals();
        (connections, served, complaints)
    }

    pub(crate) fn totals(&self) -> (u64, u64) {
        let last = self.stdout.iter().last().expect("totals");
        let numbers = last.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<u64>>();
        assert_eq!(numbers.len(), 2, "{last}");
        (numbers[0], numbers[1])
    }

    /// Seconds of processor time used so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0 // USER_HZ, which Linux has never shown as anything else
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a pipe in a thread, so that its writer is never held up.
pub(crate) fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Waits until what was written to a server has been read by it, as the kernel's table of sockets says, and a little longer.
pub(crate) fn until_read(stream: &TcpStream) {
    let hex = |addr: SocketAddr| match addr {
        SocketAddr::V4(addr) => {
            format!("{:08X}:{:04X}", u32::from_ne_bytes(addr.ip().octets()), addr.port())
        }
        SocketAddr::V6(_) => unreachable!("a server of these tests"),
    };
    let (ours, theirs) = (hex(stream.local_addr().unwrap()), hex(stream.peer_addr().unwrap()));
    // Local address, remote address, state, and what is to be sent and to be read.
    let queued = |from: &str, to: &str| {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let mut rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        let row = rows.find(|row| row[1] == from && row[2] == to);
        row.is_none_or(|row| row[4] != "00000000:00000000")
    };
    let start = Instant::now();
    while queued(&ours, &theirs) || queued(&theirs, &ours) {
        assert!(start.elapsed() < PATIENCE, "the server does not read");
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(300));
}
