//! `udp`: datagrams over loopback, in bursts, each answered by a small one.
//!
//! ```text
//!   sender: 64 datagrams of 1200 B ──▶ receiver: takes all 64, sends one byte ──▶ sender: the next burst
//! ```
//!
//! `single` is one system call a datagram, as std and tokio have it; `batch` is `send_many` and `recv_many`, `gso` the
//! same with one segmented transmit and joined datagrams. A burst fits into the receiver's buffer, so that none is lost.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bast::net::{RecvBatch, Transmit};

use crate::micro::{Job, Values, bast_runtime, tokio_runtime};
use crate::registry::units;
use crate::stats::Span;
use crate::sys::process_cpu;

/// Datagrams of a burst, and bytes of each.
const BURST: usize = 64;
const SIZE: usize = 1200;

/// Whoever waits longer has lost a datagram.
const LOST: Duration = Duration::from_secs(10);

/// Counts bursts, and the time and the CPU that they take after the warm-up.
struct Clock {
    span: Span,
    begun: Instant,
    from: Option<(Instant, Duration)>,
    bursts: u64,
}

impl Clock {
    fn new(span: Span) -> Clock {
        Clock { span, begun: Instant::now(), from: None, bursts: 0 }
    }

    /// Whether another burst is to be sent.
    fn more(&mut self) -> Result<bool, String> {
        match self.from {
            None if self.begun.elapsed() >= self.span.warm => {
                self.from = Some((Instant::now(), cpu()?));
            }
            None => {}
            Some((from, _)) => {
                self.bursts += 1;
                return Ok(from.elapsed() < self.span.measure);
            }
        }
        Ok(true)
    }

    fn values(&self) -> Result<Values, String> {
        let (from, before) = self.from.ok_or("nothing was measured")?;
        let (took, used) = (from.elapsed(), cpu()? - before);
        let packets = (self.bursts * BURST as u64) as f64;
        Ok(vec![
            (units::CPU_PACKET, used.as_nanos() as f64 / packets),
            (units::PACKET_S, packets / took.as_secs_f64()),
        ])
    }
}

fn cpu() -> Result<Duration, String> {
    process_cpu(std::process::id()).map_err(|e| e.to_string())
}

pub(crate) fn run(subject: &str, job: &Job) -> Result<Values, String> {
    let (clock, param) = (Clock::new(job.span), job.param.clone());
    match (subject, job.param.as_str()) {
        ("threads", "single") => threads(clock),
        ("tokio-current", "single") => {
            let rt = tokio_runtime(subject, job.workers)?;
            rt.block_on(tokio(clock)).map_err(|e| e.to_string())
        }
        ("bast-uring" | "bast-epoll", "single" | "batch" | "gso") => {
            bast_runtime(subject, job.workers)?.run(move || bast(clock, &param))
        }
        _ => Err(format!("{subject} does not run udp {}", job.param)),
    }
}

/// Two sockets that are connected to each other; the text is of the same form for std's and bast's.
macro_rules! pair {
    ($socket:ty) => {{
        let open = || -> std::io::Result<($socket, $socket)> {
            let a = <$socket>::bind("127.0.0.1:0")?;
            let b = <$socket>::bind("127.0.0.1:0")?;
            a.connect(b.local_addr()?)?;
            b.connect(a.local_addr()?)?;
            a.set_read_timeout(Some(LOST))?;
            b.set_read_timeout(Some(LOST))?;
            Ok((a, b))
        };
        open().map_err(|e| e.to_string())?
    }};
}

/// One system call a datagram, in blocking style.
macro_rules! one_by_one {
    ($socket:ty, $spawn:path, $clock:ident) => {{
        let (a, b) = pair!($socket);
        let receiver = $spawn(move || {
            let mut buf = [0; SIZE];
            loop {
                for _ in 0..BURST {
                    match b.recv(&mut buf) {
                        Ok(SIZE) => {}
                        _ => return,
                    }
                }
                b.send(&[1]).expect("an answer");
            }
        });
        let data = [7; SIZE];
        while $clock.more()? {
            for _ in 0..BURST {
                a.send(&data).map_err(|e| e.to_string())?;
            }
            a.recv(&mut [0]).map_err(|e| e.to_string())?;
        }
        let values = $clock.values();
        a.send(b"end").map_err(|e| e.to_string())?;
        receiver.join().map_err(|_| "the receiver panicked")?;
        values
    }};
}

fn threads(mut clock: Clock) -> Result<Values, String> {
    one_by_one!(std::net::UdpSocket, std::thread::spawn, clock)
}

fn bast(mut clock: Clock, param: &str) -> Result<Values, String> {
    if param == "single" {
        return one_by_one!(bast::net::UdpSocket, bast::spawn, clock);
    }
    let gso = param == "gso";
    let (a, b) = pair!(bast::net::UdpSocket);
    b.set_gro(gso).map_err(|e| e.to_string())?;
    let receiver = bast::spawn(move || {
        let mut batch = RecvBatch::new(BURST, if gso { 65_535 } else { SIZE });
        loop {
            let mut count = 0;
            while count < BURST {
                match b.recv_many(&mut batch) {
                    Ok(n) if batch.iter().all(|datagram| datagram.contents.len() == SIZE) => {
                        count += n
                    }
                    _ => return,
                }
            }
            b.send(&[1]).expect("an answer");
        }
    });
    let data = vec![7; SIZE * BURST];
    let each: Vec<_> = data.chunks(SIZE).map(Transmit::new).collect();
    let whole = [Transmit::new(&data).segmented(SIZE)];
    while clock.more()? {
        let sent = a.send_many(if gso { &whole } else { &each }).map_err(|e| e.to_string())?;
        if sent != BURST {
            return Err(format!("only {sent} of {BURST} were sent"));
        }
        a.recv(&mut [0]).map_err(|e| e.to_string())?;
    }
    let values = clock.values();
    a.send(b"end").map_err(|e| e.to_string())?;
    receiver.join().map_err(|_| "the receiver panicked")?;
    values
}

async fn tokio(mut clock: Clock) -> Result<Values, std::io::Error> {
    use tokio::net::UdpSocket;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let (a, b) = (UdpSocket::bind(any).await?, UdpSocket::bind(any).await?);
    a.connect(b.local_addr()?).await?;
    b.connect(a.local_addr()?).await?;
    let receiver = tokio::spawn(async move {
        let mut buf = [0; SIZE];
        loop {
            for _ in 0..BURST {
                match b.recv(&mut buf).await {
                    Ok(SIZE) => {}
                    _ => return,
                }
            }
            b.send(&[1]).await.expect("an answer");
        }
    });
    let data = [7; SIZE];
    while clock.more().map_err(std::io::Error::other)? {
        for _ in 0..BURST {
            a.send(&data).await?;
        }
        tokio::time::timeout(LOST, a.recv(&mut [0])).await??;
    }
    let values = clock.values().map_err(std::io::Error::other);
    a.send(b"end").await?;
    receiver.await?;
    values
}
