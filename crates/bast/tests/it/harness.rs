//! Twin tests: one body is run with std's threads and sockets and again with bast's, so that what std
//! does is not a matter of opinion.
//!
//! ```text
//!   twins! { fn name() { … spawn(…), TcpStream::connect(…) … } }
//!      ├─▶ mod on_std  { use harness::on_std::*;  #[test] fn name() }   a thread runs the body
//!      └─▶ mod on_bast { use harness::on_bast::*; #[test] fn name() }   a fiber of the default runtime does
//! ```
//!
//! The default runtime takes its driver from `BAST_DRIVER`; on the simulator, what needs the kernel
//! says so by [`needs_kernel`].

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bast::net::{TcpListener, TcpStream};

/// A pipe that is neither std's nor bast's.
#[cfg(unix)]
pub(crate) use std::os::fd::OwnedFd as OwnedPipe;
#[cfg(windows)]
pub(crate) use std::os::windows::io::OwnedHandle as OwnedPipe;

/// A socket's second descriptor.
#[cfg(unix)]
pub(crate) fn duplicate(socket: &impl std::os::fd::AsFd) -> std::os::fd::OwnedFd {
    socket.as_fd().try_clone_to_owned().unwrap()
}
#[cfg(windows)]
pub(crate) fn duplicate(socket: &impl std::os::windows::io::AsSocket) -> bast_io::handle::Owned {
    socket.as_socket().try_clone_to_owned().unwrap().into()
}

/// Nothing here takes a tenth of this, not even where threads stop for a second at a time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// What a socket says whose timeout is over: std leaves that to the system, and bast says the same.
pub(crate) const OVERDUE: io::ErrorKind =
    if cfg!(windows) { io::ErrorKind::TimedOut } else { io::ErrorKind::WouldBlock };

/// Two ends of a connection of bast's.
pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let client = bast::spawn(move || TcpStream::connect(addr).unwrap());
    let (server, _) = listener.accept().unwrap();
    (client.join().unwrap(), server)
}

/// Milliseconds.
pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Waits, in a fiber or on a thread, until something holds that must come to hold.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE / 3;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        bast::sleep(Duration::from_micros(200));
    }
}

/// What `attempt` fails with, as soon as it does. Closing something shows at once, but not while a child that another
/// test is just starting has a copy of it: from its `fork` to its `exec`, however long the machine takes for that.
pub(crate) fn error_of<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Error {
    let mut error = None;
    until("it fails", || {
        error = attempt().err();
        error.is_some()
    });
    error.unwrap()
}

/// Whether bast runs on the simulator.
pub(crate) fn simulated() -> bool {
    std::env::var("BAST_DRIVER").is_ok_and(|driver| driver == "sim")
}

/// How often a test of what is rare tries: a fifth under Wine, which asks its one server at every call on a socket, and at
/// most each millisecond wakes who sleeps.
pub(crate) const fn rounds(normal: u32) -> u32 {
    if cfg!(windows) { normal / 5 } else { normal }
}

/// Says that this test cannot run on the simulator, which knows the network and files of its own only.
macro_rules! needs_kernel {
    () => {
        if crate::harness::simulated() {
            return;
        }
    };
}
pub(crate) use needs_kernel;

/// Says in a twin that std does it differently on Windows, where bast does what it does everywhere.
macro_rules! std_differs_on_windows {
    ($why:literal) => {
        if STD && cfg!(windows) {
            return;
        }
    };
}
pub(crate) use std_differs_on_windows;

