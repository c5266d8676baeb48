//! What bast has and std has not, from fibers and threads, on the driver of `BAST_DRIVER`.

mod channels;
mod groups;
