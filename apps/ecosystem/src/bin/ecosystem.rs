//! `ecosystem`: reqwest, sqlx, tonic and redis, each used by many fibers.

use std::env;
use std::net::SocketAddr;
use std::process::{self, ExitCode};
use std::time::Instant;

use bast_ecosystem::bank::{self, Bank};
use bast_ecosystem::cache::Cache;
use bast_ecosystem::origin::Origin;
use bast_ecosystem::rpc::client::Client;
use bast_ecosystem::rpc::server::Server;
use bast_ecosystem::rpc::{Addition, Number};
use bast_ecosystem::{Fault, fetch, told};
use clap::{Args, Parser, Subcommand};

/// Libraries made on tokio, used by fibers in direct style.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Asks for a page by reqwest, many times at once.
    Fetch {
        /// The page [default: one of a small server in this process].
        url: Option<String>,
        #[command(flatten)]
        load: Load,
    },
    /// Moves money between accounts by sqlx: transactions, some of which are rolled back.
    Bank {
        /// sqlite:FILE?mode=rwc, postgres://… or mysql://… [default: $DATABASE_URL, or else a new SQLite file].
        ///
        /// The table bast_accounts is made in it, and removed in the end.
        #[arg(long, value_name = "URL")]
        database: Option<String>,
        /// Connections at once.
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        connections: u32,
        #[command(flatten)]
        load: Load,
    },
    /// Calls the methods of a tonic server: unary, server streaming and bidirectional.
    Rpc {
        /// Only serve, at this address, until Ctrl-C.
        #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "to")]
        listen: Option<SocketAddr>,
        /// The server to call [default: one in this process].
        #[arg(long, value_name = "URL")]
        to: Option<String>,
        #[command(flatten)]
        load: Load,
    },
    /// Counts in redis, all fibers over one connection.
    Cache {
        /// The server [default: $REDIS_URL, or else redis://127.0.0.1:6379].
        #[arg(long, value_name = "URL")]
        redis: Option<String>,
        #[command(flatten)]
        load: Load,
    },
}

#[derive(Args)]
struct Load {
    /// Requests in all.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Fibers at once.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    fibers: u32,
}

const EXAMPLES: &str = "\
Examples:
  ecosystem fetch                                         100 fibers, 1000 requests
  ecosystem fetch http://127.0.0.1:8080/ --requests 20000 against `pong`
  ecosystem bank                                          SQLite
  ecosystem bank --database postgres://me@127.0.0.1/test
  ecosystem rpc --listen 127.0.0.1:9000                   and elsewhere:
  ecosystem rpc --to http://127.0.0.1:9000
  ecosystem cache --redis redis://127.0.0.1:6379

BAST_WORKERS=4 and BAST_DRIVER=epoll choose the threads of bast and what waits for its sockets; those of the
libraries are waited for by one thread of tokio's.";

