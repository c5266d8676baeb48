//! Reading `/proc`: the memory of a process, and whether the machine has other work.

use std::fs;
use std::thread;
use std::time::Duration;

/// The value of a `kB` line of a status file; 0 when it is missing.
pub(crate) fn status_kib(status: &str, key: &str) -> f64 {
    status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(k, _)| *k == key)
        .and_then(|(_, v)| v.trim().trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0.0)
}

/// How many other tasks want a core right now: the median of a few looks.
pub(crate) fn others_running() -> u32 {
    let mut looks: Vec<u32> = (0..5)
        .map(|_| {
            thread::sleep(Duration::from_millis(2));
            fs::read_to_string("/proc/loadavg").ok().and_then(|s| runnable(&s)).unwrap_or(1)
        })
        .collect();
    looks.sort_unstable();
    // The one that looks is running too.
    looks[2].saturating_sub(1)
}

/// The `3` of `0.61 0.40 0.21 3/412 9000`.
fn runnable(loadavg: &str) -> Option<u32> {
    loadavg.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// A `kB` line of process `pid`, in MB (10^6 bytes).
pub(crate) fn status_mb(pid: u32, key: &str) -> Result<f64, String> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    Ok(status_kib(&status, key) * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_status_file() {
        let text = "Name:\tx\nVmHWM:\t  200 kB\nVmRSS:\t    1234 kB\nThreads:\t1\n";
        assert_eq!(status_kib(text, "VmRSS"), 1234.0);
        assert_eq!(status_kib(text, "VmHWM"), 200.0);
        assert_eq!(status_kib(text, "VmPTE"), 0.0);
    }

    #[test]
    fn reads_the_run_queue() {
        assert_eq!(runnable("0.61 0.40 0.21 3/412 9000\n"), Some(3));
        assert_eq!(runnable("nothing"), None);
        assert!(others_running() < 100_000);
    }

    #[test]
    fn this_process_has_memory() {
        let pid = std::process::id();
        assert!(status_mb(pid, "VmRSS").unwrap() > 0.1);
        assert!(status_mb(pid, "VmPTE").unwrap() > 0.0);
    }
}
