//! Where the locals of one fiber, or thread, are kept, and how they end.
//!
//! ```text
//!   null ──first value──▶ Store ──end──▶ ENDED         a slot: null ──▶ value ──▶ GONE
//!                           few, more   by number
//!                           newest ─▶ value ─▶ value ─▶ …   in the order of their making
//! ```
//!
//! Only the fiber's or thread's own code comes here; before a fiber has started, whoever made it. The
//! code of users that is called from here (`clone`, destructors) may come back by any door and may
//! suspend: no borrow of the store is held over such a call.

use std::cell::Cell;
use std::mem::{ManuallyDrop, needs_drop};
use std::ptr::{self, NonNull};

use super::AccessError;
use crate::interrupt::quietly;
use crate::tls;

/// Stands for what is no more, in a slot and for the whole store.
const GONE: usize = 1;

/// A value, of whatever type.
pub(crate) type Link = NonNull<Head>;

/// What can be done with a value without knowing its type.
pub(super) struct Ops {
    drop: unsafe fn(Link),
    copy: Option<unsafe fn(Link) -> Link>,
    needs_drop: bool,
}

impl Ops {
    pub(super) const fn of<T>() -> Ops {
        Ops { drop: drop_value::<T>, copy: None, needs_drop: needs_drop::<T>() }
    }

    pub(super) const fn copying<T: Clone + Send>() -> Ops {
        Ops { drop: drop_value::<T>, copy: Some(copy_value::<T>), needs_drop: needs_drop::<T>() }
    }
}

/// The part of a value that does not depend on its type.
pub(crate) struct Head {
    ops: &'static Ops,
    slot: Cell<u32>,
    /// The value made before this one.
    older: Cell<Option<Link>>,
}

#[repr(C)]
pub(super) struct Value<T> {
    head: Head,
    value: T,
}

impl<T> Value<T> {
    pub(super) fn boxed(ops: &'static Ops, value: T) -> Link {
        let head = Head { ops, slot: Cell::new(0), older: Cell::new(None) };
        NonNull::from(Box::leak(Box::new(Value { head, value }))).cast()
    }

    /// # Safety
    /// The link is of a `Value<T>` that lives for `'a`.
    #[inline]
    pub(super) unsafe fn get<'a>(link: Link) -> &'a T {
        // SAFETY: the caller's promise; the head comes first.
        unsafe { &(*link.cast::<Value<T>>().as_ptr()).value }
    }
}

/// # Safety
/// A `Value<T>` from `boxed`, which nobody uses any more.
unsafe fn drop_value<T>(link: Link) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(link.cast::<Value<T>>().as_ptr()) });
}

/// # Safety
/// A `Value<T>`, which stays for the time of the call.
unsafe fn copy_value<T: Clone>(link: Link) -> Link {
    // SAFETY: the caller's promise.
    let (ops, value) = unsafe { (link.as_ref().ops, Value::<T>::get(link)) };
    Value::boxed(ops, value.clone())
}

/// Drops a value. A panic of its destructor has been printed and ends here.
///
/// # Safety
/// Nobody uses the value any more, and no table leads to it.
unsafe fn drop_quietly(link: Link) {
    // SAFETY: the caller's promise; the ops were given with the value.
    quietly(|| unsafe { (link.as_ref().ops.drop)(link) });
}

/// Slots that are in the store itself; most programs have no more keys.
const FEW: usize = 8;

/// By number: null, [`GONE`], or a value. Number 0 is nobody's.
struct Store {
    few: [*mut Head; FEW],
    more: Vec<*mut Head>,
    newest: Option<Link>,
}

impl Store {
    const NEW: Store = Store { few: [ptr::null_mut(); FEW], more: Vec::new(), newest: None };

    #[inline]
    fn get(&self, slot: u32) -> *mut Head {
        let index = slot as usize;
        match self.few.get(index) {
            Some(&entry) => entry,
            None => self.more.get(index - FEW).copied().unwrap_or(ptr::null_mut()),
        }
    }

    fn set(&mut self, slot: u32, entry: *mut Head) {
        let index = slot as usize;
        if let Some(place) = self.few.get_mut(index) {
            *place = entry;
            return;
        }
        if self.more.len() <= index - FEW {
            self.more.resize(index - FEW + 1, ptr::null_mut());
        }
        self.more[index - FEW] = entry;
    }

    fn end(&self) -> u32 {
        (FEW + self.more.len()) as u32
    }
}

/// The locals of a fiber or thread. Has no destructor: `end` has to be called.
pub(crate) struct Locals(Cell<*mut Store>);

