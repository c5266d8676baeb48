//! Windows: the fault is an exception, which is handled on the stack that has overflowed.
//!
//! ```text
//!   the last page is touched ──► the kernel opens the pages kept for this (`os::GUARANTEE`), and raises
//!   STATUS_STACK_OVERFLOW    ──► vectored handlers, ours before std's, on those pages
//! ```
//!
//! The kernel does so for what the thread's block (TEB) names as its stack, which the switch sets for each
//! coroutine. Nothing in the handler allocates or takes a lock. The state shared between threads is the
//! registry's.

use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Once;

use windows_sys::Win32::Foundation::EXCEPTION_STACK_OVERFLOW;
use windows_sys::Win32::Storage::FileSystem::WriteFile;
use windows_sys::Win32::System::Console::{GetStdHandle, STD_ERROR_HANDLE};
use windows_sys::Win32::System::Diagnostics::Debug::{
    AddVectoredExceptionHandler, EXCEPTION_CONTINUE_SEARCH, EXCEPTION_POINTERS,
};

use super::Line;
use crate::{registry, stack};

/// Installs the report for the whole process, once; [`StackPool`](crate::StackPool) does it.
///
/// Faults outside of our stacks go to the handlers that were installed before, so that std's own
/// message for ordinary threads stays.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a function of the right signature, which is there as long as the process.
        unsafe { AddVectoredExceptionHandler(1, Some(on_exception)) };
    });
}

unsafe extern "system" fn on_exception(info: *mut EXCEPTION_POINTERS) -> i32 {
    // SAFETY: the system passes valid pointers.
    let code = unsafe { (*(*info).ExceptionRecord).ExceptionCode };
    if code == EXCEPTION_STACK_OVERFLOW {
        // This runs on the stack that has overflowed.
        let here = (&raw const code).addr();
        if let Some(slab) = registry::find(here) {
            // SAFETY: registered slabs are mapped, and the slot is in use: by us. The label is valid while
            // the code runs, and that is what it was doing.
            unsafe {
                let (name, len, usable) = stack::label_at(slab, here);
                write(Line::overflow(name, len, usable).text());
            }
            std::process::abort();
        }
    }
    EXCEPTION_CONTINUE_SEARCH
}

fn write(text: &[u8]) {
    let mut written = 0;
    // SAFETY: the text and the count are valid for the call. It is short, so it is not written in parts.
    unsafe {
        let to = GetStdHandle(STD_ERROR_HANDLE);
        WriteFile(to, text.as_ptr(), text.len() as u32, &raw mut written, ptr::null_mut());
    }
}

/// What a thread needs for the report on other systems. Here each stack has it already, and this is empty.
#[derive(Debug)]
pub struct AltStack {
    _not_send: PhantomData<*mut ()>,
}

impl AltStack {
    /// Nothing is needed.
    pub fn ensure() -> io::Result<AltStack> {
        AltStack::at_least(0)
    }

    /// Nothing is needed: whatever the number of bytes, a fault never uses the thread's own stack.
    pub fn at_least(_bytes: usize) -> io::Result<AltStack> {
        Ok(AltStack { _not_send: PhantomData })
    }
}
