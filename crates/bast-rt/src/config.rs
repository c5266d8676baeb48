//! Settings: what the program says, else the environment, else the machine; each checked with an
//! error that says what to do.

use std::io;
use std::thread;
use std::time::Duration;

use bast_coro::PoolConfig;
use bast_io::{Bounds, DriverKind};

use crate::inspect::{Detection, Format};

pub use bast_coro::Guards as StackGuards;

const MAX_WORKERS: usize = 1024;
const MAX_BLOCKING: usize = 100_000;
const MIN_STACK: usize = 16 << 10;
const MAX_STACK: usize = 1 << 30;
const DEFAULT_STACK: usize = 256 << 10;
/// Below this the watchdog would be the hog.
const MIN_WATCHDOG: Duration = Duration::from_millis(1);

/// What a builder was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) workers: Option<usize>,
    pub(crate) driver: Option<DriverKind>,
    pub(crate) stack: Option<usize>,
    pub(crate) guards: StackGuards,
    pub(crate) blocking: Blocking,
    pub(crate) seed: u64,
    pub(crate) watchdog: Option<Duration>,
}

/// What a builder was told of the pool for blocking calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocking {
    pub(crate) threads: Option<usize>,
    pub(crate) min_threads: Option<usize>,
    pub(crate) idle_for: Option<Duration>,
    pub(crate) queue: Option<usize>,
}

/// What a runtime is made of.
pub(crate) struct Resolved {
    pub(crate) workers: usize,
    pub(crate) driver: DriverKind,
    pub(crate) blocking: Bounds,
    pub(crate) seed: u64,
    pub(crate) watchdog: Option<Duration>,
    pub(crate) dump: Option<Format>,
    pub(crate) deadlock: Detection,
    stack: usize,
    guards: StackGuards,
}

impl Resolved {
    pub(crate) fn stacks(&self) -> PoolConfig {
        PoolConfig::new().stack_size(self.stack).guards(self.guards)
    }
}

impl Settings {
    pub(crate) fn resolve(&self) -> io::Result<Resolved> {
        let env = |name: &str| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
        self.resolve_with(&env)
    }

    fn resolve_with(&self, env: &dyn Fn(&str) -> Option<String>) -> io::Result<Resolved> {
        let driver = match (self.driver, env("BAST_DRIVER")) {
            (Some(driver), _) => driver,
            (None, None) => DriverKind::Auto,
            (None, Some(text)) => {
                text.parse().map_err(|error| invalid(&format!("BAST_DRIVER={text}: {error}")))?
            }
        };
        // The simulator's worlds do not span threads.
        let cores =
            if driver == DriverKind::Sim { 1 } else { thread::available_parallelism()?.get() };
        let workers = number("workers", self.workers, env("BAST_WORKERS"), cores, 1..=MAX_WORKERS)?;
        if driver == DriverKind::Sim && workers != 1 {
            return Err(invalid(
                "the simulator runs on one worker: set workers (BAST_WORKERS) to 1",
            ));
        }
        let stack = number(
            "stack size",
            self.stack,
            env("BAST_STACK"),
            DEFAULT_STACK,
            MIN_STACK..=MAX_STACK,
        )?;
        Ok(Resolved {
            workers,
            driver,
            blocking: self.blocking.resolve(env)?,
            seed: self.seed,
            watchdog: watchdog(self.watchdog, env("BAST_WATCHDOG"))?,
            dump: dump(env("BAST_DUMP"))?,
            deadlock: deadlock(env("BAST_DEADLOCK"))?,
            stack,
            guards: self.guards,
        })
    }
}

