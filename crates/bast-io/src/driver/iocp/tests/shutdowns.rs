//! What waits when its half is shut down, whoever does that.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{Bench, pair, recv};
use crate::op::Half;
use crate::{Handle, HandleRef, Op, Outcome};

#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Its,
    Other,
    Nobody,
}

/// Shuts a half down by a driver, or by none.
fn shut(by: By, its: &mut Bench, other: &mut Bench, handle: HandleRef, how: Half) {
    let shutdown = Op::Shutdown { handle, how };
    let outcome = match by {
        By::Its => its.run(shutdown),
        By::Other => other.run(shutdown),
        // SAFETY: no memory is involved.
        By::Nobody => unsafe { crate::blocking::once(&shutdown) },
    };
    assert_eq!(outcome, Outcome(0), "{by:?}");
}

/// Each way to shut down what is one driver's, with a handle whose port is that driver's or another's.
fn shutdowns(mut body: impl FnMut(By, &mut Bench, &mut Bench, Handle, TcpStream)) {
    for by in [By::Its, By::Other, By::Nobody] {
        for is_home in [true, false] {
            println!("by {by:?}, home {is_home}");
            let (mut its, mut other) = (Bench::new(), Bench::new());
            let (ours, theirs) = pair();
            if !is_home {
                other.adopt(ours.as_ref());
            }
            body(by, &mut its, &mut other, ours, theirs);
        }
    }
}

#[test]
fn a_receive_ends_with_its_half() {
    shutdowns(|by, its, other, ours, mut theirs| {
        let (handle, mut buf) = (ours.as_ref(), [0u8]);
        let (untouched, mut peer) = pair();
        let mut kept = [0u8];
        let still = its.start(recv(untouched.as_ref(), &mut kept));
        let record = its.start(recv(handle, &mut buf));
        shut(by, its, other, handle, Half::Read);
        assert_eq!(its.wait(record), Outcome(0));
        // The other half is as it was, and so is another socket.
        let sent = Op::Send { handle, buf: [7u8].as_ptr(), len: 1, flags: 0 };
        assert_eq!(its.run(sent), Outcome(1));
        assert_eq!((theirs.read(&mut buf).expect("read"), buf), (1, [7]));
        peer.write_all(&[8]).expect("sent");
        assert_eq!((its.wait(still), kept), (Outcome(1), [8]));
    });
}

#[test]
fn a_send_ends_with_its_half() {
    let much = vec![0u8; 16 << 20];
    shutdowns(|by, its, other, ours, mut theirs| {
        let (handle, mut buf) = (ours.as_ref(), [0u8]);
        let receives = its.start(recv(handle, &mut buf));
        let send = Op::Send { handle, buf: much.as_ptr(), len: much.len(), flags: 0 };
        let mut record = its.start(send);
        // What there is room for is sent at once, or is a part of it.
        while !its.done.is_empty() {
            assert!(its.wait(record).0 > 0);
            record = its.start(send);
        }
        shut(by, its, other, handle, Half::Write);
        let outcome = its.wait(record);
        assert!(outcome.0 > 0 || outcome.is_errno(crate::sys::c::EPIPE), "{outcome:?}");
        assert!(its.run(send).is_errno(crate::sys::c::EPIPE));
        theirs.write_all(&[9]).expect("the other half is as it was");
        assert_eq!((its.wait(receives), buf), (Outcome(1), [9]));
    });
}
