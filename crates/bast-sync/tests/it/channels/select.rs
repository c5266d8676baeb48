//! What `select!` and `Select` promise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use bast_rt::{Instant, JoinHandle, Runtime, timeout};
use bast_sync::select::{Event, Select, after, at, join, recv, send, send_from};
use bast_sync::{mpmc, mpsc, select};

use super::{Alive, LONG, SHORT, is_cancelled, on_both, on_fiber};

#[test]
fn what_can_complete_does() {
    on_both(|| {
        let (tx, rx) = mpsc::channel();
        let (full, _full) = mpsc::sync_channel(0);
        tx.send(1).unwrap();
        let got = select! {
            _ = send(&full, 0) => unreachable!(),
            got = recv(&rx) => got,
        };
        assert_eq!(got, Ok(1));
        let (room, rx) = mpmc::sync_channel(1);
        select! {
            sent = send(&room, 5) => sent.unwrap(),
            _ = recv(&rx) => unreachable!(),
        }
        assert_eq!(rx.recv(), Ok(5));
    });
}

#[test]
fn it_waits_for_the_first() {
    on_both(|| {
        let (tx1, rx1) = mpsc::channel::<u8>();
        let (tx2, rx2) = mpmc::sync_channel::<u8>(0);
        let (tx3, rx3) = mpmc::sync_channel(0);
        let other = bast_rt::spawn(move || {
            bast_rt::sleep(SHORT);
            tx2.send(2).unwrap();
            bast_rt::sleep(SHORT);
            assert_eq!(rx3.recv(), Ok(3));
            bast_rt::sleep(SHORT);
            tx1.send(1).unwrap();
        });
        let mut order = Vec::new();
        let mut value = Some(3);
        while order.len() < 3 {
            order.push(select! {
                got = recv(&rx1) => got.unwrap(),
                got = value.map(|_| recv(&rx2)) => got.unwrap(),
                sent = send_from(&tx3, &mut value) => { sent.unwrap(); 3 }
                _ = after(LONG) => unreachable!(),
            });
        }
        assert_eq!(order, [2, 3, 1]);
        other.join().unwrap();
    });
}

#[test]
fn default_is_for_when_nothing_can() {
    on_both(|| {
        let (tx, rx) = mpsc::channel();
        let (full, _full) = mpsc::sync_channel(0);
        for n in 0..40 {
            if n % 2 == 1 {
                tx.send(n).unwrap();
            }
            let got = select! {
                got = recv(&rx) => got.ok(),
                _ = send(&full, 0) => unreachable!(),
                default => None,
            };
            assert_eq!(got, (n % 2 == 1).then_some(n));
        }
        assert_eq!(select! { default => 5 }, 5);
    });
}

#[test]
fn a_loop_with_default_lets_others_run() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let (tx, rx) = mpsc::channel();
        let sender = bast_rt::spawn_local(move || tx.send(1).unwrap());
        loop {
            select! {
                got = recv(&rx) => break assert_eq!(got, Ok(1)),
                default => {}
            }
        }
        sender.join().unwrap();
    });
}

#[test]
fn bodies_run_in_place() {
    fn first_even(rx: &mpsc::Receiver<u32>) -> Result<u32, mpsc::RecvError> {
        'outer: loop {
            for _ in 0..3 {
                select! {
                    n = recv(rx) => {
                        let n = n?;
                        if n % 2 == 0 {
                            return Ok(n);
                        }
                        if n > 100 { break 'outer; }
                        continue;
                    },
                }
            }
        }
        Ok(0)
    }
    on_both(|| {
        let (tx, rx) = mpsc::channel();
        [1, 3, 5, 7, 8, 101].into_iter().for_each(|n| tx.send(n).unwrap());
        assert_eq!(first_even(&rx), Ok(8));
        assert_eq!(first_even(&rx), Ok(0));
        drop(tx);
        assert_eq!(first_even(&rx), Err(mpsc::RecvError));
        // A body may use the channel, mutably borrow what it likes, and select again.
        let (tx, mut rx) = mpsc::channel();
        tx.send(1).unwrap();
        let mut seen = Vec::new();
        select! {
            n = recv(&rx) => {
                seen.push(n.unwrap());
                (_, rx) = mpsc::channel::<i32>();
                select! { m = recv(&rx) => assert!(m.is_err()) }
            }
            _ = after(LONG) => seen.clear(),
        }
        assert_eq!(seen, [1]);
    });
}

#[test]
fn events_are_evaluated_once_and_in_order() {
    on_both(|| {
        let mut order = Vec::new();
        let (tx, rx) = mpsc::channel();
        tx.send('x').unwrap();
        let (never, _never) = mpsc::sync_channel(0);
        let ('x', count) = (select! {
            _ = { order.push(1); send(&never, 0) } => unreachable!(),
            got = { order.push(2); recv(&rx) } => (got.unwrap(), order.len()),
            _ = { order.push(3); after(LONG) } => unreachable!(),
        }) else {
            unreachable!()
        };
        assert_eq!((count, &order[..]), (3, &[1, 2, 3][..]));
    });
}

