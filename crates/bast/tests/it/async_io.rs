//! Streams, listeners, datagrams and timers for code that is polled.

use std::future::{Future, poll_fn};
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bast::future::{Wait, io::Async};
use bast::net::{TcpListener, TcpStream, UdpSocket};
use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::harness::on_bast::run;
use crate::harness::{needs_kernel, on_std, rounds, simulated};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Counts its wakes.
#[derive(Default)]
pub(crate) struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Counter>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Counter {
    pub(crate) fn new() -> (Arc<Counter>, Waker) {
        let counter = Arc::<Counter>::default();
        (Arc::clone(&counter), Waker::from(counter))
    }

    pub(crate) fn wakes(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Two ends of a connection.
pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let client = bast::spawn_local(move || TcpStream::connect(addr).unwrap());
    let (server, _) = listener.accept().unwrap();
    (client.join().unwrap(), server)
}

/// One body, whatever reads and writes.
async fn there_and_back(client: impl AsyncRead + AsyncWrite, server: impl AsyncRead + AsyncWrite) {
    let (mut client, mut server) = (pin!(client), pin!(server));
    let text: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
    let mut buf = vec![0; 5000];
    for part in text.chunks(5000) {
        // What is under way may have less room.
        let (sent, got) = futures_util::join!(client.write_all(part), server.read_exact(&mut buf));
        sent.and(got).unwrap();
        assert_eq!(buf, part);
        client.flush().await.unwrap();
        let (sent, got) = futures_util::join!(server.write_all(part), client.read_exact(&mut buf));
        sent.and(got).unwrap();
        assert_eq!(buf, part);
    }
    client.close().await.unwrap();
    assert_eq!(server.read(&mut buf).await.unwrap(), 0);
    assert_eq!(server.read(&mut buf).await.unwrap(), 0, "the end is the end");
    server.write_all(b"half-closed").await.unwrap();
    server.close().await.unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"half-closed");
}

#[test]
fn it_reads_and_writes_as_std_does() {
    use futures_util::io::AllowStdIo;
    run(|| {
        let (client, server) = pair();
        there_and_back(Async::new(client), Async::new(server)).wait();
    });
    needs_kernel!();
    on_std::run(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        // std's own idea; closing one half is not in std's traits.
        struct Half(AllowStdIo<std::net::TcpStream>);
        impl AsyncRead for Half {
            fn poll_read(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<std::io::Result<usize>> {
                Pin::new(&mut self.0).poll_read(context, buf)
            }
        }
        impl AsyncWrite for Half {
            fn poll_write(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<std::io::Result<usize>> {
                Pin::new(&mut self.0).poll_write(context, buf)
            }
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
                Poll::Ready(Ok(()))
            }
            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
                Poll::Ready(self.0.get_ref().shutdown(std::net::Shutdown::Write))
            }
        }
        let half = |stream| Half(AllowStdIo::new(stream));
        there_and_back(half(client), half(server)).wait();
    });
}

/// Polled where there is no worker, by bast and by others.
#[test]
fn a_plain_thread_may_poll_it() {
    needs_kernel!();
    on_std::run(|| {
        let listener = Async::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let addr = listener.get_ref().local_addr().unwrap();
        let talk = async {
            let (client, server) =
                futures_util::join!(Async::<TcpStream>::connect(addr), listener.accept());
            there_and_back(client.unwrap(), server.unwrap().0).await;
            bast::future::sleep(ms(1)).await;
        };
        futures_executor::block_on(talk);
        #[cfg(unix)]
        {
            let (client, server) = std::os::unix::net::UnixStream::pair().unwrap();
            let local = |std| Async::new(bast::os::unix::net::UnixStream::from(std));
            there_and_back(local(client), local(server)).wait();
        }
    });
}

