//! What each operation means in the simulator: one attempt at it, which succeeds, fails or has to
//! wait. Matched exhaustively: this is the contract of [`Op`] in its plainest form.

use super::memory;
use super::world::{Item, Serial, Side, Stop, Try, World};
use crate::sys::c;
use crate::{Interest, Op, SockOpt};

/// `Record::stage`: the operation has not begun.
pub(super) const NEW: u8 = 0;
/// `Record::stage`: a `connect` that has been sent out.
pub(super) const BEGUN: u8 = 1;

/// On which descriptor and side an operation takes its turn; `None` for those that never wait.
pub(super) fn turn(world: &World, op: &Op) -> Try<Option<(Serial, Side)>> {
    let (handle, side) = match op {
        Op::Accept { handle, .. } | Op::Recv { handle, .. } | Op::RecvMsg { handle, .. } => {
            (handle, Side::In)
        }
        Op::Read { handle, .. } | Op::ReadV { handle, .. } => (handle, Side::In),
        Op::Connect { handle, .. } | Op::Send { handle, .. } | Op::SendMsg { handle, .. } => {
            (handle, Side::Out)
        }
        Op::Write { handle, .. } | Op::WriteV { handle, .. } => (handle, Side::Out),
        Op::SendFile { to, .. } => (to, Side::Out),
        Op::Poll { handle, interest } | Op::Again { handle, interest } => {
            let side = match interest {
                Interest::Readable => Side::In,
                Interest::Writable => Side::Out,
            };
            (handle, side)
        }
        Op::Nop
        | Op::Socket { .. }
        | Op::Bind { .. }
        | Op::Listen { .. }
        | Op::Shutdown { .. }
        | Op::GetName { .. }
        | Op::SetOpt { .. }
        | Op::GetOpt { .. }
        | Op::Open { .. }
        | Op::Close { .. }
        | Op::Fsync { .. }
        | Op::Statx { .. }
        | Op::Splice { .. }
        | Op::Call { .. } => return Ok(None),
        #[cfg(windows)]
        Op::Overlapped { .. } => return Ok(None),
    };
    Ok(Some((world.serial(handle.raw)?, side)))
}

/// Tries `op` once. `serial` is what [`turn`] said when the operation was submitted; `stage` is the
/// record's.
///
/// # Safety
/// io 1: what `op` points at is lent.
pub(super) unsafe fn attempt(
    world: &mut World,
    op: &Op,
    serial: Serial,
    stage: &mut u8,
) -> Try<i32> {
    // SAFETY: the caller's promise, for each call in this block.
    let tried = unsafe {
        match *op {
            Op::Connect { addr, .. } => connect(world, serial, addr, stage),
            Op::Accept { addr, .. } => {
                let (fd, peer) = world.accept(serial)?;
                memory::put_address(addr, peer);
                Ok(fd)
            }
            Op::Recv { flags, .. } | Op::RecvMsg { flags, .. } => receive(world, op, serial, flags),
            Op::Send { .. } | Op::SendMsg { .. } => transmit(world, op, serial),
            Op::Read { offset, .. } | Op::ReadV { offset, .. } => match world.items.get(&serial) {
                Some(Item::Socket(_)) => receive(world, op, serial, 0),
                _ => {
                    let bytes = world.read_file(serial, memory::total(op), offset)?;
                    Ok(memory::scatter(op, &bytes) as i32)
                }
            },
            Op::Write { offset, .. } | Op::WriteV { offset, .. } => {
                match world.items.get(&serial) {
                    Some(Item::Socket(_)) => transmit(world, op, serial),
                    _ => {
                        let bytes = memory::gather(op, 1 << 30);
                        Ok(world.write_file(serial, &bytes, offset)? as i32)
                    }
                }
            }
            Op::SendFile { file, offset, len, .. } => {
                let file = world.serial(file.raw)?;
                // At the end of the file there is nothing to find room for.
                if world.read_file(file, len.min(1), Some(offset))?.is_empty() {
                    return Ok(0);
                }
                let room = world.send_room(serial)?;
                let bytes = world.read_file(file, len.min(room).min(1 << 30), Some(offset))?;
                let n = bytes.len() as i32;
                world.send(serial, bytes);
                Ok(n)
            }
            Op::Poll { interest: Interest::Readable, .. }
            | Op::Again { interest: Interest::Readable, .. } => {
                world.is_ready(serial, Side::In).map(|()| 0)
            }
            Op::Poll { interest: Interest::Writable, .. }
            | Op::Again { interest: Interest::Writable, .. } => {
                world.is_ready(serial, Side::Out).map(|()| 0)
            }
            Op::Nop
            | Op::Socket { .. }
            | Op::Bind { .. }
            | Op::Listen { .. }
            | Op::Shutdown { .. }
            | Op::GetName { .. }
            | Op::SetOpt { .. }
            | Op::GetOpt { .. }
            | Op::Open { .. }
            | Op::Close { .. }
            | Op::Fsync { .. }
            | Op::Statx { .. }
            | Op::Splice { .. }
            | Op::Call { .. } => at_once(world, op),
            // It is for handles of the kernel's.
            #[cfg(windows)]
            Op::Overlapped { .. } => Err(Stop::Errno(c::EBADF)),
        }
    };
    match (tried, op) {
        (Err(Stop::Wait), Op::Recv { flags, .. } | Op::Send { flags, .. })
        | (Err(Stop::Wait), Op::RecvMsg { flags, .. } | Op::SendMsg { flags, .. })
            if flags & c::MSG_DONTWAIT != 0 =>
        {
            Err(Stop::Errno(c::EAGAIN))
        }
        _ => tried,
    }
}

