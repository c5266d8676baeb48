//! What the context costs, in nanoseconds, the best of some rounds: `cargo run --release -p bast-tokio --example costs`.
//!
//! * `yield`: two fibers of one worker that yield to each other, for each switch: before the switch hook is there, with it,
//!   and inside the context, which is then left and entered at each switch.
//! * `ready`: a future that is ready, by bast's `wait`, by `tokio_wait`, and by `wait` inside `run`.
//! * `round trip`: a fiber, or a thread in tokio's `block_on`, and a task on tokio's thread that answer each other: two
//!   wakes across threads.

use std::future::ready;
use std::hint::black_box;
use std::time::Instant;

use bast::future::Wait;
use bast_tokio::InTokio;
use tokio::sync::mpsc;

const ROUNDS: u32 = 10;

/// The best of some rounds, per step.
fn best(steps: u32, mut round: impl FnMut()) -> f64 {
    let times = (0..ROUNDS).map(|_| {
        let begun = Instant::now();
        round();
        begun.elapsed().as_nanos() as f64 / f64::from(steps)
    });
    times.fold(f64::INFINITY, f64::min)
}

fn yields() -> f64 {
    const STEPS: u32 = 200_000;
    best(STEPS, || {
        let go_on = || (0..STEPS / 2).for_each(|_| bast::yield_now());
        let other = bast::spawn_local(go_on);
        go_on();
        other.join().expect("it only yields");
    })
}

fn readies(wait: fn() -> u32) -> f64 {
    const STEPS: u32 = 1_000_000;
    best(STEPS, || (0..STEPS).for_each(|_| _ = black_box(wait())))
}

async fn round_trips() -> f64 {
    const STEPS: u32 = 20_000;
    let (there, mut here) = mpsc::channel(1);
    let (back, mut again) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(n) = here.recv().await {
            if back.send(n).await.is_err() {
                return;
            }
        }
    });
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for n in 0..STEPS {
            there.send(n).await.expect("the task is there");
            assert_eq!(again.recv().await, Some(n));
        }
        least = least.min(begun.elapsed().as_nanos() as f64 / f64::from(STEPS));
    }
    least
}

fn main() {
    bast::spawn(|| {
        println!("yield      without hook     {:9.1}", yields());
        println!("ready      wait             {:9.1}", readies(|| ready(black_box(1)).wait()));
        println!(
            "ready      tokio_wait       {:9.1}",
            readies(|| ready(black_box(1)).tokio_wait())
        );
        println!("yield      with hook        {:9.1}", yields());
        bast_tokio::run(|| {
            println!("ready      wait in run      {:9.1}", readies(|| ready(black_box(1)).wait()));
            println!("yield      in run, one side {:9.1}", yields());
        });
        println!("round trip fiber            {:9.1}", round_trips().tokio_wait());
    })
    .join()
    .expect("it ends");
    println!("round trip tokio's block_on {:9.1}", bast_tokio::handle().block_on(round_trips()));
}
