//! The standard streams, in programs whose streams are pipes, files, terminals, or broken.
//!
//! ```text
//!   this program ──runs itself with a role──▶ plays it on standard streams that are under test
//!        ╰──feeds its stdin, reads its stdout and stderr, and waits for its end, for a bounded time
//! ```
//!
//! Not in `it`: libtest writes to the same streams. Arguments select the cases whose name contains one of them.

mod cases;
mod child;
mod roles;
#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
#[cfg_attr(windows, allow(unsafe_code))]
mod system;

fn main() {
    if let Ok(role) = std::env::var(child::ROLE) {
        return roles::play(&role);
    }
    if std::env::var("BAST_DRIVER").is_ok_and(|driver| driver == "sim") {
        // On the simulator these calls are made on the worker, which then waits.
        return println!("the standard streams are the kernel's: nothing to test on the simulator");
    }
    let wanted: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, case) in cases::CASES.iter().chain(system::CASES) {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(&**part)) {
            case();
            println!("{name}: ok");
        }
    }
}
