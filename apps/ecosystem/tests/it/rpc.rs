//! tonic both ways.

use std::time::Duration;

use bast::Cancelled;
use bast_ecosystem::rpc::client::Client;
use bast_ecosystem::rpc::server::Server;
use bast_ecosystem::rpc::{Addition, Number};
use tonic::Code;

use crate::harness::{run, until};

const AN_HOUR: u64 = 3_600_000;

/// A test with a server that is stopped in the end, when no fiber of a method is left.
fn with(body: impl FnOnce(&Server, Client) + Send + 'static) {
    run(|| {
        let server = Server::start(([127, 0, 0, 1], 0).into()).unwrap();
        let client = Client::connect(&format!("http://{}", server.addr)).unwrap();
        body(&server, client);
        until(|| server.running.count() == 0);
        server.stop().unwrap();
    });
}

fn addition(a: i64, b: i64, millis: u64) -> Addition {
    Addition { a, b, millis }
}

#[test]
fn calls_of_many_fibers_share_a_connection() {
    with(|_, client| {
        let sums = bast::par_map(0..200, 50, |n| {
            client.clone().add(addition(1, n, n as u64 % 3), None).unwrap().value
        });
        assert!(sums.into_iter().eq(1..=200));
    });
}

#[test]
fn errors_and_panics_of_a_method_are_statuses() {
    with(|_, mut client| {
        let status = client.add(addition(-1, 1, 0), None).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let status = client.add(addition(42, 1, 0), None).unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Internal, "the method has panicked"));
        assert_eq!(client.add(addition(1, 1, 0), None).unwrap().value, 2);
    });
}

#[test]
fn the_server_s_stream_waits_for_its_reader_and_ends_with_it() {
    with(|server, mut client| {
        let numbers = client.count(1000).unwrap().map(|number| number.unwrap().value);
        assert!(numbers.eq(1..=1000));
        // One without an end: the fiber is as far ahead as the windows of HTTP/2 let it, until nobody reads.
        let mut endless = client.count(i64::MAX).unwrap();
        assert_eq!(endless.next().unwrap().unwrap().value, 1);
        assert_eq!(server.running.count(), 1);
        drop(endless);
    });
}

#[test]
fn both_sides_stream_at_once() {
    with(|_, mut client| {
        let (send, receive) = bast::sync::mpsc::channel();
        let mut sums = client
            .sum(move |out| {
                receive.into_iter().for_each(|value| assert!(out.send(Number { value })))
            })
            .unwrap();
        // Each number is an answer to the sum before it.
        let mut sum = 1;
        for _ in 0..30 {
            send.send(sum).unwrap();
            let next = sums.next().unwrap().unwrap().value;
            assert_eq!(next, sum * 2 - 1);
            sum = next + 1;
        }
        drop(send);
        assert!(sums.next().is_none());
    });
}

#[test]
fn deadlines_and_cancelled_callers_end_the_fiber_of_the_method() {
    with(|server, mut client| {
        // The deadline travels with the call.
        let late =
            client.add(addition(1, 1, AN_HOUR), Some(Duration::from_millis(20))).unwrap_err();
        assert!(matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled), "{late}");
        until(|| server.running.count() == 0);
        let mut other = client.clone();
        let calling = bast::spawn(move || other.add(addition(1, 1, AN_HOUR), None).unwrap());
        until(|| server.running.count() == 1);
        calling.cancel();
        assert!(calling.join().unwrap_err().is::<Cancelled>());
        until(|| server.running.count() == 0);
        let moment = Duration::from_millis(20);
        let late = bast::timeout(moment, || client.add(addition(1, 1, AN_HOUR), None).unwrap());
        assert!(late.is_err());
    });
}

#[test]
fn a_server_that_is_not_there_is_told() {
    run(|| {
        let listener = bast::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let text = Client::connect(&url).unwrap_err().to_string();
        assert!(text.contains("refused") && text.contains("ecosystem rpc --listen"), "{text}");
    });
}
