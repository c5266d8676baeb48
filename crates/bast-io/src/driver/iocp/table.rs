//! What is known about each handle: whether it completes at this driver's port.
//!
//! A handle is associated with one port for as long as what it names lives, by whichever driver first has an
//! operation on it that waits. Nobody keeps a list of who that was: associating a second time fails, and that is the
//! answer. A number is used again for another handle; a note counts only if the handle's id agrees.

use windows_sys::Wdk::Storage::FileSystem::{
    FILE_MODE_INFORMATION, FILE_SYNCHRONOUS_IO_ALERT, FILE_SYNCHRONOUS_IO_NONALERT,
    FileModeInformation, NtQueryInformationFile,
};
use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::Storage::FileSystem::SetFileCompletionNotificationModes;
use windows_sys::Win32::System::IO::{CreateIoCompletionPort, IO_STATUS_BLOCK};
use windows_sys::Win32::System::WindowsProgramming::{
    FILE_SKIP_COMPLETION_PORT_ON_SUCCESS, FILE_SKIP_SET_EVENT_ON_HANDLE,
};

use crate::{HandleRef, Kind, sys};

/// Where an operation on a handle completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Here, by a packet; `skips`: unless the call itself has succeeded.
    Home { skips: bool },
    /// The handle is another port's, or nobody's: by an event.
    Away,
    /// In the call: the handle is synchronous.
    Inside,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    id: u64,
    place: Place,
}

/// The notes, by number: handles are multiples of four.
#[derive(Debug, Default)]
pub(super) struct Table {
    notes: Vec<Note>,
}

impl Table {
    /// Where operations on `handle` complete. Associates it with `port` if nobody has.
    #[inline]
    pub(super) fn place(&mut self, handle: HandleRef, port: HANDLE) -> Place {
        if handle.id == 0 {
            // Somebody else's: nothing is done to it, and no note kept.
            return Place::Away;
        }
        let at = handle.raw as u32 as usize >> 2;
        match self.notes.get(at) {
            Some(note) if note.id == handle.id => note.place,
            _ => self.look(handle, at, port),
        }
    }

    /// Whether operations on `handle` are known to complete here.
    pub(super) fn is_home(&self, handle: HandleRef) -> bool {
        let note = self.notes.get(handle.raw as u32 as usize >> 2);
        note.is_some_and(|n| n.id == handle.id && matches!(n.place, Place::Home { .. }))
    }

    #[cold]
    fn look(&mut self, handle: HandleRef, at: usize, port: HANDLE) -> Place {
        let place = associate(handle, port);
        if at >= self.notes.len() {
            self.notes.resize(at + 1, Note { id: 0, place: Place::Away });
        }
        self.notes[at] = Note { id: handle.id, place };
        place
    }
}

fn associate(handle: HandleRef, port: HANDLE) -> Place {
    let file = sys::handle(handle.raw);
    // A port would take a synchronous handle as little as one that has a port.
    // SAFETY: no memory is involved.
    if unsafe { CreateIoCompletionPort(file, port, 0, 0) }.is_null() {
        let inside = !handle.is_socket() && (handle.kind == Kind::File || is_synchronous(file));
        return if inside { Place::Inside } else { Place::Away };
    }
    // Datagrams keep their packets: with this mode some versions of Windows post one, or none, for a datagram that
    // was longer than its buffer. (A layered provider whose sockets are no handles refuses the mode.)
    let modes = FILE_SKIP_COMPLETION_PORT_ON_SUCCESS | FILE_SKIP_SET_EVENT_ON_HANDLE;
    let skips = handle.kind != Kind::Datagram
        // SAFETY: no memory is involved.
        && unsafe { SetFileCompletionNotificationModes(file, modes as u8) } != 0;
    Place::Home { skips }
}

/// Whether calls on it wait. (If nobody knows: yes. A thread is right for both.)
fn is_synchronous(file: HANDLE) -> bool {
    let mut status = IO_STATUS_BLOCK::default();
    let mut mode = FILE_MODE_INFORMATION { Mode: 0 };
    let len = size_of::<FILE_MODE_INFORMATION>() as u32;
    // SAFETY: room for the answer, as long as it says.
    let refused = unsafe {
        let room = (&raw mut mode).cast();
        NtQueryInformationFile(file, &raw mut status, room, len, FileModeInformation)
    };
    refused < 0 || mode.Mode & (FILE_SYNCHRONOUS_IO_ALERT | FILE_SYNCHRONOUS_IO_NONALERT) != 0
}
