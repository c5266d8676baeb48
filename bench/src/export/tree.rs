//! What a process and all that it starts take.
//!
//! Memory is the sum of what `smaps_rollup` calls Pss: a page that several processes have is counted once, so that daemons
//! of one program are not charged for its text each. It is looked at every few milliseconds; the largest sum counts.

use crate::proc::status_kib;
use crate::sys::{self, Whose};
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long between two looks. A look takes about as long for ten processes.
const LOOK: Duration = Duration::from_millis(10);

pub(super) struct Used {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
    /// 10^6 bytes.
    pub(super) megabytes: f64,
}

/// Runs a command to its end.
pub(super) fn measure(command: &mut Command) -> Result<Used, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let cpu = || sys::cpu(Whose::Children).map_err(|e| e.to_string());
    let before = cpu()?;
    let begun = Instant::now();
    let child = command.spawn().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    let pid = child.id();
    let ended = AtomicBool::new(false);
    thread::scope(|s| {
        let watch = s.spawn(|| {
            let mut most = 0.0f64;
            // It only ends the loop.
            while !ended.load(Ordering::Relaxed) {
                most = most.max(kib(pid));
                thread::sleep(LOOK);
            }
            most
        });
        let output = child.wait_with_output();
        let wall = begun.elapsed();
        ended.store(true, Ordering::Relaxed);
        let most = watch.join().map_err(|_| "the watch panicked")?;
        let output = output.map_err(|e| e.to_string())?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{:?}: {}: {text}", command.get_program(), output.status));
        }
        Ok(Used { wall, cpu: cpu()? - before, megabytes: most * 1024.0 / 1e6 })
    })
}

/// Of a process and those that it has started. One that has just ended counts nothing.
fn kib(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let mut sum = status_kib(&text, "Pss");
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        sum += children.split_whitespace().filter_map(|pid| pid.parse().ok()).map(kib).sum::<f64>();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_counted() {
        let mut command = Command::new("sh");
        let used = measure(command.args(["-c", "sleep 0.2 & sleep 0.2; wait"])).unwrap();
        assert!(used.wall >= Duration::from_millis(200) && used.megabytes > 0.1);
        let error = measure(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).err().unwrap();
        assert!(error.contains("why") && error.contains('3'), "{error}");
    }
}
