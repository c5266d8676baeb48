//! A fiber that overflows its stack is named; and stacks that run out are had again.

use bast_rt::Builder;
#[cfg(target_os = "linux")]
use bast_rt::StackGuards;

#[cfg(target_os = "linux")]
use crate::support::{builder, process_tests};
use crate::support::{child, is_child, runtime, tests};

fn deeper(n: usize) -> usize {
    let room = std::hint::black_box([n as u8; 1024]);
    if n == usize::MAX { 0 } else { deeper(n + 1) + usize::from(room[n % 1024]) }
}

const OVERFLOWS: &str = "it::overflow::an_overflow_names_the_fiber_and_the_remedy";

tests! {
    fn an_overflow_names_the_fiber_and_the_remedy() {
        if is_child(OVERFLOWS) {
            runtime().run(|| {
                let fiber = Builder::new().name("the deep one".into()).stack_size(64 << 10);
                drop(fiber.spawn(|| deeper(0)).unwrap().join());
            });
            return;
        }
        let output = child(OVERFLOWS).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        for expected in ["the deep one", "BAST_STACK"] {
            assert!(text.contains(expected), "{expected:?} is missing: {text}");
        }
    }
}

// Of Linux's own limit.
#[cfg(target_os = "linux")]
process_tests! {
    /// With a guard that takes mappings stacks run out before memory does. The error says why; and
    /// when the fibers have ended, others can be started again.
    fn stacks_run_out_and_are_had_again() {
        let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        if limit.unwrap().trim().parse::<usize>().unwrap() > 100_000 {
            return; // it would take too much memory to get there
        }
        let runtime = builder(1).guards(StackGuards::Mprotect).stack_size(16 << 10).build().unwrap();
        runtime.run(|| {
            let mut fibers = Vec::new();
            let error = loop {
                assert!(fibers.len() < 200_000, "stacks do not run out");
                match Builder::new().spawn(bast_rt::park) {
                    Ok(fiber) => fibers.push(fiber),
                    Err(error) => break error,
                }
                if fibers.len() % 64 == 0 { bast_rt::yield_now(); }
            };
            assert_eq!(error.kind(), std::io::ErrorKind::OutOfMemory);
            assert!(error.to_string().contains("max_map_count"), "{error}");
            fibers.iter().for_each(|fiber| fiber.cancel());
            fibers.into_iter().for_each(|fiber| drop(fiber.join()));
            let again = Builder::new().spawn(|| 1).expect("all stacks are free again");
            assert_eq!(again.join().unwrap(), 1);
        });
    }
}
