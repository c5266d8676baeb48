//! Pools of resources.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bast::process::{ChildStdout, Command, Stdio};
use bast::sync::{Pool, PoolError};

use crate::harness::{needs_kernel, rounds, until};

/// Makes numbered members and counts what becomes of them.
#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    disposed: AtomicUsize,
    in_use: AtomicUsize,
    most: AtomicUsize,
}

fn counted(max: usize) -> (Arc<Counts>, Pool<usize, String>) {
    let counts = Arc::new(Counts::default());
    let (made, disposed) = (counts.clone(), counts.clone());
    let pool = Pool::new(max, move || Ok(made.made.fetch_add(1, SeqCst))).dispose(move |_| {
        disposed.disposed.fetch_add(1, SeqCst);
    });
    (counts, pool)
}

#[test]
fn members_are_bounded_and_used_again() {
    let (counts, pool) = counted(3);
    bast::scope(|s| {
        for _ in 0..50 {
            s.spawn(|| {
                for _ in 0..20 {
                    pool.with(|_| {
                        let now = counts.in_use.fetch_add(1, SeqCst) + 1;
                        counts.most.fetch_max(now, SeqCst);
                        bast::yield_now();
                        counts.in_use.fetch_sub(1, SeqCst);
                    })
                    .unwrap();
                }
            });
        }
    });
    assert!(counts.most.load(SeqCst) <= 3);
    assert!(counts.made.load(SeqCst) <= 3);
    let status = pool.status();
    assert_eq!((status.waiting, status.idle), (0, status.members));
    drop(pool);
    assert_eq!(counts.disposed.load(SeqCst), counts.made.load(SeqCst));
}

