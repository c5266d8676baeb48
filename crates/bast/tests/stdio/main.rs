//! The standard streams; what is done is in `unix`, which needs pseudo terminals and `O_NONBLOCK`. (On Windows the streams
//! are used by the children of `it`'s `windows_children`.)

#[cfg(unix)]
#[path = "unix.rs"]
mod cases;

fn main() {
    #[cfg(unix)]
    cases::main();
}
