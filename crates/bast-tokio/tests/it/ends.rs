//! A runtime that ends while fibers wait for it, and tokio's own ways of blocking.

use std::sync::mpsc;

use bast::future::Wait;
use bast_tokio::Tokio;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::harness::{another, message, ms, run};

/// Starts a fiber that waits for something of a runtime, ends that runtime, and gives the fiber's end.
fn when_it_ends<T: Send + 'static>(
    wait: impl FnOnce(&tokio::runtime::Handle, &dyn Fn()) -> T + Send + 'static,
) -> std::thread::Result<T> {
    let runtime = another();
    let handle = runtime.handle().clone();
    let (send, begun) = mpsc::channel();
    let fiber = bast::spawn(move || wait(&handle, &|| send.send(()).unwrap()));
    while begun.try_recv().is_err() {
        bast::sleep(ms(1));
    }
    bast::blocking(|| drop(runtime));
    fiber.join()
}

#[test]
fn what_waits_for_a_runtime_that_ends_is_told() {
    run(|| {
        let slept = when_it_ends(|handle, begun| {
            Tokio::on(handle, async {
                begun();
                tokio::time::sleep(ms(1_000_000)).await;
            })
            .wait();
        });
        let payload = slept.unwrap_err();
        assert!(message(&*payload).contains("shutdown"), "{}", message(&*payload));

        let accepted = when_it_ends(|handle, begun| {
            Tokio::on(handle, async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                begun();
                listener.accept().await.map(drop)
            })
            .wait()
        });
        let error = accepted.unwrap().unwrap_err().to_string();
        assert!(error.contains("shutdown") || error.contains("shutting down"), "{error}");

        let task = when_it_ends(|handle, begun| {
            let (send, receive) = oneshot::channel::<()>();
            let task = handle.spawn(async move {
                let _send = send;
                std::future::pending::<()>().await;
            });
            begun();
            (receive.wait().is_err(), task.wait().unwrap_err().is_cancelled())
        });
        assert_eq!(task.unwrap(), (true, true));
    });
}

#[test]
fn tokio_s_block_on_says_so_in_its_tasks_and_blocks_elsewhere() {
    run(|| {
        let nested = bast_tokio::spawn(async { bast_tokio::handle().block_on(async {}) });
        let payload = nested.wait().unwrap_err().into_panic();
        assert!(message(&*payload).contains("Cannot start a runtime from within a runtime"));
        // On a fiber it is a call that blocks the worker: it must not need that worker.
        let one = bast_tokio::run(|| bast_tokio::handle().block_on(async { 1 }));
        assert_eq!(one, 1);
        // And the reverse: what bast waits for, in a blocking task of tokio's.
        let two = bast_tokio::run(|| {
            tokio::task::spawn_blocking(|| bast::spawn(|| 2).join().unwrap()).wait()
        });
        assert_eq!(two.unwrap(), 2);
    });
}
