//! The registry: every benchmark, its parameters, its units and who takes part.

/// Units, as they stand in the table and in the JSON.
pub(crate) mod units {
    pub(crate) const NS: &str = "ns";
    pub(crate) const KIB: &str = "KiB/task";
    pub(crate) const SPAWN_S: &str = "s to spawn";
    pub(crate) const END_S: &str = "s to end";
    pub(crate) const LATE_US: &str = "us late";
    pub(crate) const CPU_FILE: &str = "cpu us/read";
    pub(crate) const WALL_FILE: &str = "us/read";
    pub(crate) const CPU_PACKET: &str = "cpu ns/packet";
    pub(crate) const PACKET_S: &str = "packets/s";
    pub(crate) const MS_CHILD: &str = "ms/child";
    pub(crate) const CPU_CHILD: &str = "cpu ms/child";
    pub(crate) const CPU_ALL_CHILD: &str = "cpu ms/child with its own";
    pub(crate) const CPU_MSG: &str = "cpu us/message";
    pub(crate) const MSG_S: &str = "messages/s";
    pub(crate) const CPU_REQ: &str = "cpu us/request";
    pub(crate) const REQ_S: &str = "requests/s";
    pub(crate) const FAILED: &str = "failed";
    pub(crate) const CPU_GIB: &str = "cpu ms/GiB";
    pub(crate) const GIB_S: &str = "GiB/s";
    pub(crate) const WALL_S: &str = "s";
    pub(crate) const CPU_TREE: &str = "cpu s of all processes";
    pub(crate) const TREE_MB: &str = "MB of all processes";
    pub(crate) const PEAK_MB: &str = "MB RSS peak";
    pub(crate) const RSS_MB: &str = "MB RSS";
    pub(crate) const PTE_MB: &str = "MB page tables";
}

/// How a benchmark is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In one child process.
    Micro,
    /// As `Micro`, over a range of sizes: what matters is the curve.
    Curve,
    /// A server in a child process, our own load generator here.
    Echo,
    /// A proxy in a child process, both ends of its connections here.
    Proxy,
    /// A server in a child process under ab or wrk, or with idle connections.
    Pong,
    /// As `Pong`, for servers of files.
    Files,
    /// A program with children of its own, to its end.
    Export,
}

/// One parameter of a benchmark and its subjects.
#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) subjects: &'static [&'static str],
    pub(crate) when: When,
}

/// When a parameter runs if it is not asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Both,
    /// Too slow for `--quick`.
    Full,
    /// A smaller form of a `Full` one.
    Quick,
}

/// One benchmark.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) kind: Kind,
    pub(crate) units: &'static [&'static str],
    pub(crate) params: &'static [Param],
}

