//! Options of sockets, by the type of their value.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use bast_io::opt::{ERROR, LINGER, Linger, Time, Value};
use bast_io::{Handle, Op, SockOpt};

use super::at_once;

fn set<T: Value>(handle: &Handle, opt: SockOpt, value: T) -> io::Result<()> {
    let len = size_of::<T>() as u32;
    let value = (&raw const value).cast();
    // SAFETY: rt 5: the value outlives the operation and is as long as it says (`Value`).
    unsafe { at_once(Op::SetOpt { handle: handle.as_ref(), opt, value, len }) }.map(drop)
}

fn get<T: Value>(handle: &Handle, opt: SockOpt) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as u32;
    let op = Op::GetOpt {
        handle: handle.as_ref(),
        opt,
        value: value.as_mut_ptr().cast(),
        len: &raw mut len,
    };
    // SAFETY: rt 5: both outlive the operation; the value is as long as it says.
    unsafe { at_once(op) }?;
    // SAFETY: zeroes, or what the kernel wrote over them (`Value`).
    Ok(unsafe { value.assume_init() })
}

/// Sets an option that is a number.
///
/// # Errors
/// The kernel's.
pub fn set_option(handle: &Handle, opt: SockOpt, value: i32) -> io::Result<()> {
    set(handle, opt, value)
}

/// An option that is a number.
///
/// # Errors
/// The kernel's.
pub fn option(handle: &Handle, opt: SockOpt) -> io::Result<i32> {
    get(handle, opt)
}

/// Sets an option that is on or off.
///
/// # Errors
/// The kernel's.
pub fn set_flag(handle: &Handle, opt: SockOpt, on: bool) -> io::Result<()> {
    set(handle, opt, i32::from(on))
}

/// An option that is on or off.
///
/// # Errors
/// The kernel's.
pub fn flag(handle: &Handle, opt: SockOpt) -> io::Result<bool> {
    get::<i32>(handle, opt).map(|value| value != 0)
}

/// Whether an error says that this kernel does not have the option.
#[must_use]
pub fn is_unknown_option(error: &io::Error) -> bool {
    error.raw_os_error() == Some(bast_io::opt::UNKNOWN)
}

/// Sets an option that is a time, in microseconds; `None` is zero, which is "never" to the kernel. A
/// time that is shorter than a microsecond becomes one.
///
/// # Errors
/// The kernel's.
pub fn set_time(handle: &Handle, opt: SockOpt, value: Option<Duration>) -> io::Result<()> {
    set(handle, opt, Time::new(value))
}

/// An option that is a time; `None` is zero.
///
/// # Errors
/// The kernel's.
pub fn time(handle: &Handle, opt: SockOpt) -> io::Result<Option<Duration>> {
    get::<Time>(handle, opt).map(Time::get)
}

/// Sets how long a close waits for what has not been sent; `None` does not wait, zero resets the
/// connection. Whole seconds: the rest is cut off.
///
/// # Errors
/// The kernel's.
pub fn set_linger(handle: &Handle, value: Option<Duration>) -> io::Result<()> {
    set(handle, LINGER, Linger::new(value))
}

/// What [`set_linger`] sets.
///
/// # Errors
/// The kernel's.
pub fn linger(handle: &Handle) -> io::Result<Option<Duration>> {
    get::<Linger>(handle, LINGER).map(Linger::get)
}

/// The error that is pending on a socket. It is then no longer pending.
///
/// # Errors
/// The kernel's, of asking.
pub fn take_error(handle: &Handle) -> io::Result<Option<io::Error>> {
    let errno = get::<i32>(handle, ERROR)?;
    Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
}