macro_rules! twins {
    ($($(#[$attribute:meta])* fn $name:ident() $body:block)*) => {
        mod on_std {
            #[allow(unused_imports)]
            use {super::*, crate::harness::on_std::*};
            $($(#[$attribute])* #[test] fn $name() { run(|| $body) })*
        }
        mod on_bast {
            #[allow(unused_imports)]
            use {super::*, crate::harness::on_bast::*};
            $($(#[$attribute])* #[test] fn $name() { run(|| $body) })*
        }
    };
}
pub(crate) use twins;

type Outcome = Result<(), Box<dyn Any + Send>>;

/// Runs a body in what `start` starts, and fails if it hangs.
fn watched(body: impl FnOnce() + Send + 'static, start: impl FnOnce(Box<dyn FnOnce() + Send>)) {
    let (send, receive) = mpsc::channel::<Outcome>();
    start(Box::new(move || {
        // The receiver is there, or the test has failed already.
        let _ = send.send(catch_unwind(AssertUnwindSafe(body)));
    }));
    match receive.recv_timeout(PATIENCE) {
        Ok(Ok(())) => {}
        Ok(Err(payload)) => {
            // Said again on the test's own thread: libtest keeps what workers say for the test that started them.
            eprintln!("{}", message(&*payload));
            resume_unwind(payload)
        }
        Err(_) => panic!("the test hangs"),
    }
}

/// A panic's message.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    match payload.downcast_ref::<&str>() {
        Some(text) => text,
        None => payload.downcast_ref::<String>().map_or("not a text", |text| text),
    }
}

/// std's names.
#[allow(unused_imports)]
pub(crate) mod on_std {
    pub(crate) const STD: bool = true;
    pub(crate) use std::io::pipe;
    pub(crate) use std::net::{
        Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
    };
    #[cfg(unix)]
    pub(crate) use std::os::unix::{
        fs as os_fs,
        net::{UnixDatagram, UnixListener, UnixStream},
        process::CommandExt,
    };
    pub(crate) use std::process::{Child, Command, Stdio};
    pub(crate) use std::sync::mpsc;
    pub(crate) use std::sync::{
        Barrier, Condvar, LazyLock, Mutex, MutexGuard, Once, OnceLock, RwLock, RwLockReadGuard,
        RwLockWriteGuard,
    };
    pub(crate) use std::thread::{
        Builder, JoinHandle, ThreadId as Id, available_parallelism, current, park, park_timeout,
        scope, sleep, spawn, yield_now,
    };
    pub(crate) use std::thread_local as local;
    pub(crate) use std::time::Instant;
    pub(crate) use std::{fs, io};

    pub(crate) fn run(body: impl FnOnce() + Send + 'static) {
        super::watched(body, |body| drop(spawn(body)));
    }

    /// A call on a socket with a timeout. std says that a signal or a debugger has interrupted it.
    pub(crate) fn undisturbed<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match call() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    pub(crate) fn unpark<T>(handle: &JoinHandle<T>) {
        handle.thread().unpark();
    }

    pub(crate) fn id_of<T>(handle: &JoinHandle<T>) -> Id {
        handle.thread().id()
    }

    pub(crate) fn name_of<T>(handle: &JoinHandle<T>) -> Option<String> {
        handle.thread().name().map(str::to_owned)
    }
}

/// bast's names.
#[allow(unused_imports)]
pub(crate) mod on_bast {
    pub(crate) const STD: bool = false;
    pub(crate) use bast::fiber_local as local;
    pub(crate) use bast::io::pipe;
    pub(crate) use bast::net::{
        Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
    };
    #[cfg(unix)]
    pub(crate) use bast::os::unix::{
        fs as os_fs,
        net::{UnixDatagram, UnixListener, UnixStream},
        process::CommandExt,
    };
    pub(crate) use bast::process::{Child, Command, Stdio};
    pub(crate) use bast::sync::mpsc;
    pub(crate) use bast::sync::{
        Barrier, Condvar, LazyLock, Mutex, MutexGuard, Once, OnceLock, RwLock, RwLockReadGuard,
        RwLockWriteGuard,
    };
    pub(crate) use bast::time::Instant;
    pub(crate) use bast::{
        Builder, FiberId as Id, JoinHandle, available_parallelism, current, park, park_timeout,
        scope, sleep, spawn, yield_now,
    };
    pub(crate) use bast::{fs, io};

    pub(crate) fn run(body: impl FnOnce() + Send + 'static) {
        super::watched(body, |body| drop(spawn(body)));
    }

    /// As std's; but bast's goes on by itself.
    pub(crate) fn undisturbed<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        call()
    }

    pub(crate) fn unpark<T>(handle: &JoinHandle<T>) {
        handle.fiber().unpark();
    }

    pub(crate) fn id_of<T>(handle: &JoinHandle<T>) -> Id {
        handle.fiber().id()
    }

    pub(crate) fn name_of<T>(handle: &JoinHandle<T>) -> Option<String> {
        handle.fiber().name().map(str::to_owned)
    }
}

/// What programs for this machine are run by, if the machine is only emulated (`cargo xtask cross`).
pub(crate) fn runner() -> Option<std::ffi::OsString> {
    std::env::var_os("BAST_TEST_RUNNER")
}
