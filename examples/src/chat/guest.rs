//! One guest: reading and writing at the same time, through a WebSocket that is one object.
//!
//! A reader and a writer with a WebSocket each would be wrong: the reader answers pings and closes, and
//! its frames would land in the middle of the writer's. One object under a lock would be held while its
//! reader waits. So one fiber alone has the WebSocket, and waits for whatever comes first; a second one
//! knows nothing of frames and only brings bytes.
//!
//! ```text
//!           ear: read --pieces--> [ one ] --+
//!   socket                                  |     guest: select! -> WebSocket<Wire>
//!           <------------- write -----------+------ broadcast, clock, stop
//! ```
//!
//! A read of the `Wire` takes from the piece at hand and says `WouldBlock` at its end; tungstenite
//! keeps half a frame until the next one comes. A write is the socket's and waits. All frames leave in
//! the order in which one fiber has made them, pongs and closes among them, and none is lost.
//!
//! Back pressure: who does not read what he is sent makes the guest's fiber wait in `write`. Then nothing
//! is taken from his ear (a piece waits there, the rest in the kernel, so he is slowed down), and the
//! room goes on without him: he misses messages and is told how many. After the idle time without progress
//! he is parted with.

use std::convert::Infallible;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use bast::net::TcpStream;
use bast::select::{at, cancelled, recv, recv_next};
use bast::sync::broadcast::{Receiver, RecvError};
use bast::sync::mpsc::{self, SyncSender};
use bast::time::Instant;
use bast::{CancelToken, Cancelled};
use tungstenite::error::ProtocolError;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tungstenite::{Bytes, Error, Message, Utf8Bytes, WebSocket};

use super::Limits;
use super::room::{Seat, missed};

/// What tungstenite reads from and writes to.
struct Wire<'a> {
    socket: &'a TcpStream,
    /// What has been heard and is not used yet.
    piece: io::Cursor<Vec<u8>>,
    /// Nothing more will be heard.
    ended: bool,
}

