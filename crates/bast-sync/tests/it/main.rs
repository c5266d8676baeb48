//! What bast-sync promises, from outside: from fibers of one and of two workers, and from plain threads.
//!
//! `BAST_DRIVER=uring|epoll|sim` and `BAST_WORKERS=N` choose what the runtimes are made of. Each test is
//! watched: one that hangs ends the process with its name.

mod groups;