/// What a child is to begin with.
pub(crate) struct Inherited(Locals);

impl Drop for Inherited {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Locals {
    pub(crate) const fn new() -> Locals {
        Locals(Cell::new(ptr::null_mut()))
    }

    /// Whether there is nothing here, nor ever was.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.get().is_null()
    }

    fn store(&self) -> Option<NonNull<Store>> {
        NonNull::new(self.0.get()).filter(|store| store.addr().get() != GONE)
    }

    /// The entry of a slot: null, [`GONE`], or a value.
    #[inline]
    fn entry(&self, slot: u32) -> *mut Head {
        let store = self.0.get();
        if store.addr() <= GONE {
            return ptr::without_provenance_mut(store.addr());
        }
        // SAFETY: neither null nor gone, so it is there; the borrow ends with the statement.
        unsafe { &*store }.get(slot)
    }

    /// The value with this number; 0 is nobody's.
    #[inline]
    pub(super) fn find(&self, slot: u32) -> Option<Link> {
        NonNull::new(self.entry(slot)).filter(|link| link.addr().get() != GONE)
    }

    pub(super) fn is_gone(&self, slot: u32) -> bool {
        self.entry(slot).addr() == GONE
    }

    /// Puts a value into its slot. If one has come there since, that one stays.
    pub(super) fn put(&self, slot: u32, link: Link) -> Result<Link, AccessError> {
        let there = self.entry(slot);
        if !there.is_null() {
            // SAFETY: ours, and shown to nobody.
            unsafe { drop_quietly(link) };
            return self.find(slot).ok_or(AccessError { in_task: false });
        }
        if self.is_empty() {
            self.0.set(Box::into_raw(Box::new(Store::NEW)));
            if ptr::eq(self, tls::locals()) {
                tls::end_locals_with_thread();
            }
        }
        // SAFETY: there; nothing is called while it is borrowed.
        let store = unsafe { &mut *self.0.get() };
        store.set(slot, link.as_ptr());
        // SAFETY: alive, and its head is reached by cells only.
        let head = unsafe { link.as_ref() };
        head.slot.set(slot);
        head.older.set(store.newest.replace(link));
        Ok(link)
    }

    /// Clones of what is to be inherited, if anything is.
    ///
    /// # Panics
    /// With the panic of a `clone`.
    #[cold]
    pub(super) fn copy(&self) -> Option<Inherited> {
        self.store()?;
        let copies = Inherited(Locals::new());
        for slot in 1.. {
            // SAFETY: there, unless what is called below has ended it; the borrow ends here.
            if self.store().is_none_or(|store| slot >= unsafe { store.as_ref() }.end()) {
                break;
            }
            let Some(link) = self.find(slot) else { continue };
            // SAFETY: a value stays until the end of the fiber, whose frame this is.
            if let Some(copy) = unsafe { link.as_ref() }.ops.copy {
                // SAFETY: as above; the ops were given with the value.
                let _ = copies.0.put(slot, unsafe { copy(link) });
            }
        }
        (!copies.0.is_empty()).then_some(copies)
    }

    /// Begins with what was inherited.
    pub(crate) fn adopt(&self, inherited: Inherited) {
        debug_assert!(self.is_empty());
        self.0.set(ManuallyDrop::new(inherited).0.0.get());
    }

    /// Drops all values, the newest first, those included that destructors make meanwhile. What needs no
    /// dropping can be used until the last destructor is through.
    #[cold]
    pub(crate) fn end(&self) {
        let Some(store) = self.store().map(NonNull::as_ptr) else { return };
        let mut plain: Option<Link> = None;
        // SAFETY: the store is freed below only, by this call alone, as nobody else has a reason to
        // end these locals; each borrow of it ends before a destructor is called. A value is taken
        // out of the table before it is dropped, and no reference to one is left: those are held by
        // frames of `with`, all of which have returned or are further out in a destructor's stack.
        unsafe {
            while let Some(link) = (*store).newest {
                let head = link.as_ref();
                (*store).newest = head.older.get();
                if head.ops.needs_drop {
                    (*store).set(head.slot.get(), ptr::without_provenance_mut(GONE));
                    drop_quietly(link);
                } else {
                    head.older.set(plain.replace(link));
                }
            }
            self.0.set(ptr::without_provenance_mut(GONE));
            while let Some(link) = plain {
                plain = link.as_ref().older.get();
                drop_quietly(link);
            }
            drop(Box::from_raw(store));
        }
    }
}
