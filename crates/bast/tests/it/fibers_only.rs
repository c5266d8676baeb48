//! What fibers have and threads do not: local ones, cancelling, calls that block, runtimes.

use std::io::{ErrorKind, Read};
use std::rc::Rc;
use std::time::Duration;

use bast::net::{TcpListener, TcpStream};
use bast::{Builder, Cancelled, Runtime};

use crate::harness::PATIENCE;
use crate::harness::on_bast::run;

#[test]
fn a_local_fiber_need_not_be_send() {
    run(|| {
        let shared = Rc::new(std::cell::RefCell::new(Vec::new()));
        let fibers: Vec<_> = (0..3)
            .map(|i| {
                let shared = Rc::clone(&shared);
                bast::spawn_local(move || {
                    shared.borrow_mut().push(i);
                    bast::yield_now();
                    Rc::clone(&shared)
                })
            })
            .collect();
        for fiber in fibers {
            assert!(Rc::ptr_eq(&fiber.join().unwrap(), &shared));
        }
        assert_eq!(*shared.borrow(), [0, 1, 2]);
    });
}

#[test]
fn a_plain_thread_has_no_local_fibers() {
    let error = Builder::new().spawn_local(|| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_builder_says_what_is_wrong() {
    for builder in [Builder::new().stack_size(1), Builder::new().worker(100_000)] {
        assert_eq!(builder.spawn(|| ()).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn cancelling_ends_a_wait() {
    run(|| {
        for body in [
            bast::park as fn(),
            || bast::sleep(Duration::from_secs(3600)),
            || loop {
                bast::yield_now();
            },
        ] {
            let fiber = bast::spawn(body);
            bast::sleep(Duration::from_millis(10));
            fiber.cancel();
            assert!(fiber.join().unwrap_err().is::<Cancelled>());
        }
    });
}

#[test]
fn cancelling_ends_an_accept_and_a_read() {
    run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let clone = listener.try_clone().unwrap();
        let acceptor = bast::spawn(move || clone.accept().map(drop));
        bast::sleep(Duration::from_millis(20));
        acceptor.cancel();
        assert!(acceptor.join().unwrap_err().is::<Cancelled>());
        // The listener is none the worse for it.
        let mut client = TcpStream::connect(addr).unwrap();
        let (_server, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        let reader = bast::spawn(move || client.read(&mut [0; 8]));
        bast::sleep(Duration::from_millis(20));
        reader.cancel();
        assert!(reader.join().unwrap_err().is::<Cancelled>());
    });
}

#[test]
fn a_mask_holds_cancelling_off() {
    run(|| {
        let (tell, told) = bast::sync::mpsc::channel();
        let (open, gate) = bast::sync::mpsc::channel();
        let fiber = bast::spawn(move || {
            bast::mask(|| {
                tell.send(()).unwrap();
                gate.recv().unwrap();
                bast::sleep(Duration::from_millis(5));
                tell.send(()).unwrap();
            });
            bast::yield_now();
            unreachable!("cancelled");
        });
        told.recv().unwrap();
        fiber.cancel();
        open.send(()).unwrap();
        told.recv().expect("the mask holds it off");
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
    });
}

#[test]
fn a_blocking_call_borrows_and_panics() {
    run(|| {
        let mut value = 1;
        bast::blocking(|| value += 1);
        assert_eq!(value, 2);
        let caught = std::panic::catch_unwind(|| bast::blocking(|| panic!("from the pool")));
        assert_eq!(crate::harness::message(&*caught.unwrap_err()), "from the pool");
    });
}

#[test]
fn a_blocking_call_holds_nobody_up() {
    crate::harness::needs_kernel!();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let (open, gate) = std::sync::mpsc::channel();
        let blocked = bast::spawn(move || bast::blocking(move || gate.recv_timeout(PATIENCE / 2)));
        // Held up, nobody would take these turns, and nobody would open.
        for _ in 0..20 {
            bast::sleep(Duration::from_millis(1));
            assert!(!blocked.is_finished());
        }
        open.send(7).unwrap();
        assert_eq!(blocked.join().unwrap(), Ok(7));
    });
}

#[test]
fn a_name_is_looked_up_on_the_pool() {
    use bast::net::ToSocketAddrs;
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        // One worker: were the look-up done on it, the other fiber would not run before it has ended.
        let lookup = bast::spawn(|| ("localhost", 80).to_socket_addrs().map(Iterator::count));
        let mut turns = 0;
        while !lookup.is_finished() {
            bast::yield_now();
            turns += 1;
        }
        assert!(lookup.join().unwrap().unwrap() >= 1);
        // Once for starting the look-up, and at least once while it waits. The simulator's calls are
        // made on the spot.
        assert!(turns >= 2 || crate::harness::simulated(), "{turns} turns");
    });
}

#[test]
fn a_runtime_of_ones_own() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    assert_eq!(runtime.workers(), 1);
    let text = String::from("borrowed");
    let n = runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        // A fiber's children stay in its runtime.
        let client = bast::spawn(move || TcpStream::connect(addr).unwrap().local_addr().unwrap());
        assert_eq!(listener.accept().unwrap().1, client.join().unwrap());
        text.len()
    });
    assert_eq!(n, 8);
    drop(runtime.spawn(bast::park));
    assert!(runtime.shutdown(Duration::from_secs(60)).is_ok());
}

#[test]
fn select_by_the_face() {
    use bast::select::{Select, after, join, recv};
    use bast::sync::{mpmc, mpsc};
    run(|| {
        let (tx, rx) = mpsc::channel();
        let (_quiet, never) = mpmc::sync_channel::<u8>(0);
        let mut fiber = bast::spawn(move || tx.send(7).unwrap());
        let got = bast::select! {
            got = recv(&rx) => got.unwrap(),
            _ = recv(&never) => unreachable!(),
        };
        assert_eq!(got, 7);
        bast::select! {
            ended = join(&mut fiber) => ended.unwrap(),
            () = after(Duration::from_secs(1000)) => unreachable!(),
        }
        assert!(Select::new().on(recv(&rx), |got| got.is_err()).wait());
    });
}
