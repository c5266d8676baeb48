//! Any operation as plain blocking system calls on the calling thread: for the pool's threads, and
//! for threads that call bast's library functions outside of a runtime.
//!
//! ```text
//!   call ──done──▶ outcome
//!    ▲  └─EAGAIN─▶ wait till it is ready ──time is up──▶ TIMED_OUT
//!    └────ready──────┘
//! ```

use std::time::{Duration, Instant};

use crate::op::Interest;
use crate::sys::c;
use crate::sys::{self, Mode};
use crate::{Op, Outcome};

/// Performs `op` and waits for it, at most until `deadline` if it waits for a peer (an operation on a
/// file takes the time it takes). After the deadline the outcome is [`Outcome::TIMED_OUT`].
///
/// # Safety
/// Contract io 1 for the time of the call: all memory that the operation names is valid.
pub unsafe fn execute(op: &Op, deadline: Option<Instant>) -> Outcome {
    let gates = op.gates();
    if gates[0].is_none() && gates[1].is_none() {
        // SAFETY: the caller's promise.
        return unsafe { sys::call(op, Mode::Block) };
    }
    let mode = if deadline.is_some() { Mode::NoWait } else { Mode::Block };
    let handshake = match (op, deadline) {
        (Op::Connect { handle, .. }, Some(_)) if sys::STREAMS_BLOCK => Some(handle.raw()),
        _ => None,
    };
    if let Some(fd) = handshake {
        let _ = sys::set_nonblocking(fd, true);
    }
    if deadline.is_some() {
        op.unblock_ends();
    }
    // SAFETY: the caller's promise.
    let outcome = unsafe { until_done(op, mode, deadline) };
    if let Some(fd) = handshake {
        sys::calm(fd);
    }
    outcome
}

/// Does `op` once; `EAGAIN` if it would have to wait for a peer.
///
/// # Safety
/// As [`execute`].
pub unsafe fn once(op: &Op) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { sys::call(op, Mode::NoWait) }
}

/// Performs `op` if it waits neither for a peer nor for a disk; `None` if it would.
///
/// # Safety
/// As [`execute`].
pub unsafe fn attempt(op: &Op) -> Option<Outcome> {
    if op.is_immediate() {
        // SAFETY: the caller's promise.
        return Some(unsafe { sys::call(op, Mode::Block) });
    }
    op.gates()[0]?;
    if op.is_gated() || matches!(op, Op::Connect { .. }) {
        return None;
    }
    // SAFETY: the caller's promise.
    let outcome = unsafe { sys::call(op, Mode::NoWait) };
    (!sys::would_block(outcome) || op.is_dontwait()).then_some(outcome)
}

/// # Safety
/// As [`execute`].
unsafe fn until_done(op: &Op, mode: Mode, deadline: Option<Instant>) -> Outcome {
    loop {
        // SAFETY: the caller's promise.
        let outcome = unsafe { sys::call(op, mode) };
        if !sys::would_block(outcome) || op.is_dontwait() {
            return outcome;
        }
        if matches!(op, Op::Connect { .. }) && outcome.is_errno(c::EAGAIN) {
            // A local socket's full backlog makes `connect` say EAGAIN, and nothing announces room.
            // The socket is non-blocking, else the call had waited.
            if !nap(deadline) {
                return Outcome::TIMED_OUT;
            }
            continue;
        }
        for (handle, interest) in op.gates().into_iter().flatten() {
            if !wait_ready(handle.raw(), interest, deadline) {
                return Outcome::TIMED_OUT;
            }
        }
    }
}

/// Waits until the descriptor is ready (or broken); `false` when the time is up.
fn wait_ready(fd: i32, interest: Interest, deadline: Option<Instant>) -> bool {
    loop {
        let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        if sys::wait_fd(fd, sys::events(interest), left) != 0 {
            return true;
        }
        if left.is_some_and(|l| l.is_zero()) {
            return false;
        }
    }
}

