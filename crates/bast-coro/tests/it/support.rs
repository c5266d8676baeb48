//! Children for tests that die or need a process of their own, and a look at raw memory.

use std::process::{Command, Output};

use bast_coro::{Context, Stack, Suspender};

pub(crate) use imp::{GUARD_PAGES, aborted, page_size, readable, segfaulted};

const CHILD: &str = "BAST_CORO_CHILD";

/// In the parent: runs the test `name` again, alone in a child process, and returns how it went.
/// In that child: runs `body` (on the main thread), then exits with 0 and `None` is never seen.
pub(crate) fn in_child(name: &str, body: impl FnOnce()) -> Output {
    if std::env::var(CHILD).is_ok_and(|v| v == name) {
        body();
        std::process::exit(0);
    }
    let test = std::env::current_exe().expect("this test");
    // What programs for this machine are run by, if the machine is only emulated (`cargo xtask cross`).
    let mut command = match std::env::var_os("BAST_TEST_RUNNER") {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(test);
            command
        }
        None => Command::new(test),
    };
    command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("the child runs")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
pub(crate) fn assert_success(output: &Output) {
    assert!(output.status.success(), "{:?}\n{}", output.status, stderr(output));
}

unsafe fn nothing(_: &Suspender, _: *mut ()) {}

/// The lowest and the highest address of the stack's slot; the guard is the lowest `GUARD_PAGES`.
pub(crate) fn slot_of(stack: Stack) -> (Stack, *mut u8, *mut u8) {
    let page = page_size();
    let usable = stack.usable_size();
    // SAFETY: never resumed.
    let context = unsafe { Context::new(stack, nothing, std::ptr::null_mut()) };
    let hint = context.stack_pointer_hint().cast_mut();
    let end = hint.wrapping_add(hint.addr().wrapping_neg() % page);
    (context.into_stack(), end.wrapping_sub(usable + GUARD_PAGES * page), end)
}

/// xorshift64*.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

#[cfg(unix)]
mod imp {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Output;

    pub(crate) const GUARD_PAGES: usize = 1;

    pub(crate) fn aborted(output: &Output) -> bool {
        output.status.signal() == Some(libc::SIGABRT)
    }

    pub(crate) fn segfaulted(output: &Output) -> bool {
        output.status.signal() == Some(libc::SIGSEGV)
    }

    pub(crate) fn page_size() -> usize {
        // SAFETY: reads a constant.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap()
    }

    /// Whether the kernel can read at `at`. A guard cannot be read by anybody.
    pub(crate) fn readable(at: *const u8) -> bool {
        let mut fds = [0; 2];
        // SAFETY: the kernel checks the address itself and answers EFAULT.
        unsafe {
            assert_eq!(libc::pipe(fds.as_mut_ptr()), 0);
            let n = libc::write(fds[1], at.cast(), 1);
            libc::close(fds[0]);
            libc::close(fds[1]);
            n == 1
        }
    }
}

#[cfg(windows)]
mod imp {
    use std::process::Output;

    use windows_sys::Win32::Foundation::STATUS_ACCESS_VIOLATION;
    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEMORY_BASIC_INFORMATION, PAGE_READWRITE, VirtualQuery,
    };

    /// The lowest, which is never there, and eight that move with the stack's end.
    pub(crate) const GUARD_PAGES: usize = 9;

    /// `std::process::abort` ends with this: STATUS_STACK_BUFFER_OVERRUN, which stands for "fail fast".
    pub(crate) fn aborted(output: &Output) -> bool {
        output.status.code() == Some(0xC000_0409_u32.cast_signed())
    }

    pub(crate) fn segfaulted(output: &Output) -> bool {
        output.status.code() == Some(STATUS_ACCESS_VIOLATION)
    }

    pub(crate) fn page_size() -> usize {
        4096
    }

    /// Whether there is memory at `at` that is no guard.
    pub(crate) fn readable(at: *const u8) -> bool {
        // SAFETY: asks only; all zeroes is a valid value of the type.
        let info = unsafe {
            let mut info: MEMORY_BASIC_INFORMATION = std::mem::zeroed();
            assert_ne!(VirtualQuery(at.cast(), &raw mut info, size_of_val(&info)), 0);
            info
        };
        info.State == MEM_COMMIT && info.Protect == PAGE_READWRITE
    }
}
