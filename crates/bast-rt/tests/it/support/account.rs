//! The kernel's account of this process, from `/proc`.

use std::time::Duration;

fn entries(directory: &str) -> usize {
    std::fs::read_dir(format!("/proc/self/{directory}")).unwrap().count()
}

/// How many threads it has.
pub(crate) fn threads() -> usize {
    entries("task")
}

/// How many descriptors are open.
pub(crate) fn handles() -> usize {
    entries("fd")
}

/// Resident memory in KiB.
pub(super) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// CPU time that the process has used, from `/proc/self/schedstat` of all its threads.
pub(super) fn cpu_time() -> Duration {
    let nanos: u64 = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("schedstat"));
            stat.unwrap_or_default().split(' ').next().unwrap_or("0").parse().unwrap_or(0)
        })
        .sum();
    Duration::from_nanos(nanos)
}