impl Blocking {
    fn resolve(&self, env: &dyn Fn(&str) -> Option<String>) -> io::Result<Bounds> {
        let max_threads = number(
            "blocking threads (BAST_BLOCKING_THREADS)",
            self.threads,
            env("BAST_BLOCKING_THREADS"),
            Bounds::DEFAULT.max_threads,
            1..=MAX_BLOCKING,
        )?;
        let least = "blocking threads that stay";
        let min_threads = number(least, self.min_threads, None, 0, 0..=max_threads)?;
        let queue = number(
            "blocking queue (BAST_BLOCKING_QUEUE)",
            self.queue,
            env("BAST_BLOCKING_QUEUE"),
            Bounds::DEFAULT.queue,
            0..=usize::MAX,
        )?;
        let idle_for = self.idle_for.unwrap_or(Bounds::DEFAULT.idle_for);
        Ok(Bounds { min_threads, max_threads, idle_for, queue })
    }
}

/// The watchdog's limit; zero and `off` are none.
fn watchdog(told: Option<Duration>, env: Option<String>) -> io::Result<Option<Duration>> {
    let limit = match (told, env) {
        (Some(limit), _) => limit,
        (None, None) => return Ok(None),
        (None, Some(text)) if text.trim() == "off" => return Ok(None),
        (None, Some(text)) => duration(text.trim()).ok_or_else(|| {
            invalid(&format!(
                "BAST_WATCHDOG={text}: give a time with its unit, as in 200ms, 2s or 500us"
            ))
        })?,
    };
    match limit {
        Duration::ZERO => Ok(None),
        limit if limit < MIN_WATCHDOG => {
            Err(invalid(&format!("watchdog: {limit:?} is less than {MIN_WATCHDOG:?}")))
        }
        limit => Ok(Some(limit)),
    }
}

/// `200ms`, `2s`, `500us`.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    match unit {
        "s" => Some(Duration::from_secs(number)),
        "ms" => Some(Duration::from_millis(number)),
        "us" => Some(Duration::from_micros(number)),
        _ => None,
    }
}

fn dump(env: Option<String>) -> io::Result<Option<Format>> {
    match env.as_deref().map(str::trim) {
        None | Some("0" | "off") => Ok(None),
        Some("1" | "text") => Ok(Some(Format::Text)),
        Some("json") => Ok(Some(Format::Json)),
        Some(text) => Err(invalid(&format!("BAST_DUMP={text}: use 1 (text), json or 0"))),
    }
}

fn deadlock(env: Option<String>) -> io::Result<Detection> {
    match env.as_deref().map(str::trim) {
        None | Some("auto") => Ok(Detection::Auto),
        Some("force") => Ok(Detection::Force),
        Some("off") => Ok(Detection::Off),
        Some(text) => Err(invalid(&format!("BAST_DEADLOCK={text}: use auto, force or off"))),
    }
}