/// A read that got less than it has room for goes over to waiting without a try. What comes then, or has come meanwhile,
/// is read all the same: by any kind of read, by polls and fibers in turn, and also if it is the end.
#[test]
#[allow(unsafe_code)]
fn a_short_read_misses_nothing_that_comes_behind_it() {
    run(|| {
        for round in 0..rounds(300) as usize {
            let (mut client, server) = pair();
            let server = Async::new(server);
            let sent: Vec<u8> = (0..10).map(|n| (round + n) as u8).collect();
            let bytes = sent.clone();
            let writes = bast::spawn(move || {
                for (at, byte) in bytes.iter().enumerate() {
                    client.write_all(&[*byte]).unwrap();
                    // Before, while, and after the other one begins to wait.
                    for _ in 0..(round >> (at % 4)) % 3 {
                        bast::yield_now();
                    }
                }
                // The end comes right behind the last byte.
            });
            let mut got = Vec::new();
            for turn in round.. {
                let mut buf = [0; 64];
                let n = match turn % 4 {
                    0 => (&mut server.get_ref()).read(&mut buf).unwrap(),
                    1 => (&mut &server).read(&mut buf).wait().unwrap(),
                    _ => {
                        let mut room = [MaybeUninit::uninit(); 64];
                        let read = poll_fn(|context| server.poll_read_uninit(context, &mut room));
                        let n = read.wait().unwrap();
                        for (to, from) in buf.iter_mut().zip(&room[..n]) {
                            // SAFETY: so many have been read.
                            *to = unsafe { from.assume_init() };
                        }
                        n
                    }
                };
                if n == 0 {
                    break;
                }
                got.extend_from_slice(&buf[..n]);
            }
            assert_eq!(got, sent, "round {round}");
            writes.join().unwrap();
        }
    });
}

#[test]
fn both_halves_are_used_at_once() {
    run(|| {
        let (client, server) = pair();
        let (client, server) = (Async::new(client), Async::new(server));
        let echo = bast::spawn(move || {
            futures_util::io::copy(&server, &mut &server).wait().unwrap();
        });
        let (mut reader, mut writer) = client.split();
        // The simulator moves a few bytes at a time, and other tests wait for the same worker.
        let len = if simulated() { 300_000_u32 } else { 3_000_000 };
        let blob: Vec<u8> = (0..len).map(|n| (n / 7) as u8).collect();
        let sent = blob.clone();
        let writes = bast::spawn(move || {
            async {
                writer.write_all(&sent).await.unwrap();
                writer.close().await.unwrap();
            }
            .wait();
        });
        let mut got = Vec::new();
        reader.read_to_end(&mut got).wait().unwrap();
        assert!(got == blob);
        writes.join().unwrap();
        echo.join().unwrap();
    });
}

#[test]
fn the_last_waker_is_the_one_that_is_called() {
    run(|| {
        let (mut client, server) = pair();
        let server = Async::new(server);
        let [(first, one), (second, two)] = [Counter::new(), Counter::new()];
        let mut buf = [0; 8];
        let mut poll = |waker: &Waker| {
            Pin::new(&mut &server).poll_read(&mut Context::from_waker(waker), &mut buf)
        };
        assert!(poll(&one).is_pending());
        assert!(poll(&two).is_pending());
        assert!(poll(&two).is_pending());
        client.write_all(b"x").unwrap();
        while second.wakes() == 0 {
            bast::sleep(ms(1));
        }
        assert!(matches!(poll(&one), Poll::Ready(Ok(1))));
        assert_eq!((first.wakes(), second.wakes()), (0, 1));
    });
}

#[test]
fn reading_nothing_and_writing_nothing_do_not_wait() {
    run(|| {
        let (client, _server) = pair();
        let mut client = Async::new(client);
        assert_eq!(client.read(&mut []).wait().unwrap(), 0);
        assert_eq!(client.read_vectored(&mut []).wait().unwrap(), 0);
        let read = poll_fn(|context| client.poll_read_uninit(context, &mut []));
        assert_eq!(read.wait().unwrap(), 0);
        assert_eq!(client.write(&[]).wait().unwrap(), 0);
    });
}

#[test]
fn what_is_dropped_while_it_waits_is_closed() {
    run(|| {
        for elsewhere in [false, true] {
            let (mut client, server) = pair();
            let server = Async::new(server);
            let (counter, waker) = Counter::new();
            let polled =
                Pin::new(&mut &server).poll_read(&mut Context::from_waker(&waker), &mut [0; 8]);
            assert!(polled.is_pending());
            if elsewhere {
                std::thread::spawn(move || drop(server)).join().unwrap();
            } else {
                drop(server);
            }
            assert_eq!(client.read(&mut [0; 8]).unwrap(), 0, "the end of the stream");
            assert_eq!(counter.wakes(), 0);
            assert_eq!(Arc::strong_count(&counter), 2, "no waker is left but ours");
        }
    });
}

