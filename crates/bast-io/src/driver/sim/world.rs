//! A world: every descriptor of one simulator, what lies behind it, and the clock they share.
//!
//! ```text
//!   number (fd) ──▶ serial ──▶ item: socket | open file
//!                     ▲
//!        waiting operations, events and peers speak of serials
//! ```
//!
//! Numbers are reused at once, lowest first, as a kernel does; serials never are. Whatever outlives
//! a descriptor holds its serial and so can never mean its successor (contract io 6).
//!
//! Nothing here waits: an attempt either succeeds, fails, or says [`Stop::Wait`], and whoever
//! changes something that an operation may be waiting for marks it with [`World::stir`].

use std::collections::{BTreeMap, BTreeSet};

use super::clock::{Clock, Event};
use super::files::{Files, OpenFile};
use super::rng::Rng;
use super::socket::Socket;
use crate::handle::{Raw, SIM_BASE};
use crate::sys::c;

/// The identity of a descriptor: never used twice in a world.
pub(super) type Serial = u64;

/// Why an attempt has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It would block.
    Wait,
    /// It failed.
    Errno(i32),
}

/// What an attempt comes to.
pub(super) type Try<T> = Result<T, Stop>;

/// The two directions of a descriptor. Operations of one direction complete in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    In,
    Out,
}

/// What a descriptor stands for.
#[derive(Debug)]
pub(super) enum Item {
    Socket(Socket),
    File(OpenFile),
}

/// How many bits of a number count the descriptors of one world; the bits above name the world.
pub(super) const NUMBER_BITS: u32 = 22;

/// One simulator's state.
#[derive(Debug)]
pub(super) struct World {
    /// The world's place in the registry: the upper bits of its descriptors' numbers.
    slot: usize,
    pub(super) rng: Rng,
    pub(super) clock: Clock,
    pub(super) files: Files,
    numbers: BTreeMap<Raw, Serial>,
    /// Numbers that were used and are free; all from `fresh` on are free too.
    freed: BTreeSet<Raw>,
    fresh: Raw,
    pub(super) items: BTreeMap<Serial, Item>,
    last_serial: Serial,
    /// What operations may now get further.
    stirred: Vec<(Serial, Side)>,
    /// Which sockets claim a port: `(is a stream, port)`.
    pub(super) ports: BTreeMap<(bool, u16), Vec<Serial>>,
    /// Whether the driver is still there.
    pub(super) has_driver: bool,
}

impl World {
    pub(super) fn new(slot: usize, seed: u64) -> World {
        World {
            slot,
            rng: Rng::new(seed),
            clock: Clock::default(),
            files: Files::default(),
            numbers: BTreeMap::new(),
            freed: BTreeSet::new(),
            fresh: SIM_BASE + ((slot as Raw) << NUMBER_BITS),
            items: BTreeMap::new(),
            last_serial: 0,
            stirred: Vec::new(),
            ports: BTreeMap::new(),
            has_driver: true,
        }
    }

    /// Whether nobody can reach this world any more.
    pub(super) fn is_over(&self) -> bool {
        !self.has_driver && self.numbers.is_empty()
    }

    /// The serial behind a number; `EBADF` for another world's, or nobody's.
    pub(super) fn serial(&self, fd: Raw) -> Try<Serial> {
        self.numbers.get(&fd).copied().ok_or(Stop::Errno(c::EBADF))
    }

    /// Adds an item that has no number (a connection nobody has accepted yet).
    pub(super) fn add(&mut self, item: Item) -> Serial {
        self.last_serial += 1;
        self.items.insert(self.last_serial, item);
        self.last_serial
    }

    /// Gives an item the lowest free number.
    pub(super) fn name(&mut self, serial: Serial) -> Try<Raw> {
        let end = SIM_BASE + ((self.slot as Raw) << NUMBER_BITS) + (1 << NUMBER_BITS) - 1;
        let free = match self.freed.pop_first() {
            Some(fd) => fd,
            None if self.fresh < end => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return Err(Stop::Errno(c::EMFILE)),
        };
        self.numbers.insert(free, serial);
        Ok(free)
    }

    /// Closes a number. What waits on it will be told `ECANCELED`.
    pub(super) fn close(&mut self, fd: Raw) -> Try<()> {
        let serial = self.numbers.remove(&fd).ok_or(Stop::Errno(c::EBADF))?;
        self.freed.insert(fd);
        self.discard(serial);
        Ok(())
    }

    /// Ends an item and tells those it was connected to.
    pub(super) fn discard(&mut self, serial: Serial) {
        if let Some(Item::Socket(socket)) = self.items.remove(&serial) {
            self.socket_closed(serial, socket);
        }
        self.stir(serial, Side::In);
        self.stir(serial, Side::Out);
    }

    /// Says that operations on this side of `serial` may get further now.
    pub(super) fn stir(&mut self, serial: Serial, side: Side) {
        self.stirred.push((serial, side));
    }

    /// How many places have been stirred.
    pub(super) fn stirred(&self) -> usize {
        self.stirred.len()
    }

    /// Takes one of the stirred places; which one is for the dice to say.
    pub(super) fn take_stirred(&mut self, index: usize) -> (Serial, Side) {
        self.stirred.swap_remove(index)
    }

    /// When something sent now arrives: between 1 and 200 virtual microseconds later.
    pub(super) fn arrival(&mut self) -> u64 {
        self.clock.now() + 1_000 + self.rng.below(199_000) as u64
    }

    /// Lets everything happen that is due.
    pub(super) fn fire_due(&mut self) {
        while let Some(event) = self.clock.pop_due() {
            match event {
                Event::Arrive(serial) => self.arrived(serial),
                Event::Knock { from, to, attempt } => self.knocked(from, to, attempt),
            }
        }
    }

    /// The open file behind a serial.
    pub(super) fn read_file(&mut self, serial: Serial, n: usize, at: Option<u64>) -> Try<Vec<u8>> {
        let n = self.rng.portion(n);
        match self.items.get_mut(&serial) {
            Some(Item::File(file)) => self.files.read(file, n, at),
            _ => Err(Stop::Errno(c::EBADF)),
        }
    }

    /// Writes to the open file behind a serial.
    pub(super) fn write_file(
        &mut self,
        serial: Serial,
        bytes: &[u8],
        at: Option<u64>,
    ) -> Try<usize> {
        let n = self.rng.portion(bytes.len());
        match self.items.get_mut(&serial) {
            Some(Item::File(file)) => self.files.write(file, &bytes[..n], at),
            _ => Err(Stop::Errno(c::EBADF)),
        }
    }
}
