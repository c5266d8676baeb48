//! The macros that print.

use std::fmt::Arguments;
use std::io::Write;

use super::{stderr, stdout};

#[doc(hidden)]
pub fn _print(args: Arguments<'_>, end: &str) {
    let mut out = stdout().lock();
    if let Err(error) = out.write_fmt(args).and_then(|()| out.write_all(end.as_bytes())) {
        panic!("failed printing to stdout: {error}");
    }
}

#[doc(hidden)]
pub fn _eprint(args: Arguments<'_>, end: &str) {
    if let Err(error) = stderr().write_fmt(format_args!("{args}{end}")) {
        panic!("failed printing to stderr: {error}");
    }
}

/// Same as [`std::print!`].
///
/// # Differences from std
/// Those of [`io::Stdout`](crate::io::Stdout).
///
/// # Panics
/// As std's: if it cannot be written. The fiber ends by it.
///
/// # Cancellation
/// A suspension point.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::io::_print(::std::format_args!($($arg)*), "") };
}

/// Same as [`std::println!`].
///
/// ```
/// let fibers: Vec<_> = (0..3).map(|n| bast::spawn(move || bast::println!("fiber {n}"))).collect();
/// fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
/// ```
///
/// # Differences from std
/// Those of [`io::Stdout`](crate::io::Stdout).
///
/// # Panics
/// As [`print!`](crate::print!).
///
/// # Cancellation
/// A suspension point.
#[macro_export]
macro_rules! println {
    () => { $crate::io::_print(::std::format_args!(""), "\n") };
    ($($arg:tt)*) => { $crate::io::_print(::std::format_args!($($arg)*), "\n") };
}

/// Same as [`std::eprint!`].
///
/// # Differences from std
/// Those of [`io::Stderr`](crate::io::Stderr). Not for a panic hook, which must not wait: there use std's.
///
/// # Panics
/// As std's: if it cannot be written. The fiber ends by it.
///
/// # Cancellation
/// A suspension point.
#[macro_export]
macro_rules! eprint {
    ($($arg:tt)*) => { $crate::io::_eprint(::std::format_args!($($arg)*), "") };
}

/// Same as [`std::eprintln!`].
///
/// # Differences from std
/// Those of [`io::Stderr`](crate::io::Stderr). Not for a panic hook, which must not wait: there use std's.
///
/// # Panics
/// As [`eprint!`](crate::eprint!).
///
/// # Cancellation
/// A suspension point.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::io::_eprint(::std::format_args!(""), "\n") };
    ($($arg:tt)*) => { $crate::io::_eprint(::std::format_args!($($arg)*), "\n") };
}
