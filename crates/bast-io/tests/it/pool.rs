//! `Op::Call`: on the pool's threads, or inline in the simulator; the driver serves others meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

use bast_io::{Driver, DriverKind, Op};

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
    for value in [0_i32, 7, -libc::ENOENT] {
        let data = std::ptr::without_provenance_mut(value as usize);
        assert_eq!(rig.run(Op::Call { call: give, data }).0, value);
    }
}

fn many(rig: &mut Rig) {
    let counter = AtomicUsize::new(0);
    let data = (&raw const counter).cast_mut().cast();
    let calls: Vec<_> = (0..500).map(|_| rig.start(Op::Call { call: count, data })).collect();
    let mut seen: Vec<i32> = calls.into_iter().map(|ticket| rig.wait(ticket).0).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..500).collect::<Vec<i32>>());
}

/// With threads of its own.
mod threads {
    use super::*;

    on_real_drivers!(queued_calls_are_cancelled, running_calls_are_not);

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
        let first = own.start(Op::Call { call: pass, data: gate.data() });
        while gate.entered.load(Ordering::Relaxed) == 0 {
            own.linger(1);
        }
        let counter = AtomicUsize::new(0);
        let data = (&raw const counter).cast_mut().cast();
        let second = own.start(Op::Call { call: count, data });
        let third = own.start(Op::Call { call: count, data });
        assert!(own.is_stuck(second) && own.is_stuck(third));
        own.cancel(second);
        assert!(own.wait(second).is_errno(libc::ECANCELED));
        gate.open();
        assert_eq!(own.wait(first).0, 1);
        assert_eq!(own.wait(third).0, 0);
        assert_eq!(counter.load(Ordering::Relaxed), 1, "the cancelled call ran");
    }

    fn running_calls_are_not(rig: &mut Rig) {
        let gate = Gate::default();
        let running = rig.start(Op::Call { call: pass, data: gate.data() });
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
