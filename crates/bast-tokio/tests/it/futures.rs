//! One future in the context: its end, by a value, a panic, a request, a timeout; and where it is dropped.

use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};

use bast::Cancelled;
use bast::future::Wait;
use bast_tokio::{InTokio, Tokio};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::runtime::Id;
use tokio::time::sleep;

use crate::harness::{another, background, here, message, ms, run};

/// Notes in which context it is dropped.
#[derive(Clone, Default)]
struct Drops(Arc<Mutex<Vec<Option<Id>>>>);

struct Noted(Drops);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().push(here());
    }
}

impl Drops {
    /// A future that needs the context when it is dropped, which is after this many milliseconds.
    fn after(&self, millis: u64) -> impl Future<Output = ()> + Send + 'static {
        let noted = Noted(self.clone());
        async move {
            let _noted = noted;
            sleep(ms(millis)).await;
        }
    }

    fn all(&self) -> Vec<Option<Id>> {
        self.0.lock().unwrap().clone()
    }
}

const NEVER: u64 = 1_000_000;

#[test]
fn it_is_dropped_in_the_context_however_it_ends() {
    run(|| {
        let drops = Drops::default();
        drops.after(1).tokio_wait();
        assert_eq!(drops.all(), [background()]);
        // Before it was ever polled, and in the middle.
        drop(drops.after(NEVER).in_tokio());
        let mut begun = Box::pin(drops.after(NEVER).in_tokio());
        assert!(begun.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(begun);
        assert_eq!(drops.all(), [background(); 3]);
        assert!(bast::timeout(ms(2), || drops.after(NEVER).tokio_wait()).is_err());
        assert_eq!(drops.all(), [background(); 4]);
        let (future, (send, started)) = (drops.after(NEVER), mpsc::channel());
        let fiber = bast::spawn(move || {
            send.send(()).unwrap();
            future.tokio_wait();
        });
        while started.try_recv().is_err() {
            bast::yield_now();
        }
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        assert_eq!(drops.all(), [background(); 5]);
        // In its own.
        let own = another();
        drop(Tokio::on(own.handle(), drops.after(NEVER)));
        assert_eq!(drops.all()[5], Some(own.handle().id()));
        bast::blocking(|| drop(own));
        assert_eq!(here(), None);
    });
}

#[test]
fn panics_pass_through_and_leave_no_context() {
    struct Angry;
    impl Drop for Angry {
        fn drop(&mut self) {
            assert_eq!(here(), background());
            panic!("in drop, on purpose");
        }
    }
    let of = |f: &mut dyn FnMut()| {
        let payload = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
        assert_eq!(here(), None);
        message(&*payload).to_owned()
    };
    run(move || {
        let mut in_poll = || async { panic!("in poll, on purpose") }.tokio_wait();
        assert_eq!(of(&mut in_poll), "in poll, on purpose");
        let mut late = || {
            async {
                sleep(ms(1)).await;
                panic!("late, on purpose")
            }
            .tokio_wait()
        };
        assert_eq!(of(&mut late), "late, on purpose");
        let mut at_the_end = || {
            let angry = Angry;
            std::future::poll_fn(move |_| {
                let _captured = &angry;
                Poll::Ready(())
            })
            .tokio_wait();
        };
        assert_eq!(of(&mut at_the_end), "in drop, on purpose");
        let mut dropped = || {
            let angry = Angry;
            drop(async move { drop(angry) }.in_tokio());
        };
        assert_eq!(of(&mut dropped), "in drop, on purpose");
        assert_eq!(of(&mut || bast_tokio::run(|| panic!("in run"))), "in run");
        // A task's panic is its handle's.
        let error = bast_tokio::spawn(async { panic!("in a task") }).wait().unwrap_err();
        assert_eq!(message(&*error.into_panic()), "in a task");
    });
}

#[test]
fn it_is_not_polled_after_its_end() {
    let mut future = pin!(async {}.in_tokio());
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_ready());
    assert_eq!(format!("{future:?}"), "Tokio { ended: true, .. }");
    let again = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
    assert!(message(&*again.unwrap_err()).contains("not polled after its end"));
}

#[test]
fn both_kinds_of_timeout_end_it() {
    run(|| {
        let late = async { tokio::time::timeout(ms(1), pending::<()>()).await }.tokio_wait();
        assert!(late.is_err());
        assert!(bast::timeout(ms(1), || pending::<()>().tokio_wait()).is_err());
        // One inside the other: the inner one is first, and the outer one has not fired.
        let inner = bast::timeout(ms(60_000), || {
            async { tokio::time::timeout(ms(1), pending::<()>()).await.is_err() }.tokio_wait()
        });
        assert_eq!(inner, Ok(true));
        let outer = bast::timeout(ms(1), || {
            async { tokio::time::timeout(ms(60_000), pending::<()>()).await.is_err() }.tokio_wait()
        });
        assert!(outer.is_err());
        // bast's timeout in a poll, inside tokio's.
        let both = async {
            tokio::time::timeout(ms(60_000), async { bast::timeout(ms(1), bast::park).is_err() })
                .await
        };
        assert_eq!(both.tokio_wait(), Ok(true));
    });
}

#[test]
fn a_cancelled_fiber_closes_the_socket_it_was_reading() {
    use std::io::Read;
    run(|| {
        let listener = bast::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let reader = bast::spawn(move || {
            async {
                let mut stream = TcpStream::connect(addr).await.unwrap();
                stream.read_u8().await
            }
            .tokio_wait()
        });
        let (mut peer, _) = listener.accept().unwrap();
        reader.cancel();
        assert!(reader.join().unwrap_err().is::<Cancelled>());
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    });
}

/// Counts how often it is polled, and keeps every waker.
struct Greedy(Arc<AtomicUsize>, Arc<Mutex<Vec<Waker>>>);

impl Future for Greedy {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.1.lock().unwrap().push(context.waker().clone());
        if self.0.fetch_add(1, SeqCst) < 100 { Poll::Pending } else { Poll::Ready(()) }
    }
}

#[test]
fn wakes_come_from_tokio_s_threads() {
    run(|| {
        let (polls, wakers) = (Arc::default(), Arc::<Mutex<Vec<Waker>>>::default());
        let waking = Arc::clone(&wakers);
        let task = bast_tokio::spawn(async move {
            loop {
                waking.lock().unwrap().drain(..).for_each(Waker::wake);
                tokio::task::yield_now().await;
            }
        });
        Greedy(Arc::clone(&polls), wakers).tokio_wait();
        assert_eq!(polls.load(SeqCst), 101);
        task.abort();
        assert!(task.wait().unwrap_err().is_cancelled());
    });
}
