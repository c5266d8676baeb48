//! A driver that goes away takes every operation with it: none touches its memory afterwards, and
//! nothing that was made for nobody stays open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bast_io::{Interest, Op, c};

use crate::harness::{Rig, open_descriptors};

on_every_driver!(everything_pending, completed_but_not_collected, waker_survives);

/// Starts one of each kind of operation that waits; the handles must outlive the rig.
fn everything(rig: &mut Rig) -> Vec<bast_io::Handle> {
    let (listener, addr) = rig.listener(16);
    let (full, full_addr) = rig.listener(1);
    let (a, b) = rig.pair();
    for _ in 0..3 {
        let _ = rig.start_accept(&listener);
        let _ = rig.start_recv(a.as_ref(), 100, 0);
        let _ = rig.start(Op::Poll { handle: a.as_ref(), interest: Interest::Readable });
        let _ = rig.start_recv(b.as_ref(), 100, c::MSG_PEEK);
    }
    let (c, d) = rig.pair();
    let (_blocked, _) = rig.fill(&c);
    let _ = rig.start(Op::Poll { handle: c.as_ref(), interest: Interest::Writable });
    let mut handles = vec![listener, full, a, b, c, d];
    for _ in 0..8 {
        let socket = rig.socket(c::SOCK_STREAM);
        let _ = rig.start_connect(&socket, full_addr);
        handles.push(socket);
    }
    let unconnected = rig.socket(c::SOCK_DGRAM);
    rig.bind(&unconnected, "127.0.0.1:0").expect("bound");
    let _ = rig.start_recv(unconnected.as_ref(), 100, 0);
    handles.push(unconnected);
    // And one that is about to succeed, with a descriptor for nobody.
    let late = rig.socket(c::SOCK_STREAM);
    let _ = rig.start_connect(&late, addr);
    handles.push(late);
    handles
}

fn everything_pending(rig: &mut Rig) {
    if crate::harness::in_child(&crate::harness::path("drops", rig, "everything_pending")) {
        return;
    }
    let before = open_descriptors();
    for round in 0..10 {
        let mut own = Rig::seeded(rig.kind, round).expect("the driver was there before");
        let handles = everything(&mut own);
        if round % 2 == 0 {
            own.settle();
        }
        assert!(own.pending() > 10, "{}", own.pending());
        drop(own);
        drop(handles);
    }
    // What a kernel closes late is closed soon.
    for _ in 0..5_000 {
        if open_descriptors() == before {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(open_descriptors(), before, "descriptors leaked");
}

fn completed_but_not_collected(rig: &mut Rig) {
    if crate::harness::in_child(&crate::harness::path("drops", rig, "completed_but_not_collected"))
    {
        return;
    }
    let before = open_descriptors();
    for round in 0..20 {
        let mut own = Rig::seeded(rig.kind, round).expect("the driver was there before");
        let (listener, addr) = own.listener(16);
        let client = own.socket(c::SOCK_STREAM);
        let _ = own.start_accept(&listener);
        own.settle();
        // The driver has, or will have, an accepted descriptor that nobody asks for.
        if own.is_sim() {
            let _ = own.start_connect(&client, addr);
        } else {
            let stream = std::net::TcpStream::connect(addr).expect("connected");
            if round % 2 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            drop(stream);
        }
        drop(own);
    }
    for _ in 0..5_000 {
        if open_descriptors() == before {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(open_descriptors(), before, "an accepted descriptor leaked");
}

fn waker_survives(rig: &mut Rig) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for round in 0..10 {
        let mut own = Rig::seeded(rig.kind, round).expect("the driver was there before");
        let (waker, stop) = (own.driver().waker(), Arc::clone(&stop));
        threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                waker.wake();
                std::thread::yield_now();
            }
        }));
        own.poll(bast_io::Wait::Forever);
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("a waker");
    }
}

/// What runs on the pool cannot be cancelled: dropping the driver waits for it.
mod on_the_pool {
    use super::*;

    on_real_drivers!(running_call, queued_opens);

    #[derive(Default)]
    struct Progress {
        begun: AtomicBool,
        ended: AtomicBool,
    }

    unsafe fn slow(data: *mut ()) -> i32 {
        // SAFETY: io 1: lent until the driver has let go of it.
        let progress = unsafe { &*data.cast::<Progress>() };
        progress.begun.store(true, Ordering::Release);
        std::thread::sleep(Duration::from_millis(100));
        progress.ended.store(true, Ordering::Release);
        0
    }

    fn running_call(rig: &mut Rig) {
        let progress = Progress::default();
        let mut own = Rig::new(rig.kind).expect("the driver was there before");
        let data = (&raw const progress).cast_mut().cast();
        let _ = own.start(Op::Call { call: slow, data, interruptible: false, limited: false });
        // One that has not begun is cancelled, and never runs.
        while !progress.begun.load(Ordering::Acquire) {
            own.linger(1);
        }
        drop(own);
        let ended = progress.ended.load(Ordering::Acquire);
        assert!(ended, "its memory was given back while the call ran");
    }

    fn queued_opens(rig: &mut Rig) {
        let path = crate::harness::path("drops::on_the_pool", rig, "queued_opens");
        if crate::harness::in_child(&path) {
            return;
        }
        let temp = crate::files::Temp::new(rig, "queued_opens");
        drop(temp.open(rig, c::O_CREAT | c::O_RDWR).expect("created"));
        let before = open_descriptors();
        for _ in 0..50 {
            let mut own = Rig::new(rig.kind).expect("the driver was there before");
            for _ in 0..20 {
                let _ = temp.start_open(&mut own);
            }
            drop(own);
        }
        assert_eq!(open_descriptors(), before, "descriptors leaked");
    }
}

/// Contract io 1: after the drop nobody writes to what was lent, and nobody takes bytes for it.
mod memory {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use bast_io::{Handle, Kind};

    use super::*;

    on_real_drivers!(is_given_back);

    fn is_given_back(rig: &mut Rig) {
        for round in 0..50 {
            let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
            let mut other =
                TcpStream::connect(listener.local_addr().expect("a name")).expect("connected");
            let mut mine = listener.accept().expect("accepted").0;
            let twin = mine.try_clone().expect("a clone");
            let handle = Handle::from_owned(twin.into(), Kind::Stream);
            let mut memory = vec![0xEE_u8; 64];
            let mut own = Rig::new(rig.kind).expect("the driver was there before");
            let (buf, len) = (memory.as_mut_ptr(), memory.len());
            let op = Op::Recv { handle: handle.as_ref(), buf, len, flags: 0 };
            let ticket = own.start(op);
            if round % 2 == 0 {
                own.settle();
            }
            assert!(own.peek(ticket).is_none());
            drop(own);
            other.write_all(b"late").expect("sent");
            let mut got = [0; 4];
            mine.set_read_timeout(Some(Duration::from_secs(100))).expect("set");
            mine.read_exact(&mut got).expect("the bytes, which nobody has taken");
            assert_eq!(&got, b"late");
            assert!(
                memory.iter().all(|&byte| byte == 0xEE),
                "round {round}: written after the drop"
            );
        }
    }
}
