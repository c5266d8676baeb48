//! Metrics: that they count what they say.

use std::time::Duration;

use bast_rt::{
    RuntimeMetrics, WorkerMetrics, metrics, park, run_blocking, sleep, spawn, yield_now,
};

use crate::support::{tests, until, workers};

fn sum(metrics: &RuntimeMetrics, of: fn(&WorkerMetrics) -> u64) -> u64 {
    metrics.workers.iter().map(of).sum()
}

tests! {
    fn what_happens_is_counted() {
        let runtime = workers(1);
        runtime.run(|| {
            let fibers: Vec<_> = (0..10).map(|_| spawn(|| {
                (0..100).for_each(|_| yield_now());
                // (One whose time has passed before it begins is no timer.)
                sleep(Duration::from_millis(100));
                run_blocking(|| ());
            })).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        let parked = runtime.spawn(park);
        until("the last one is parked", || runtime.metrics().workers[0].live == 1);
        parked.fiber().unpark();
        parked.join().unwrap();
        until("the worker sleeps", || {
            let now = runtime.metrics();
            now.workers[0].asleep && now.ended == 12 && now.workers[0].stacks_used == 0
        });
        let now = runtime.metrics();
        assert_eq!((now.spawned, now.ended), (12, 12), "{now}");
        assert_eq!((sum(&now, |w| w.started), sum(&now, |w| w.live as u64)), (12, 0), "{now}");
        assert!(sum(&now, |w| w.resumes) >= 1000 + 10 + 12, "{now}");
        assert!(sum(&now, |w| w.timers) >= 10, "{now}");
        assert!(sum(&now, |w| w.submitted) == 10, "{now}");
        assert!(sum(&now, |w| w.polls) > 0 && sum(&now, |w| w.remote_wakes) > 0, "{now}");
        assert!(sum(&now, |w| w.stacks_cached as u64) >= 1, "{now}");
        assert!(sum(&now, |w| w.stack_bytes as u64) >= 256 << 10, "{now}");
        assert!(now.blocking_threads >= now.blocking_idle, "{now}");
        assert!(now.to_string().contains("resumes"), "{now}");
        assert!(metrics().runtimes.iter().any(|other| other.runtime == now.runtime));
    }

    fn thieves_are_counted() {
        let runtime = workers(2);
        runtime.run(|| {
            let fibers: Vec<_> = (0..2000).map(|_| spawn(|| sleep(Duration::from_micros(100)))).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        let now = runtime.metrics();
        assert_eq!(sum(&now, |w| w.started), 2001, "{now}");
        assert_eq!(now.ended, sum(&now, |w| w.ended));
        // A worker that has run something got it by stealing or by mail.
        if now.workers.iter().all(|worker| worker.started > 0) {
            assert!(now.spawned == 2001, "{now}");
        }
    }
}
