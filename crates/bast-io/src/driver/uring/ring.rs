//! The two queues shared with the kernel: set-up, probing, pushing, entering.
//!
//! ```text
//!   push ─▶ submission queue ─┐                 ┌─▶ completion queue ─▶ reap
//!      └─full─▶ backlog ──────┴─ enter (kernel) ┘
//! ```
//!
//! Entries stay in order: what is on the backlog goes before what is pushed later. So a cancel never
//! overtakes the operation that it is meant for, nor reaches a later one at the same address.
//!
//! Memory ordering: the queues' heads and tails are released and acquired by the `io-uring` crate.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::null;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// A completion queue must hold what a full poll round may bring; more overflows into slower lists.
const COMPLETIONS: u32 = 4096;

pub(super) struct Ring {
    ring: IoUring,
    /// The ring's descriptor registered with its thread, which spares a look-up in each enter.
    registered: Option<u32>,
    backlog: VecDeque<squeue::Entry>,
    probe: Probe,
    forbidden: Vec<u8>,
    /// Whether `accept` can be told to wait first and tells whether more are there (Linux 6.10).
    pub(super) accept_hints: bool,
}

#[repr(C)]
struct RingUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// Why there is no ring: a sentence for people, with the remedy.
fn explain(step: &str, error: &io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring (5.19 or later is needed)",
        Some(libc::EPERM | libc::EACCES) => {
            "forbidden by seccomp (a container's profile) or by sysctl kernel.io_uring_disabled; \
             allow it there"
        }
        Some(libc::EINVAL) => "this kernel's io_uring is too old; 5.19 or later is needed",
        Some(libc::ENOMEM) => "the memory that may be locked is used up; raise `ulimit -l`",
        Some(libc::EMFILE | libc::ENFILE) => "too many open files; raise `ulimit -n`",
        _ => "no remedy is known",
    };
    format!("{step}: {error}; {remedy}")
}

