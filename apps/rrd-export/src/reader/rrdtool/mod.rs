//! Daemons of rrdtool.
