//! Powers of ten.
