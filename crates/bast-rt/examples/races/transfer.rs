//! Rounds that move bytes: what is not reported as moved must still be where it was.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use bast_io::{Handle, Interest};
use bast_rt::{Keep, Watch, block_on, ops, timeout};

use crate::lane::{FILE, Lane, MARKS, Way, byte};
use crate::race::{PATIENCE, race};

type Take = fn(&Handle, &mut [u8]) -> io::Result<usize>;
type Put = fn(&Handle, &[u8]) -> io::Result<usize>;
/// Which way of a lane.
type Which = fn(&mut Lane) -> &mut Way;

const ROOM: usize = 16;

// ---- reading ----

pub(crate) fn recv(lane: &mut Lane) -> bool {
    taken(lane, |lane| &mut lane.stream, |from, buf| ops::recv(from, buf, 0, None))
}

pub(crate) fn recv_msg(lane: &mut Lane) -> bool {
    taken(
        lane,
        |lane| &mut lane.stream,
        |from, buf| ops::recv_vectored(from, &mut halves(buf), 0, None),
    )
}

pub(crate) fn read(lane: &mut Lane) -> bool {
    taken(lane, |lane| &mut lane.pipe, |from, buf| ops::read(from, buf, None))
}

pub(crate) fn read_v(lane: &mut Lane) -> bool {
    taken(lane, |lane| &mut lane.pipe, |from, buf| ops::read_vectored(from, &mut halves(buf), None))
}

/// In poll form; half the time the wait is let go of by another fiber than the one that began it.
pub(crate) fn recv_polled(lane: &mut Lane) -> bool {
    let watch = Arc::new(Watch::new(Interest::Readable));
    let (theirs, from) = (Arc::clone(&watch), Arc::clone(&lane.stream.from));
    let kept = (lane.random.below(2) == 0).then_some(watch);
    let completed = taken_by(
        lane,
        |lane| &mut lane.stream,
        move |_, buf| {
            let keep = || -> Keep { Arc::<Handle>::clone(&from) };
            block_on(poll_fn(|context| {
                theirs.poll_bytes(context, &from, keep, buf.len(), || ops::try_read(&from, buf))
            }))
        },
    );
    drop(kept);
    rest(&mut lane.stream, |from, buf| ops::recv(from, buf, 0, None));
    completed
}

fn halves(buf: &mut [u8]) -> [IoSliceMut<'_>; 2] {
    let (first, second) = buf.split_at_mut(3);
    [IoSliceMut::new(first), IoSliceMut::new(second)]
}

fn taken(lane: &mut Lane, which: Which, take: Take) -> bool {
    let completed = taken_by(lane, which, take);
    rest(which(lane), take);
    completed
}

fn taken_by(
    lane: &mut Lane,
    which: Which,
    take: impl FnOnce(&Handle, &mut [u8]) -> io::Result<usize> + Send + 'static,
) -> bool {
    let len = 1 + lane.random.below(8);
    let from = Arc::clone(&which(lane).from);
    let result = race(
        lane,
        move || {
            let mut buf = [0; ROOM];
            take(&from, &mut buf).map(|got| (buf, got))
        },
        |lane| supply(which(lane), len),
    );
    let completed = result.is_some();
    if let Some(result) = result {
        let (buf, got) = result.expect("a way that works");
        assert!(got > 0, "the end, and nobody has closed it");
        which(lane).receive(&buf[..got]);
    }
    completed
}

/// Sends `len` bytes, for which there is room.
fn supply(way: &mut Way, len: u64) {
    let end = way.sent + len;
    while way.sent < end {
        way.sent += ops::write(&way.to, &way.next(end - way.sent), None).expect("room") as u64;
    }
}

/// Receives what has not been.
fn rest(way: &mut Way, take: Take) {
    while way.got < way.sent {
        let mut buf = [0; ROOM];
        let got = timeout(PATIENCE, || take(&way.from, &mut buf)).expect("a byte was lost");
        let got = got.expect("a way that works");
        assert!(got > 0, "the end, and nobody has closed it");
        way.receive(&buf[..got]);
    }
}

/// Ready, or given up: the byte is still there.
pub(crate) fn poll(lane: &mut Lane) -> bool {
    let from = Arc::clone(&lane.stream.from);
    let result = race(
        lane,
        move || ops::poll(&from, Interest::Readable, None),
        |lane| supply(&mut lane.stream, 1),
    );
    let completed = result.is_some();
    if let Some(result) = result {
        result.expect("a way that works");
        let got = ops::recv(&lane.stream.from, &mut [0], ops::DONT_WAIT | ops::PEEK, None);
        // (The simulator's readiness may be a false alarm, as a kernel's may.)
        assert!(matches!(got, Ok(1)) || !lane.real, "ready for nothing: {got:?}");
    }
    rest(&mut lane.stream, |from, buf| ops::recv(from, buf, 0, None));
    completed
}

// ---- writing ----

pub(crate) fn send(lane: &mut Lane) -> bool {
    given(lane, |lane| &mut lane.stream, |to, bytes| ops::send(to, bytes, 0, None))
}