impl Ring {
    /// Makes a ring for the calling thread. Operations in `forbidden` are treated as missing. The
    /// error is a sentence.
    pub(super) fn new(entries: u32, forbidden: &[u8]) -> Result<Ring, String> {
        let entries = entries.max(8);
        // Completions are handled when this thread enters the kernel, and never interrupt it.
        let deferred = IoUring::builder()
            .setup_clamp()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS.max(entries))
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(entries);
        let ring = match deferred {
            // Before Linux 6.1. That has at least COOP_TASKRUN, which came with the flag that cancels
            // everything (5.19), or this fails too.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => IoUring::builder()
                .setup_clamp()
                .setup_submit_all()
                .setup_cqsize(COMPLETIONS.max(entries))
                .setup_coop_taskrun()
                .setup_taskrun_flag()
                .build(entries),
            other => other,
        };
        let ring = ring.map_err(|e| explain("io_uring_setup", &e))?;
        let mut probe = Probe::new();
        ring.submitter()
            .register_probe(&mut probe)
            .map_err(|e| explain("io_uring_register", &e))?;
        let accept_hints = ring.params().is_feature_recvsend_bundle();
        let (backlog, forbidden) = (VecDeque::new(), forbidden.to_vec());
        let mut ring = Ring { ring, registered: None, backlog, probe, forbidden, accept_hints };
        for code in [opcode::PollAdd::CODE, opcode::AsyncCancel::CODE] {
            if !ring.has(code) {
                return Err(format!("io_uring: operation {code} is missing or forbidden"));
            }
        }
        ring.register();
        Ok(ring)
    }

    /// Whether the kernel has an operation.
    pub(super) fn has(&self, code: u8) -> bool {
        self.probe.is_supported(code)
            && (self.forbidden.is_empty() || !self.forbidden.contains(&code))
    }

    /// Registers the ring's descriptor with this thread, if the kernel can.
    fn register(&mut self) {
        let fd = self.fd();
        let mut update = RingUpdate { offset: u32::MAX, reserved: 0, data: fd as u64 };
        // SAFETY: the kernel reads and writes one update, a local.
        let n = unsafe {
            libc::syscall(libc::SYS_io_uring_register, fd, REGISTER_RING_FDS, &raw mut update, 1)
        };
        self.registered = (n == 1).then_some(update.offset);
    }

    fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Queues an entry.
    ///
    /// # Safety
    /// Contract io 1 for all that the entry names.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry) {
        if self.backlog.is_empty() {
            // SAFETY: the caller's promise.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            // Full. Errors are left to the next poll, which reaps what may stand in the way.
            let _ = self.enter_raw(0, None, false);
            // SAFETY: the caller's promise.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
        }
        self.backlog.push_back(entry);
    }

    fn flush_backlog(&mut self) {
        let mut queue = self.ring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: io 1: promised when the entry was pushed.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            self.backlog.pop_front();
        }
    }

    /// Whether entering the kernel would do anything: entries to submit, or completions that wait for
    /// this thread. Three loads.
    #[inline]
    pub(super) fn has_work(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow() || !self.backlog.is_empty()
    }

    /// Submits everything, and has pending completions delivered, without waiting.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        loop {
            self.flush_backlog();
            let queued = self.ring.submission().len();
            self.enter_checked(0, None)?;
            // On if entries were taken and there are more.
            if self.backlog.is_empty() || self.ring.submission().len() >= queued {
                return Ok(());
            }
        }
    }

    /// Submits everything and waits for a completion, at most as long as said.
    pub(super) fn enter_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.flush_backlog();
        if !self.backlog.is_empty() {
            return self.enter();
        }
        self.enter_checked(1, timeout)
    }

    fn enter_checked(&mut self, want: u32, timeout: Option<Duration>) -> io::Result<()> {
        match self.enter_raw(want, timeout, true) {
            Ok(_) => Ok(()),
            Err(e) => match e.raw_os_error() {
                // The time is up, a signal came, or completions must be reaped first (EBUSY) or
                // memory is short (EAGAIN): the caller reaps and comes back.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(e),
            },
        }
    }

    fn enter_raw(&mut self, want: u32, timeout: Option<Duration>, events: bool) -> io::Result<u32> {
        let submit = self.ring.submission().len() as u32;
        let ts = timeout.map(Timespec::from);
        let mut args = SubmitArgs::new();
        let (mut arg, mut size) = (null(), 0);
        let mut flags = if events { ENTER_GETEVENTS } else { 0 };
        if let Some(ts) = &ts {
            args = args.timespec(ts);
            (arg, size) = ((&raw const args).cast::<libc::c_void>(), size_of_val(&args));
            flags |= ENTER_EXT_ARG;
        }
        let fd = match self.registered {
            Some(index) => {
                flags |= ENTER_REGISTERED_RING;
                index as i32
            }
            None => self.fd(),
        };
        // SAFETY: io 1 and io 3 for what the entries name; the argument is a local or null.
        let n =
            unsafe { libc::syscall(libc::SYS_io_uring_enter, fd, submit, want, flags, arg, size) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as u32) }
    }

    /// Takes the oldest completion.
    #[inline]
    pub(super) fn reap(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// Takes the oldest completions, as many as there is room for.
    #[inline]
    pub(super) fn reap_into<'a>(
        &mut self,
        room: &'a mut [MaybeUninit<cqueue::Entry>],
    ) -> &'a mut [cqueue::Entry] {
        self.ring.completion().fill(room)
    }

    /// Takes back the entries that never reached the submission queue.
    pub(super) fn take_backlog(&mut self) -> VecDeque<squeue::Entry> {
        std::mem::take(&mut self.backlog)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if let Some(offset) = self.registered {
            // A registered descriptor would keep the ring alive as long as this thread.
            let update = RingUpdate { offset, reserved: 0, data: 0 };
            let fd = self.fd();
            // SAFETY: the kernel reads one update, a local.
            unsafe {
                libc::syscall(
                    libc::SYS_io_uring_register,
                    fd,
                    UNREGISTER_RING_FDS,
                    &raw const update,
                    1,
                );
            }
        }
    }
}