/// # Safety
/// io 1, as for [`attempt`].
unsafe fn connect(
    world: &mut World,
    serial: Serial,
    addr: *const crate::SockAddr,
    stage: &mut u8,
) -> Try<i32> {
    if *stage == NEW {
        // SAFETY: the caller's promise.
        let to = unsafe { memory::address(addr) }?;
        world.connect(serial, to)?;
        *stage = BEGUN;
    }
    world.connect_ended(serial).map(|()| 0)
}

/// # Safety
/// io 1, as for [`attempt`].
unsafe fn receive(world: &mut World, op: &Op, serial: Serial, flags: i32) -> Try<i32> {
    let peek = flags & c::MSG_PEEK != 0;
    // SAFETY: the caller's promise, for each call in this block.
    unsafe {
        let room = memory::total(op);
        let (bytes, from, is_letter) = if world.socket(serial)?.is_stream {
            (world.recv(serial, room, peek)?, None, false)
        } else {
            let (bytes, from) = world.recv_letter(serial, peek)?;
            (bytes, from, true)
        };
        let n = memory::scatter(op, &bytes);
        let cut = is_letter && n < bytes.len();
        if let Op::RecvMsg { msg, .. } = *op {
            memory::finish_recvmsg(msg, from, if cut { c::MSG_TRUNC } else { 0 });
        }
        Ok(if cut && flags & c::MSG_TRUNC != 0 { bytes.len() } else { n } as i32)
    }
}

/// # Safety
/// io 1, as for [`attempt`].
unsafe fn transmit(world: &mut World, op: &Op, serial: Serial) -> Try<i32> {
    // SAFETY: the caller's promise, for each call in this block.
    unsafe {
        if !world.socket(serial)?.is_stream {
            let to = match *op {
                Op::SendMsg { msg, .. } => memory::destination(msg)?,
                _ => None,
            };
            return Ok(world.send_letter(serial, to, memory::gather(op, usize::MAX))? as i32);
        }
        let room = world.send_room(serial)?;
        let n = memory::total(op).min(room).min(1 << 30);
        let n = world.rng.portion(n);
        if n > 0 {
            world.send(serial, memory::gather(op, n));
        }
        Ok(n as i32)
    }
}

