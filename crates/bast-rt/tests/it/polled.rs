//! What waiting for readiness in poll form costs.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;

use bast_io::{Handle, Interest, Kind};
use bast_rt::{Keep, Watch, block_on, ops, spawn_local};

use crate::sockets::handle;
use crate::support::{tests, workers};

fn pair() -> (Handle, Handle) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    (handle(client, Kind::Stream), handle(listener.accept().unwrap().0, Kind::Stream))
}

tests! {
    /// Question and answer: each question is one try, as the short read before it has shown that there is no more.
    fn a_short_read_spares_the_try_that_would_find_nothing() {
        workers(1).run(|| {
            const QUESTIONS: usize = 200;
            let (client, server) = pair();
            let asks = spawn_local(move || {
                for _ in 0..QUESTIONS {
                    assert_eq!(ops::send(&client, b"ask", 0, None).unwrap(), 3);
                    assert_eq!(ops::recv(&client, &mut [0; 8], 0, None).unwrap(), 3);
                }
            });
            let server = Arc::new(server);
            let watch = Watch::new(Interest::Readable);
            let (tries, vain) = (Cell::new(0), Cell::new(0));
            let read = || {
                let mut buf = [0; 8];
                block_on(poll_fn(|context| {
                    let keep = || -> Keep { Arc::<Handle>::clone(&server) };
                    watch.poll_bytes(context, &server, keep, buf.len(), || {
                        tries.set(tries.get() + 1);
                        let read = ops::try_read(&server, &mut buf);
                        if matches!(&read, Err(e) if e.kind() == io::ErrorKind::WouldBlock) {
                            vain.set(vain.get() + 1);
                        }
                        read
                    })
                })).unwrap()
            };
            while read() > 0 {
                ops::send(&server, b"yes", 0, None).unwrap();
            }
            asks.join().unwrap();
            // The end is one, and the first of all may be in vain.
            assert!(tries.get() > QUESTIONS, "{} tries", tries.get());
            assert!(vain.get() < QUESTIONS / 10, "{} of {} in vain", vain.get(), tries.get());
        });
    }
}
