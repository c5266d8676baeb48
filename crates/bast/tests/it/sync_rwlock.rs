//! Twins: `RwLock`.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, TryLockError};

use crate::harness::twins;

fn sync<T: Send + Sync>() {}

twins! {
    fn bounds() {
        sync::<RwLock<u8>>();
        fn send<T: Send>() {}
        send::<RwLock<std::cell::Cell<u8>>>();
        fn shared<T: Sync>() {}
        shared::<RwLockReadGuard<'static, u8>>();
        shared::<RwLockWriteGuard<'static, u8>>();
        fn unwind<T: UnwindSafe + RefUnwindSafe>() {}
        unwind::<RwLock<std::cell::Cell<u8>>>();
        fn default<T: Default + From<u8> + Debug>() {}
        default::<RwLock<u8>>();
    }

    fn many_read_one_writes() {
        static LOCK: RwLock<u64> = RwLock::new(0);
        static INSIDE: AtomicIsize = AtomicIsize::new(0);
        let others: Vec<_> = (0..12).map(|n| spawn(move || {
            for round in 0..100 {
                if (n + round) % 4 == 0 {
                    let mut guard = LOCK.write().unwrap();
                    assert_eq!(INSIDE.fetch_sub(1000, Ordering::Relaxed), 0);
                    *guard += 1;
                    if round % 3 == 0 {
                        yield_now();
                    }
                    INSIDE.fetch_add(1000, Ordering::Relaxed);
                } else {
                    let guard = LOCK.read().unwrap();
                    assert!(INSIDE.fetch_add(1, Ordering::Relaxed) >= 0);
                    let before = *guard;
                    if round % 3 == 0 {
                        yield_now();
                    }
                    assert_eq!(*guard, before);
                    INSIDE.fetch_sub(1, Ordering::Relaxed);
                }
            }
        })).collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(*LOCK.read().unwrap(), 300);
    }

    fn try_read_and_try_write() {
        let lock = RwLock::new(1);
        {
            let one = lock.try_read().unwrap();
            let two = lock.try_read().unwrap();
            assert_eq!(*one + *two, 2);
            assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        }
        {
            *lock.try_write().unwrap() = 2;
            let _guard = lock.write().unwrap();
            assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
            assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        }
        assert_eq!(*lock.read().unwrap(), 2);
    }

    fn downgrade() {
        let lock = Arc::new(RwLock::new(1));
        let mut guard = lock.write().unwrap();
        *guard = 2;
        let theirs = Arc::clone(&lock);
        let reader = spawn(move || *theirs.read().unwrap());
        let guard = RwLockWriteGuard::downgrade(guard);
        assert_eq!(*guard, 2);
        assert_eq!(reader.join().unwrap(), 2);
        assert!(lock.try_write().is_err());
        drop(guard);
        assert!(lock.try_write().is_ok());
    }

    fn into_inner_and_get_mut() {
        let mut lock = RwLock::from(String::from("a"));
        lock.get_mut().unwrap().push('b');
        assert_eq!(lock.into_inner().unwrap(), "ab");
        assert_eq!(RwLock::<u8>::default().into_inner().unwrap(), 0);
        let slice: &RwLock<[i32]> = &RwLock::new([1, 2]);
        slice.write().unwrap()[1] = 3;
        assert_eq!(*slice.read().unwrap(), [1, 3]);
    }

    fn a_writer_poisons() {
        let mut lock = RwLock::new(1);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _guard = lock.write().unwrap();
            panic!("expected");
        }));
        assert!(panic.is_err() && lock.is_poisoned());
        assert_eq!(*lock.read().unwrap_err().into_inner(), 1);
        assert_eq!(*lock.write().unwrap_err().into_inner(), 1);
        assert!(matches!(lock.try_read(), Err(TryLockError::Poisoned(_))));
        assert!(matches!(lock.try_write(), Err(TryLockError::Poisoned(_))));
        assert_eq!(lock.get_mut().unwrap_err().into_inner(), &mut 1);
        lock.clear_poison();
        assert!(!lock.is_poisoned());
        assert!(lock.read().is_ok());
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _guard = lock.write();
            panic!("expected");
        }));
        assert_eq!(lock.into_inner().unwrap_err().into_inner(), 1);
    }

    fn a_reader_does_not_poison() {
        let lock = RwLock::new(1);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _guard = lock.read().unwrap();
            panic!("expected");
        }));
        assert!(panic.is_err() && !lock.is_poisoned());
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _guard = RwLockWriteGuard::downgrade(lock.write().unwrap());
            panic!("expected");
        }));
        assert!(panic.is_err() && !lock.is_poisoned());
        assert!(lock.try_write().is_ok());
    }

    #[allow(clippy::readonly_write_lock)]
    fn debug() {
        let lock = RwLock::new(7);
        assert_eq!(format!("{lock:?}"), "RwLock { data: 7, poisoned: false, .. }");
        {
            let guard = lock.read().unwrap();
            assert_eq!(format!("{lock:?}"), "RwLock { data: 7, poisoned: false, .. }");
            assert_eq!(format!("{guard:?} {guard}"), "7 7");
        }
        let guard = lock.write().unwrap();
        assert_eq!(format!("{lock:?}"), "RwLock { data: <locked>, poisoned: false, .. }");
        assert_eq!(format!("{guard:?} {guard}"), "7 7");
    }
}