#[test]
fn into_inner_gives_back_what_has_lost_nothing() {
    run(|| {
        let (mut client, server) = pair();
        let server = Async::new(server);
        let (_, waker) = Counter::new();
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut &server).poll_read(&mut context, &mut [0; 8]).is_pending());
        client.write_all(b"kept").unwrap();
        let mut server = server.into_inner();
        drop(client);
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "kept");
    });
}

#[cfg_attr(windows, ignore = "Wine: a reset is read as the end")]
#[test]
fn a_reset_is_an_error_and_then_the_end() {
    needs_kernel!();
    run(|| {
        let (client, server) = pair();
        let mut server = Async::new(server);
        server.write_all(b"unread").wait().unwrap();
        let waits = bast::spawn(move || {
            let error = server.read(&mut [0; 8]).wait().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            assert_eq!(server.read(&mut [0; 8]).wait().unwrap(), 0);
            assert_eq!(server.write(b"x").wait().unwrap_err().kind(), ErrorKind::BrokenPipe);
            server.close().wait().unwrap();
        });
        bast::sleep(ms(2));
        // With something unread, closing resets.
        drop(client);
        waits.join().unwrap();
    });
}

#[test]
fn datagrams_come_and_go() {
    run(|| {
        let [a, b] = [(); 2].map(|()| Async::new(UdpSocket::bind("127.0.0.1:0").unwrap()));
        let addr = |socket: &Async<UdpSocket>| socket.get_ref().local_addr().unwrap();
        let (from, to) = (addr(&a), addr(&b));
        let mut buf = [0; 8];
        let (got, ()) = async {
            futures_util::join!(b.recv_from(&mut buf), async {
                bast::future::sleep(ms(1)).await;
                assert_eq!(a.send_to(b"hello", &to).await.unwrap(), 5);
            })
        }
        .wait();
        assert_eq!(got.unwrap(), (5, from));
        assert_eq!(&buf[..5], b"hello");
        a.get_ref().connect(to).unwrap();
        b.get_ref().connect(from).unwrap();
        async {
            a.send(b"again").await.unwrap();
            assert_eq!(b.recv(&mut buf).await.unwrap(), 5);
            poll_fn(|context| b.poll_writable(context)).await.unwrap();
        }
        .wait();
    });
}

/// Polled here and there, reset, and dropped.
#[test]
fn a_sleep_ends_when_its_time_has_come() {
    use bast::future::{Sleep, sleep};
    use bast::time::Instant;
    run(|| {
        let begun = Instant::now();
        sleep(ms(3)).wait();
        assert!(begun.elapsed() >= ms(3));
        sleep(Duration::ZERO).wait();
        let far = || sleep(Duration::from_secs(3600));
        // Never polled, polled, and reset both ways.
        drop(far());
        let (counter, waker) = Counter::new();
        let mut context = Context::from_waker(&waker);
        for _ in 0..3 {
            let mut sleep = far();
            assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
            let begun = Instant::now();
            sleep.reset(begun + ms(2));
            (&mut sleep).wait();
            assert!(begun.elapsed() >= ms(2) && sleep.is_elapsed());
            let woken = counter.wakes();
            sleep.reset(Instant::now() + ms(2));
            let _ = Pin::new(&mut sleep).poll(&mut context);
            sleep.reset(Instant::now() + Duration::from_secs(3600));
            assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
            bast::sleep(ms(4));
            assert!(counter.wakes() <= woken + 1, "at most for the time before");
            assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
            let kept: Pin<Box<dyn Future<Output = ()> + Send + Sync>> = Box::pin(sleep);
            std::thread::spawn(move || drop(kept)).join().unwrap();
        }
        let never = std::future::pending::<()>();
        assert!(bast::future::timeout(ms(2), never).wait().is_err());
        assert_eq!(bast::future::timeout(ms(2000), async { 7 }).wait(), Ok(7));
        let sleeps: Vec<Sleep> = (1..50).map(|n| sleep(ms(n % 5))).collect();
        futures_util::future::join_all(sleeps).wait();
    });
    needs_kernel!();
    on_std::run(|| {
        let begun = std::time::Instant::now();
        futures_executor::block_on(sleep(ms(3)));
        sleep(ms(3)).wait();
        assert!(begun.elapsed() >= ms(6));
        assert!(bast::future::timeout(ms(1), std::future::pending::<()>()).wait().is_err());
    });
}