#[test]
fn waiters_are_served_in_order() {
    let (_, pool) = counted(1);
    let order = std::sync::Mutex::new(Vec::new());
    bast::scope(|s| {
        let member = pool.get().unwrap();
        for n in 0..10 {
            let (pool, order) = (&pool, &order);
            s.spawn(move || pool.with(|_| order.lock().unwrap().push(n)).unwrap());
            until("waiting", || pool.status().waiting == n + 1);
        }
        drop(member);
    });
    assert_eq!(order.into_inner().unwrap(), (0..10).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_made_is_an_error_and_takes_no_place() {
    let broken = Arc::new(AtomicBool::new(true));
    let pool = Pool::new(1, {
        let broken = broken.clone();
        move || if broken.load(SeqCst) { Err("no server") } else { Ok(7) }
    });
    for _ in 0..3 {
        assert_eq!(pool.get().map(|m| *m).unwrap_err(), PoolError::Create("no server"));
    }
    let text = pool.get().map(|m| *m).unwrap_err().to_string();
    assert!(text.contains("no server"), "{text}");
    broken.store(false, SeqCst);
    assert_eq!(*pool.get().unwrap(), 7);
}

#[test]
fn a_failed_creation_passes_its_place_to_the_next() {
    // Two wait; the one that holds the place fails to make a member again; both must get an answer.
    let pool: Arc<Pool<(), &str>> = Arc::new(Pool::new(1, || {
        bast::sleep(Duration::from_millis(2));
        Err("never")
    }));
    let all: Vec<_> = (0..5)
        .map(|_| {
            let pool = pool.clone();
            bast::spawn(move || pool.get().map(drop).unwrap_err())
        })
        .collect();
    for fiber in all {
        assert_eq!(fiber.join().unwrap(), PoolError::Create("never"));
    }
    assert_eq!(pool.status().members, 0);
}

#[test]
fn dead_members_are_replaced() {
    let (counts, pool) = counted(2);
    let pool = pool.validate(|member| *member != 0);
    assert_eq!(pool.with(|member| *member).unwrap(), 0, "new members are taken as they are");
    assert_eq!(pool.with(|member| *member).unwrap(), 1);
    assert_eq!(counts.disposed.load(SeqCst), 1);
    let mut member = pool.get().unwrap();
    member.fail();
    drop(member);
    assert_eq!(pool.with(|member| *member).unwrap(), 2);
    assert_eq!(pool.status().members, 1);
}

#[test]
fn after_a_panic_a_member_is_checked() {
    for usable in [false, true] {
        let (counts, pool) = counted(1);
        let pool = Arc::new(pool.check(move |_| usable));
        let fiber = bast::spawn({
            let pool = pool.clone();
            move || pool.with(|_| panic!("expected")).unwrap()
        });
        assert!(fiber.join().is_err());
        assert_eq!(pool.with(|member| *member).unwrap(), usize::from(!usable));
        assert_eq!(counts.disposed.load(SeqCst), usize::from(!usable));
    }
}

#[test]
fn cancelled_users_and_waiters_lose_nothing() {
    let (counts, pool) = counted(2);
    let pool = Arc::new(pool.check(|_| true));
    for round in 0..200 {
        let fibers: Vec<_> = (0..8)
            .map(|_| {
                let pool = pool.clone();
                bast::spawn(move || pool.with(|_| bast::yield_now()).unwrap())
            })
            .collect();
        for (n, fiber) in fibers.iter().enumerate() {
            if (n + round) % 3 == 0 {
                fiber.cancel();
            }
        }
        for fiber in fibers {
            let _ = fiber.join();
        }
    }
    let status = pool.status();
    assert_eq!((status.waiting, status.idle), (0, status.members));
    assert!(status.members <= 2);
    // Both places are still there.
    let (a, b) = (pool.get().unwrap(), pool.get().unwrap());
    assert_ne!(*a, *b);
    drop((a, b));
    drop(pool);
    assert_eq!(counts.disposed.load(SeqCst), counts.made.load(SeqCst));
}

#[test]
fn too_many_waiters_are_refused() {
    let (_, pool) = counted(1);
    let pool = pool.max_waiters(2);
    bast::scope(|s| {
        let member = pool.get().unwrap();
        for _ in 0..2 {
            s.spawn(|| pool.get().map(drop).unwrap());
        }
        until("waiting", || pool.status().waiting == 2);
        assert_eq!(pool.get().map(drop).unwrap_err(), PoolError::Full);
        drop(member);
    });
    assert!(pool.get().is_ok());
}

#[test]
fn who_has_left_is_not_counted() {
    // A waiter that is cancelled on another worker, and a member that comes back at that moment: if it is not handed to
    // that waiter, the waiter has left, and there is room for another one.
    let (_, pool) = counted(1);
    let pool = Arc::new(pool.max_waiters(1));
    for _ in 0..rounds(2000) {
        let member = pool.get().unwrap();
        let waiter = bast::spawn({
            let pool = pool.clone();
            move || pool.get().map(drop).unwrap()
        });
        until("waiting", || pool.status().waiting == 1);
        waiter.cancel();
        drop(member);
        let again = pool.get().expect("the waiter has left or was served");
        let next = bast::timeout(Duration::ZERO, || pool.get().map(drop));
        assert!(next.is_err(), "{next:?}");
        drop(again);
        let _ = waiter.join();
    }
}

/// Tells this test binary, when it is run again for the test below, that it is the daemon.
const DAEMON: &str = "BAST_TEST_POOL_DAEMON";
const READY: &str = "ready\n";

/// A child that answers each line with itself.
struct Echo {
    child: bast::process::Child,
    answers: BufReader<ChildStdout>,
}

impl Echo {
    fn start() -> io::Result<Echo> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", "pool::daemons_that_die_are_replaced", "--nocapture"]);
        command.env(DAEMON, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut echo = Echo { child, answers };
        while echo.answer()? != READY {}
        Ok(echo)
    }

    fn ask(&mut self, question: &str) -> io::Result<String> {
        writeln!(self.child.stdin.as_mut().expect("a pipe"), "{question}")?;
        self.answer()
    }

    fn answer(&mut self) -> io::Result<String> {
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(answer),
        }
    }
}

#[test]
fn daemons_that_die_are_replaced() {
    needs_kernel!();
    if std::env::var_os(DAEMON).is_some() {
        print!("\n{READY}");
        io::copy(&mut io::stdin(), &mut io::stdout()).unwrap();
        std::process::exit(0);
    }
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let pool = Pool::new(4, move || {
        count.fetch_add(1, SeqCst);
        Echo::start()
    })
    .validate(|echo| matches!(echo.child.try_wait(), Ok(None)));
    let killed = AtomicUsize::new(0);
    bast::scope(|s| {
        for fiber in 0..16 {
            let (pool, killed) = (&pool, &killed);
            s.spawn(move || {
                for n in 0..50 {
                    let mut echo = pool.get().unwrap();
                    if n == 25 && fiber % 2 == 0 {
                        echo.child.kill().unwrap();
                        echo.child.wait().unwrap();
                        killed.fetch_add(1, SeqCst);
                        continue;
                    }
                    let question = format!("{fiber} {n}");
                    assert_eq!(echo.ask(&question).unwrap().trim_end(), question);
                }
            });
        }
    });
    let status = pool.status();
    assert_eq!((killed.load(SeqCst), status.waiting, status.idle), (8, 0, status.members));
    assert!(made.load(SeqCst) <= 4 + 8);
    // One that dies unseen costs one answer: its user says so.
    let mut echo = pool.get().unwrap();
    echo.child.kill().unwrap();
    while echo.ask("there?").is_ok() {}
    echo.fail();
    drop(echo);
    assert_eq!(pool.with(|echo| echo.ask("there?")).unwrap().unwrap(), "there?\n");
}

#[test]
fn old_members_go_and_clear_takes_all() {
    // In a fiber, so that there is one clock also on the simulator.
    bast::spawn(|| {
        let (counts, pool) = counted(3);
        let pool = pool.idle_timeout(Duration::from_millis(10));
        let members: Vec<_> = (0..3).map(|_| pool.get().unwrap()).collect();
        drop(members);
        assert_eq!(pool.status().idle, 3);
        bast::sleep(Duration::from_millis(30));
        pool.tidy();
        assert_eq!((pool.status().idle, counts.disposed.load(SeqCst)), (0, 3));
        let (one, two) = (pool.get().unwrap(), pool.get().unwrap());
        drop(one);
        pool.clear();
        assert_eq!(counts.disposed.load(SeqCst), 4);
        drop(two);
        assert_eq!((pool.status().members, counts.disposed.load(SeqCst)), (0, 5));
    })
    .join()
    .unwrap();
}

#[test]
fn fibers_and_threads_share_a_pool() {
    let (counts, pool) = counted(4);
    let seen = std::sync::Mutex::new(HashSet::new());
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..100 {
                    pool.with(|member| seen.lock().unwrap().insert(*member)).unwrap();
                }
            });
        }
        bast::scope(|s| {
            for _ in 0..20 {
                s.spawn(|| {
                    for _ in 0..20 {
                        pool.with(|_| bast::yield_now()).unwrap();
                    }
                });
            }
        });
    });
    assert!(counts.made.load(SeqCst) <= 4);
    assert_eq!(pool.status().waiting, 0);
}

#[test]
#[should_panic(expected = "a pool without members")]
fn a_pool_of_nothing() {
    let _ = Pool::new(0, || Ok::<_, ()>(()));
}

#[test]
fn clearing_that_ends_early_keeps_no_places() {
    crate::harness::on_bast::run(|| {
        let slow: Pool<(), ()> =
            Pool::new(3, || Ok(())).dispose(|()| bast::sleep(Duration::from_secs(600)));
        drop([slow.get().unwrap(), slow.get().unwrap(), slow.get().unwrap()]);
        assert_eq!(slow.status().idle, 3);
        assert!(bast::timeout(Duration::from_millis(5), || slow.clear()).is_err());
        assert_eq!(slow.status().members, 0);
    });
}
