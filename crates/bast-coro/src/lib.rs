//! A stack and a switch: stackful coroutines, from one thread's point of view.
//!
//! This is the bottom of bast. It knows no thread, no scheduler and no I/O: it makes stacks, runs
//! code on them, and goes back and forth. A runtime is built on [`StackPool`] and [`Context`];
//! [`Coroutine`] is the same for everybody else, checked and safe.
//!
//! ```
//! use bast_coro::{Coroutine, State};
//! use std::{cell::RefCell, rc::Rc};
//!
//! // A tree walk that can be left in the middle, without turning it inside out.
//! enum Tree { Leaf, Node(Box<Tree>, u32, Box<Tree>) }
//! fn walk(tree: &Tree, visit: &mut dyn FnMut(u32)) {
//!     if let Tree::Node(left, value, right) = tree {
//!         walk(left, visit);
//!         visit(*value);
//!         walk(right, visit);
//!     }
//! }
//! let leaf = || Box::new(Tree::Leaf);
//! let node = |l, v, r| Box::new(Tree::Node(l, v, r));
//! let tree = node(node(leaf(), 1, leaf()), 2, node(leaf(), 3, leaf()));
//!
//! let seen = Rc::new(RefCell::new(None));
//! let out = Rc::clone(&seen);
//! let walker = Coroutine::new(move |y| {
//!     walk(&tree, &mut |value| {
//!         *out.borrow_mut() = Some(value);
//!         y.yield_now();
//!     });
//! });
//! walker.call();
//! assert_eq!(seen.take(), Some(1));
//! walker.call();
//! assert_eq!(seen.take(), Some(2));
//! drop(walker); // unwinds: the tree is freed
//! # let _ = State::Hold;
//! ```
//!
//! # Contracts
//! 1. A suspended stack is never freed, reused or forgotten before its code has returned or
//!    unwound.
//! 2. A coroutine is resumed only on the thread that first ran it.
//! 3. Every stack has a guard; an overflow prints the name, the stack's size and how to raise it,
//!    then aborts. It never corrupts memory. (Compiled by rustc, frames larger than the guard are
//!    probed page by page. Foreign code needs `-fstack-clash-protection` for the same.)
//!
//! They are cited in the source as "coro 1" to "coro 3".
//!
//! # Layers
//!
//! | | what | safe |
//! |---|---|---|
//! | [`Coroutine`] | call, yield, state, result; panics and drops unwind | yes |
//! | [`Context`], [`Suspender`] | a resume and a suspend, about 3 ns together | no |
//! | [`StackPool`], [`Stack`] | guarded stacks, recycled in about 3 ns | yes |
//! | [`overflow`] | the report of an overflow | yes |
//!
//! # Memory
//! Stacks are slots of large reservations and take memory page by page as they are touched. One
//! that sleeps within its top page costs that page and 520 bytes of page tables. The guard is at
//! the low end of the slot; from Linux 6.13 on it takes no memory mapping, so that a million of
//! them are no more trouble than one. Before that, and on other systems, a process can have about
//! half as many stacks as it may have mappings (on Linux `vm.max_map_count`). Windows counts memory when
//! it is committed: there a stack begins with 16 KiB, and grows as those of threads do.
//!
//! # State shared between threads
//! Only what the fault handler needs: `registry.rs`, which argues its ordering, and the previous
//! signal actions in [`overflow`], written once.
//!
//! # Features
//! * `sanitizer`: tells AddressSanitizer of every switch. Only links in builds with
//!   `-Zsanitizer=address`, and such builds need it:
//!   `RUSTFLAGS=-Zsanitizer=address RUSTDOCFLAGS=-Zsanitizer=address cargo +nightly test
//!   -p bast-coro --features sanitizer --target x86_64-unknown-linux-gnu`.

mod builder;
#[allow(unsafe_code)]
mod class;
mod config;
#[allow(unsafe_code)]
mod context;
#[allow(unsafe_code)]
mod coroutine;
mod error;
#[allow(unsafe_code)]
#[cfg_attr(windows, path = "reserved.rs")]
mod guard;
#[allow(unsafe_code)]
mod os;
#[allow(unsafe_code)]
pub mod overflow;
#[allow(unsafe_code)]
mod pool;
#[allow(unsafe_code)]
mod registry;
#[allow(unsafe_code)]
mod stack;
mod yielder;

pub use builder::Builder;
pub use config::{GuardKind, Guards, PoolConfig};
pub use context::{Context, Suspender};
pub use coroutine::Coroutine;
pub use error::{StackError, StackErrorKind};
pub use pool::{PoolStats, StackPool};
pub use stack::Stack;
pub use yielder::{State, Yielder};