#[test]
fn timers() {
    on_both(|| {
        let (_tx, rx) = mpsc::channel::<u8>();
        let start = Instant::now();
        select! {
            _ = recv(&rx) => unreachable!(),
            () = after(2 * SHORT) => {}
            () = after(LONG) => unreachable!(),
            () = after(Duration::MAX) => unreachable!(),
        }
        assert!(start.elapsed() >= 2 * SHORT);
        let moment = Instant::now() + SHORT;
        let which = select! {
            () = at(moment + LONG) => 1,
            () = at(moment) => 2,
        };
        assert_eq!(which, 2);
        assert!(Instant::now() >= moment);
        select! {
            () = after(Duration::ZERO) => {}
            _ = recv(&rx) => unreachable!(),
        }
        select! {
            () = at(moment) => {}
            default => unreachable!(),
        }
        select! {
            () = after(SHORT) => unreachable!(),
            default => {}
        }
    });
}

#[test]
fn joins() {
    on_both(|| {
        let (tx, rx) = mpsc::channel::<u8>();
        let mut fiber = bast_rt::spawn(move || rx.recv());
        // A join that is not chosen changes nothing.
        for _ in 0..3 {
            select! {
                _ = join(&mut fiber) => unreachable!(),
                () = after(SHORT) => {}
            }
        }
        tx.send(9).unwrap();
        let got = select! {
            ended = join(&mut fiber) => ended.unwrap(),
            () = after(LONG) => unreachable!(),
        };
        assert_eq!(got, Ok(9));
        let again = catch_unwind(AssertUnwindSafe(|| select! { _ = join(&mut fiber) => () }));
        assert!(again.is_err());
        drop(fiber);
        let mut panics = bast_rt::spawn(|| panic!("expected"));
        let payload = select! { ended = join(&mut panics) => ended.unwrap_err() };
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"expected"));
        // Still to be joined if the other arm was chosen.
        let mut fiber = bast_rt::spawn(|| 5);
        select! {
            () = after(Duration::ZERO) => {}
            ended = join(&mut fiber) => assert_eq!(ended.unwrap(), 5),
        }
    });
}

#[test]
fn scoped_joins() {
    on_both(|| {
        let word = String::from("borrowed");
        let length = bast_rt::scope(|s| {
            let mut slow = s.spawn(|| bast_rt::sleep(SHORT));
            let mut quick = s.spawn(|| word.len());
            let length = select! { ended = join(&mut quick) => ended.unwrap() };
            select! {
                ended = join(&mut slow) => ended.unwrap(),
                () = after(LONG) => unreachable!(),
            }
            length
        });
        assert_eq!(length, 8);
    });
}

