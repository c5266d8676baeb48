//! What a lane of rounds works with: connections, pipes, a listener, a file; and the accounts of what has
//! gone into each and come out.

use std::ffi::CString;
use std::io::{self, PipeReader, PipeWriter};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use bast_io::{Half, Handle, Kind, SockAddr, SockOpt};
use bast_rt::{DriverKind, ops, spawn};

use crate::race::Random;

/// The byte at a position of a stream.
pub(crate) const fn byte(position: u64) -> u8 {
    (position % 251) as u8
}

/// A way for bytes from one handle to another. The byte at each position is known.
pub(crate) struct Way {
    pub(crate) to: Arc<Handle>,
    pub(crate) from: Arc<Handle>,
    pub(crate) sent: u64,
    pub(crate) got: u64,
    is_pipe: bool,
}

impl Way {
    fn new((to, from): (Handle, Handle), is_pipe: bool) -> Way {
        Way { to: Arc::new(to), from: Arc::new(from), sent: 0, got: 0, is_pipe }
    }

    /// The next `len` bytes to send.
    pub(crate) fn next(&self, len: u64) -> Vec<u8> {
        (self.sent..self.sent + len).map(byte).collect()
    }

    /// Checks what was received.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        for &seen in bytes {
            assert_eq!(seen, byte(self.got), "the byte at {} is another", self.got);
            self.got += 1;
        }
    }

    /// Sends until there is no room.
    pub(crate) fn fill(&mut self) {
        while let Some(sent) = self.try_send(&self.next(1024)) {
            self.sent += sent as u64;
        }
    }

    /// Receives a good part of what there is.
    pub(crate) fn relieve(&mut self) {
        let mut room = [0; 8192];
        if let Some(got) = self.try_recv(&mut room) {
            self.receive(&room[..got]);
        }
    }

    /// Sends without waiting; `None` if it would have to.
    pub(crate) fn try_send(&self, bytes: &[u8]) -> Option<usize> {
        now(if self.is_pipe {
            // SAFETY: the bytes are borrowed; the pipe is in non-blocking mode.
            checked(unsafe { libc::write(self.to.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
        } else {
            ops::send(&self.to, bytes, ops::DONT_WAIT, None)
        })
    }

    /// Receives without waiting; `None` if it would have to.
    pub(crate) fn try_recv(&self, room: &mut [u8]) -> Option<usize> {
        now(if self.is_pipe {
            // SAFETY: the room is borrowed; the pipe is in non-blocking mode.
            checked(unsafe {
                libc::read(self.from.as_raw_fd(), room.as_mut_ptr().cast(), room.len())
            })
        } else {
            ops::recv(&self.from, room, ops::DONT_WAIT, None)
        })
    }
}

fn checked(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

fn now(result: io::Result<usize>) -> Option<usize> {
    match result {
        Ok(count) => Some(count),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("a way that works: {error}"),
    }
}

/// See the head of this file.
pub(crate) struct Lane {
    /// With a kernel.
    pub(crate) real: bool,
    pub(crate) workers: usize,
    /// Whether results are thrown away now and then.
    pub(crate) canary: bool,
    pub(crate) random: Random,
    pub(crate) stream: Way,
    /// A pipe; with no kernel another stream.
    pub(crate) pipe: Way,
    /// A second pipe, to splice into.
    pub(crate) second: Option<Way>,
    pub(crate) listener: Arc<Handle>,
    pub(crate) address: SockAddr,
    /// Has [`FILE`] bytes that are known, and behind them what the rounds write.
    pub(crate) file: Arc<Handle>,
    pub(crate) path: CString,
    pub(crate) mark: u8,
    /// A pipe in blocking mode.
    pub(crate) blocking: Option<(Arc<PipeReader>, PipeWriter)>,
}

/// How many known bytes are in a lane's file.
pub(crate) const FILE: u64 = 64 * 251;
/// How many bytes a round writes behind them.
pub(crate) const MARKS: usize = 16;

impl Lane {
    pub(crate) fn new(driver: DriverKind, workers: usize, random: Random) -> Lane {
        let real = driver != DriverKind::Sim;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        // Each on an address of its own: one address would run out of ports.
        let [_, a, b, c] = number.to_be_bytes();
        let (listener, address) = listen(Ipv4Addr::new(127, a, b, c.max(1)));
        let path = std::env::temp_dir().join(format!("bast-races-{}-{number}", std::process::id()));
        let path = CString::new(path.into_os_string().into_encoded_bytes()).expect("no NUL");
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
        let file = ops::open(&path, flags, 0o600, Kind::File).expect("a file");
        let mut content: Vec<u8> = (0..FILE).map(byte).collect();
        content.extend([0; MARKS]);
        let mut written = 0;
        while written < content.len() {
            let rest = &content[written..];
            written += ops::write(&file, rest, Some(written as u64)).expect("room for a file");
        }
        let other = || if real { pipe() } else { connection(&listener, &address) };
        Lane {
            real,
            workers: if real { workers } else { 1 },
            canary: false,
            random,
            stream: Way::new(connection(&listener, &address), false),
            pipe: Way::new(other(), real),
            second: real.then(|| Way::new(pipe(), true)),
            address,
            file: Arc::new(file),
            path,
            mark: 0,
            blocking: real.then(|| {
                let (reader, writer) = std::io::pipe().expect("a pipe");
                (Arc::new(reader), writer)
            }),
            listener: Arc::new(listener),
        }
    }

    /// A connection of the round's own.
    pub(crate) fn connection(&self) -> (Handle, Handle) {
        connection(&self.listener, &self.address)
    }

    /// What has been sent must have come, or be there still.
    pub(crate) fn finish(self) {
        let ways = [Some(self.stream), Some(self.pipe), self.second];
        for mut way in ways.into_iter().flatten() {
            if !way.is_pipe {
                ops::shutdown(&way.to, Half::Write).expect("shutdown");
            }
            way.to = Arc::clone(&way.from); // closes a pipe
            let mut room = [0; 4096];
            loop {
                let got = ops::read(&way.from, &mut room, None).expect("a way that works");
                if got == 0 {
                    break;
                }
                way.receive(&room[..got]);
            }
            assert_eq!(way.got, way.sent, "bytes were lost");
        }
        if self.real {
            // SAFETY: a path that ends with NUL.
            assert_eq!(unsafe { libc::unlink(self.path.as_ptr()) }, 0);
        }
    }
}

pub(crate) fn tcp() -> Handle {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    ops::socket(ops::family(&any), ops::STREAM, 0, Kind::Stream).expect("a socket")
}

/// Closing resets the connection, so that no port waits for its time to pass.
pub(crate) fn reset(handle: &Handle) {
    ops::set_linger(handle, Some(Duration::ZERO)).expect("an option of every stream");
}

fn listen(address: Ipv4Addr) -> (Handle, SockAddr) {
    let handle = tcp();
    ops::bind(&handle, &SocketAddr::from((address, 0)).into()).expect("bind");
    ops::listen(&handle, 64).expect("listen");
    let handle = handle.into_kind(Kind::Listener);
    let address = ops::local_addr(&handle).expect("an address");
    (handle, address)
}

/// A connection with little room: it is soon full.
fn connection(listener: &Handle, address: &SockAddr) -> (Handle, Handle) {
    let small = |handle: &Handle, name| {
        // The simulator has no such option; its buffers are small.
        let _ = ops::set_option(handle, SockOpt { level: libc::SOL_SOCKET, name }, 4096);
    };
    let client = tcp();
    small(&client, libc::SO_SNDBUF);
    small(&client, libc::SO_RCVBUF);
    let address = *address;
    let client = spawn(move || {
        ops::connect(&client, &address, None).expect("connect");
        client
    });
    let (server, _) = ops::accept(listener, None).expect("accept");
    small(&server, libc::SO_SNDBUF);
    small(&server, libc::SO_RCVBUF);
    let client = client.join().expect("connect");
    ops::set_flag(&client, ops::NO_DELAY, true).expect("an option of every stream");
    (client, server)
}

fn pipe() -> (Handle, Handle) {
    let (reader, writer) = bast_io::pipe::pair().expect("a pipe");
    (writer, reader)
}