pub(crate) const fn both(name: &'static str, subjects: &'static [&'static str]) -> Param {
    Param { name, subjects, when: When::Both }
}

pub(crate) const fn full(name: &'static str, subjects: &'static [&'static str]) -> Param {
    Param { name, subjects, when: When::Full }
}

const ALL: &[&str] = &["bast", "tokio-current", "tokio-multi", "may", "go", "threads"];
const TASKS: &[&str] = &["bast", "tokio-current", "tokio-multi", "may", "go"];
const TASKS_2: &[&str] = &["bast", "tokio-multi", "may", "go"];
/// Not may: on two workers some of its coroutines never get a first run while others yield.
const YIELD_2: &[&str] = &["bast", "tokio-multi", "go"];
/// Not may: each of its stacks is a mapping of its own, and `vm.max_map_count` ends that at 32,000.
const SLEEPERS: &[&str] = &["bast", "tokio-current", "tokio-multi", "go"];
const ASYNC: &[&str] = &["bast", "tokio-current", "tokio-multi", "go"];
const ASYNC_2: &[&str] = &["bast", "tokio-multi", "go"];
const MUTEX: &[&str] =
    &["bast", "threads", "std-in-fiber", "parking_lot", "tokio-current", "tokio-multi", "go"];
const RWLOCK: &[&str] = &["bast", "threads", "parking_lot", "tokio-current", "tokio-multi", "go"];
const MUTEX_2: &[&str] = &["bast", "tokio-multi", "threads", "parking_lot", "go"];
const MANY_2: &[&str] = &["bast", "tokio-multi", "go"];
/// Not Go: it has no unbounded channel.
const UNBOUNDED: &[&str] =
    &["bast", "tokio-current", "tokio-multi", "threads", "crossbeam", "flume", "flume-tokio"];
const UNBOUNDED_2: &[&str] =
    &["bast", "tokio-multi", "threads", "crossbeam", "flume", "flume-tokio"];
const BOUNDED: &[&str] =
    &["bast", "tokio-current", "tokio-multi", "threads", "crossbeam", "flume", "flume-tokio", "go"];
const BOUNDED_2: &[&str] =
    &["bast", "tokio-multi", "threads", "crossbeam", "flume", "flume-tokio", "go"];
/// Not tokio: its channels have one receiver, and room for one message at least.
const MPMC: &[&str] = &["bast", "crossbeam", "flume", "flume-tokio", "go"];
const RENDEZVOUS: &[&str] = &["bast", "threads", "crossbeam", "flume", "flume-tokio", "go"];
const SELECT: &[&str] = &["bast", "tokio-current", "tokio-multi", "crossbeam", "go"];
const FILE_READ: &[&str] =
    &["bast-uring", "bast-epoll", "plain-uring", "tokio-current", "tokio-multi", "threads"];
const SMALL_FILES: &[&str] =
    &["bast-uring", "bast-epoll", "tokio-current", "tokio-multi", "threads"];
const SMALL_FILES_2: &[&str] = &["bast-uring", "bast-epoll", "tokio-multi", "threads"];
const SINK: &[&str] =
    &["bast", "bast-mutex", "tokio-current", "tokio-multi", "threads", "threads-each"];
const SINK_2: &[&str] = &["bast", "bast-mutex", "tokio-multi", "threads", "threads-each"];
const TIMER: &[&str] =
    &["bast-uring", "bast-epoll", "tokio-current", "tokio-multi", "may", "go", "threads"];
const FILES: &[&str] = &["bast-uring", "bast-epoll", "nginx", "go", "axum"];
const HTTP: &[&str] = &[
    "bast-uring",
    "bast-epoll",
    "hyper-bast-uring",
    "hyper-bast-epoll",
    "hyper-tokio",
    "raw-epoll",
    "tokio-current",
    "may",
    "go",
    "threads",
];
const ECHO: &[&str] = &[
    "bast-uring",
    "bast-uring-task",
    "bast-epoll",
    "bast-epoll-task",
    "raw-epoll",
    "tokio-current",
    "may",
    "go",
    "threads",
];
const PROXY: &[&str] = &[
    "bast-uring",
    "bast-epoll",
    "bast-uring-plain",
    "bast-epoll-plain",
    "tokio-current",
    "tokio-current-64k",
    "go",
];

const QUICK: &[&str] = &["bast", "bast-task", "bast-promise", "tokio-current", "lwt", "go"];
const MEDIUM: &[&str] =
    &["bast", "bast-task", "bast-promise", "tokio-current", "lwt", "lwt-select", "go"];
/// Not Go: its sleep of no time returns at once.
const SLOW: &[&str] = &["bast", "bast-task", "bast-promise", "tokio-current", "lwt", "lwt-select"];
/// `plain` waits for nothing.
const DEEP_QUICK: &[&str] =
    &["bast", "bast-task", "bast-promise", "plain", "tokio-current", "lwt", "go"];
const DEEP_MEDIUM: &[&str] =
    &["bast", "bast-task", "bast-promise", "plain", "tokio-current", "lwt", "lwt-select", "go"];
const DEEP_SLOW: &[&str] =
    &["bast", "bast-task", "bast-promise", "plain", "tokio-current", "lwt", "lwt-select"];

/// The sizes of the document behind `delimcc`.
macro_rules! curves {
    ($($mode:literal: $subjects:expr),*) => {
        &[$(
            both(concat!($mode, "-50"), $subjects),
            full(concat!($mode, "-100"), $subjects),
            both(concat!($mode, "-200"), $subjects),
            full(concat!($mode, "-300"), $subjects),
            full(concat!($mode, "-400"), $subjects),
            both(concat!($mode, "-600"), $subjects),
            full(concat!($mode, "-800"), $subjects),
            both(concat!($mode, "-1000"), $subjects),
        )*]
    };
}

/// Every benchmark, in the order in which they run.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "yield",
        about: "N tasks yield in a loop: wall time per yield",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[
            both("1", ALL),
            both("100", ALL),
            both("10000", TASKS),
            both("1@2", TASKS_2),
            both("100@2", YIELD_2),
            both("10000@2", YIELD_2),
        ],
    },
    Bench {
        name: "spawn-join",
        about: "a task that returns a number is spawned and joined: one by one, or 10,000 spawned and then joined",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[
            both("one", ALL),
            both("batch", ALL),
            both("one@2", TASKS_2),
            both("batch@2", TASKS_2),
        ],
    },
    Bench {
        name: "ping-pong",
        about: "a round trip between two tasks, by park and unpark, by tokio's Notify, or over a channel",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[
            both("park", &["bast", "may", "threads"]),
            both("notify", &["tokio-current", "tokio-multi"]),
            both("channel", &["bast", "tokio-current", "tokio-multi", "may", "go"]),
            both("oneshot", &["bast", "tokio-current", "tokio-multi", "threads", "go"]),
        ],
    },
    Bench {
        name: "sleepers",
        about: "N tasks sleep until one deadline: memory of each, seconds to spawn all, seconds to end all",
        kind: Kind::Micro,
        units: &[units::KIB, units::SPAWN_S, units::END_S],
        params: &[
            Param { name: "100000", subjects: SLEEPERS, when: When::Quick },
            Param { name: "1000000", subjects: SLEEPERS, when: When::Full },
        ],
    },
    Bench {
        name: "timer-delay",
        about: "a sleep of 1 ms beside a task that yields in a loop on the same worker: median lateness",
        kind: Kind::Micro,
        units: &[units::LATE_US],
        params: &[both("yield-hog", TIMER)],
    },
    Bench {
        name: "lock",
        about: "lock, add one, unlock, with nobody else; and read-lock and unlock",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[both("mutex", MUTEX), both("rwlock-read", RWLOCK)],
    },
    Bench {
        name: "contended",
        about: "N tasks want one mutex: each yields while it holds it (held), or only adds one (@2): ns per lock",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[both("held-1000", ASYNC), both("2@2", MUTEX_2), both("1000@2", MANY_2)],
    },
    Bench {
        name: "mvar",
        about: "take and put of an MVar, of a Go channel with room for one, and tokio's mutex, as in lock and contended",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[both("uncontended", ASYNC), both("held-1000", ASYNC), both("2@2", ASYNC_2)],
    },
    Bench {
        name: "channel",
        about: "bursts of 10,000 messages from one producer or four (4p) to one consumer, or four to four (mpmc): ns per message",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[
            both("unbounded", UNBOUNDED),
            both("bounded", BOUNDED),
            both("unbounded-4p", UNBOUNDED),
            both("bounded-4p", BOUNDED),
            both("rendezvous", RENDEZVOUS),
            both("mpmc", MPMC),
            both("unbounded@2", UNBOUNDED_2),
            both("bounded@2", BOUNDED_2),
            both("unbounded-4p@2", UNBOUNDED_2),
            both("bounded-4p@2", BOUNDED_2),
            both("mpmc@2", MPMC),
        ],
    },
    Bench {
        name: "sink",
        about: "200 tasks write records of 100 bytes to one file or pipe, each record whole: ns per record",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[
            both("file", SINK),
            both("pipe", SINK),
            both("file@2", SINK_2),
            both("pipe@2", SINK_2),
        ],
    },
    Bench {
        name: "select",
        about: "the same messages by recv from the right channel, or by select of two: ready ones, with their sending (sent), round trips (wait)",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[
            both("recv", SELECT),
            both("select", SELECT),
            both("recv-sent", SELECT),
            both("select-sent", SELECT),
            both("recv-wait", SELECT),
            both("select-wait", SELECT),
        ],
    },
    Bench {
        name: "timeout",
        about: "a limit of one second around something that is ready at once",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[both("ready", &["bast", "tokio-current", "tokio-multi", "go", "go-timer"])],
    },
    Bench {
        name: "cancel",
        about: "a parked task is cancelled and joined",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[both("parked", &["bast", "tokio-current", "tokio-multi", "go"])],
    },
    Bench {
        name: "await",
        about: "a future is polled, waited for when it is ready, and until a neighbour wakes; the same in a task; promises",
        kind: Kind::Micro,
        units: &[units::NS],
        params: &[
            both("polled", &["bast"]),
            both("ready", &["bast"]),
            both("woken", &["bast", "tokio-current", "tokio-multi"]),
            both("task-ready", &["bast"]),
            both("task-woken", &["bast"]),
            both("task-fiber", &["bast"]),
            both("task-spawn", &["bast", "tokio-current", "tokio-multi"]),
            both("task-spawn@2", &["bast", "tokio-multi"]),
            both("task-yield", &["bast", "tokio-current", "tokio-multi"]),
            both("task-yield@2", &["bast", "tokio-multi"]),
            both("bind", &["bast"]),
            both("promise", &["bast"]),
            both("resolved", &["bast", "tokio-current"]),
        ],
    },
    Bench {
        name: "basic",
        about: "N waits in a loop, for what is there already (quick), to yield (medium), or as a sleep of no time (slow)",
        kind: Kind::Curve,
        units: &[units::NS],
        params: curves!["quick": QUICK, "medium": MEDIUM, "slow": SLOW],
    },
    Bench {
        name: "recurse",
        about: "one wait at the bottom of N recursive calls",
        kind: Kind::Curve,
        units: &[units::NS],
        params: curves!["quick": DEEP_QUICK, "medium": DEEP_MEDIUM, "slow": DEEP_SLOW],
    },
    Bench {
        name: "recurse2",
        about: "N recursive calls, with a wait in each",
        kind: Kind::Curve,
        units: &[units::NS],
        params: curves!["quick": QUICK, "medium": MEDIUM, "slow": SLOW],
    },
    Bench {
        name: "file-read",
        about: "4 KiB reads at random offsets, 64 in flight, from the page cache or past it (direct): CPU and wall time per read",
        kind: Kind::Micro,
        units: &[units::CPU_FILE, units::WALL_FILE],
        params: &[both("cached", FILE_READ), both("direct", FILE_READ)],
    },
    Bench {
        name: "small-files",
        about: "10,000 files of 1 to 8 KiB are read whole, 256 at a time: CPU and wall time per file",
        kind: Kind::Micro,
        units: &[units::WALL_FILE, units::CPU_FILE],
        params: &[both("10000", SMALL_FILES), both("10000@2", SMALL_FILES_2)],
    },
    Bench {
        name: "udp",
        about: "bursts of 64 datagrams of 1200 B over loopback, sent and received singly, in batches, or cut and joined by the kernel (gso)",
        kind: Kind::Micro,
        units: &[units::CPU_PACKET, units::PACKET_S],
        params: &[
            both("single", &["bast-uring", "bast-epoll", "tokio-current", "threads"]),
            both("batch", &["bast-uring", "bast-epoll"]),
            both("gso", &["bast-uring", "bast-epoll"]),
        ],
    },
    Bench {
        name: "children",
        about: "1,000 child processes (/bin/true) started and waited for, N at a time: wall and CPU time each",
        kind: Kind::Micro,
        units: &[units::MS_CHILD, units::CPU_CHILD, units::CPU_ALL_CHILD],
        params: &[both("32@2", &["bast-uring", "bast-epoll", "tokio-multi", "threads", "go"])],
    },
    crate::export::BENCH,
    Bench {
        name: "echo",
        about: "64 B messages over N connections, closed loop: CPU of the server per message, messages/s",
        kind: Kind::Echo,
        units: &[units::CPU_MSG, units::MSG_S],
        params: &[both("1", ECHO), both("64", ECHO), both("1024", ECHO)],
    },
    Bench {
        name: "pong",
        about: "an HTTP server under ab (a connection per request), wrk (keep-alive), or holding idle connections",
        kind: Kind::Pong,
        units: &[
            units::CPU_REQ,
            units::REQ_S,
            units::FAILED,
            units::PEAK_MB,
            units::RSS_MB,
            units::PTE_MB,
        ],
        params: &[
            both("ab-10", HTTP),
            both("ab-100", HTTP),
            both("ab-1000", HTTP),
            both("ab-10000", HTTP),
            both("wrk-64", HTTP),
            both("wrk-1024", HTTP),
            both("hold-10000", HTTP),
        ],
    },
    Bench {
        name: "proxy",
        about: "a TCP proxy: 64 B there and back over N connections, one in flight on each; or N streams one way",
        kind: Kind::Proxy,
        units: &[units::CPU_MSG, units::MSG_S, units::CPU_GIB, units::GIB_S],
        params: &[
            both("echo-1", PROXY),
            both("echo-64", PROXY),
            both("bulk-1", PROXY),
            both("bulk-16", PROXY),
        ],
    },
    Bench {
        name: "httpfile",
        about: "a server of files of 1 KiB, 64 KiB and 1 MiB under ab (with and without -k) and wrk",
        kind: Kind::Files,
        units: &[units::CPU_REQ, units::REQ_S, units::FAILED, units::PEAK_MB],
        params: &[
            both("ab-10-1k", FILES),
            both("ab-100-1k", FILES),
            both("ab-1000-1k", FILES),
            both("ab-10000-1k", FILES),
            both("abk-100-1k", FILES),
            both("wrk-64-1k", FILES),
            both("wrk-1024-1k", FILES),
            both("ab-10-64k", FILES),
            both("ab-100-64k", FILES),
            both("ab-1000-64k", FILES),
            both("ab-10000-64k", FILES),
            both("abk-100-64k", FILES),
            both("wrk-64-64k", FILES),
            both("wrk-1024-64k", FILES),
            both("ab-10-1m", FILES),
            both("ab-100-1m", FILES),
            both("ab-1000-1m", FILES),
            both("ab-10000-1m", FILES),
            both("abk-100-1m", FILES),
            both("wrk-64-1m", FILES),
            both("wrk-1024-1m", FILES),
        ],
    },
];

