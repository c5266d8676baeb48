//! redis from fibers, if there is a server.

use bast::Cancelled;
use bast_ecosystem::cache::Cache;

use crate::harness::{run, server, until};

/// A test with a server, and a name for its keys.
fn with(name: &str, body: impl FnOnce(Cache, String) + Send + 'static) {
    let key = format!("bast-{name}-{}", std::process::id());
    if let Some(url) = server("BAST_TEST_REDIS") {
        run(move || body(Cache::open(&url).unwrap(), key));
    }
}

#[test]
fn a_hundred_fibers_share_a_connection() {
    with("counter", |cache, key| {
        let mut counts = bast::par_map(0..1000, 100, |_| cache.add(&key, 1).unwrap());
        counts.sort_unstable();
        assert!(counts.into_iter().eq(1..=1000));
        assert_eq!(cache.remove(&[key]).unwrap(), 1);
    });
}

#[test]
fn a_pipeline_is_one_round_trip() {
    with("pipeline", |cache, key| {
        let pairs: Vec<_> = (0..50).map(|n| (format!("{key}-{n}"), n)).collect();
        assert!(cache.set_and_get(&pairs).unwrap().into_iter().eq(0..50));
        let keys: Vec<_> = pairs.into_iter().map(|(key, _)| key).collect();
        assert_eq!(cache.remove(&keys).unwrap(), 50);
    });
}

#[test]
fn what_is_published_comes_to_all_who_listen() {
    with("channel", |cache, key| {
        let listening: Vec<_> = (0..10)
            .map(|_| {
                let messages = cache.subscribe(&key).unwrap();
                bast::spawn(move || messages.map(Result::unwrap).take(3).collect::<Vec<_>>())
            })
            .collect();
        for text in ["a", "b", "c"] {
            assert_eq!(cache.publish(&key, text).unwrap(), 10);
        }
        for fiber in listening {
            assert_eq!(fiber.join().unwrap(), ["a", "b", "c"]);
        }
        // They have unsubscribed by going.
        until(|| cache.publish(&key, "d").unwrap() == 0);
    });
}

#[test]
fn who_is_cancelled_while_waiting_takes_nothing() {
    with("list", |cache, key| {
        let popping = || {
            let (cache, key) = (cache.clone(), key.clone());
            bast::spawn(move || cache.pop(&key).unwrap())
        };
        let (first, second) = (popping(), popping());
        first.cancel();
        assert!(first.join().unwrap_err().is::<Cancelled>());
        cache.push(&key, "x").unwrap();
        assert_eq!(second.join().unwrap(), "x");
    });
}

#[test]
fn a_server_that_is_not_there_is_told() {
    run(|| {
        let listener = bast::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        drop(listener);
        let text = Cache::open(&url).err().unwrap().to_string();
        assert!(text.contains("refused") && text.contains("apt install redis-server"), "{text}");
    });
}
