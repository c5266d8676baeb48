//! Child processes: 1,000 of `/bin/true` started and waited for, N at a time.
//!
//! Most of it is the kernel's work, and the same for all. The processor time is told twice: that of the subject's own
//! process, which is what a runtime can make worse, and that of the children with it.

use crate::micro::{Job, Values, bast_runtime, tokio_runtime};
use crate::registry::units;
use crate::sys::{self, Whose};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CHILDREN: usize = 1000;
const PROGRAM: &str = "/bin/true";

/// Whether this module has the benchmark.
pub(crate) fn has(job: &Job) -> bool {
    job.bench == "children"
}

pub(crate) fn run(subject: &str, job: &Job) -> Result<Values, String> {
    let tasks: usize = job.param.parse().map_err(|_| format!("no number: {}", job.param))?;
    match subject {
        "bast" | "bast-uring" | "bast-epoll" => {
            let rt = bast_runtime(subject, job.workers)?;
            measure(|| {
                rt.run(move || {
                    bast::for_each_concurrent(0..CHILDREN, tasks, |_| {
                        let status = bast::process::Command::new(PROGRAM).status();
                        assert!(status.expect("a child").success());
                    });
                });
            })
        }
        "tokio-current" | "tokio-multi" => {
            let rt = tokio_runtime(subject, job.workers)?;
            measure(|| {
                rt.block_on(async move {
                    let left = Arc::new(AtomicUsize::new(CHILDREN));
                    let all: Vec<_> = (0..tasks)
                        .map(|_| {
                            let left = Arc::clone(&left);
                            tokio::spawn(async move {
                                while take(&left) {
                                    let status = tokio::process::Command::new(PROGRAM).status();
                                    assert!(status.await.expect("a child").success());
                                }
                            })
                        })
                        .collect();
                    for task in all {
                        task.await.expect("no panic");
                    }
                });
            })
        }
        "threads" => measure(|| {
            let left = AtomicUsize::new(CHILDREN);
            std::thread::scope(|s| {
                for _ in 0..tasks {
                    s.spawn(|| {
                        while take(&left) {
                            let status = std::process::Command::new(PROGRAM).status();
                            assert!(status.expect("a child").success());
                        }
                    });
                }
            });
        }),
        _ => Err(format!("{subject} does not run {} {}", job.bench, job.param)),
    }
}

/// Takes one of those that are left. Relaxed: only the number matters.
fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

fn measure(work: impl FnOnce()) -> Result<Values, String> {
    let cpu = |whose| sys::cpu(whose).map_err(|e| e.to_string());
    let (own, theirs, begun) = (cpu(Whose::Own)?, cpu(Whose::Children)?, Instant::now());
    work();
    let wall = begun.elapsed();
    let own = cpu(Whose::Own)? - own;
    let all = own + (cpu(Whose::Children)? - theirs);
    let each = |time: Duration| time.as_secs_f64() * 1e3 / CHILDREN as f64;
    Ok(vec![
        (units::MS_CHILD, each(wall)),
        (units::CPU_CHILD, each(own)),
        (units::CPU_ALL_CHILD, each(all)),
    ])
}
