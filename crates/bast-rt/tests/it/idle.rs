//! Idle workers sleep.

use std::time::Duration;

use bast_rt::{park, spawn};

use crate::support::{assert_idle, process_tests, workers};

fn idles(count: usize) {
    let runtime = workers(count);
    // Fibers that wait for ever, for a wake and for a distant time, keep nobody busy.
    let fibers: Vec<_> = runtime.run(|| {
        let mut fibers: Vec<_> = (0..10).map(|_| spawn(park)).collect();
        fibers.extend((0..10).map(|_| spawn(|| bast_rt::sleep(Duration::from_secs(1000)))));
        fibers
    });
    assert_idle();
    drop(fibers);
}

process_tests! {
    fn two_idle_workers_use_no_time() {
        idles(2);
    }

    fn eight_idle_workers_use_no_time() {
        idles(8);
    }

    /// The same after work has come and gone.
    fn workers_that_were_busy_sleep_again() {
        let runtime = workers(8);
        runtime.run(|| {
            let fibers: Vec<_> = (0..2000).map(|i| spawn(move || {
                bast_rt::sleep(Duration::from_micros(i % 500));
            })).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        assert_idle();
    }
}
