//! What the programs need of Windows beyond bast and std. `unix.rs` has the same functions.

use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use bast::fs::{File, Metadata};
use bast::net::TcpStream;
use bast::os::windows::process::CommandExt;
use bast::process::Command;
use bast::signal::CtrlC;
use same_file::Handle;
use socket2::SockRef;

/// WSAEMFILE, WSAENOBUFS, ERROR_TOO_MANY_OPEN_FILES, ERROR_NOT_ENOUGH_MEMORY.
pub const SHORTAGES: [i32; 4] = [10024, 10055, 4, 8];

/// What runs a line of a shell.
pub const SHELL: [&str; 2] = ["cmd", "/C"];

/// There is no such limit.
pub fn raise_open_files() {}

/// How many files may be open at once: as many as there is memory for.
#[must_use]
pub fn open_files() -> u64 {
    u64::MAX
}

/// Zero: Windows does not tell for how long nothing has been received or sent.
pub fn silence(_stream: &TcpStream) -> Duration {
    Duration::ZERO
}

/// Looks at what a connection has received, without taking it and without waiting.
///
/// # Errors
/// `WouldBlock` if that is nothing.
pub fn peek(stream: &TcpStream) -> io::Result<usize> {
    // bast's sockets are in non-blocking mode there.
    SockRef::from(stream).peek(&mut [MaybeUninit::uninit()])
}

/// Whether what lies at `path` is this open file. (The metadata that std gives does not tell.)
///
/// # Errors
/// One of them cannot be asked.
pub fn is_same(path: &Path, _there: &Metadata, open: &File) -> io::Result<bool> {
    let open = open.try_clone()?;
    bast::blocking(|| match Handle::from_path(path) {
        Ok(there) => Ok(there == Handle::from_file(open.into())?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    })
}

/// The child leads a group of its own, so that Ctrl-C does not reach it.
pub fn lead_a_group(command: &mut Command) {
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// There are no signals that end a child.
#[must_use]
pub fn signal_of(_status: ExitStatus) -> Option<i32> {
    None
}

/// Waits for what has been listened for.
///
/// # Errors
/// The system has no memory.
pub fn wait_for(ctrl_c: &CtrlC) -> io::Result<()> {
    ctrl_c.wait()
}

/// Listens for what asks a program to end: Ctrl-C.
///
/// # Errors
/// Too many listeners.
pub fn requests_to_end() -> io::Result<Vec<CtrlC>> {
    Ok(vec![CtrlC::new()?])
}

/// There is nothing that asks a program for its figures.
///
/// # Errors
/// None.
pub fn requests_for_figures() -> io::Result<Option<CtrlC>> {
    Ok(None)
}