#[test]
fn the_first_of_many_fibers() {
    on_both(|| {
        let alive = Alive::default();
        for winner in 0..10 {
            let mut fibers: Vec<JoinHandle<_>> = (0..10)
                .map(|n| {
                    let token = alive.token(n);
                    bast_rt::spawn(move || {
                        if n != winner {
                            loop {
                                bast_rt::park();
                            }
                        }
                        token
                    })
                })
                .collect();
            let mut select = Select::new();
            for fiber in &mut fibers {
                select = select.on(join(fiber), |token| token.unwrap());
            }
            assert_eq!(select.wait().id, winner);
            fibers.iter().for_each(JoinHandle::cancel);
            for (n, fiber) in fibers.into_iter().enumerate() {
                if n as u64 != winner {
                    assert!(is_cancelled(&fiber.join()));
                }
            }
        }
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn a_fiber_cannot_wait_for_itself() {
    on_fiber(|| {
        let (tx, rx) = mpsc::channel::<JoinHandle<()>>();
        let fiber = bast_rt::spawn(move || {
            let mut me = rx.recv().unwrap();
            let (_tx, quiet) = mpmc::channel::<u8>();
            select! {
                _ = recv(&quiet) => {}
                _ = join(&mut me) => {}
            }
        });
        let (done_tx, done) = (fiber.fiber(), tx);
        done.send(fiber).unwrap();
        super::until("it has panicked", || {
            let sent = done.send(bast_rt::spawn(|| {}));
            sent.is_err()
        });
        drop(done_tx);
    });
}

#[test]
fn a_builder() {
    on_both(|| {
        let channels: Vec<_> = (0..50).map(|_| mpsc::channel::<usize>()).collect();
        let all = || {
            channels.iter().enumerate().fold(Select::new(), |select, (n, (_, rx))| {
                select.on(recv(rx), move |got| (n, got.unwrap()))
            })
        };
        assert_eq!(all().len(), 50);
        assert_eq!(all().try_wait(), None);
        assert_eq!(all().wait_timeout(SHORT), None);
        assert_eq!(all().wait_timeout(Duration::ZERO), None);
        assert_eq!(all().wait_deadline(Instant::now()), None);
        channels[33].0.send(3).unwrap();
        assert_eq!(all().try_wait(), Some((33, 3)));
        let tx = channels[44].0.clone();
        let sender = bast_rt::spawn(move || {
            bast_rt::sleep(SHORT);
            tx.send(4).unwrap();
            tx.send(5).unwrap();
        });
        assert_eq!(all().wait(), (44, 4));
        assert_eq!(all().wait_timeout(Duration::MAX), Some((44, 5)));
        sender.join().unwrap();
    });
}

#[test]
fn an_empty_set() {
    on_both(|| {
        let panic = catch_unwind(|| Select::<()>::new().wait()).unwrap_err();
        let text = panic.downcast_ref::<&str>().unwrap();
        assert_eq!(*text, "a select with no events would wait for ever");
        assert!(Select::<()>::new().is_empty());
        assert_eq!(Select::<()>::new().try_wait(), None);
        assert_eq!(Select::<()>::new().wait_timeout(SHORT), None);
        // Not empty: an arm that is switched off. It waits, and can be stopped.
        let (_tx, rx) = mpsc::channel::<u8>();
        let off = || select! { _ = None.map(|()| recv(&rx)) => () };
        assert!(timeout(SHORT, off).is_err());
    });
}

#[test]
fn a_channel_closed_before_and_while_it_waits() {
    on_both(|| {
        for bound in [None, Some(0), Some(1)] {
            let pair = || bound.map_or_else(mpmc::channel, mpmc::sync_channel::<u8>);
            let (_quiet_tx, quiet) = mpsc::channel::<u8>();
            let (tx, rx) = pair();
            drop(tx);
            select! {
                got = recv(&rx) => assert_eq!(got, Err(mpsc::RecvError)),
                _ = recv(&quiet) => unreachable!(),
            }
            let (tx, rx) = pair();
            let other = bast_rt::spawn(move || {
                bast_rt::sleep(SHORT);
                drop(tx);
            });
            select! {
                got = recv(&rx) => assert_eq!(got, Err(mpsc::RecvError)),
                _ = recv(&quiet) => unreachable!(),
            }
            other.join().unwrap();
            let Some(bound) = bound else { continue };
            let (tx, rx) = pair();
            (0..bound).for_each(|_| tx.send(0).unwrap());
            let mut value = Some(7);
            let other = bast_rt::spawn(move || {
                bast_rt::sleep(SHORT);
                drop(rx);
            });
            select! {
                sent = send_from(&tx, &mut value) => assert_eq!(sent, Err(mpsc::SendError(()))),
                _ = recv(&quiet) => unreachable!(),
            }
            assert_eq!(value, Some(7));
            select! {
                sent = send(&tx, 8) => assert_eq!(sent, Err(mpsc::SendError(8))),
                _ = recv(&quiet) => unreachable!(),
            }
            other.join().unwrap();
        }
    });
}

#[test]
fn a_fair_choice() {
    on_both(|| {
        let channels: [_; 3] = std::array::from_fn(|_| mpsc::channel());
        let mut counts = [0; 3];
        for (tx, _) in &channels {
            (0..3000).for_each(|_| tx.send(()).unwrap());
        }
        for _ in 0..3000 {
            counts[select! {
                _ = recv(&channels[0].1) => 0,
                _ = recv(&channels[1].1) => 1,
                _ = recv(&channels[2].1) => 2,
            }] += 1;
        }
        // 1000 each, with a standard deviation of 26.
        assert!(counts.iter().all(|&count| (800..1200).contains(&count)), "{counts:?}");
    });
}

#[test]
fn one_channel_twice() {
    on_both(|| {
        let (tx, rx) = mpmc::sync_channel(0);
        let sender = bast_rt::spawn(move || (0..200).for_each(|n| tx.send(n).unwrap()));
        let mut sides = [0; 2];
        for n in 0..200 {
            let (side, got) = select! {
                got = recv(&rx) => (0, got),
                got = recv(&rx) => (1, got),
            };
            assert_eq!(got, Ok(n));
            sides[side] += 1;
        }
        sender.join().unwrap();
        let (tx, rx) = mpsc::channel();
        (0..100).for_each(|n| tx.send(n).unwrap());
        for n in 0..100 {
            let got = select! { got = recv(&rx) => got, got = recv(&rx) => got };
            assert_eq!(got, Ok(n));
        }
    });
}

#[test]
fn both_sides_of_one_channel() {
    on_both(|| {
        // It does not meet itself …
        let (tx, rx) = mpmc::sync_channel(0);
        for _ in 0..10 {
            select! {
                _ = send(&tx, 0) => unreachable!(),
                _ = recv(&rx) => unreachable!(),
                () = after(Duration::from_millis(1)) => {}
            }
        }
        // … but it meets another that does the same.
        let partner = {
            let (tx, rx) = (tx.clone(), rx.clone());
            move || {
                let mut sum = 0_i64;
                for n in 1..=300 {
                    select! {
                        sent = send(&tx, n) => { sent.unwrap(); sum -= n }
                        got = recv(&rx) => sum += got.unwrap(),
                    }
                }
                sum
            }
        };
        let other = bast_rt::spawn(partner.clone());
        let sum = partner();
        assert_eq!(sum + other.join().unwrap(), 0);
        // With room it sends to itself.
        let (tx, rx) = mpmc::sync_channel(1);
        for n in 0..10 {
            select! {
                sent = send(&tx, n) => assert_eq!((n % 2, sent), (0, Ok(()))),
                got = recv(&rx) => assert_eq!((n % 2, got), (1, Ok(n - 1))),
            }
        }
    });
}

#[test]
fn it_is_cancelled_and_timed_out_without_effect() {
    on_fiber(|| {
        let alive = Alive::default();
        let (tx, rx) = mpmc::sync_channel(0);
        let (out, results) = mpsc::sync_channel(0);
        let waiting = {
            let (rx, out, token) = (rx.clone(), out.clone(), alive.token(1));
            bast_rt::spawn(move || {
                select! {
                    got = recv(&rx) => unreachable!("{got:?}"),
                    sent = send(&out, token) => unreachable!("{sent:?}"),
                }
            })
        };
        bast_rt::sleep(SHORT);
        waiting.cancel();
        assert!(is_cancelled(&waiting.join()));
        assert_eq!(alive.count(), 0);
        let outer = timeout(SHORT, || {
            select! {
                _ = recv(&rx) => unreachable!(),
                _ = send(&out, alive.token(2)) => unreachable!(),
                () = after(LONG) => unreachable!(),
            }
        });
        assert!(outer.is_err());
        assert_eq!(alive.count(), 0);
        // Nobody waits in either channel.
        assert!(tx.try_send(3).is_err());
        assert!(results.try_recv().is_err());
    });
}

#[test]
fn what_loses_is_dropped_and_keeps_its_value() {
    on_both(|| {
        let alive = Alive::default();
        let (full, _full) = mpsc::sync_channel(0);
        let (tx, rx) = mpsc::channel();
        tx.send(1).unwrap();
        let got = Select::new()
            .on(send(&full, alive.token(1)), |_| unreachable!())
            .on(recv(&rx), |got| {
                assert_eq!(alive.count(), 0);
                got.unwrap()
            })
            .wait();
        assert_eq!(got, 1);
        let mut kept = Some(alive.token(2));
        select! {
            _ = send_from(&full, &mut kept) => unreachable!(),
            () = after(SHORT) => {}
        }
        assert_eq!(kept.map(|token| token.id), Some(2));
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn mapped_events() {
    on_both(|| {
        let (tx, rx) = mpsc::channel();
        tx.send(20).unwrap();
        let length = recv(&rx).map(|got| got.map_or(0, |n| n + 1)).map(|n| n * 2);
        assert_eq!(select! { n = length => n }, 42);
    });
}

#[test]
fn threads_select_what_fibers_send() {
    on_thread_with_threads(4);
}

fn on_thread_with_threads(threads: usize) {
    super::on_thread(move || {
        let (tx1, rx1) = mpmc::sync_channel(1);
        let (tx2, rx2) = mpmc::sync_channel(0);
        let receivers: Vec<_> = (0..threads)
            .map(|_| {
                let (rx1, rx2) = (rx1.clone(), rx2.clone());
                thread::spawn(move || {
                    let (mut sum, mut open) = (0_u64, [true; 2]);
                    while open != [false; 2] {
                        let (which, got) = select! {
                            got = open[0].then(|| recv(&rx1)) => (0, got),
                            got = open[1].then(|| recv(&rx2)) => (1, got),
                        };
                        match got {
                            Ok(n) => sum += n,
                            Err(_) => open[which] = false,
                        }
                    }
                    sum
                })
            })
            .collect();
        let senders: Vec<_> = (0..8)
            .map(|n| {
                let tx = if n % 2 == 0 { tx1.clone() } else { tx2.clone() };
                bast_rt::spawn(move || (1..=500).for_each(|n| tx.send(n).unwrap()))
            })
            .collect();
        drop((tx1, tx2));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let sum: u64 = receivers.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, 8 * 500 * 501 / 2);
    });
}
