//! What holds in a program that is compiled with `panic = "abort"`: nothing unwinds, waits that can fail or return
//! early do so, and every call returns when its fibers have.
//!
//! `RUSTFLAGS="-C panic=abort" cargo run -p bast-sync --example abort --target-dir target/abort`

use std::time::Duration;

use bast_rt::{Cancelled, sleep, spawn, timeout};
use bast_sync::{CancelToken, for_each_concurrent, group, join, par_map, race};

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(600);

fn main() {
    if cfg!(panic = "unwind") {
        println!("to be compiled with panic=abort: see the head of this file");
        return;
    }
    spawn(all).join().expect("no panic");
    all();
    println!("from a thread as well");
}

/// Any of the long sleeps would be noticed.
fn all() {
    let token = CancelToken::new();
    let fiber = token.spawn(|| {
        sleep(LONG);
        5
    });
    sleep(SHORT);
    token.cancel();
    assert_eq!(fiber.join().expect("no panic"), Ok(5), "a sleep that returned early");
    assert!(token.run(|| 5).is_err(), "it does not begin");

    let failed: Result<(), Cancelled> = group(|g| {
        (0..3).for_each(|_| drop(g.spawn(|| long(()))));
        g.spawn(|| {
            sleep(SHORT);
            Result::<(), _>::Err(Cancelled::new())
        });
        // The calling thread itself is not told, where it sleeps.
        Ok(())
    });
    assert!(failed.is_err());

    // A request from outside, while the group waits for its members.
    let outside = timeout(SHORT, || {
        group(|g| {
            (0..3).for_each(|_| drop(g.spawn(|| long(()))));
            g.spawn(|| {
                group(|g| {
                    g.spawn(|| long(()));
                    Ok(())
                })
            });
            Ok::<_, Cancelled>(7)
        })
    });
    assert_eq!(outside, Ok(Ok(7)));

    let all = timeout(SHORT, || par_map(0..6, 2, |i| long(i).ok()));
    assert_eq!(all, Ok((0..6).map(Some).collect()));
    assert_eq!(timeout(SHORT, || for_each_concurrent(0..6, 2, |i| drop(long(i)))), Ok(()));
    assert_eq!(timeout(SHORT, || join(|| 1, || long(2))), Ok((1, Ok(2))));
    let first = race([0, 1].map(|i| move || if i == 0 { long(i) } else { Ok(i) }));
    assert_eq!(first, Ok(1));
    println!("everything has ended");
}

fn long<T>(value: T) -> Result<T, Cancelled> {
    sleep(LONG);
    Ok(value)
}
