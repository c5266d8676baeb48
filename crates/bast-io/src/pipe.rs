//! Pipes within this process.

use std::io;

use crate::{Handle, Kind};

/// The end to read from and the end to write to.
///
/// # Errors
/// No more descriptors.
pub fn pair() -> io::Result<(Handle, Handle)> {
    let (reader, writer) = io::pipe()?;
    Ok((Handle::adopt(reader.into(), Kind::Pipe)?, Handle::adopt(writer.into(), Kind::Pipe)?))
}
