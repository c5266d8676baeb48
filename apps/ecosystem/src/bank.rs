//! Transfers between accounts by `sqlx`, in direct style: the same code over SQLite, PostgreSQL and MySQL.
//!
//! ```text
//!   fiber 1 … n, each in bast_tokio::run                      pool of a few connections
//!     begin ─▶ take from a ─▶ give to b ─▶ commit               wait for one: the fiber suspends
//!                   └── a has not enough: rollback               SQLite: a thread of sqlx's each
//! ```
//!
//! The rows of a pair are always locked in the same order, so that no two transactions wait for each other. The sum
//! of all accounts never changes, whatever is rolled back or cancelled in the middle.

use std::convert::Infallible;
use std::time::Duration;

use bast::future::Wait;
use sqlx::any::{AnyPoolOptions, AnyQueryResult};
use sqlx::{Any, AnyConnection, AnyPool, AssertSqlSafe, Connection, Transaction};

use crate::{Fault, told};

/// What an account has in the beginning.
pub const BEGINNING: i64 = 100;

/// The kinds of database that are known.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Sqlite,
    Postgres,
    MySql,
}

/// Accounts in a database.
#[derive(Clone, Debug)]
pub struct Bank {
    pool: AnyPool,
    kind: Kind,
    accounts: i64,
}

/// Whether money was moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transfer {
    /// It was.
    Done,
    /// The account had not enough, and nothing has changed.
    Refused,
}

