//! The thesis' `withOverlapped`: any overlapped call, started by the caller and waited for by the fiber.

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsHandle, AsSocket};

use bast_io::{HandleRef, Op};
use bast_rt::ops;

/// What Windows calls `OVERLAPPED`, and every binding to it lays out like this: cast the pointer.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Debug)]
pub struct OVERLAPPED {
    /// Windows' own.
    pub internal: usize,
    /// Windows' own.
    pub internal_high: usize,
    /// Where in a file, the lower half.
    pub offset: u32,
    /// The upper half.
    pub offset_high: u32,
    /// bast's own: to be left alone.
    pub event: *mut c_void,
}

/// The call has been started and has not ended.
const ERROR_IO_PENDING: i32 = 997;

/// Performs an overlapped call that `start` starts on `handle`, and waits until it has ended. Returns the number of
/// bytes that it has moved.
///
/// The [`OVERLAPPED`] belongs to the kernel until this returns or unwinds, which is after the call's packet has
/// arrived, whatever is cancelled. So it may be given buffers that are borrowed, on this very stack.
///
/// `start` says how the call went: `Ok` if it has succeeded at once, else the error, which most often is
/// `ERROR_IO_PENDING`. It may set the offset, and must leave `event` as it is. It must tell the truth: if a call is
/// under way and it says otherwise, the kernel writes to memory that is another's by then; if none is and it says
/// that one is pending, this waits for ever. In `start` nothing of bast suspends: it is like a plain thread.
///
/// The handle must have been opened with `FILE_FLAG_OVERLAPPED`. It may belong to another library, and to its
/// completion port, where no packet arrives from this.
///
/// ```
/// use bast::fs::OpenOptions;
/// use bast::os::windows::{OVERLAPPED, fs::OpenOptionsExt, with_overlapped};
/// use std::os::windows::io::AsRawHandle;
/// use std::{ffi::c_void, io};
///
/// #[link(name = "kernel32")]
/// unsafe extern "system" {
///     fn ReadFile(file: *mut c_void, to: *mut u8, room: u32, n: *mut u32, o: *mut OVERLAPPED) -> i32;
/// }
///
/// # fn main() -> io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("bast-overlapped-{}", std::process::id()));
/// # std::fs::write(&path, "some bytes")?;
/// let file = OpenOptions::new().read(true).custom_flags(0x4000_0000).open(&path)?;
/// let mut buf = [0; 16];
/// let n = with_overlapped(&file, |overlapped| {
///     // SAFETY: the buffer and the OVERLAPPED outlive the call, as `with_overlapped` waits for its end.
///     let done = unsafe {
///         (*overlapped).offset = 5;
///         ReadFile(file.as_raw_handle(), buf.as_mut_ptr(), 16, std::ptr::null_mut(), overlapped)
///     };
///     if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
/// })?;
/// assert_eq!(&buf[..n], b"bytes");
/// # drop(file);
/// # std::fs::remove_file(&path)?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The call's, when it is started or at its end; `start`'s own. On the simulator: that there is no such handle.
///
/// # Panics
/// A panic in `start` aborts the process.
///
/// # Cancellation
/// A suspension point: the call is cancelled (`CancelIoEx`), and when its packet has arrived this unwinds. A call that
/// was faster gives its result. From a plain thread it waits until the call has ended.
pub fn with_overlapped<H, F>(handle: H, start: F) -> io::Result<usize>
where
    H: AsHandle,
    F: FnOnce(*mut OVERLAPPED) -> io::Result<()>,
{
    perform(HandleRef::object(handle.as_handle()), start)
}

/// [`with_overlapped`] for a socket.
///
/// # Errors
/// As [`with_overlapped`].
///
/// # Panics
/// As [`with_overlapped`].
///
/// # Cancellation
/// As [`with_overlapped`].
pub fn with_overlapped_socket<S, F>(socket: S, start: F) -> io::Result<usize>
where
    S: AsSocket,
    F: FnOnce(*mut OVERLAPPED) -> io::Result<()>,
{
    perform(HandleRef::foreign(socket.as_socket()), start)
}

/// What is given to [`run`].
type Start<'a> = &'a mut dyn FnMut(*mut OVERLAPPED) -> i32;

/// A panic cannot leave it: it may have come after the call was started, which nobody would wait for.
unsafe extern "C" fn run(start: *mut (), overlapped: *mut c_void) -> i32 {
    // SAFETY: `perform` below has put it there, and waits.
    let start = unsafe { &mut *start.cast::<Start<'_>>() };
    bast_rt::aside(|| start(overlapped.cast()))
}

fn perform<F>(handle: HandleRef, start: F) -> io::Result<usize>
where
    F: FnOnce(*mut OVERLAPPED) -> io::Result<()>,
{
    let (mut start, mut own) = (Some(start), None);
    let mut once = |overlapped: *mut OVERLAPPED| {
        let Some(start) = start.take() else { return ERROR_IO_PENDING };
        match start(overlapped) {
            Ok(()) => 0,
            Err(error) => match error.raw_os_error() {
                Some(code) if code > 0 => code,
                _ => {
                    // It comes back as it is.
                    own = Some(error);
                    1
                }
            },
        }
    };
    let mut once: Start<'_> = &mut once;
    let op = Op::Overlapped { handle, start: run, data: (&raw mut once).cast() };
    // SAFETY: rt 5: `once` is there until the operation is over. Whoever gives the pointer to the kernel has promised
    // that the call is the one it is waited for.
    let result = unsafe { ops::at_once(op) };
    match own {
        Some(error) => Err(error),
        None => result,
    }
}
