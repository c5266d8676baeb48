//! Addresses of this machine: paths, and names in Linux' abstract space.

use std::ffi::OsStr;
use std::mem::offset_of;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net as local;

use super::SockAddr;
use crate::sys::c;

/// Where the path of a local address begins.
const HEAD: usize = offset_of!(c::sockaddr_un, sun_path);

impl SockAddr {
    /// A path, a name in Linux' abstract space, or no name.
    #[must_use]
    pub fn from_local(std: &local::SocketAddr) -> SockAddr {
        let mut head = SockAddr::zeroed();
        head.storage.ss_family = c::AF_UNIX as c::sa_family_t;
        let mut bytes = head.as_bytes()[..HEAD].to_vec();
        if let Some(path) = std.as_pathname() {
            bytes.extend_from_slice(path.as_os_str().as_bytes());
            bytes.push(0);
        }
        #[cfg(target_os = "linux")]
        if let Some(name) = std.as_abstract_name() {
            bytes.push(0);
            bytes.extend_from_slice(name);
        }
        // std has checked the length; the storage is longer than a path's.
        SockAddr::from_bytes(&bytes).unwrap_or_else(SockAddr::zeroed)
    }

    /// The local address, if it is one. A socket without a name has an address of no length.
    #[must_use]
    pub fn to_local(&self) -> Option<local::SocketAddr> {
        let bytes = self.as_bytes();
        if !bytes.is_empty() && self.family() != c::AF_UNIX {
            return None;
        }
        match bytes.get(HEAD..).unwrap_or_default() {
            #[cfg(target_os = "linux")]
            [0, name @ ..] => local::SocketAddr::from_abstract_name(name).ok(),
            path => {
                let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
                local::SocketAddr::from_pathname(OsStr::from_bytes(path)).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn local_addresses_there_and_back() {
        let there_and_back =
            |std: &local::SocketAddr| SockAddr::from_local(std).to_local().unwrap();
        let path = local::SocketAddr::from_pathname("/tmp/a socket").unwrap();
        assert_eq!(there_and_back(&path).as_pathname(), path.as_pathname());
        #[cfg(target_os = "linux")]
        {
            let name = local::SocketAddr::from_abstract_name(b"a\0b").unwrap();
            assert_eq!(there_and_back(&name).as_abstract_name(), Some(&b"a\0b"[..]));
        }
        let none = local::SocketAddr::from_pathname("").unwrap();
        assert!(there_and_back(&none).is_unnamed());
        let mut empty = SockAddr::zeroed();
        empty.set_len(0);
        assert!(empty.to_local().unwrap().is_unnamed());
        let longest = "x".repeat(size_of::<c::sockaddr_un>() - HEAD - 1);
        let longest = local::SocketAddr::from_pathname(longest).unwrap();
        assert_eq!(there_and_back(&longest).as_pathname(), longest.as_pathname());
        assert!(SockAddr::from("1.2.3.4:5".parse::<SocketAddr>().unwrap()).to_local().is_none());
    }
}