/// What the user narrows the run to.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) subjects: Vec<String>,
    pub(crate) params: Vec<String>,
    pub(crate) quick: bool,
}

/// One line of the plan: a benchmark, a parameter, and its subjects.
pub(crate) struct Case {
    pub(crate) bench: &'static Bench,
    pub(crate) param: &'static str,
    pub(crate) subjects: Vec<&'static str>,
}

/// The plan for `names` (`all`, `micro` and `delimcc` stand for many) under `filter`.
pub(crate) fn plan(names: &[String], filter: &Filter) -> Result<Vec<Case>, String> {
    for name in names {
        let group = ["all", "micro", "delimcc"].contains(&name.as_str());
        if !group && !BENCHES.iter().any(|b| b.name == *name) {
            let known: Vec<_> = BENCHES.iter().map(|b| b.name).collect();
            return Err(format!(
                "no benchmark {name}; there are: {}, micro, delimcc, all",
                known.join(", ")
            ));
        }
    }
    let wanted = |b: &Bench| {
        names.iter().any(|n| match n.as_str() {
            "all" => true,
            "micro" => b.kind == Kind::Micro,
            "delimcc" => b.kind == Kind::Curve,
            name => name == b.name,
        })
    };
    let mut cases = Vec::new();
    for bench in BENCHES.iter().filter(|b| wanted(b)) {
        for param in bench.params.iter().filter(|p| filter.takes_param(p)) {
            let subjects: Vec<_> =
                param.subjects.iter().copied().filter(|s| filter.takes_subject(s)).collect();
            if !subjects.is_empty() {
                cases.push(Case { bench, param: param.name, subjects });
            }
        }
    }
    if cases.is_empty() {
        return Err("nothing is left to run after --subject and --param (see `list`)".to_owned());
    }
    Ok(cases)
}

