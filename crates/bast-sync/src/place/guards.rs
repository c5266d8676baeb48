//! Who uses the value of a place where it is: one who was lent it, or readers. Dropping the guard gives it back,
//! which never waits, also when it unwinds.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::Place;

/// The value, for one who may change it.
pub(crate) struct Lent<'a, T> {
    place: &'a Place<T>,
    /// Sharing the guard shares the value.
    value: PhantomData<&'a mut T>,
}

impl<'a, T> Lent<'a, T> {
    /// The place says LENT, for this guard.
    #[inline]
    pub(super) fn new(place: &'a Place<T>) -> Lent<'a, T> {
        Lent { place, value: PhantomData }
    }
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: lent to this guard.
        unsafe { (*self.place.value.get()).assume_init_ref() }
    }
}

impl<T> DerefMut for Lent<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: lent to this guard.
        unsafe { (*self.place.value.get()).assume_init_mut() }
    }
}

impl<T> Drop for Lent<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let mut state = self.place.lock.lock();
        state.users = 0;
        self.place.pump(state);
    }
}

/// The value, for reading.
pub(crate) struct Shared<'a, T: Sync> {
    place: &'a Place<T>,
}

impl<'a, T: Sync> Shared<'a, T> {
    /// This guard has been counted.
    #[inline]
    pub(super) fn new(place: &'a Place<T>) -> Shared<'a, T> {
        Shared { place }
    }
}

impl<T: Sync> Deref for Shared<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: counted in `users`.
        unsafe { (*self.place.value.get()).assume_init_ref() }
    }
}

impl<T: Sync> Drop for Shared<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let mut state = self.place.lock.lock();
        state.users -= 1;
        if state.users == 0 {
            self.place.pump(state);
        }
    }
}