pub(crate) fn send_msg(lane: &mut Lane) -> bool {
    given(lane, |lane| &mut lane.stream, |to, bytes| ops::send_vectored(to, &parts(bytes), 0, None))
}

pub(crate) fn write(lane: &mut Lane) -> bool {
    given(lane, |lane| &mut lane.pipe, |to, bytes| ops::write(to, bytes, None))
}

pub(crate) fn write_v(lane: &mut Lane) -> bool {
    given(lane, |lane| &mut lane.pipe, |to, bytes| ops::write_vectored(to, &parts(bytes), None))
}

fn parts(bytes: &[u8]) -> [IoSlice<'_>; 2] {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    [IoSlice::new(first), IoSlice::new(second)]
}

/// Sends while there is no room; what completes it is that the other end receives.
fn given(lane: &mut Lane, which: Which, put: Put) -> bool {
    let way = which(lane);
    way.fill();
    let len = 1 + lane.random.below(300);
    let way = which(lane);
    let (to, bytes) = (Arc::clone(&way.to), way.next(len));
    let result = race(lane, move || put(&to, &bytes), |lane| which(lane).relieve());
    settle(which(lane), result)
}

/// Enters what was sent into the accounts.
fn settle(way: &mut Way, result: Option<io::Result<usize>>) -> bool {
    if let Some(result) = &result {
        way.sent += *result.as_ref().expect("a way that works") as u64;
    }
    assert!(way.got <= way.sent, "more was received than sent");
    result.is_some()
}

pub(crate) fn send_file(lane: &mut Lane) -> bool {
    lane.stream.fill();
    let (to, file) = (Arc::clone(&lane.stream.to), Arc::clone(&lane.file));
    let (offset, len) = (lane.stream.sent % 251, 1 + lane.random.below(300));
    let op = move || ops::sendfile(&to, &file, offset, len as usize, None);
    let result = race(lane, op, |lane| lane.stream.relieve());
    settle(&mut lane.stream, result)
}

pub(crate) fn splice(lane: &mut Lane) -> bool {
    let Some(second) = &lane.second else {
        // The simulator has no pipes, and says so.
        let (from, to) = (Arc::clone(&lane.stream.from), Arc::clone(&lane.stream.to));
        let result = race(lane, move || ops::splice(&from, None, &to, None, 64, None), |_| ());
        return result.map(|result| result.expect_err("no pipe takes part")).is_some();
    };
    let (from, to) = (Arc::clone(&lane.pipe.from), Arc::clone(&second.to));
    let len = 1 + lane.random.below(8);
    let result = race(
        lane,
        move || ops::splice(&from, None, &to, None, 64, None),
        |lane| supply(&mut lane.pipe, len),
    );
    let completed = result.is_some();
    if let (Some(result), Some(second)) = (result, &mut lane.second) {
        let moved = result.expect("pipes that work") as u64;
        assert!(moved > 0, "the end, and nobody has closed it");
        // The bytes are those of the first pipe.
        let mut buf = [0; 64];
        let got = second.try_recv(&mut buf).expect("what was moved is there") as u64;
        assert_eq!(got, moved);
        lane.pipe.receive(&buf[..got as usize]);
    }
    if let Some(second) = &lane.second {
        assert_eq!(second.try_recv(&mut [0; 64]), None, "moved by an operation that was given up");
    }
    rest(&mut lane.pipe, |from, buf| ops::read(from, buf, None));
    completed
}

// ---- files ----

pub(crate) fn read_file(lane: &mut Lane) -> bool {
    let (file, offset) = (Arc::clone(&lane.file), lane.random.below(FILE - ROOM as u64));
    let op = move || {
        let mut buf = [0; ROOM];
        ops::read(&file, &mut buf, Some(offset)).map(|got| (buf, got))
    };
    let Some(result) = race(lane, op, |_| ()) else { return false };
    let (buf, got) = result.expect("a file that can be read");
    assert!(got > 0);
    for (seen, position) in buf[..got].iter().zip(offset..) {
        assert_eq!(*seen, byte(position));
    }
    true
}

/// Written, or not at all.
pub(crate) fn write_file(lane: &mut Lane) -> bool {
    let before = lane.mark;
    let mark = before.wrapping_add(1);
    let file = Arc::clone(&lane.file);
    let result = race(lane, move || ops::write(&file, &[mark; MARKS], Some(FILE)), |_| ());
    let written = result.as_ref().map_or(0, |result| *result.as_ref().expect("room in a file"));
    let mut seen = [0; MARKS];
    let mut got = 0;
    while got < MARKS {
        let more = ops::read(&lane.file, &mut seen[got..], Some(FILE + got as u64));
        got += more.expect("a file that can be read");
    }
    assert_eq!(seen[..written], [mark; MARKS][..written]);
    assert_eq!(seen[written..], [before; MARKS][written..], "written, and given up");
    // The simulator writes short now and then: the same mark everywhere again.
    let mut done = written;
    while done > 0 && done < MARKS {
        let more = ops::write(&lane.file, &[mark; MARKS][done..], Some(FILE + done as u64));
        done += more.expect("room in a file");
    }
    if written > 0 {
        lane.mark = mark;
    }
    result.is_some()
}
