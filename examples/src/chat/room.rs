//! The room: who is in it, and what is said.
//!
//! All that is said goes through one broadcast channel, which numbers it: everybody sees the same order.
//! Each message is written once, and shared.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bast::sync::broadcast::{self, Receiver, Sender};
use serde_json::{Value, json};
use tungstenite::Utf8Bytes;

/// The most letters of a name.
const LONGEST_NAME: usize = 24;

/// A room.
#[derive(Debug)]
pub struct Room {
    news: Sender<Utf8Bytes>,
    names: Mutex<BTreeSet<String>>,
    said: AtomicU64,
}

/// A guest's place in the room; it is announced when it is given up.
#[derive(Debug)]
pub struct Seat<'a> {
    room: &'a Room,
    name: String,
}

impl Room {
    /// A room that keeps so many messages for those who are slow.
    pub fn new(backlog: usize) -> Room {
        let (news, _) = broadcast::channel(backlog);
        Room { news, names: Mutex::default(), said: AtomicU64::new(0) }
    }

    /// Takes a seat, under the name that is wished for, or one like it if it is taken.
    pub fn enter(&self, wish: &str) -> Seat<'_> {
        let wish: String =
            wish.trim().chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect();
        let wish = if wish.is_empty() { "guest".into() } else { wish };
        let mut names = self.names();
        let others = (2..).map(|n| format!("{wish} {n}"));
        let name = std::iter::once(wish.clone()).chain(others).find(|name| !names.contains(name));
        let name = name.expect("the numbers do not end");
        names.insert(name.clone());
        Seat { room: self, name }
    }

    /// How much has been said by guests.
    pub fn said(&self) -> u64 {
        self.said.load(Relaxed)
    }

    /// Nothing suspends under this lock.
    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, message: &Value) {
        // An error is that nobody listens.
        let _ = self.news.send(message.to_string().into());
    }
}

impl Seat<'_> {
    /// The guest's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All that is said from now on.
    pub fn listen(&self) -> Receiver<Utf8Bytes> {
        self.room.news.subscribe()
    }

    /// What the guest is to know first.
    pub fn hello(&self) -> Utf8Bytes {
        json!({"hello": self.name, "present": *self.room.names()}).to_string().into()
    }

    /// Tells the others of the guest.
    pub fn announce(&self) {
        self.room.tell(&json!({"came": self.name}));
    }

    /// Says something to all.
    pub fn say(&self, text: &str) {
        self.room.said.fetch_add(1, Relaxed);
        self.room.tell(&json!({"from": self.name, "text": text}));
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.room.names().remove(&self.name);
        self.room.tell(&json!({"went": self.name}));
    }
}

/// What a guest is told who was too slow.
pub fn missed(messages: u64) -> Utf8Bytes {
    json!({"missed": messages}).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn names_are_told_apart_and_given_back() {
        let room = Room::new(8);
        let anna = room.enter(" Anna\n");
        let other = room.enter("Anna");
        assert_eq!((anna.name(), other.name()), ("Anna", "Anna 2"));
        drop(anna);
        assert_eq!(room.enter("Anna").name(), "Anna");
        assert_eq!(room.enter("\u{7}").name(), "guest");
        assert_eq!(room.enter(&"ä".repeat(100)).name().chars().count(), super::LONGEST_NAME);
    }
}
