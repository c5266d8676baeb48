//! Sending many datagrams at once.
//!
//! ```text
//!   Transmit { contents: 150 KB, segment_size: 1200 }   Transmit { contents: 80 }
//!      ╰─▶ message of 54 segments, 54, …, the rest ─┐      ╰─▶ message ─┐
//!                                                   ╰──▶ sendmmsg ◀─────╯
//!   the kernel cannot cut (EIO, EINVAL, …)? from there on a message for each segment
//! ```
//!
//! What is sent is the same either way: the same datagrams in the same order.

use std::mem;
use std::net::SocketAddr;

use super::{Control, cut};
use crate::sys::c;
use crate::{Handle, Outcome, SockAddr};

/// Messages in one call.
const MESSAGES: usize = 32;

/// Segments that every kernel cuts a message into.
const SEGMENTS: usize = 64;

/// The longest contents of a datagram that both protocols carry: 65,535 without their headers.
const LONGEST: usize = 65_535 - 40 - 8;

/// Datagrams to be sent.
///
/// ```
/// use bast_io::batch::Transmit;
///
/// let one = Transmit::new(b"hello").to("127.0.0.1:9".parse().unwrap());
/// let three = Transmit::new(&[0; 2500]).segmented(1000); // 1000, 1000 and 500 bytes
/// # assert_eq!((one.datagrams(), three.datagrams()), (1, 3));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// What is sent.
    pub contents: &'a [u8],
    /// To whom; `None`: to the peer that the socket is connected to.
    pub destination: Option<SocketAddr>,
    /// The contents are several datagrams of this many bytes, the last of what is left. `None`: they are one.
    pub segment_size: Option<usize>,
}

impl<'a> Transmit<'a> {
    /// One datagram to the peer that the socket is connected to.
    #[must_use]
    pub fn new(contents: &'a [u8]) -> Transmit<'a> {
        Transmit { contents, destination: None, segment_size: None }
    }

    /// Sends to this address.
    #[must_use]
    pub fn to(self, destination: SocketAddr) -> Transmit<'a> {
        Transmit { destination: Some(destination), ..self }
    }

    /// Sends datagrams of `size` bytes, the last with what is left.
    #[must_use]
    pub fn segmented(self, size: usize) -> Transmit<'a> {
        Transmit { segment_size: Some(size), ..self }
    }

    /// How many datagrams it is.
    #[must_use]
    pub fn datagrams(&self) -> usize {
        self.segment_size.map_or(1, |size| self.contents.len().div_ceil(size.max(1)).max(1))
    }
}

/// Where in a list of transmits: the transmit, and how many bytes of it are done.
type Place = (usize, usize);

/// A list of transmits on its way.
pub struct SendBatch<'a> {
    transmits: &'a [Transmit<'a>],
    at: Place,
    /// Whether the kernel cuts.
    cuts: bool,
    messages: Vec<Message>,
    headers: Vec<c::mmsghdr>,
}

struct Message {
    piece: c::iovec,
    addr: SockAddr,
    control: Control,
    datagrams: usize,
    /// Where the list stands once it has been sent.
    then: Place,
}

impl<'a> SendBatch<'a> {
    /// Begins with the first of `transmits`.
    #[must_use]
    pub fn new(transmits: &'a [Transmit<'a>], handle: &Handle) -> SendBatch<'a> {
        let segmented = transmits.iter().any(|transmit| transmit.segment_size.is_some());
        let cuts = segmented && !handle.is_simulated() && cut::kernel_cuts(handle);
        SendBatch { transmits, at: (0, 0), cuts, messages: Vec::new(), headers: Vec::new() }
    }

    /// Whether all has been sent.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.at.0 >= self.transmits.len()
    }

    /// Sends as much as the kernel takes in one call, without waiting: the number of messages, or the error of the first
    /// one (`EAGAIN`: no room). Then tell [`sent`](SendBatch::sent).
    pub fn send_now(&mut self, handle: &Handle) -> Outcome {
        self.prepare(MESSAGES);
        // Each header names memory of this batch or of its transmits.
        crate::sys::send_many(handle.as_ref().raw(), &mut self.headers)
    }

    /// The next message, for [`Op::SendMsg`](crate::Op::SendMsg). Then tell [`sent`](SendBatch::sent) that it was one.
    /// `None`: all have been sent.
    pub fn next_header(&mut self) -> Option<*const c::msghdr> {
        self.prepare(1);
        self.headers.first().map(|header| &raw const header.msg_hdr)
    }

    /// The first `messages` of those last shown have been sent: how many datagrams that were.
    pub fn sent(&mut self, messages: usize) -> usize {
        let sent = &self.messages[..messages];
        self.at = sent.last().map_or(self.at, |message| message.then);
        sent.iter().map(|message| message.datagrams).sum()
    }

    /// The first message was refused for this reason. Whether it may be because it was to be cut: then each segment will
    /// be a message from now on, and it is to be tried again.
    pub fn refused(&mut self, outcome: Outcome) -> bool {
        let cut = self.messages.first().is_some_and(|message| message.datagrams > 1);
        let why = [c::EIO, c::EINVAL, c::ENOPROTOOPT, c::EOPNOTSUPP, c::EMSGSIZE];
        let again = cut && why.into_iter().any(|errno| outcome.is_errno(errno));
        self.cuts &= !again;
        again
    }

    /// Makes the next `most` messages.
    fn prepare(&mut self, most: usize) {
        self.messages.clear();
        self.headers.clear();
        let mut place = self.at;
        while self.messages.len() < most
            && let Some(transmit) = self.transmits.get(place.0)
        {
            let message = Message::new(transmit, place, self.cuts);
            place = message.then;
            self.messages.push(message);
        }
        // Only now, as none of them moves any more.
        for message in &mut self.messages {
            // SAFETY: null pointers and zero lengths.
            let mut header: c::mmsghdr = unsafe { mem::zeroed() };
            message.describe(&mut header.msg_hdr);
            self.headers.push(header);
        }
    }
}

impl Message {
    fn new(transmit: &Transmit<'_>, (index, from): Place, cuts: bool) -> Message {
        let rest = &transmit.contents[from..];
        let size = transmit.segment_size.map_or(rest.len(), |size| size.max(1));
        let most = if cuts { (LONGEST / size.max(1)).clamp(1, SEGMENTS) } else { 1 };
        let len = rest.len().min(size.saturating_mul(most));
        let then = if len == rest.len() { (index + 1, 0) } else { (index, from + len) };
        let datagrams = if len > size { len.div_ceil(size) } else { 1 };
        let base = rest.as_ptr().cast_mut().cast();
        let mut addr = SockAddr::zeroed();
        addr.set_len(0);
        Message {
            piece: c::iovec { iov_base: base, iov_len: len as _ },
            addr: transmit.destination.map_or(addr, SockAddr::from),
            control: if datagrams > 1 { cut::cut_to(size as u16) } else { [0; 3] },
            datagrams,
            then,
        }
    }

    fn describe(&mut self, header: &mut c::msghdr) {
        header.msg_iov = &raw mut self.piece;
        header.msg_iovlen = 1;
        if !self.addr.is_empty() {
            header.msg_name = (&raw mut self.addr).cast();
            header.msg_namelen = self.addr.len();
        }
        if self.datagrams > 1 {
            header.msg_control = self.control.as_mut_ptr().cast();
            header.msg_controllen = cut::LEN as _;
        }
    }
}
