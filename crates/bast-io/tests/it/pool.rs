//! `Op::Call`: on the pool's threads, or inline in the simulator; the driver serves others meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use bast_io::{Driver, DriverKind, Op, c};

use crate::harness::Rig;

on_every_driver!(results, many);

unsafe fn give(data: *mut ()) -> i32 {
    data as usize as i32
}

/// Adds one to the counter it is given.
unsafe fn count(data: *mut ()) -> i32 {
    // SAFETY: the test passes a counter that outlives the call.
    unsafe { &*data.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed) as i32
}

fn results(rig: &mut Rig) {
    for value in [0_i32, 7, -c::ENOENT] {
        let data = std::ptr::without_provenance_mut(value as usize);
        assert_eq!(
            rig.run(Op::Call { call: give, data, interruptible: false, limited: false }).0,
            value
        );
    }
}

fn many(rig: &mut Rig) {
    let counter = AtomicUsize::new(0);
    let data = (&raw const counter).cast_mut().cast();
    let calls: Vec<_> = (0..500)
        .map(|_| rig.start(Op::Call { call: count, data, interruptible: false, limited: false }))
        .collect();
    let mut seen: Vec<i32> = calls.into_iter().map(|ticket| rig.wait(ticket).0).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..500).collect::<Vec<i32>>());
}

/// With threads of its own.
mod threads {
    #[cfg(windows)]
    use std::ptr::null_mut;

    #[cfg(windows)]
    use windows_sys::Win32::{Foundation::CloseHandle, System::Pipes::CreatePipe};

    use super::*;

    on_real_drivers!(
        queued_calls_are_cancelled,
        running_calls_are_not,
        interruptible_calls_are_interrupted,
        later_calls_are_not
    );

    /// Reads what has been written to a pipe, or for ever if it is to take a second or more.
    #[cfg(windows)]
    unsafe fn nap(data: *mut ()) -> i32 {
        use windows_sys::Win32::Storage::FileSystem::{ReadFile, WriteFile};
        let (mut reader, mut writer, mut n) = (null_mut(), null_mut(), 0);
        let (mut byte, none) = (0_u8, null_mut());
        // SAFETY: room for two handles, which are ours, and for one byte.
        unsafe {
            assert_ne!(CreatePipe(&raw mut reader, &raw mut writer, null_mut(), 0), 0);
            let written = if data.addr() < 1_000_000 {
                WriteFile(writer, &raw const byte, 1, &raw mut n, none)
            } else {
                1
            };
            let read = written != 0 && ReadFile(reader, &raw mut byte, 1, &raw mut n, none) != 0;
            let error = std::io::Error::last_os_error();
            CloseHandle(reader);
            CloseHandle(writer);
            if read { 0 } else { -error.raw_os_error().expect("a code") }
        }
    }

    /// Sleeps for so many microseconds; what the system call says.
    #[cfg(unix)]
    unsafe fn nap(data: *mut ()) -> i32 {
        let micros = data.addr();
        let span = c::timespec {
            tv_sec: (micros / 1_000_000) as c::time_t,
            tv_nsec: (micros % 1_000_000 * 1_000) as _,
        };
        // SAFETY: a time of ours, and nothing wanted back.
        let failed = unsafe { c::nanosleep(&raw const span, std::ptr::null_mut()) } != 0;
        if failed { -std::io::Error::last_os_error().raw_os_error().expect("errno") } else { 0 }
    }

    fn sleeping(micros: usize, interruptible: bool) -> Op {
        Op::Call {
            call: nap,
            data: std::ptr::without_provenance_mut(micros),
            interruptible,
            limited: false,
        }
    }

