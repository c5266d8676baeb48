//! Consoles, and handles that are closed.
//!
//! A console is shared by all that run on it. So the program under test gets one of its own, types on it itself, and
//! reads its screen; it reports by the pipe that it was started with.

use std::ffi::c_void;
use std::fs::File;
use std::io::{Read, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, IntoRawHandle};
use std::os::windows::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::time::Duration;

use bast::io::{IsTerminal, stdin, stdout};
use bast::{Runtime, print, println};

use crate::cases::Case;
use crate::child::{Child, ROLE};
use crate::roles::{fiber, lines};

pub(crate) const CASES: &[Case] = &[
    ("waiting_for_input_holds_up_nobody", waiting_for_input_holds_up_nobody),
    ("streams_that_were_closed", streams_that_were_closed),
    ("a_console", || on_a_console("console")),
    ("who_waits_at_a_console_can_be_cancelled", || on_a_console("cancelled_at_console")),
    ("ctrl_c_while_a_line_is_waited_for", || on_a_console("interrupted_at_console")),
];

const CREATE_NO_WINDOW: u32 = 0x800_0000;

fn waiting_for_input_holds_up_nobody() {
    let mut child = Child::start("ticks", Stdio::piped());
    assert_eq!(child.line(), "100 ticks");
    child.kill();
}

fn streams_that_were_closed() {
    for role in ["closed_handles", "no_handles"] {
        Child::start(role, Stdio::piped()).end();
    }
}

fn on_a_console(role: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ROLE, role).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = Child::spawn(command.creation_flags(CREATE_NO_WINDOW));
    assert_eq!(child.line(), "well");
    child.end();
}

// ---- what the programs under test do ----

pub(crate) fn play(role: &str) {
    match role {
        "closed_handles" => {
            for which in STREAMS {
                let was = GetStdHandle(which);
                // SAFETY: nobody uses it but by name, which is what is tested.
                assert_ne!(unsafe { CloseHandle(was) }, 0);
            }
            nothing_is_there();
        }
        "no_handles" => {
            STREAMS.iter().for_each(|which| set(*which, null_mut()));
            nothing_is_there();
        }
        "console" => console(conversation),
        "cancelled_at_console" => console(cancelled),
        "interrupted_at_console" => console(interrupted),
        role => panic!("no such role: {role}"),
    }
}

fn nothing_is_there() {
    fiber(lines);
    fiber(|| {
        bast::eprintln!("to nobody");
        stdout().flush().unwrap();
        assert_eq!(stdin().read(&mut [0; 8]).unwrap(), 0);
        assert!(!stdin().is_terminal());
    });
    std::process::exit(0);
}

/// Makes the console the three streams, and says how `f` went to whom this program's output goes.
fn console(f: fn(&File, &File)) {
    let mut report = File::from(std::io::stdout().as_handle().try_clone_to_owned().unwrap());
    let open = |name| File::options().read(true).write(true).open(name).unwrap();
    let (keys, screen) = (open("CONIN$"), open("CONOUT$"));
    set(STREAMS[0], open("CONIN$").into_raw_handle());
    set(STREAMS[1], open("CONOUT$").into_raw_handle());
    f(&keys, &screen);
    writeln!(report, "well").unwrap();
}

fn conversation(keys: &File, screen: &File) {
    std::thread::scope(|s| {
        let talker = s.spawn(|| {
            fiber(|| {
                assert!(stdin().is_terminal() && stdout().is_terminal());
                print!("wie heißt du? ");
                stdout().flush().unwrap();
                let mut line = String::new();
                stdin().read_line(&mut line).unwrap();
                println!("grüß dich, {}!", line.trim_end());
                // One that does not fit into what is asked for at once.
                line.clear();
                stdin().read_line(&mut line).unwrap();
                assert_eq!(line, "x".repeat(LONG) + "\r\n");
                assert_eq!(stdin().read_line(&mut line).unwrap(), 0, "Ctrl-Z");
                println!("the end");
            });
        });
        seen(screen, "wie heißt du?");
        type_in(keys, "Jörg\r");
        seen(screen, "grüß dich, Jörg!");
        type_in(keys, &"x".repeat(LONG));
        type_in(keys, "\r");
        type_in(keys, "\u{1a}\r");
        seen(screen, "the end");
        talker.join().unwrap();
    });
}

