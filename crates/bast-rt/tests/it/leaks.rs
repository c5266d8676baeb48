//! Nothing is left behind: threads, descriptors, memory.

use std::time::Duration;

use bast_rt::{park, run_blocking, sleep, spawn, yield_now};

use crate::support::{builder, growth, handles, process_tests, scaled, slowed, threads, until};

process_tests! {
    fn a_thousand_runtimes_in_a_row() {
        let once = || {
            let runtime = builder(2).build().unwrap();
            runtime.run(|| {
                drop((0..4).map(|_| spawn(park)).collect::<Vec<_>>());
                drop(spawn(|| sleep(Duration::from_secs(1000))));
                yield_now();
                run_blocking(|| ());
            });
        };
        (0..20).for_each(|_| once());
        until("threads of the first rounds", || threads() <= 3);
        let before = (threads(), handles());
        let most = if slowed() { usize::MAX } else { 8 << 10 };
        let grown = growth(most, || {
            (0..scaled(1000)).for_each(|_| once());
            // The pool's threads end by themselves, shortly after their pool.
            until("threads", || threads() <= before.0);
            assert!(handles() <= before.1, "{} descriptors, {} before", handles(), before.1);
        });
        assert!(grown < most, "{grown} KiB more after 1,000 runtimes");
    }

    /// What a burst used is used again by the next.
    fn a_runtime_in_use_does_not_grow() {
        let runtime = builder(2).build().unwrap();
        let burst = || runtime.run(|| {
            let fibers: Vec<_> = (0..5_000).map(|i| spawn(move || { yield_now(); i })).collect();
            fibers.into_iter().for_each(|fiber| { let _: usize = fiber.join().unwrap(); });
            // Fibers whose handles go first, last, and never.
            for i in 0..3_000 {
                let fiber = spawn(move || vec![i; 100]);
                if i % 3 == 0 { drop(fiber); } else if i % 3 == 1 { drop((fiber.fiber(), fiber)); }
                else { fiber.join().unwrap(); }
            }
            while spawn(|| ()).join().is_err() {}
        });
        (0..5).for_each(|_| burst());
        let most = if slowed() { usize::MAX } else { 48 << 10 };
        let grown = growth(most, || (0..scaled(40)).for_each(|_| burst()));
        assert!(grown < most, "{grown} KiB more after 40 bursts of 5,000");
    }
}
