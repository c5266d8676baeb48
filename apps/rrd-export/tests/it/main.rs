//! Tests of the program and its parts.

mod fleet;
mod outputs;
mod resume;
mod rrdtool;
