//! `thread_local!` of threads and `fiber_local!` of fibers: the same interface, the same behaviour.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use crate::harness::{message, twins};

twins! {
    fn forms_of_the_macro() {
        mod keys {
            use super::*;
            local! {
                /// Documented.
                pub(super) static ONE: u32 = "1".parse().unwrap();
                pub static TWO: Cell<u32> = const { Cell::new(2) };
                #[allow(dead_code)]
                static THREE: Vec<u8> = vec![3]
            }
            local!(static FOUR: String = { let mut four = String::from("fo"); four.push_str("ur"); four });
            local! {}
            pub(super) fn four() -> usize { FOUR.with(String::len) }
        }
        assert_eq!(keys::ONE.with(|n| *n) + keys::TWO.get() + keys::four() as u32, 7);
        assert_eq!(format!("{:?}", keys::ONE), "LocalKey { .. }");
    }

    fn cells() {
        local! { static N: Cell<u32> = const { Cell::new(5) } }
        assert_eq!((N.get(), N.replace(6), N.take(), N.get()), (5, 5, 6, 0));
        N.set(7);
        N.with(|n| n.set(n.get() + 1));
        assert_eq!(N.try_with(Cell::get), Ok(8));
        assert_eq!(spawn(|| N.get()).join().unwrap(), 5);
        assert_eq!(N.get(), 8);
    }

    fn ref_cells() {
        local! { static TEXT: RefCell<String> = RefCell::new("text".into()) }
        TEXT.with_borrow_mut(|text| text.push('s'));
        assert_eq!(TEXT.with_borrow(String::len), 5);
        assert_eq!((TEXT.replace("new".into()), TEXT.take()), ("texts".into(), "new".into()));
        TEXT.set("set".into());
        TEXT.with_borrow(|text| {
            assert_eq!(text, "set");
            assert!(catch_unwind(|| TEXT.with_borrow_mut(|_| ())).is_err());
            assert!(catch_unwind(|| TEXT.set(String::new())).is_err());
        });
    }

    fn set_does_not_run_the_initializer() {
        local! { static N: Cell<u32> = panic!("initialized") }
        N.set(1);
        assert_eq!(N.get(), 1);
        let error = spawn(|| N.get()).join().unwrap_err();
        assert_eq!(message(&*error), "initialized");
    }

    fn a_panic_in_the_initializer_leaves_it_for_the_next() {
        let first = Rc::new(Cell::new(true));
        local! { static KEEP: RefCell<Option<Rc<Cell<bool>>>> = const { RefCell::new(None) } }
        KEEP.set(Some(Rc::clone(&first)));
        local! {
            static FRAIL: u32 = KEEP.with_borrow(|keep| {
                if keep.as_ref().unwrap().replace(false) { panic!("not yet") } else { 7 }
            });
        }
        assert!(catch_unwind(AssertUnwindSafe(|| FRAIL.with(|n| *n))).is_err());
        assert_eq!(FRAIL.with(|n| *n), 7);
        assert!(!first.get());
    }

    /// Before `join` returns, also after a panic; in a destructor the own value is gone.
    fn values_end_with_their_owner() {
        static ENDED: AtomicU32 = AtomicU32::new(0);
        static WAS_GONE: AtomicBool = AtomicBool::new(false);
        struct Ends;
        impl Drop for Ends {
            fn drop(&mut self) {
                ENDED.fetch_add(1, SeqCst);
                let error = ENDS.try_with(|_| ()).unwrap_err();
                let said = (error.to_string(), format!("{error:?}"));
                WAS_GONE.store(said == ("already destroyed".into(), "AccessError".into()), SeqCst);
            }
        }
        local! { static ENDS: Ends = const { Ends } }
        spawn(|| ()).join().unwrap();
        assert_eq!(ENDED.load(SeqCst), 0);
        spawn(|| ENDS.with(|_| ())).join().unwrap();
        assert_eq!(ENDED.load(SeqCst), 1);
        assert!(WAS_GONE.load(SeqCst));
        assert!(spawn(|| ENDS.with(|_| panic!("by intent"))).join().is_err());
        assert_eq!(ENDED.load(SeqCst), 2);
    }

    /// A destructor may use what is still there, and what has not been made; that is dropped as well.
    fn destructors_that_use_other_keys() {
        static SAID: std::sync::Mutex<Vec<&str>> = std::sync::Mutex::new(Vec::new());
        struct Says(&'static str, fn());
        impl Drop for Says {
            fn drop(&mut self) {
                (self.1)();
                SAID.lock().unwrap().push(self.0);
            }
        }
        local! {
            static EARLY: Says = const { Says("early", || ()) };
            static UNUSED: Says = const { Says("unused", || ()) };
            static USES: Says = const { Says("uses", || {
                EARLY.with(|early| assert_eq!(early.0, "early"));
                UNUSED.with(|unused| assert_eq!(unused.0, "unused"));
            }) };
        }
        spawn(|| {
            EARLY.with(|_| ());
            USES.with(|_| ());
        }).join().unwrap();
        let mut said = std::mem::take(&mut *SAID.lock().unwrap());
        assert_eq!(said[0], "uses");
        said.sort_unstable();
        assert_eq!(said, ["early", "unused", "uses"]);
    }

    fn references_hold_while_more_is_made() {
        local! {
            static A: Cell<u32> = const { Cell::new(1) };
            static B: Vec<u32> = vec![2; 100];
            static C: RefCell<String> = RefCell::default();
        }
        let sum = A.with(|a| B.with(|b| C.with_borrow_mut(|c| {
            c.push_str("three");
            a.set(a.get() + 1);
            yield_now();
            a.get() + b.iter().sum::<u32>() + c.len() as u32
        })));
        assert_eq!(sum, 207);
    }
}
