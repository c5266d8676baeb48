//! Cancel tokens and structured concurrency.

mod group;
mod nested;
mod par;
mod race;
mod storm;
pub(crate) mod support;
mod token;
