//! The limit on open files. A server with 10,000 connections needs as many descriptors, and the
//! usual soft limit of 1,024 is for programs that use `select`. This one does not.

/// Raises the soft limit on open files to the hard one. Best effort: where it fails, the old limit
/// stays, and `accept` says so when it is reached.
#[cfg(unix)]
pub fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit, which the call fills in; it keeps no pointer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above; the call only reads it.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
}

/// How many files may be open at once.
#[cfg(unix)]
#[must_use]
pub fn open_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit, which the call fills in; it keeps no pointer.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub fn raise_open_files() {}

#[cfg(all(test, unix))]
mod tests {
    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        super::raise_open_files();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 1 };
        // SAFETY: `limit` is a valid rlimit, which the call fills in; it keeps no pointer.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
        assert_eq!(limit.rlim_cur, limit.rlim_max);
    }
}