fn main() -> ExitCode {
    let Cli { what } = Cli::parse();
    let outcome = bast::spawn(move || match what {
        What::Fetch { url, load } => get(url, &load),
        What::Bank { database, connections, load } => transfer(database, connections, &load),
        What::Rpc { listen: Some(addr), .. } => serve(addr),
        What::Rpc { to, load, .. } => call(to, &load),
        What::Cache { redis, load } => count(redis, &load),
    });
    match outcome.join() {
        Ok(Ok(text)) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Err(fault)) => {
            eprintln!("ecosystem: {}", told(&*fault));
            ExitCode::FAILURE
        }
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

fn get(url: Option<String>, load: &Load) -> Result<String, Fault> {
    let origin = Origin::start()?;
    let url = url.unwrap_or_else(|| origin.page(1000));
    let client = bast_tokio::run(reqwest::Client::new);
    let report = fetch::fetch(&client, &url, load.requests as usize, load.fibers as usize);
    if report.faults.is_empty() { Ok(report.to_string()) } else { Err(report.to_string().into()) }
}

fn transfer(database: Option<String>, connections: u32, load: &Load) -> Result<String, Fault> {
    let file = env::temp_dir().join(format!("bast-ecosystem-{}.sqlite", process::id()));
    let given = database.or_else(|| env::var("DATABASE_URL").ok());
    let made = given.is_none();
    let url = given.unwrap_or_else(|| format!("sqlite:{}?mode=rwc", file.display()));
    let outcome = transfers(&url, connections, load);
    if made {
        bast::fs::remove_file(&file)?;
    }
    outcome
}

fn transfers(url: &str, connections: u32, load: &Load) -> Result<String, Fault> {
    let bank = Bank::open(url, 20, connections)?;
    let begun = Instant::now();
    let day = bank::day(&bank, load.requests.into(), load.fibers as usize)?;
    let took = begun.elapsed().as_secs_f64();
    let (sum, accounts) = (bank.sum()?, bank.accounts());
    bank.close()?;
    if sum != accounts * bank::BEGINNING {
        return Err(format!("the sum of all accounts is {sum}: money has been made or lost").into());
    }
    let bank::Day { done, refused } = day;
    Ok(format!("{done} transfers done, {refused} refused, in {took:.3} s; the sum is still {sum}"))
}

fn serve(addr: SocketAddr) -> Result<String, Fault> {
    let interrupt = bast::signal::CtrlC::new()?;
    let server = Server::start(addr)?;
    bast::println!("rpc: http://{}/", server.addr);
    interrupt.wait()?;
    let running = server.running.count();
    server.stop()?;
    Ok(format!("rpc: stopped, after {running} calls that were under way"))
}

fn call(to: Option<String>, load: &Load) -> Result<String, Fault> {
    let server = match to {
        Some(_) => None,
        None => Some(Server::start(([127, 0, 0, 1], 0).into())?),
    };
    let here = server.as_ref().map(|server| format!("http://{}", server.addr));
    let client = Client::connect(&to.or(here).unwrap_or_default())?;
    let begun = Instant::now();
    let sums = bast::par_map(0..i64::from(load.requests), load.fibers as usize, |n| {
        // 42 is the one number that it cannot add.
        let addition = Addition { a: n % 40, b: n, millis: 0 };
        client.clone().add(addition, None).map(|sum| sum.value == n % 40 + n)
    });
    let took = begun.elapsed().as_secs_f64();
    let right = sums.into_iter().collect::<Result<Vec<_>, _>>()?;
    let counted = client.clone().count(100)?.collect::<Result<Vec<_>, _>>()?;
    let sums = client.clone().sum(|out| _ = (1..=100).all(|value| out.send(Number { value })))?;
    let last = sums.collect::<Result<Vec<_>, _>>()?.last().copied().unwrap_or_default();
    drop(client);
    server.map_or(Ok(()), Server::stop)?;
    if !right.iter().all(|right| *right) || counted.len() != 100 || last.value != 5050 {
        return Err("a wrong answer".into());
    }
    Ok(format!(
        "{} sums in {took:.3} s, a stream of 100 numbers, and one of 100 both ways",
        right.len()
    ))
}

fn count(redis: Option<String>, load: &Load) -> Result<String, Fault> {
    let url = redis.or_else(|| env::var("REDIS_URL").ok());
    let cache = Cache::open(url.as_deref().unwrap_or("redis://127.0.0.1:6379"))?;
    let key = format!("bast-ecosystem-{}", process::id());
    let begun = Instant::now();
    let counts = bast::par_map(0..load.requests, load.fibers as usize, |_| cache.add(&key, 1));
    let took = begun.elapsed().as_secs_f64();
    let mut counts = counts.into_iter().collect::<Result<Vec<_>, _>>()?;
    cache.remove(&[key])?;
    counts.sort_unstable();
    if !counts.iter().copied().eq(1..=i64::from(load.requests)) {
        return Err("a count is missing or there twice".into());
    }
    Ok(format!("{} counts over one connection, in {took:.3} s", counts.len()))
}
