//! reqwest from fibers.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bast::Cancelled;
use bast_ecosystem::fetch::{fetch, get};
use bast_ecosystem::origin::Origin;
use reqwest::Client;

use crate::harness::{run, until};

#[test]
fn a_hundred_fibers_ask_at_once() {
    run(|| {
        let origin = Origin::start().unwrap();
        let client = bast_tokio::run(Client::new);
        let report = fetch(&client, &origin.page(5000), 1000, 100);
        assert_eq!((report.answered, report.bytes), (1000, 5_000_000), "{report}");
        assert_eq!(origin.counts.requests.load(SeqCst), 1000);
        let report = fetch(&client, &format!("http://{}/nothing", origin.addr), 3, 2);
        assert_eq!((report.answered, report.faults.len()), (0, 3));
        assert!(report.faults[0].contains("404"), "{report}");
    });
}

#[test]
fn whoever_is_cancelled_or_late_closes_the_connection_and_others_go_on() {
    run(|| {
        let origin = Origin::start().unwrap();
        let client = bast_tokio::run(Client::new);
        let url = format!("http://{}/never", origin.addr);
        let seen = |unanswered| until(|| origin.counts.unanswered.load(SeqCst) == unanswered);
        let asking = bast::spawn({
            let (client, url) = (client.clone(), url.clone());
            move || get(&client, &url)
        });
        seen(1);
        asking.cancel();
        assert!(asking.join().unwrap_err().is::<Cancelled>());
        until(|| origin.counts.gone.load(SeqCst) == 1);
        // Time runs out: bast's, and reqwest's own, which is tokio's.
        let moment = Duration::from_millis(20);
        assert!(bast::timeout(moment, || get(&client, &url)).is_err());
        let hasty = bast_tokio::run(|| Client::builder().timeout(moment).build().unwrap());
        assert!(get(&hasty, &url).unwrap_err().is_timeout());
        until(|| origin.counts.gone.load(SeqCst) == origin.counts.unanswered.load(SeqCst));
        assert_eq!(get(&client, &origin.page(7)).unwrap().1, 7);
    });
}

#[test]
fn a_server_that_is_not_there_is_an_error_with_its_cause() {
    run(|| {
        let listener = bast::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        let report = fetch(&bast_tokio::run(Client::new), &url, 1, 1);
        assert!(report.faults[0].contains("refused"), "{report}");
    });
}