    fn interruptible_calls_are_interrupted(rig: &mut Rig) {
        for pause in [0, 0, 1, 3] {
            let call = rig.start(sleeping(1_000_000_000, true));
            rig.linger(pause);
            let asked = rig.now();
            // Perhaps it has not begun: so again and again.
            while rig.peek(call).is_none() {
                rig.cancel(call);
                rig.linger(1);
                assert!(rig.now() - asked < 20_000_000_000, "it cannot be interrupted");
            }
            let outcome = rig.wait(call);
            assert!(outcome.is_errno(c::EINTR) || outcome.is_errno(c::ECANCELED));
        }
    }

    /// On one thread an interruptible call that is interrupted just as it ends, and one that is not.
    fn later_calls_are_not(rig: &mut Rig) {
        let mut own = narrow(rig.kind);
        let mut interrupted = 0;
        for round in 0..2_000 {
            let first = own.start(sleeping(20, true));
            let second = own.start(sleeping(100, round % 2 == 0));
            while own.peek(first).is_none() {
                own.cancel(first);
                own.poll(bast_io::Wait::AtMost(Duration::from_micros(round % 100)));
            }
            let outcome = own.wait(first);
            interrupted +=
                u32::from(outcome.is_errno(c::EINTR) || outcome == bast_io::Outcome::CANCELLED);
            assert_eq!(own.wait(second).0, 0, "round {round}: a signal for another call");
        }
        assert!(interrupted > 0);
    }

    #[derive(Default)]
    struct Gate {
        open: Mutex<bool>,
        changed: Condvar,
        entered: AtomicUsize,
    }

    impl Gate {
        fn data(&self) -> *mut () {
            std::ptr::from_ref(self).cast_mut().cast()
        }

        fn open(&self) {
            *self.open.lock().expect("the gate") = true;
            self.changed.notify_all();
        }
    }

    unsafe fn pass(data: *mut ()) -> i32 {
        // SAFETY: the test passes a gate that outlives the call.
        let gate = unsafe { &*data.cast::<Gate>() };
        gate.entered.fetch_add(1, Ordering::Relaxed);
        let open = gate.open.lock().expect("the gate");
        drop(gate.changed.wait_while(open, |open| !*open).expect("the gate"));
        1
    }

    fn queued_calls_are_cancelled(rig: &mut Rig) {
        // A pool of one thread, so that the second call has to queue.
        let mut own = narrow(rig.kind);
        let gate = Gate::default();
        let first = own.start(Op::Call {
            call: pass,
            data: gate.data(),
            interruptible: false,
            limited: false,
        });
        while gate.entered.load(Ordering::Relaxed) == 0 {
            own.linger(1);
        }
        let counter = AtomicUsize::new(0);
        let data = (&raw const counter).cast_mut().cast();
        let second =
            own.start(Op::Call { call: count, data, interruptible: false, limited: false });
        let third = own.start(Op::Call { call: count, data, interruptible: false, limited: false });
        assert!(own.is_stuck(second) && own.is_stuck(third));
        own.cancel(second);
        assert!(own.wait(second).is_errno(c::ECANCELED));
        gate.open();
        assert_eq!(own.wait(first).0, 1);
        assert_eq!(own.wait(third).0, 0);
        assert_eq!(counter.load(Ordering::Relaxed), 1, "the cancelled call ran");
    }

    fn running_calls_are_not(rig: &mut Rig) {
        let gate = Gate::default();
        let running = rig.start(Op::Call {
            call: pass,
            data: gate.data(),
            interruptible: false,
            limited: false,
        });
        while gate.entered.load(Ordering::Relaxed) == 0 {
            rig.linger(1);
        }
        rig.cancel(running);
        assert!(rig.is_stuck(running), "its memory is still in use");
        // Others go on meanwhile.
        assert_eq!(rig.run(Op::Nop).0, 0);
        gate.open();
        assert_eq!(rig.wait(running).0, 1);
    }

    fn narrow(kind: DriverKind) -> Rig {
        let mut config = crate::harness::config(kind, 1);
        config.pool = std::sync::Arc::new(bast_io::Pool::new(1));
        Rig::on(kind, Driver::new(&config).expect("a driver"))
    }
}