const LONG: usize = 3000;

/// Who waits for a line holds up nobody, and can be cancelled; the line is the next reader's.
fn cancelled(keys: &File, _: &File) {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        for _ in 0..3 {
            let reader = bast::spawn(|| stdin().read_line(&mut String::new()));
            for _ in 0..50 {
                bast::sleep(Duration::from_micros(100));
            }
            reader.cancel();
            assert!(reader.join().unwrap_err().is::<bast::Cancelled>());
            let late = bast::timeout(Duration::from_millis(20), || stdin().lines().next());
            assert!(late.is_err());
        }
    });
    type_in(keys, "at last\r");
    runtime.run(|| {
        let mut line = String::new();
        stdin().read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), "at last");
    });
}

/// Ctrl-C is heard, and the line is still waited for.
fn interrupted(keys: &File, _: &File) {
    let ctrl_c = bast::signal::CtrlC::new().unwrap();
    let reader = bast::spawn(|| {
        let mut line = String::new();
        stdin().read_line(&mut line).map(|_| line)
    });
    std::thread::sleep(Duration::from_millis(30));
    assert_ne!(GenerateConsoleCtrlEvent(0, 0), 0);
    ctrl_c.wait().unwrap();
    assert!(!reader.is_finished());
    type_in(keys, "on\r");
    assert_eq!(reader.join().unwrap().unwrap(), "on\r\n");
}

/// Waits until the screen shows this.
fn seen(screen: &File, what: &str) {
    let mut cells = vec![0_u16; 20_000];
    for _ in 0..30_000 {
        let (console, n) = (screen.as_raw_handle(), cells.len() as u32);
        let mut read = 0;
        // SAFETY: room for as many, and for their number.
        let done = unsafe {
            ReadConsoleOutputCharacterW(console, cells.as_mut_ptr(), n, 0, &raw mut read)
        };
        assert_ne!(done, 0, "{}", std::io::Error::last_os_error());
        if String::from_utf16_lossy(&cells[..read as usize]).contains(what) {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("not seen: {what}");
}

/// Presses and releases a key for each character.
fn type_in(keys: &File, text: &str) {
    let key = |character| {
        // Enter is known by its key, as are all that mean more than a letter.
        let codes = [if character == 13 { 13 } else { 0 }, 0];
        [1, 0].map(|down| Key { kind: 1, _pad: 0, down, times: 1, codes, character, state: 0 })
    };
    let records: Vec<Key> = text.encode_utf16().flat_map(key).collect();
    for some in records.chunks(100) {
        let mut written = 0;
        // SAFETY: as many records, in Windows' layout, and room for the number.
        let done = unsafe {
            WriteConsoleInputW(
                keys.as_raw_handle(),
                some.as_ptr(),
                some.len() as u32,
                &raw mut written,
            )
        };
        assert!(done != 0 && written as usize == some.len(), "{}", std::io::Error::last_os_error());
    }
}

/// `INPUT_RECORD` with a `KEY_EVENT_RECORD`.
#[repr(C)]
struct Key {
    kind: u16,
    _pad: u16,
    down: i32,
    times: u16,
    codes: [u16; 2],
    character: u16,
    state: u32,
}

/// `STD_INPUT_HANDLE` and its like.
const STREAMS: [u32; 3] = [-10_i32 as u32, -11_i32 as u32, -12_i32 as u32];

fn set(which: u32, handle: *mut c_void) {
    // SAFETY: a handle that is open for good, or none.
    assert_ne!(unsafe { SetStdHandle(which, handle) }, 0);
}

#[link(name = "kernel32")]
unsafe extern "system" {
    safe fn GetStdHandle(which: u32) -> *mut c_void;
    fn SetStdHandle(which: u32, handle: *mut c_void) -> i32;
    fn CloseHandle(handle: *mut c_void) -> i32;
    safe fn GenerateConsoleCtrlEvent(event: u32, group: u32) -> i32;
    fn WriteConsoleInputW(
        console: *mut c_void,
        records: *const Key,
        n: u32,
        written: *mut u32,
    ) -> i32;
    fn ReadConsoleOutputCharacterW(
        console: *mut c_void,
        to: *mut u16,
        n: u32,
        at: u32,
        read: *mut u32,
    ) -> i32;
}