impl Filter {
    fn takes_param(&self, param: &Param) -> bool {
        if !self.params.is_empty() {
            return self.params.iter().any(|p| p == param.name);
        }
        match param.when {
            When::Both => true,
            When::Full => !self.quick,
            When::Quick => self.quick,
        }
    }

    /// A whole name, or a family: `bast` takes `bast-uring`, `tokio` takes `tokio-multi`.
    fn takes_subject(&self, subject: &str) -> bool {
        let family = subject.split('-').next().unwrap_or(subject);
        self.subjects.is_empty() || self.subjects.iter().any(|s| s == subject || s == family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cases: &[Case]) -> Vec<String> {
        cases.iter().map(|c| format!("{} {} {:?}", c.bench.name, c.param, c.subjects)).collect()
    }

    #[test]
    fn filters_narrow_the_plan() {
        let filter = Filter {
            subjects: vec!["tokio".into(), "go".into()],
            params: vec!["100@2".into(), "1".into()],
            quick: false,
        };
        let cases = plan(&["yield".into()], &filter).unwrap();
        let want = [
            r#"yield 1 ["tokio-current", "tokio-multi", "go"]"#,
            r#"yield 100@2 ["tokio-multi", "go"]"#,
        ];
        assert_eq!(names(&cases), want);
    }

    #[test]
    fn quick_swaps_the_slow_parameters() {
        let params = |quick, asked: &[&str]| {
            let params = asked.iter().map(|p| (*p).to_owned()).collect();
            let filter = Filter { quick, params, ..Filter::default() };
            let cases = plan(&["sleepers".into()], &filter).unwrap();
            cases.iter().map(|c| c.param).collect::<Vec<_>>()
        };
        assert_eq!(params(true, &[]), ["100000"]);
        assert_eq!(params(false, &[]), ["1000000"]);
        assert_eq!(params(true, &["1000000"]), ["1000000"]);
    }

    #[test]
    fn groups_and_unknown_names() {
        let micro = plan(&["micro".into()], &Filter::default()).unwrap();
        assert!(micro.iter().all(|c| c.bench.kind == Kind::Micro) && micro.len() > 10);
        let all = plan(&["all".into()], &Filter::default()).unwrap();
        assert!(all.len() > micro.len());
        assert!(plan(&["nothing".into()], &Filter::default()).is_err());
        let none = Filter { subjects: vec!["nobody".into()], ..Filter::default() };
        assert!(plan(&["all".into()], &none).is_err());
    }

    #[test]
    fn names_are_unique() {
        for (i, b) in BENCHES.iter().enumerate() {
            assert!(BENCHES[..i].iter().all(|o| o.name != b.name), "{}", b.name);
            for (j, p) in b.params.iter().enumerate() {
                assert!(b.params[..j].iter().all(|o| o.name != p.name), "{} {}", b.name, p.name);
            }
        }
    }
}