impl Bank {
    /// Connects to a database, and makes the accounts anew. At most `connections` are open at once.
    ///
    /// # Errors
    /// The address is of no known kind; the server does not answer or refuses; the text says what to do.
    pub fn open(url: &str, accounts: i64, connections: u32) -> Result<Bank, Fault> {
        let kind = match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => Kind::Sqlite,
            Some("postgres" | "postgresql") => Kind::Postgres,
            Some("mysql" | "mariadb") => Kind::MySql,
            _ => return Err(format!("{url:?} is none of sqlite:, postgres://, mysql://").into()),
        };
        sqlx::any::install_default_drivers();
        bast_tokio::run(|| {
            // The pool would try again and again, and then say that it took too long.
            let tried = AnyConnection::connect(url).wait().and_then(|first| first.close().wait());
            tried.map_err(|fault| {
                let missing = match kind {
                    Kind::Sqlite => "sqlite:FILE?mode=rwc makes the file if it is not there",
                    Kind::Postgres => {
                        "is a server running? Debian: apt install postgresql; \
                         postgres://USER:PASSWORD@HOST:PORT/DATABASE"
                    }
                    Kind::MySql => {
                        "is a server running? Debian: apt install mariadb-server; \
                         mysql://USER:PASSWORD@HOST:PORT/DATABASE"
                    }
                };
                format!("cannot connect to {url}: {} ({missing})", told(&fault))
            })?;
            let options = AnyPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(Duration::from_secs(30));
            let bank = Bank { pool: options.connect_lazy(url)?, kind, accounts };
            bank.make_accounts()?;
            Ok(bank)
        })
    }

    fn make_accounts(&self) -> Result<(), Fault> {
        let mut connection = self.pool.acquire().wait()?;
        self.run(&mut connection, "DROP TABLE IF EXISTS bast_accounts", &[])?;
        let table = "CREATE TABLE bast_accounts (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL)";
        self.run(&mut connection, table, &[])?;
        for id in 0..self.accounts {
            let insert = "INSERT INTO bast_accounts (id, balance) VALUES (?, ?)";
            self.run(&mut connection, insert, &[id, BEGINNING])?;
        }
        Ok(())
    }

    /// Moves money in a transaction, or none.
    ///
    /// # Errors
    /// Whatever the database says; nothing has changed then.
    ///
    /// # Cancellation
    /// A suspension point; the transaction is rolled back.
    pub fn transfer(&self, from: i64, to: i64, amount: i64) -> Result<Transfer, Fault> {
        bast_tokio::run(|| {
            let mut transaction = self.begin()?;
            self.change(&mut transaction, from, to, amount)?;
            let left = self.balance_in(&mut transaction, from)?;
            if left < 0 {
                transaction.rollback().wait()?;
                return Ok(Transfer::Refused);
            }
            transaction.commit().wait()?;
            Ok(Transfer::Done)
        })
    }

    /// Moves money and then asks one slow question after the other, all in one transaction, until it is cancelled
    /// or time is up. `begun` is called when the money has been moved and the questions are next.
    ///
    /// When a query is cancelled, sqlx has its connection read the rest of the answer, and then roll back, before it is
    /// used again. So it is no use to ask a server for something endless. And the questions are not prepared:
    /// sqlx 0.9 loses a connection to MySQL, and its place in the pool, that is cancelled while it prepares a statement.
    ///
    /// # Errors
    /// Always: time is up, or whatever the database says.
    pub fn never_done(
        &self,
        from: i64,
        to: i64,
        limit: Duration,
        begun: impl FnOnce(),
    ) -> Result<Infallible, Fault> {
        bast_tokio::run(|| {
            let mut transaction = self.begin()?;
            self.change(&mut transaction, from, to, 1)?;
            begun();
            let slow = match self.kind {
                Kind::Postgres => "SELECT pg_sleep(0.1)",
                Kind::MySql => "SELECT SLEEP(0.1)",
                Kind::Sqlite => {
                    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 50000) \
                     SELECT COUNT(*) FROM c"
                }
            };
            bast::timeout(limit, || {
                loop {
                    sqlx::raw_sql(slow).execute(&mut *transaction).wait()?;
                }
            })?
        })
    }

    /// The sum of all accounts.
    ///
    /// # Errors
    /// Whatever the database says.
    pub fn sum(&self) -> Result<i64, Fault> {
        bast_tokio::run(|| {
            let sum = "SELECT CAST(SUM(balance) AS SIGNED) FROM bast_accounts";
            let sum = match self.kind {
                Kind::MySql => sum,
                _ => "SELECT CAST(SUM(balance) AS BIGINT) FROM bast_accounts",
            };
            Ok(sqlx::query_scalar(sum).fetch_one(&self.pool).wait()?)
        })
    }

    /// What one account has.
    ///
    /// # Errors
    /// Whatever the database says.
    pub fn balance(&self, id: i64) -> Result<i64, Fault> {
        bast_tokio::run(|| {
            let mut connection = self.pool.acquire().wait()?;
            self.balance_in(&mut connection, id)
        })
    }

    /// How many accounts there are.
    #[must_use]
    pub fn accounts(&self) -> i64 {
        self.accounts
    }

    /// Removes the accounts, and closes all connections.
    ///
    /// # Errors
    /// Whatever the database says.
    pub fn close(self) -> Result<(), Fault> {
        bast_tokio::run(|| {
            let mut connection = self.pool.acquire().wait()?;
            self.run(&mut connection, "DROP TABLE bast_accounts", &[])?;
            drop(connection);
            self.pool.close().wait();
            Ok(())
        })
    }

    fn begin(&self) -> Result<Transaction<'static, Any>, sqlx::Error> {
        match self.kind {
            // A transaction that becomes a writer in its middle may find that it came too late.
            Kind::Sqlite => self.pool.begin_with("BEGIN IMMEDIATE").wait(),
            Kind::Postgres | Kind::MySql => self.pool.begin().wait(),
        }
    }

    fn change(
        &self,
        connection: &mut AnyConnection,
        from: i64,
        to: i64,
        amount: i64,
    ) -> Result<(), Fault> {
        let mut changes = [(from, -amount), (to, amount)];
        changes.sort();
        for (id, change) in changes {
            let update = "UPDATE bast_accounts SET balance = balance + ? WHERE id = ?";
            let changed = self.run(connection, update, &[change, id])?;
            if changed.rows_affected() != 1 {
                return Err(format!("there is no account {id}").into());
            }
        }
        Ok(())
    }

    fn balance_in(&self, connection: &mut AnyConnection, id: i64) -> Result<i64, Fault> {
        let select = self.in_its_words("SELECT balance FROM bast_accounts WHERE id = ?");
        let query = sqlx::query_scalar(AssertSqlSafe(select)).bind(id);
        Ok(query.fetch_one(connection).wait()?)
    }

    fn run(
        &self,
        connection: &mut AnyConnection,
        statement: &'static str,
        values: &[i64],
    ) -> Result<AnyQueryResult, sqlx::Error> {
        let mut query = sqlx::query(AssertSqlSafe(self.in_its_words(statement)));
        for value in values {
            query = query.bind(*value);
        }
        query.execute(connection).wait()
    }

    /// PostgreSQL numbers its placeholders, where the others have question marks.
    fn in_its_words(&self, statement: &str) -> String {
        if self.kind != Kind::Postgres {
            return statement.to_owned();
        }
        let mut parts = statement.split('?');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (at, part) in parts.enumerate() {
            text.push_str(&format!("${}{part}", at + 1));
        }
        text
    }
}

/// What became of a day's transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Day {
    /// Money was moved.
    pub done: usize,
    /// An account had not enough.
    pub refused: usize,
}

/// Many transfers from this many fibers at once; each moves from one account to another, some too much.
///
/// # Errors
/// The first fault; the other fibers are cancelled then.
pub fn day(bank: &Bank, transfers: i64, fibers: usize) -> Result<Day, Fault> {
    let outcomes = bast::par_map(0..transfers, fibers, |n| {
        // Another amount and another pair each time, without chance.
        let from = n * 7 % bank.accounts;
        let to = (from + 1 + n % (bank.accounts - 1)) % bank.accounts;
        let amount = if n % 5 == 0 { BEGINNING * bank.accounts + 1 } else { n % 20 };
        bank.transfer(from, to, amount)
    });
    let mut day = Day::default();
    for outcome in outcomes {
        match outcome? {
            Transfer::Done => day.done += 1,
            Transfer::Refused => day.refused += 1,
        }
    }
    Ok(day)
}
