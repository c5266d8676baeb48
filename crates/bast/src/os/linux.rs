//! Same as [`std::os::linux`].

pub mod fs;

/// Same as [`std::os::linux::net`].
pub mod net {
    use std::io;

    use bast_rt::ops;

    use crate::net::TcpStream;

    #[doc(no_inline)]
    pub use std::os::linux::net::SocketAddrExt;

    mod private {
        pub trait Sealed {}
        impl Sealed for crate::net::TcpStream {}
    }

    /// Same as [`std::os::linux::net::TcpStreamExt`].
    pub trait TcpStreamExt: private::Sealed {
        /// Acknowledges at once (`TCP_QUICKACK`), until the kernel changes its mind.
        ///
        /// # Errors
        /// The kernel's.
        fn set_quickack(&self, quickack: bool) -> io::Result<()>;

        /// Whether acknowledgements are sent at once.
        ///
        /// # Errors
        /// The kernel's.
        fn quickack(&self) -> io::Result<bool>;
    }

    impl TcpStreamExt for TcpStream {
        fn set_quickack(&self, quickack: bool) -> io::Result<()> {
            ops::set_flag(self.handle(), ops::QUICK_ACK, quickack)
        }

        fn quickack(&self) -> io::Result<bool> {
            ops::flag(self.handle(), ops::QUICK_ACK)
        }
    }
}
