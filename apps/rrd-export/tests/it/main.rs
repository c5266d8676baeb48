//! Tests of the program and its parts.
