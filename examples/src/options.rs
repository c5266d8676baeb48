//! The flags of the servers, and the runtime that they describe.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use bast::{DriverKind, Runtime};
use clap::Args;

/// The flags that every server has.
#[derive(Args, Debug)]
pub struct Options {
    /// Where to listen; port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub addr: SocketAddr,

    /// Worker threads [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,

    /// What waits for the sockets: uring or epoll [default: uring where the kernel allows it].
    #[arg(long, value_name = "KIND", value_parser = driver)]
    pub driver: Option<DriverKind>,

    /// Bytes of address space for the stack of each connection [default: the runtime's].
    #[arg(long, value_name = "BYTES")]
    pub stack: Option<usize>,

    /// Seconds after which a silent connection is closed.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    pub idle: f64,

    /// A listening socket for each worker: connections stay where they are accepted, without a hand-over.
    #[arg(long)]
    pub per_worker: bool,
    /// Connections at once; further ones wait in the kernel's queue [default: no limit].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_connections: Option<usize>,
}

impl Options {
    /// The runtime for these flags.
    ///
    /// # Errors
    /// The runtime cannot be built: no descriptors, no threads, a stack that is too small.
    pub fn runtime(&self) -> io::Result<Runtime> {
        let mut builder = Runtime::builder();
        if let Some(workers) = self.workers {
            builder = builder.workers(workers.into());
        }
        if let Some(driver) = self.driver {
            builder = builder.driver(driver);
        }
        if let Some(stack) = self.stack {
            builder = builder.stack_size(stack);
        }
        builder.build()
    }

    /// How long a connection may be silent.
    pub fn idle(&self) -> Duration {
        Duration::from_secs_f64(self.idle)
    }
}

/// `2 workers, uring`, or `2 workers, epoll (not uring: the kernel forbids it)`.
pub fn runs_on(runtime: &Runtime) -> String {
    let workers = runtime.workers();
    let plural = if workers == 1 { "" } else { "s" };
    let fallback = runtime.fallback_reason().map(|reason| format!(" ({reason})"));
    format!("{workers} worker{plural}, {}{}", runtime.driver_name(), fallback.unwrap_or_default())
}

/// A driver with real sockets: the simulator's are in its memory, where no client finds them.
///
/// # Errors
/// What is wrong, as a sentence.
pub fn driver(name: &str) -> Result<DriverKind, String> {
    match name.parse() {
        Ok(DriverKind::Sim) => Err("the simulator has no network: use auto, uring or epoll".into()),
        other => other.map_err(|fault: <DriverKind as FromStr>::Err| fault.to_string()),
    }
}

/// A number of things without which a server is of no use.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".into()),
        Ok(n) => Ok(n),
        Err(fault) => Err(fault.to_string()),
    }
}

/// A number of seconds that is a duration, and not so long that adding it to the clock fails.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n > 0.0 && n <= 1e9 => Ok(n),
        Ok(_) => Err("more than 0 and at most 1e9 seconds are possible".into()),
        Err(fault) => Err(fault.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::{driver, seconds};

    #[test]
    fn the_simulator_is_no_driver_for_a_server() {
        assert!(driver("epoll").is_ok());
        assert!(driver("sim").unwrap_err().contains("simulator"));
        assert!(driver("kqeue").unwrap_err().contains("kqeue"));
    }

    #[test]
    fn seconds_are_checked() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for text in ["0", "-1", "inf", "NaN", "1e10", "", "1s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
