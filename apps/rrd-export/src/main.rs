//! The program: see the crate's documentation.

fn main() {}
