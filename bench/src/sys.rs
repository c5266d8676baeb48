//! The system calls std does not wrap: CPU affinity, descriptor limits, the CPU clock of another
//! process, and the bare epoll that the floor servers and the load generator stand on.
//!
//! This is the only file of the crate that opts in to `unsafe`. Everything here is a thin safe
//! wrapper; no pointer outlives the call it is passed to.

use io_uring::{IoUring, opcode, types};
use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

fn check(ret: libc::c_int) -> io::Result<libc::c_int> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}

/// Pins the calling thread, and every thread it starts from now on, to `cores`. Cores that this
/// machine does not have wrap round, so that a one-core machine still runs everything.
pub(crate) fn pin(cores: &[usize]) -> io::Result<()> {
    // SAFETY: `sysconf` takes no pointer.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize;
    // SAFETY: `cpu_set_t` is a plain array of words; all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for core in cores {
        // SAFETY: the index is below the number of CPUs, which is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(core % online.min(libc::CPU_SETSIZE as usize), &mut set) };
    }
    // SAFETY: the kernel reads `size_of::<cpu_set_t>()` bytes of `set` during the call only.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) })?;
    Ok(())
}

/// Raises the soft limit of open descriptors to at least `want` (the hard limit too, where the
/// user may). Returns the limit in force.
pub(crate) fn raise_nofile(want: u64) -> io::Result<u64> {
    let mut lim = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit` into `lim` during the call only.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut lim) })?;
    if lim.rlim_max < want {
        let more = libc::rlimit { rlim_cur: want, rlim_max: want };
        // SAFETY: the kernel reads one `rlimit` during the call only.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &more) } == 0 {
            return Ok(want);
        }
    }
    lim.rlim_cur = lim.rlim_max;
    // SAFETY: as above.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &lim) })?;
    Ok(lim.rlim_cur)
}

/// Makes `command` start pinned to `cores` and die with the thread that starts it.
pub(crate) fn tie(command: &mut Command, cores: Vec<usize>) {
    // SAFETY: between fork and exec the hook makes only system calls (`pin` allocates nothing).
    unsafe {
        command.pre_exec(move || {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            pin(&cores)
        });
    }
}

/// CPU time (user and system, all threads) that process `pid` has used, in nanoseconds.
pub(crate) fn process_cpu(pid: u32) -> io::Result<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: writes one `clockid_t` during the call only.
    let err = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    if err != 0 {
        return Err(io::Error::from_raw_os_error(err));
    }
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one `timespec` during the call only.
    check(unsafe { libc::clock_gettime(clock, &mut ts) })?;
    Ok(Duration::new(ts.tv_sec as u64, ts.tv_nsec as u32))
}

/// Whose processor time [`cpu`] tells.
#[derive(Clone, Copy)]
pub(crate) enum Whose {
    /// This process's.
    Own = libc::RUSAGE_SELF as isize,
    /// That of the children that it has waited for.
    Children = libc::RUSAGE_CHILDREN as isize,
}

/// CPU time (user and system) of this process, or of its children.
pub(crate) fn cpu(whose: Whose) -> io::Result<Duration> {
    // SAFETY: a plain structure of numbers; all zeroes is one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes one `rusage` during the call only.
    check(unsafe { libc::getrusage(whose as libc::c_int, &mut usage) })?;
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    Ok(time(usage.ru_utime) + time(usage.ru_stime))
}

/// Listens again with a long queue: std asks for 128, which measures SYN retries under load.
pub(crate) fn long_backlog(listener: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: takes no pointer; the descriptor is open for as long as `listener` is borrowed.
    check(unsafe { libc::listen(listener.as_raw_fd(), 16 * 1024) })?;
    Ok(())
}

/// Accepts a connection that is non-blocking from birth, in one system call.
pub(crate) fn accept_nonblocking(listener: &TcpListener) -> io::Result<TcpStream> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let (addr, len) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: null addresses ask the kernel not to report the peer.
    let fd = check(unsafe { libc::accept4(listener.as_raw_fd(), addr, len, flags) })?;
    // SAFETY: the kernel has just handed out this descriptor, and nobody else knows it.
    Ok(unsafe { TcpStream::from_raw_fd(fd) })
}

/// One event of [`Epoll::wait`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Event(libc::epoll_event);

impl Event {
    /// An event to be overwritten by `wait`.
    pub(crate) const EMPTY: Event = Event(libc::epoll_event { events: 0, u64: 0 });

    /// The descriptor that was registered.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.u64 as RawFd
    }

    /// The peer has closed, or the connection is broken.
    pub(crate) fn hung_up(&self) -> bool {
        let bits = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
        self.0.events & bits as u32 != 0
    }
}

/// What a descriptor is registered for.
#[derive(Clone, Copy)]
pub(crate) enum Interest {
    /// Readable, reported as long as it is so.
    Level,
    /// Readable, reported when it becomes so.
    Edge,
    /// Readable or writable, reported when it becomes so.
    EdgeBoth,
}

impl Interest {
    fn bits(self) -> u32 {
        let bits = match self {
            Interest::Level => libc::EPOLLIN,
            Interest::Edge => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET,
            Interest::EdgeBoth => libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET,
        };
        bits as u32
    }
}

/// A bare epoll instance.
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: takes no pointer.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just handed out this descriptor, and nobody else knows it.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn add(&self, fd: &impl AsRawFd, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), interest)
    }

    pub(crate) fn modify(&self, fd: &impl AsRawFd, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_raw_fd(), interest)
    }

    fn control(&self, op: libc::c_int, fd: RawFd, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.bits(), u64: fd as u64 };
        // SAFETY: the kernel reads one `epoll_event` during the call only.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), op, fd, &mut event) })?;
        Ok(())
    }

    /// Waits up to `timeout_ms` (negative: for ever); an interrupted wait reports no event.
    pub(crate) fn wait(&self, events: &mut [Event], timeout_ms: i32) -> io::Result<usize> {
        let room = events.len().min(i32::MAX as usize) as libc::c_int;
        let first = events.as_mut_ptr().cast::<libc::epoll_event>();
        let epfd = self.0.as_raw_fd();
        // SAFETY: `Event` is transparent over `epoll_event`, and the kernel writes at most `room`
        // of them during the call only.
        match check(unsafe { libc::epoll_wait(epfd, first, room, timeout_ms) }) {
            Ok(n) => Ok(n as usize),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(e) => Err(e),
        }
    }
}

/// Reads of one file through a bare io_uring: each slot has a block of its own. Not to be forgotten while
/// reads are on their way: its drop waits for them.
pub(crate) struct ReadRing<'a> {
    ring: IoUring,
    fd: types::Fd,
    blocks: Vec<&'a mut [u8]>,
    busy: usize,
}

impl<'a> ReadRing<'a> {
    pub(crate) fn new(file: &'a File, blocks: Vec<&'a mut [u8]>) -> io::Result<ReadRing<'a>> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(blocks.len() as u32)?;
        let fd = types::Fd(file.as_raw_fd());
        Ok(ReadRing { ring, fd, blocks, busy: 0 })
    }

    /// Begins to fill the slot's block from `offset` on. It goes to the kernel with the next `wait`.
    pub(crate) fn read(&mut self, slot: usize, offset: u64) -> io::Result<()> {
        let block = &mut self.blocks[slot];
        let entry = opcode::Read::new(self.fd, block.as_mut_ptr(), block.len() as u32)
            .offset(offset)
            .build()
            .user_data(slot as u64);
        // SAFETY: the block and the file are borrowed for longer than this lives, and its drop waits.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.busy += 1;
        Ok(())
    }

    /// Waits for at least one read to end; gives the slots of all that have.
    pub(crate) fn wait(&mut self, slots: &mut Vec<usize>) -> io::Result<()> {
        self.ring.submit_and_wait(1)?;
        slots.clear();
        for entry in self.ring.completion() {
            self.busy -= 1;
            let slot = entry.user_data() as usize;
            let read = entry.result();
            if read < 0 {
                return Err(io::Error::from_raw_os_error(-read));
            }
            if read as usize != self.blocks[slot].len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            slots.push(slot);
        }
        Ok(())
    }

    /// What has been read. Of a slot that is busy it says nothing.
    pub(crate) fn block(&self, slot: usize) -> &[u8] {
        self.blocks[slot]
    }
}

impl Drop for ReadRing<'_> {
    fn drop(&mut self) {
        while self.busy > 0 {
            self.ring.submit_and_wait(1).expect("the ring goes on");
            self.busy -= self.ring.completion().count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpu_clock_advances_with_work() {
        let pid = std::process::id();
        let before = process_cpu(pid).unwrap();
        let mut x = 1u64;
        while process_cpu(pid).unwrap() < before + Duration::from_millis(2) {
            x = std::hint::black_box(x.wrapping_mul(6364136223846793005));
        }
        assert!(process_cpu(pid).unwrap() > before);
    }

    #[test]
    fn epoll_reports_a_listener_with_a_waiting_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        long_backlog(&listener).unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(&listener, Interest::Level).unwrap();
        let mut events = [Event::EMPTY; 4];
        assert_eq!(epoll.wait(&mut events, 0).unwrap(), 0);
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(epoll.wait(&mut events, 2000).unwrap(), 1);
        assert_eq!(events[0].fd(), listener.as_raw_fd());
        let served = accept_nonblocking(&listener).unwrap();
        assert_eq!(served.peer_addr().unwrap(), client.local_addr().unwrap());
    }
}