/// A number from the builder or the environment.
fn number(
    what: &str,
    told: Option<usize>,
    env: Option<String>,
    default: usize,
    range: std::ops::RangeInclusive<usize>,
) -> io::Result<usize> {
    let value = match (told, env) {
        (Some(value), _) => value,
        (None, None) => default,
        (None, Some(text)) => text.trim().parse().map_err(|_| {
            invalid(&format!("{what} from the environment: {text:?} is not a whole number"))
        })?,
    };
    if range.contains(&value) {
        Ok(value)
    } else {
        let (least, most) = range.into_inner();
        Err(invalid(&format!("{what}: {value} is not between {least} and {most}")))
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// The stack size that a fiber's builder asked for, checked.
pub(crate) fn check_stack(bytes: usize) -> io::Result<usize> {
    number("stack size", Some(bytes), None, 0, MIN_STACK..=MAX_STACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(settings: &Settings, vars: &[(&str, &str)]) -> Result<Resolved, String> {
        let env = |name: &str| {
            vars.iter().find(|(var, _)| *var == name).map(|(_, value)| (*value).to_owned())
        };
        settings.resolve_with(&env).map_err(|error| error.to_string())
    }

    #[test]
    fn the_environment_fills_in_what_the_program_leaves_open() {
        let vars = [("BAST_WORKERS", "3"), ("BAST_DRIVER", "epoll"), ("BAST_STACK", "65536")];
        let from_env = resolve(&Settings::default(), &vars).unwrap();
        assert_eq!((from_env.workers, from_env.driver), (3, DriverKind::Epoll));
        assert_eq!(from_env.stack, 65_536);
        let told = Settings { workers: Some(2), ..Settings::default() };
        assert_eq!(resolve(&told, &vars).unwrap().workers, 2);
    }

    #[test]
    fn bounds_of_the_pool() {
        let vars = [("BAST_BLOCKING_THREADS", "7"), ("BAST_BLOCKING_QUEUE", "0")];
        let bounds = resolve(&Settings::default(), &vars).unwrap().blocking;
        assert_eq!((bounds.max_threads, bounds.queue, bounds.min_threads), (7, 0, 0));
        let told = |threads, min_threads| {
            let blocking = Blocking { threads, min_threads, ..Blocking::default() };
            resolve(&Settings { blocking, ..Settings::default() }, &vars)
        };
        assert_eq!(told(Some(9), Some(9)).unwrap().blocking.max_threads, 9);
        let error = told(None, Some(8)).err().unwrap();
        assert!(error.contains("threads that stay: 8 is not between 0 and 7"), "{error}");
    }

    #[test]
    fn what_is_to_be_watched() {
        let watchdog = |told, text: &str| {
            let settings = Settings { watchdog: told, ..Settings::default() };
            resolve(&settings, &[("BAST_WATCHDOG", text)]).unwrap().watchdog
        };
        assert_eq!(watchdog(None, "200ms"), Some(Duration::from_millis(200)));
        assert_eq!(watchdog(None, "2s"), Some(Duration::from_secs(2)));
        assert_eq!(watchdog(Some(Duration::from_secs(1)), "2s"), Some(Duration::from_secs(1)));
        assert_eq!(watchdog(Some(Duration::ZERO), "2s"), None);
        assert_eq!((watchdog(None, "off"), watchdog(None, "0ms")), (None, None));
        let vars = [("BAST_DUMP", "json"), ("BAST_DEADLOCK", "off")];
        let resolved = resolve(&Settings::default(), &vars).unwrap();
        assert_eq!((resolved.dump, resolved.deadlock), (Some(Format::Json), Detection::Off));
    }

    #[test]
    fn bad_values_are_named() {
        for (var, value, expected) in [
            ("BAST_WORKERS", "many", "\"many\" is not a whole number"),
            ("BAST_WORKERS", "0", "workers: 0 is not between 1 and 1024"),
            ("BAST_STACK", "1", "stack size: 1 is not between 16384 and"),
            ("BAST_DRIVER", "fast", "BAST_DRIVER=fast"),
            ("BAST_WATCHDOG", "200", "give a time with its unit"),
            ("BAST_WATCHDOG", "ms", "give a time with its unit"),
            ("BAST_WATCHDOG", "1us", "is less than 1ms"),
            ("BAST_BLOCKING_THREADS", "0", "(BAST_BLOCKING_THREADS): 0 is not between 1 and"),
            (
                "BAST_BLOCKING_THREADS",
                "few",
                "(BAST_BLOCKING_THREADS) from the environment: \"few\"",
            ),
            ("BAST_BLOCKING_QUEUE", "-1", "(BAST_BLOCKING_QUEUE) from the environment: \"-1\""),
            ("BAST_DUMP", "yes", "BAST_DUMP=yes: use"),
            ("BAST_DEADLOCK", "on", "BAST_DEADLOCK=on: use"),
        ] {
            let error = resolve(&Settings::default(), &[(var, value)]).err().unwrap();
            assert!(error.contains(expected), "{error}");
        }
        let sim =
            Settings { driver: Some(DriverKind::Sim), workers: Some(2), ..Settings::default() };
        assert!(resolve(&sim, &[]).err().unwrap().contains("one worker"));
    }
}