impl Read for Wire<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.piece.read(buf)? {
            0 if !self.ended => Err(ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self.socket).write(buf).map_err(|fault| match fault.kind() {
            // For tungstenite that would be a reason to try again.
            ErrorKind::WouldBlock => io::Error::new(ErrorKind::TimedOut, "does not read"),
            _ => fault,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why a guest's connection ends.
enum End {
    /// He has closed it.
    Left,
    /// We close it.
    Part(CloseCode, &'static str),
    Fault(Error),
    /// The grace is over.
    Cancelled,
}

impl From<Cancelled> for End {
    fn from(_: Cancelled) -> End {
        End::Cancelled
    }
}

impl From<Error> for End {
    fn from(fault: Error) -> End {
        match fault {
            Error::ConnectionClosed => End::Left,
            fault => End::Fault(fault),
        }
    }
}

/// Serves a guest, who has sent `ahead` already, until he leaves or has to.
///
/// # Errors
/// What he did wrong, or what broke.
pub fn serve(
    socket: &TcpStream,
    ahead: Vec<u8>,
    seat: &Seat<'_>,
    limits: &Limits,
    stop: &CancelToken,
) -> Result<(), Error> {
    socket.set_write_timeout(Some(limits.idle))?;
    let config = WebSocketConfig::default()
        .read_buffer_size(1024)
        .max_message_size(Some(limits.message))
        .max_frame_size(Some(limits.message));
    let wire = Wire { socket, piece: io::Cursor::default(), ended: false };
    let mut ws = WebSocket::from_partially_read(wire, ahead, Role::Server, Some(config));
    let ended = bast::group(|group| {
        let (ear, heard) = mpsc::sync_channel(1);
        group.spawn(move || {
            listen(socket, &ear);
            Ok(())
        });
        let Err(end) = converse(&mut ws, &heard, seat, limits, stop);
        let farewell = match &end {
            End::Part(code, reason) => Some((*code, *reason)),
            End::Fault(fault) => farewell(fault),
            End::Left | End::Cancelled => None,
        };
        if let Some((code, reason)) = farewell {
            // Not for long: he may be gone, or sending without an end.
            let _ = bast::timeout(Duration::from_secs(1), || {
                ws.close(Some(CloseFrame { code, reason: reason.into() }))?;
                socket.shutdown(Shutdown::Write)?;
                // A socket closed with unread data is reset, and the close frame lost with it.
                while heard.recv().is_ok() {}
                Ok::<(), Error>(())
            });
        }
        // An error ends the group, so the ear, too.
        Err::<(), End>(end)
    });
    match ended {
        Err(End::Fault(fault)) => Err(fault),
        _ => Ok(()),
    }
}

/// The ear: brings bytes, until there are no more or nobody wants them.
fn listen(mut socket: &TcpStream, ear: &SyncSender<Vec<u8>>) {
    loop {
        let mut piece = vec![0; 1024];
        match socket.read(&mut piece) {
            Ok(n @ 1..) => piece.truncate(n),
            Err(fault) if fault.kind() == ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return,
        }
        if ear.send(piece).is_err() {
            return;
        }
    }
}

/// What a guest's fiber waits for.
enum Event {
    Heard(Option<Vec<u8>>),
    News(Result<Utf8Bytes, RecvError>),
    Quiet,
    Stop,
}

/// Passes messages on, in both directions, until there is a reason not to.
fn converse(
    ws: &mut WebSocket<Wire<'_>>,
    heard: &mpsc::Receiver<Vec<u8>>,
    seat: &Seat<'_>,
    limits: &Limits,
    stop: &CancelToken,
) -> Result<Infallible, End> {
    let mut news: Receiver<Utf8Bytes> = seat.listen();
    ws.send(Message::Text(seat.hello()))?;
    seat.announce();
    let mut alive = Instant::now();
    let mut asked = false;
    loop {
        read_all(ws, seat)?;
        let patience = if asked { limits.idle } else { limits.idle / 2 };
        let event = bast::select! {
            piece = recv(heard) => Event::Heard(piece.ok()),
            said = recv_next(&mut news) => Event::News(said),
            () = at(alive + patience) => Event::Quiet,
            () = cancelled(stop) => Event::Stop,
        };
        match event {
            Event::Heard(piece) => {
                (alive, asked) = (Instant::now(), false);
                let wire = ws.get_mut();
                wire.ended = piece.is_none();
                wire.piece = io::Cursor::new(piece.unwrap_or_default());
            }
            Event::News(Ok(message)) => ws.send(Message::Text(message))?,
            Event::News(Err(RecvError::Lagged(lost))) => ws.send(Message::Text(missed(lost)))?,
            Event::Quiet if asked => return Err(End::Part(CloseCode::Away, "silent for too long")),
            Event::Quiet => {
                ws.send(Message::Ping(Bytes::new()))?;
                asked = true;
            }
            Event::Stop | Event::News(Err(RecvError::Closed)) => {
                return Err(End::Part(CloseCode::Away, "the server is ending"));
            }
        }
    }
}

/// Reads all messages that have come; whole ones are said in the room. Pongs and replies to a close are
/// written on the way.
fn read_all(ws: &mut WebSocket<Wire<'_>>, seat: &Seat<'_>) -> Result<(), End> {
    loop {
        match ws.read() {
            Ok(Message::Text(text)) => seat.say(&text),
            Ok(Message::Binary(_)) => {
                return Err(End::Part(CloseCode::Unsupported, "only text is understood"));
            }
            // After a close the next read sends the reply, and says that this is the end.
            Ok(_) => {}
            Err(Error::Io(fault)) if fault.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(fault) => return Err(fault.into()),
        }
    }
}

/// With what he is sent away who has made this mistake. Who has gone, or does not read, gets nothing.
fn farewell(fault: &Error) -> Option<(CloseCode, &'static str)> {
    match fault {
        Error::Capacity(_) => Some((CloseCode::Size, "the message is too long")),
        Error::Utf8(_) => Some((CloseCode::Invalid, "the text is not UTF-8")),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Protocol(_) => Some((CloseCode::Protocol, "this is no WebSocket frame")),
        _ => None,
    }
}
