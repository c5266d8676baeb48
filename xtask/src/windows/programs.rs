//! The example programs as they are on Windows: the same clients, and the same judgement, as on Linux.
//!
//! ```text
//!   here:  threads of xtask's, 100 connections ──┐
//!                                                ├──► pong.exe, echo.exe, … by Wine ──► Ctrl-C ──► their totals
//!   Wine:  load.exe, 100 connections ────────────┘
//! ```
//!
//! (Wine makes of SIGINT, sent to a process, what Windows makes of Ctrl-C.)

use super::TARGET;
use super::kit::Kit;
use crate::examples::{Programs, use_each};
use crate::steps::Context;

/// They have been built, by what builds the tests: alone, cargo would choose other features for what they depend on, and
/// build that once more.
pub(super) fn run(kit: &Kit, context: &Context) -> Result<(), String> {
    let dir = kit.built(&context.target).join(TARGET).join("debug");
    use_each(&Programs { dir, driver: "iocp", wine: Some(kit.wine()) }, context)
}
