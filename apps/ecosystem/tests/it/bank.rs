//! sqlx from fibers: the same over each database.

use bast::{Cancelled, Elapsed};
use bast_ecosystem::bank::{BEGINNING, Bank, Day, Transfer, day};
use std::sync::mpsc;
use std::time::Duration;

use crate::harness::{Temp, run, server, until};

const ACCOUNTS: i64 = 20;
const SUM: i64 = ACCOUNTS * BEGINNING;

/// Everything that a bank must do, on a database with no other user.
fn everything(url: &str) {
    let bank = Bank::open(url, ACCOUNTS, 5).unwrap();
    assert_eq!(bank.sum().unwrap(), SUM);
    assert_eq!(bank.transfer(0, 1, 30).unwrap(), Transfer::Done);
    assert_eq!((bank.balance(0).unwrap(), bank.balance(1).unwrap()), (70, 130));
    assert_eq!(bank.transfer(0, 1, 71).unwrap(), Transfer::Refused);
    assert_eq!(bank.balance(0).unwrap(), 70);
    // Half of it is done when it fails, and that is taken back.
    let fault = bank.transfer(2, ACCOUNTS, 1).unwrap_err().to_string();
    assert!(fault.contains("no account 20"), "{fault}");
    assert_eq!(bank.balance(2).unwrap(), BEGINNING);
    // Far more fibers than connections. One in five asks for too much, and of the others none can: what an
    // account has depends on the order, but not how many are refused for sure.
    let Day { done, refused } = day(&bank, 200, 50).unwrap();
    assert_eq!(done + refused, 200);
    assert!(refused >= 40, "{refused}");
    assert_eq!(bank.sum().unwrap(), SUM);
    cancelled_in_the_middle(&bank);
    bank.close().unwrap();
}

fn cancelled_in_the_middle(bank: &Bank) {
    let before = bank.balance(3).unwrap();
    for late in [false, true] {
        let (send, begun) = mpsc::channel();
        let other = bank.clone();
        let limit = Duration::from_millis(if late { 50 } else { 3_600_000 });
        let fiber = bast::spawn(move || {
            let fault = other.never_done(3, 4, limit, || send.send(()).unwrap()).unwrap_err();
            assert!(fault.is::<Elapsed>(), "{fault}");
        });
        until(|| begun.try_recv().is_ok());
        if late {
            fiber.join().unwrap();
        } else {
            fiber.cancel();
            assert!(fiber.join().unwrap_err().is::<Cancelled>());
        }
        // Nothing of it is left, and every connection can be used: more fibers at once than there are.
        assert_eq!(bank.balance(3).unwrap(), before);
        let transfers = bast::par_map(0..20, 20, |_| bank.transfer(3, 4, 0).unwrap());
        assert!(transfers.into_iter().all(|transfer| transfer == Transfer::Done));
        assert_eq!(bank.sum().unwrap(), SUM);
    }
}

#[test]
fn sqlite() {
    run(|| {
        let dir = Temp::new("sqlite");
        everything(&format!("sqlite:{}?mode=rwc", dir.0.join("bank").display()));
    });
}

#[test]
fn postgresql() {
    if let Some(url) = server("BAST_TEST_POSTGRES") {
        run(move || everything(&url));
    }
}

#[test]
fn mysql() {
    if let Some(url) = server("BAST_TEST_MYSQL") {
        run(move || everything(&url));
    }
}

#[test]
fn what_cannot_be_opened_says_why_and_what_to_do() {
    run(|| {
        let fault = |url: &str| Bank::open(url, 1, 1).unwrap_err().to_string();
        assert!(fault("oracle://x").contains("is none of sqlite:, postgres://, mysql://"));
        let text = fault("sqlite:/no/such/directory/bank");
        assert!(text.contains("?mode=rwc makes the file"), "{text}");
        let listener = bast::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        drop(listener);
        let text = fault(&format!("postgres://me@{addr}/bank"));
        assert!(text.contains("refused") && text.contains("apt install postgresql"), "{text}");
        let text = fault(&format!("mysql://me@{addr}/bank"));
        assert!(text.contains("refused") && text.contains("apt install mariadb"), "{text}");
    });
}
