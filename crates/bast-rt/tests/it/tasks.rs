//! Tasks and the scheduler: turns, stealing, wakes from everywhere, and what people see of them.

use std::future::{Future, pending, poll_fn};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bast_rt::{Builder, Instant, Sleep, dump, sleep, spawn, task, yield_now};

use crate::support::{Drops, is_cancelled, message, panic_of, runtime, tests, until, workers};

/// Something that becomes ready once.
#[derive(Clone, Default)]
struct Event(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Event {
    fn set(&self) {
        let waker = {
            let mut event = self.0.lock().unwrap();
            event.0 = true;
            std::mem::take(&mut event.1)
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut event = self.0.lock().unwrap();
        if event.0 {
            return Poll::Ready(());
        }
        event.1.push(context.waker().clone());
        Poll::Pending
    }

    fn wait(&self) -> impl Future<Output = ()> + Send + use<> {
        let event = self.clone();
        poll_fn(move |context| event.poll(context))
    }
}

async fn spin(stop: Arc<AtomicBool>) -> usize {
    let mut turns = 0;
    while !stop.load(SeqCst) {
        task::yield_now().await;
        turns += 1;
    }
    turns
}

tests! {
    /// Neither kind starves the other, nor timers, nor I/O.
    fn tasks_and_fibers_take_turns() {
        let runtime = workers(1);
        runtime.run(|| {
            let stop = Arc::new(AtomicBool::new(false));
            let tasks: Vec<_> = (0..3).map(|_| task::spawn(spin(Arc::clone(&stop)))).collect();
            let local = task::spawn_local(spin(Arc::clone(&stop)));
            let theirs = Arc::clone(&stop);
            let fiber = spawn(move || {
                let mut turns = 0;
                while !theirs.load(SeqCst) {
                    yield_now();
                    turns += 1;
                }
                turns
            });
            sleep(Duration::from_millis(20));
            stop.store(true, SeqCst);
            assert!(fiber.join().unwrap() > 0);
            assert!(local.join().unwrap() > 0);
            tasks.into_iter().for_each(|task| assert!(task.join().unwrap() > 0));
        });
    }

    /// A loop of sleeps of no time lets others run, and a timer go off: in a task, a fiber and a thread.
    fn a_sleep_of_no_time_lets_others_run() {
        async fn naps(stop: Arc<AtomicBool>) {
            while !stop.load(SeqCst) {
                Sleep::new(Duration::ZERO).await;
                Sleep::until(Instant::now()).await;
            }
        }
        for count in [1, 2, 8] {
            let runtime = workers(count);
            let stop = Arc::new(AtomicBool::new(false));
            let napping: Vec<_> = (0..8).map(|_| runtime.spawn_task(naps(Arc::clone(&stop)))).collect();
            let theirs = Arc::clone(&stop);
            let fiber = runtime.spawn(|| bast_rt::block_on(naps(theirs)));
            runtime.run(move || {
                sleep(Duration::from_millis(3));
                stop.store(true, SeqCst);
            });
            napping.into_iter().for_each(|task| task.join().unwrap());
            fiber.join().unwrap();
        }
        bast_rt::block_on(Sleep::new(Duration::ZERO));
    }

    fn a_task_that_wakes_itself_does_not_hold_up_io() {
        let runtime = workers(1);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (here, there) = (UdpSocket::bind(address).unwrap(), UdpSocket::bind(address).unwrap());
        let to = there.local_addr().unwrap();
        let there = bast_io::Handle::from_owned(there.into(), bast_io::Kind::Datagram);
        let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let turns = Arc::new(AtomicUsize::new(0));
        let (stops, counts, begins) = (Arc::clone(&stop), Arc::clone(&turns), Arc::clone(&begun));
        let spinning = runtime.spawn_task(async move {
            while !stops.load(SeqCst) {
                counts.fetch_add(1, SeqCst);
                task::yield_now().await;
            }
        });
        let reader = runtime.spawn(move || {
            begins.store(true, SeqCst);
            bast_rt::ops::recv(&there, &mut [0; 8], 0, None)
        });
        until("the reader", || begun.load(SeqCst));
        // There is one worker: if the task goes on, the reader waits for what has not been sent.
        let before = turns.load(SeqCst);
        until("the task", || turns.load(SeqCst) > before);
        here.send_to(b"x", to).unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), 1);
        stop.store(true, SeqCst);
        spinning.join().unwrap();
    }

    /// A worker that is held strands no task.
    fn tasks_are_stolen_from_a_worker_that_is_held() {
        let runtime = workers(2);
        runtime.run(|| {
            let count = Arc::new(AtomicUsize::new(0));
            for round in 0..200 {
                count.store(0, SeqCst);
                let tasks: Vec<_> = (0..round % 40 + 1).map(|_| {
                    let count = Arc::clone(&count);
                    task::spawn(async move {
                        task::yield_now().await;
                        count.fetch_add(1, SeqCst);
                    })
                }).collect();
                // Not a suspension point: the tasks lie in this worker's queue.
                until("somebody else has run them", || count.load(SeqCst) == tasks.len());
            }
        });
        assert!(runtime.metrics().workers.iter().map(|w| w.task_steals).sum::<u64>() > 0);
    }

    /// One that goes on by itself, of which nobody was told, is told of when something else comes first.
    fn a_task_that_yields_is_stolen_from_a_worker_that_is_held() {
        let runtime = workers(2);
        for _ in 0..50 {
            let turns = Arc::new(AtomicUsize::new(0));
            let (stop, mine) = (Arc::new(AtomicBool::new(false)), Arc::clone(&turns));
            let theirs = Arc::clone(&stop);
            let task = runtime.spawn_task(async move {
                while !theirs.load(SeqCst) {
                    mine.fetch_add(1, SeqCst);
                    task::yield_now().await;
                }
            });
            until("it runs", || turns.load(SeqCst) > 100);
            // One of these comes to where the task is.
            for worker in 0..2 {
                let turns = Arc::clone(&turns);
                let hog = move || {
                    let seen = turns.load(SeqCst);
                    until("it goes on", || turns.load(SeqCst) > seen);
                };
                let hog = runtime.run(move || Builder::new().worker(worker).spawn(hog).unwrap());
                hog.join().unwrap();
            }
            stop.store(true, SeqCst);
            task.join().unwrap();
        }
    }

    fn wakes_come_from_everywhere() {
        let (runtime, other) = (workers(2), workers(1));
        let events: Vec<_> = (0..300).map(|_| Event::default()).collect();
        // Each has one waiter: half of them a task, half a local one, which tells another task.
        let (any, local) = events.split_at(150);
        let mut tasks: Vec<_> = any.iter().map(|event| runtime.spawn_task(event.wait())).collect();
        let local = local.to_vec();
        tasks.extend(runtime.run(move || {
            let start = |first: Event| {
                let last = Event::default();
                let theirs = last.clone();
                drop(task::spawn_local(async move {
                    first.wait().await;
                    theirs.set();
                }));
                task::spawn(last.wait())
            };
            local.into_iter().map(start).collect::<Vec<_>>()
        }));
        let thirds: Vec<Vec<Event>> =
            (0..3).map(|first| events[first..].iter().step_by(3).cloned().collect()).collect();
        let mut thirds = thirds.into_iter();
        let [near, far, outside] = [(); 3].map(|()| thirds.next().unwrap());
        let set = |events: Vec<Event>| move || events.iter().for_each(Event::set);
        let fibers = [runtime.spawn(set(near)), other.spawn(set(far))];
        std::thread::spawn(set(outside)).join().unwrap();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        tasks.into_iter().for_each(|task| task.join().unwrap());
    }

    /// On a bound thread everything works, and its local tasks keep it.
    fn a_bound_fiber_starts_tasks() {
        if std::env::var("BAST_DRIVER").is_ok_and(|driver| driver == "sim") {
            return;
        }
        let runtime = workers(1);
        let done = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&done);
        let bound = runtime.run(move || Builder::new().bound().spawn(move || {
            let thread = std::thread::current().id();
            let elsewhere = task::spawn(async move { std::thread::current().id() != thread });
            assert!(elsewhere.join().unwrap());
            let local = task::spawn_local(async move { std::thread::current().id() == thread });
            assert!(local.join().unwrap());
            drop(task::spawn_local(async move {
                task::spawn(async { task::yield_now().await }).await.unwrap();
                theirs.fetch_add(1, SeqCst);
            }));
        }).unwrap());
        bound.join().unwrap();
        until("the task has ended", || done.load(SeqCst) == 1);
    }

    fn metrics_and_dumps_know_of_tasks() {
        let runtime = workers(1);
        let event = Event::default();
        let line = line!() + 1;
        let tasks: Vec<_> = (0..3).map(|_| runtime.spawn_task(event.wait())).collect();
        until("they were polled", || runtime.metrics().workers[0].task_polls == 3);
        assert_eq!(runtime.metrics().workers[0].tasks, 3);
        let seen = dump();
        let mine = |site: &std::panic::Location<'_>| site.file() == file!() && site.line() == line;
        assert!(seen.tasks().any(|(site, count)| mine(site) && count == 3), "{seen}");
        assert!(seen.to_string().contains("tasks spawned at"), "{seen}");
        let json: serde_json::Value = serde_json::from_str(&seen.to_json()).unwrap();
        let all = json["runtimes"].as_array().unwrap().iter();
        assert!(all.flat_map(|runtime| runtime["tasks"].as_array().unwrap())
            .any(|site| site["count"].as_u64() >= Some(3)), "{json}");
        event.set();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        until("they are gone", || runtime.metrics().workers[0].tasks == 0);
    }

    /// Wakes race with the end of the runtime.
    fn a_runtime_ends_while_its_tasks_are_woken() {
        for round in 0..60 {
            let runtime = workers(1 + round % 3);
            let drops = Drops::default();
            let wakers = Arc::new(Mutex::new(Vec::<Waker>::new()));
            let handles: Vec<_> = (0..20).map(|_| {
                let (token, wakers) = (drops.token(), Arc::clone(&wakers));
                let future = poll_fn(move |context| {
                    let _ = &token;
                    wakers.lock().unwrap().push(context.waker().clone());
                    Poll::<()>::Pending
                });
                runtime.spawn_task(future)
            }).collect();
            let stop = Arc::new(AtomicBool::new(false));
            let (theirs, done) = (Arc::clone(&wakers), Arc::clone(&stop));
            let thread = std::thread::spawn(move || while !done.load(SeqCst) {
                let waker = theirs.lock().unwrap().pop();
                waker.into_iter().for_each(Waker::wake);
            });
            if round % 2 == 0 {
                std::thread::yield_now();
            }
            drop(runtime);
            assert_eq!(drops.get(), 20);
            stop.store(true, SeqCst);
            thread.join().unwrap();
            handles.into_iter().for_each(|handle| assert!(is_cancelled(&handle.join())));
            wakers.lock().unwrap().drain(..).for_each(Waker::wake);
        }
    }

    /// What a destructor starts when the runtime ends is cancelled, and comes to its end as well.
    fn what_is_started_at_the_end_ends() {
        struct Starts(Drops, u32);
        impl Drop for Starts {
            fn drop(&mut self) {
                if self.1 > 0 {
                    let next = Starts(self.0.clone(), self.1 - 1);
                    drop(task::spawn_local(async move { let _next = next; pending::<()>().await }));
                    let token = self.0.token();
                    drop(task::spawn(async move { let _token = token; pending::<()>().await }));
                }
            }
        }
        for count in [1, 2, 8] {
            let runtime = workers(count);
            let drops = Drops::default();
            for _ in 0..10 {
                let starts = Starts(drops.clone(), 3);
                drop(runtime.spawn_task(async move { let _starts = starts; pending::<()>().await }));
            }
            drop(runtime);
            assert_eq!(drops.get(), 30);
        }
    }

    fn a_blocking_call_says_what_to_use_instead() {
        let runtime = runtime();
        let calls: [fn(); 4] = [
            || sleep(Duration::from_millis(1)),
            || bast_rt::block_on(task::yield_now()),
            || drop(dump()),
            || bast_rt::scope(|_| ()),
        ];
        for call in calls {
            let payload = runtime.spawn_task(async move { call() }).join().unwrap_err();
            assert!(message(&*payload).contains("(bast::spawn)"), "{}", message(&*payload));
        }
        // Nothing of that is left behind.
        assert_eq!(runtime.run(|| task::spawn(async { 7 }).join().unwrap()), 7);
        let payload = panic_of(|| drop(task::spawn_local(async {})));
        assert!(message(&*payload).contains("no worker"));
    }
}
