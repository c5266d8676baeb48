//! What one echoed message costs on Linux' drivers: see `linux`.

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod linux;

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("echo_raw compares epoll with io_uring, which are Linux'");
}
