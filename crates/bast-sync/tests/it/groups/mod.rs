//! Cancel tokens and structured concurrency.

mod group;
mod nested;
mod par;
mod race;
mod storm;
mod support;
mod token;
