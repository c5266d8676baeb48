//! Rounds that make, change and close things: nothing that was made may be lost.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use bast_io::{Half, Handle, Kind, Op, SockAddr};
use bast_rt::{ops, perform, run_blocking, run_blocking_interruptible};

use crate::lane::{FILE, Lane, MARKS, reset, tcp};
use crate::race::{PATIENCE, race};

fn any() -> SockAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()
}

/// A round of an operation on a fresh socket.
fn on_socket<R: Send + 'static>(
    lane: &mut Lane,
    op: impl FnOnce(&Handle) -> io::Result<R> + Send + 'static,
) -> bool {
    let socket = tcp();
    match race(lane, move || op(&socket), |_| ()) {
        None => false,
        Some(result) => {
            result.expect("an operation on a socket");
            true
        }
    }
}

pub(crate) fn nop(lane: &mut Lane) -> bool {
    // SAFETY: no memory.
    let outcome = race(lane, || unsafe { perform(Op::Nop, None) }, |_| ());
    assert!(outcome.is_none_or(|outcome| outcome.0 == 0));
    outcome.is_some()
}

pub(crate) fn socket(lane: &mut Lane) -> bool {
    race(lane, tcp, |_| ()).is_some()
}

pub(crate) fn bind(lane: &mut Lane) -> bool {
    on_socket(lane, |socket| ops::bind(socket, &any()))
}

pub(crate) fn listen(lane: &mut Lane) -> bool {
    let socket = tcp();
    ops::bind(&socket, &any()).expect("bind");
    let result = race(lane, move || ops::listen(&socket, 1), |_| ());
    result.map(|result| result.expect("listen")).is_some()
}

pub(crate) fn shutdown(lane: &mut Lane) -> bool {
    // Not connected, which is the answer.
    on_socket(lane, |socket| {
        assert!(ops::shutdown(socket, Half::Both).is_err());
        Ok(())
    })
}

pub(crate) fn name(lane: &mut Lane) -> bool {
    on_socket(lane, ops::local_addr)
}

pub(crate) fn set_option(lane: &mut Lane) -> bool {
    on_socket(lane, |socket| ops::set_flag(socket, ops::NO_DELAY, true))
}

pub(crate) fn option(lane: &mut Lane) -> bool {
    on_socket(lane, |socket| ops::flag(socket, ops::NO_DELAY))
}

/// The connection is accepted by the operation, or can be accepted afterwards.
pub(crate) fn accept(lane: &mut Lane) -> bool {
    let listener = Arc::clone(&lane.listener);
    let client = Arc::new(tcp());
    let ours = Arc::clone(&client);
    let result = race(
        lane,
        move || ops::accept(&listener, None),
        |lane| ops::connect(&ours, &lane.address, None).expect("connect"),
    );
    let completed = result.is_some();
    let result = result.unwrap_or_else(|| ops::accept(&lane.listener, Some(PATIENCE)));
    let (server, from) = result.expect("the connection was lost");
    assert_eq!(plain(&from), plain(&ops::local_addr(&client).expect("an address")));
    reset(&server);
    completed
}

fn plain(address: &SockAddr) -> SocketAddr {
    address.to_std().expect("an internet address")
}

/// The connection exists, or can be thrown away.
pub(crate) fn connect(lane: &mut Lane) -> bool {
    let (client, address) = (Arc::new(tcp()), lane.address);
    let theirs = Arc::clone(&client);
    let result = race(lane, move || ops::connect(&theirs, &address, None), |_| ());
    reset(&client);
    match result {
        Some(result) => {
            result.expect("connect");
            let (server, from) = ops::accept(&lane.listener, None).expect("accept");
            assert_eq!(plain(&from), plain(&ops::local_addr(&client).expect("an address")));
            reset(&server);
            true
        }
        None => {
            drop(client);
            while let Ok((server, _)) = ops::accept(&lane.listener, Some(Duration::ZERO)) {
                reset(&server);
            }
            false
        }
    }
}

pub(crate) fn open(lane: &mut Lane) -> bool {
    let path = lane.path.clone();
    let result = race(lane, move || ops::open(&path, libc::O_RDONLY, 0, Kind::File), |_| ());
    result.map(|result| result.expect("the file is there")).is_some()
}

/// Closed, whatever happens: the peer sees it.
pub(crate) fn close(lane: &mut Lane) -> bool {
    let (handle, peer) = lane.connection();
    let result = race(lane, move || ops::close(handle), |_| ());
    if let Some(result) = &result {
        assert!(result.is_ok());
    }
    let seen = ops::recv(&peer, &mut [0], 0, None);
    assert!(matches!(seen, Ok(0)), "the peer sees {seen:?}");
    reset(&peer);
    result.is_some()
}

pub(crate) fn fsync(lane: &mut Lane) -> bool {
    let file = Arc::clone(&lane.file);
    let result = race(lane, move || ops::fsync(&file, true), |_| ());
    result.map(|result| result.expect("fsync")).is_some()
}

pub(crate) fn statx(lane: &mut Lane) -> bool {
    let file = Arc::clone(&lane.file);
    let Some(result) = race(lane, move || ops::stat(&file), |_| ()) else { return false };
    assert_eq!(result.expect("stat").len, FILE + MARKS as u64);
    true
}

pub(crate) fn call(lane: &mut Lane) -> bool {
    let span = Duration::from_nanos(lane.random.below(20_000));
    let result = race(
        lane,
        move || {
            run_blocking(|| {
                std::thread::sleep(span);
                7
            })
        },
        |_| (),
    );
    assert!(result.is_none_or(|n| n == 7));
    result.is_some()
}

/// A read from a pipe in blocking mode: the byte was read, or is there.
pub(crate) fn interruptible_call(lane: &mut Lane) -> bool {
    let Some((reader, _)) = &lane.blocking else {
        // The simulator's clock stands still while a call runs.
        let result = race(lane, || run_blocking_interruptible(|| Ok(7)), |_| ());
        return result.map(|result| assert_eq!(result.expect("the call's"), 7)).is_some();
    };
    let (reader, mark) = (Arc::clone(reader), lane.mark.wrapping_add(1));
    lane.mark = mark;
    let theirs = Arc::clone(&reader);
    let result = race(
        lane,
        move || run_blocking_interruptible(|| one_byte(&theirs)),
        |lane| {
            let (_, writer) = lane.blocking.as_mut().expect("as above");
            io::Write::write_all(writer, &[mark]).expect("room in a pipe");
        },
    );
    let completed = result.is_some();
    let byte = result.unwrap_or_else(|| one_byte(&reader)).expect("a pipe that works");
    assert_eq!(byte, mark);
    completed
}

fn one_byte(reader: &io::PipeReader) -> io::Result<u8> {
    let mut byte = 0u8;
    // SAFETY: one byte of a local.
    match unsafe { libc::read(reader.as_raw_fd(), (&raw mut byte).cast(), 1) } {
        1 => Ok(byte),
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(io::Error::last_os_error()),
    }
}
