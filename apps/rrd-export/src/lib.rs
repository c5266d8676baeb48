#![doc = include_str!("../README.md")]

mod batch;
pub mod cli;
pub mod devices;
pub mod exit;
pub mod export;
mod fd_limit;
pub mod generate;
pub mod job;
pub mod journal;
pub mod names;
pub mod output;
pub mod pattern;
pub mod pipeline;
pub mod progress;
pub mod reader;
pub mod report;
pub mod time;