/// The operations that never wait.
///
/// # Safety
/// io 1, as for [`attempt`].
unsafe fn at_once(world: &mut World, op: &Op) -> Try<i32> {
    // SAFETY: the caller's promise, for each use of lent memory in this block.
    unsafe {
        match *op {
            Op::Socket { domain, kind, .. } => {
                let serial = world.new_socket(domain, kind)?;
                named(world, serial)
            }
            Op::Bind { handle, addr } => {
                let (serial, addr) = (world.serial(handle.raw)?, memory::address(addr)?);
                world.bind(serial, addr).map(|()| 0)
            }
            Op::Listen { handle, backlog } => {
                let serial = world.serial(handle.raw)?;
                world.listen(serial, backlog).map(|()| 0)
            }
            Op::Shutdown { handle, how } => {
                let serial = world.serial(handle.raw)?;
                world.shutdown(serial, how).map(|()| 0)
            }
            Op::GetName { handle, peer, addr } => {
                let serial = world.serial(handle.raw)?;
                let name = world.name_of(serial, peer)?;
                memory::put_address(addr, name);
                Ok(0)
            }
            Op::SetOpt { handle, opt, value, len } => {
                let serial = world.serial(handle.raw)?;
                let bytes = std::slice::from_raw_parts(value, len as usize).to_vec();
                world.socket(serial)?.options.insert((opt.level, opt.name), bytes);
                Ok(0)
            }
            Op::GetOpt { handle, opt, value, len } => {
                let serial = world.serial(handle.raw)?;
                let bytes = option(world, serial, opt)?;
                let n = bytes.len().min(*len as usize);
                value.copy_from_nonoverlapping(bytes.as_ptr(), n);
                *len = n as u32;
                Ok(0)
            }
            Op::Open { path, flags, .. } => {
                let file = world.files.open(&memory::path(path), flags)?;
                let serial = world.add(Item::File(file));
                named(world, serial)
            }
            Op::Close { fd } => world.close(fd).map(|()| 0),
            Op::Fsync { handle, .. } => {
                let serial = world.serial(handle.raw)?;
                match world.items.get(&serial) {
                    Some(Item::File(_)) => Ok(0),
                    _ => Err(Stop::Errno(c::EINVAL)),
                }
            }
            Op::Statx { dir, path, flags, out, .. } => {
                let path = memory::path(path);
                let inode = if path.is_empty() && flags & c::AT_EMPTY_PATH != 0 {
                    let serial = world.serial(dir)?;
                    match world.items.get(&serial) {
                        Some(Item::File(file)) => Some(file.inode),
                        _ => None,
                    }
                } else {
                    Some(world.files.find(&path)?)
                };
                out.write(metadata(world, inode));
                Ok(0)
            }
            // One side would have to be a pipe, and there are none here.
            Op::Splice { from, to, .. } => {
                world.serial(from.raw)?;
                world.serial(to.raw)?;
                Err(Stop::Errno(c::EINVAL))
            }

            // `Nop` does nothing; a `Call` was made by `submit`, and the others wait their turn.
            _ => Ok(0),
        }
    }
}

/// Gives a new item a number, or drops it again.
fn named(world: &mut World, serial: Serial) -> Try<i32> {
    let named = world.name(serial);
    if named.is_err() {
        world.discard(serial);
    }
    named
}

/// What `getsockopt` says: the socket's own state, what was set, Linux's default, or zero.
fn option(world: &mut World, serial: Serial, opt: SockOpt) -> Try<Vec<u8>> {
    let number = |n: i32| Ok(n.to_ne_bytes().to_vec());
    if opt == (SockOpt { level: c::SOL_SOCKET, name: c::SO_ERROR }) {
        let errno = world.take_error(serial)?;
        return number(errno);
    }
    let socket = world.socket(serial)?;
    if let Some(bytes) = socket.options.get(&(opt.level, opt.name)) {
        return Ok(bytes.clone());
    }
    match (opt.level, opt.name) {
        (c::SOL_SOCKET, c::SO_TYPE) if socket.is_stream => number(c::SOCK_STREAM),
        (c::SOL_SOCKET, c::SO_TYPE) => number(c::SOCK_DGRAM),
        (c::SOL_SOCKET, c::SO_LINGER) => Ok(vec![0; size_of::<c::linger>()]),
        (c::SOL_SOCKET, c::SO_RCVTIMEO | c::SO_SNDTIMEO) => {
            Ok(vec![0; size_of::<crate::opt::Time>()])
        }
        (c::IPPROTO_IP, c::IP_TTL) => number(64),
        _ => number(0),
    }
}

/// `statx` of a file, or of a socket (`None`).
fn metadata(world: &World, inode: Option<usize>) -> c::statx {
    // SAFETY: all its fields are integers.
    let mut stat: c::statx = unsafe { std::mem::zeroed() };
    stat.stx_mask = c::STATX_BASIC_STATS;
    stat.stx_blksize = 4096;
    stat.stx_nlink = 1;
    stat.stx_mode = match inode {
        Some(inode) => {
            stat.stx_ino = inode as u64 + 1;
            stat.stx_size = world.files.len(inode);
            stat.stx_blocks = stat.stx_size.div_ceil(512);
            (c::S_IFREG | 0o644) as u16
        }
        None => (c::S_IFSOCK | 0o777) as u16,
    };
    stat
}
