//! Bound fibers that cannot be had: what runs out, and what is said then. (Windows has no limits to lower.)

use std::io::ErrorKind;
#[cfg(unix)]
use std::time::Duration;

#[cfg(unix)]
use bast_rt::sleep;
use bast_rt::{Builder, Runtime};

use crate::support::process_tests;
#[cfg(unix)]
use crate::support::{until, yield_until};

/// The name of a limit, a number of another type in each C library.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Limit = libc::__rlimit_resource_t;
#[cfg(all(unix, not(all(target_os = "linux", target_env = "gnu"))))]
type Limit = libc::c_int;

/// Lowers a limit of this process; `None` takes that back.
#[cfg(unix)]
fn limit(what: Limit, to: Option<u64>) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a limit of ours, and room for it.
    unsafe {
        assert_eq!(libc::getrlimit(what, &raw mut limit), 0);
        limit.rlim_cur = to.unwrap_or(limit.rlim_max);
        assert_eq!(libc::setrlimit(what, &raw const limit), 0);
    }
}

/// How many bytes of address space are in use; elsewhere than on Linux something less.
#[cfg(unix)]
fn mapped() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    // SAFETY: no memory is involved.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    statm.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * page as u64
}

#[cfg(unix)]
process_tests! {
    /// No address space for the thread's stack: an error, and later there is one again.
    fn without_a_thread_it_is_an_error() {
        if cfg!(feature = "sanitizer") {
            return; // AddressSanitizer itself needs address space for each thread, and ends where there is none.
        }
        let runtime = Runtime::builder().workers(1).build().unwrap();
        runtime.run(|| {
            sleep(Duration::from_millis(1));
            // Enough for what is small: musl's allocator has nothing in store.
            limit(libc::RLIMIT_AS, Some(mapped() + (1 << 20)));
            let error = Builder::new().bound().spawn(|| ());
            limit(libc::RLIMIT_AS, None);
            let error = error.unwrap_err();
            assert!(error.to_string().contains("ulimit -u"), "{error}");
            assert_eq!(Builder::new().bound().spawn(|| 7).unwrap().join().unwrap(), 7);
        });
        assert!(runtime.metrics().bound.len() <= 1);
    }

    /// No descriptor for its driver: the thread ends again, and the closure is dropped.
    fn without_a_driver_it_is_an_error() {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        runtime.run(|| {
            let (tell, told) = std::sync::mpsc::channel::<()>();
            limit(libc::RLIMIT_NOFILE, Some(3));
            let error = Builder::new().bound().spawn(move || drop(tell));
            limit(libc::RLIMIT_NOFILE, None);
            assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EMFILE));
            assert!(told.recv().is_err());
            yield_until("the thread has ended", || runtime.metrics().bound.is_empty());
            assert_eq!(Builder::new().bound().spawn(|| 7).unwrap().join().unwrap(), 7);
        });
    }

    /// Wherever the descriptors run out while the driver is made, none is lost.
    fn no_descriptor_is_lost_when_they_run_out() {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let quiet = || until("the threads have ended", || runtime.metrics().bound.is_empty());
        let spawned = || runtime.run(|| Builder::new().bound().spawn(|| 7));
        assert_eq!(spawned().unwrap().join().unwrap(), 7);
        quiet();
        let before = open();
        let refused = (3..100).take_while(|most| {
            limit(libc::RLIMIT_NOFILE, Some(*most));
            let fiber = spawned();
            limit(libc::RLIMIT_NOFILE, None);
            let error = fiber.map(|fiber| fiber.join().unwrap()).err();
            quiet();
            // The driver goes when the thread does, after its place on the list.
            until("all closed", || open() <= before);
            assert!(error.iter().all(|e| e.raw_os_error() == Some(libc::EMFILE)), "{error:?}");
            error.is_some()
        });
        assert!((1..97).contains(&refused.count()));
    }
}

process_tests! {
    fn they_count_the_workers_of_their_runtime() {
        let runtime = Runtime::builder().workers(3).build().unwrap();
        let bound = runtime.run(|| Builder::new().bound().spawn(bast_rt::workers).unwrap().join());
        assert_eq!(bound.unwrap(), 3);
    }

    fn others_are_invalid() {
        let both = Builder::new().bound().worker(0).spawn(|| ());
        assert_eq!(both.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
