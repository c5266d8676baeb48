//! Every world of the process, so that a descriptor can be closed from anywhere.
//!
//! ```text
//!   fd = SIM_BASE + slot * 2^22 + number
//!                    │
//!   WORLDS[slot] ────▼──▶ Arc<Mutex<World>> ◀── its driver
//! ```
//!
//! A slot is given to a new world only after the driver of the old one is gone *and* its last
//! descriptor has been closed, so a number never means another world than the one that made it.
//! The registry's lock is never held while a world's lock is taken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::{io, thread};

use super::world::{NUMBER_BITS, World};
use crate::Waker;
use crate::handle::{Raw, SIM_BASE};

/// A world as others than its driver see it.
#[derive(Debug)]
pub(super) struct Shared {
    slot: usize,
    world: Mutex<World>,
    /// Whom to wake when somebody else has closed something.
    driver: (ThreadId, Waker),
}

static WORLDS: Mutex<Vec<Option<Arc<Shared>>>> = Mutex::new(Vec::new());

/// The locks guard no invariant that a panic could break halfway (a world is changed by code that
/// does not call out), so a poisoned one is used as it is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Makes a world for the calling thread's driver.
    pub(super) fn new(seed: u64, waker: Waker) -> io::Result<Arc<Shared>> {
        let mut worlds = lock(&WORLDS);
        let slot = worlds.iter().position(Option::is_none).unwrap_or(worlds.len());
        // The numbers from SIM_BASE = 2^30 to 2^31 have room for this many worlds.
        if slot >= 1 << (30 - NUMBER_BITS) {
            return Err(io::Error::other("too many simulated worlds are alive at once (256)"));
        }
        let shared = Arc::new(Shared {
            slot,
            world: Mutex::new(World::new(slot, seed)),
            driver: (thread::current().id(), waker),
        });
        if slot == worlds.len() {
            worlds.push(None);
        }
        worlds[slot] = Some(Arc::clone(&shared));
        Ok(shared)
    }

    /// The world itself.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// The driver is gone.
    pub(super) fn leave(self: &Arc<Shared>) {
        let over = {
            let mut world = self.world();
            world.has_driver = false;
            world.is_over()
        };
        if over {
            self.forget();
        }
    }

    /// Gives the slot back. Two threads may find a world over at once; the second finds the slot
    /// empty, or another world in it.
    fn forget(self: &Arc<Shared>) {
        let mut worlds = lock(&WORLDS);
        if let Some(place) = worlds.get_mut(self.slot)
            && place.as_ref().is_some_and(|there| Arc::ptr_eq(there, self))
        {
            *place = None;
        }
    }
}

/// Closes a simulated descriptor, from any thread. Operations that wait on it complete with
/// `ECANCELED` (contract io 6).
pub(crate) fn close_raw(fd: Raw) {
    let slot = ((fd - SIM_BASE) >> NUMBER_BITS) as usize;
    let Some(shared) = lock(&WORLDS).get(slot).cloned().flatten() else { return };
    let over = {
        let mut world = shared.world();
        // As with `close(2)` in a destructor, nobody is there to hear of a wrong number.
        let _ = world.close(fd);
        world.is_over()
    };
    if over {
        shared.forget();
    } else if thread::current().id() != shared.driver.0 {
        shared.driver.1.wake();
    }
}
