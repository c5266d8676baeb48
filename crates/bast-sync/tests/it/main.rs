//! What bast-sync promises, from outside: from fibers of one and of two workers, and from plain threads.

mod cells;