fn nap(deadline: Option<Instant>) -> bool {
    let left = deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
    std::thread::sleep(left.min(Duration::from_millis(1)));
    !left.is_zero()
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::*;
    use crate::{Handle, Kind, SockAddr};

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(40))
    }

    /// (Windows does not tell.)
    #[cfg(windows)]
    fn is_nonblocking(handle: &Handle) -> bool {
        handle.as_ref().kind() == Kind::Listener
    }

    #[cfg(unix)]
    fn is_nonblocking(handle: &Handle) -> bool {
        // SAFETY: the descriptor is open.
        unsafe { c::fcntl(handle.raw(), c::F_GETFL) & c::O_NONBLOCK != 0 }
    }

    #[test]
    fn a_thread_waits_for_peers_and_no_longer_than_told() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
        let addr = SockAddr::from(listener.local_addr().expect("address"));
        let listener = Handle::from_owned(listener.into(), Kind::Listener);
        let accept = Op::Accept { handle: listener.as_ref(), addr: std::ptr::null_mut() };
        // SAFETY: io 1 throughout: everything named outlives its call; descriptors are the test's.
        unsafe {
            let listen = Op::Listen { handle: listener.as_ref(), backlog: 4 };
            assert_eq!(execute(&listen, None), Outcome(0));
            assert!(is_nonblocking(&listener));
            let start = Instant::now();
            assert!(execute(&accept, soon()) == Outcome::TIMED_OUT);
            assert!(start.elapsed() >= Duration::from_millis(40));
            let (say, told) = std::sync::mpsc::channel::<()>();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                let tcp = Op::Socket { domain: c::AF_INET, kind: c::SOCK_STREAM, protocol: 0 };
                let socket = Handle::from_raw(execute(&tcp, None).0, Kind::Stream);
                let (handle, addr) = (socket.as_ref(), &raw const addr);
                let deadline = Some(Instant::now() + Duration::from_secs(10));
                assert_eq!(execute(&Op::Connect { handle, addr }, deadline), Outcome(0));
                assert!(!sys::STREAMS_BLOCK || !is_nonblocking(&socket), "the mode is restored");
                told.recv().expect("who has waited in vain says so");
                std::thread::sleep(Duration::from_millis(30));
                let send = Op::Send { handle, buf: b"late".as_ptr(), len: 4, flags: 0 };
                assert_eq!(execute(&send, None), Outcome(4));
            });
            // The listener is non-blocking, the call waits nevertheless.
            let server = Handle::from_raw(execute(&accept, None).0, Kind::Stream);
            let mut buf = [0u8; 8];
            let (handle, buf) = (server.as_ref(), buf.as_mut_ptr());
            let recv = Op::Recv { handle, buf, len: 8, flags: 0 };
            let impatient = Op::Recv { handle, buf, len: 8, flags: c::MSG_DONTWAIT };
            assert!(execute(&impatient, None).is_errno(c::EAGAIN));
            assert!(execute(&recv, soon()) == Outcome::TIMED_OUT);
            say.send(()).expect("it listens");
            assert_eq!(execute(&recv, None), Outcome(4));
            thread.join().expect("client");
            assert_eq!(execute(&recv, None), Outcome(0));
        }
    }

    #[test]
    fn a_full_socket_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
        let addr: SocketAddr = listener.local_addr().expect("address");
        let ours =
            Handle::from_owned(TcpStream::connect(addr).expect("connect").into(), Kind::Stream);
        let big = vec![0u8; 1 << 20];
        let op = Op::Send { handle: ours.as_ref(), buf: big.as_ptr(), len: big.len(), flags: 0 };
        // SAFETY: io 1: the buffer outlives the calls.
        let last = std::iter::repeat_with(|| unsafe { execute(&op, soon()) }).find(|o| o.0 < 0);
        assert_eq!(last, Some(Outcome::TIMED_OUT));
    }
}
