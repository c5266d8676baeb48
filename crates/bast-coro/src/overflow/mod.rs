//! The report of a stack overflow (coro 3).
//!
//! ```text
//!   fault ──► handler ── in a stack of ours? ── yes ──► message, abort
//!                                   │ no
//!                                   ▼
//!                        the handler that was there before (std's, a sanitizer's, none)
//! ```
//!
//! On Unix the handler runs on the alternate signal stack of the faulting thread, since the stack itself
//! is used up. The main thread and threads of `std` have one. On a thread made by foreign code
//! call [`AltStack::ensure`] first; without it the kernel kills the process without a message
//! (memory is still not corrupted). On Windows it runs on pages that each stack keeps for it.

#[cfg(unix)]
#[path = "unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "windows.rs"]
mod imp;

pub use imp::{AltStack, install};

/// Text without allocation.
struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Line {
    /// What is said of an overflow.
    ///
    /// # Safety
    /// `name` is null or valid for `len` bytes.
    unsafe fn overflow(name: *const u8, len: usize, usable: usize) -> Line {
        let name: &[u8] = if name.is_null() || len == 0 {
            b"<unnamed>"
        } else {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts(name, len) }
        };
        let mut line = Line { bytes: [0; 512], len: 0 };
        line.push(b"\nfiber '");
        line.push(&name[..name.len().min(200)]);
        line.push(b"' has overflowed its stack of ");
        line.push_number(usable / 1024);
        line.push(b" KiB\nSet a larger one with Builder::stack_size, or for all fibers with BAST_STACK (bytes).\n");
        line
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, text: &[u8]) {
        for byte in text {
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = *byte;
                self.len += 1;
            }
        }
    }

    fn push_number(&mut self, n: usize) {
        if n >= 10 {
            self.push_number(n / 10);
        }
        self.push(&[b'0' + (n % 10) as u8]);
    }
}
