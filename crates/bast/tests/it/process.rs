//! What concerns a whole process, and therefore is done to one of its own: this very test binary, run
//! again for one test that is told by a variable to do its deed.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, Write};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bast::net::TcpListener;

use crate::harness::{PATIENCE, needs_kernel};

const ROLE: &str = "BAST_TEST_ROLE";

fn is_child() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// Runs `test` in a process of its own, below `limit` (a shell's `ulimit`). Ctrl-C means to it what it means to a program that
/// is started from a terminal: who is started in the background inherits that it is ignored.
fn child(test: &str, limit: &str) -> Child {
    let exe = std::env::current_exe().unwrap();
    let script = format!("{limit} exec env --default-signal=INT \"$0\" \"$@\"");
    Command::new("sh")
        .args(["-c", &script])
        .args(crate::harness::runner())
        .arg(exe)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ROLE, "child")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The rest of the first line that begins with `key`.
fn line(out: &mut impl BufRead, key: &str) -> String {
    let mut text = String::new();
    loop {
        text.clear();
        assert!(out.read_line(&mut text).unwrap() > 0, "the child ended before it said {key:?}");
        // libtest prints the test's name without a line end before what the test prints.
        if let Some(at) = text.find(key) {
            return text[at + key.len()..].trim().to_owned();
        }
    }
}

/// The processor time that this process has had. `stat` is its file, opened while that was possible.
fn cpu_time(stat: &mut File) -> Duration {
    stat.rewind().unwrap();
    let stat = std::io::read_to_string(stat).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// How many there may be in so many milliseconds: after 1 + 2 + … + 64 ms, and then after 100 ms each. A loop that spins
/// makes thousands in a second.
fn attempts(took: u64) -> u64 {
    10 + took / 100
}

#[test]
fn running_out_of_descriptors() {
    needs_kernel!();
    if is_child() {
        return out_of_descriptors();
    }
    let mut child = child("process::running_out_of_descriptors", "ulimit -n 64;");
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let addr: std::net::SocketAddr = line(&mut out, "listening ").parse().unwrap();
    // More connections than the child has descriptors: the rest stays in its queue.
    let mut streams: Vec<_> = (0..100).map(|_| StdStream::connect(addr).unwrap()).collect();
    // The child counts for a second, or for longer if something held it up.
    let took: u64 = line(&mut out, "took ").parse().unwrap();
    let tried: u64 = line(&mut out, "tried ").parse().unwrap();
    assert!(tried <= attempts(took), "{tried} attempts in {took} ms");
    let busy: u64 = line(&mut out, "busy ").parse().unwrap();
    assert!(busy < took / 2, "{busy} ms of processor time in {took} ms");
    // Descriptors are given back, and all are served.
    for stream in &mut streams {
        stream.write_all(b"x").unwrap();
        stream.set_read_timeout(Some(PATIENCE / 3)).unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }
    drop(streams);
    assert!(child.wait().unwrap().success());
}

fn out_of_descriptors() {
    let report = bast::spawn(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        println!("listening {}", listener.local_addr().unwrap());
        let mut stat = File::open("/proc/self/stat").unwrap();
        let mut served = 0;
        let mut refused = 0;
        let mut since = None;
        let mut waiting = Vec::new();
        let serve = |mut stream: bast::net::TcpStream| {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            stream.write_all(&byte).unwrap();
        };
        let mut fibers = Vec::new();
        for stream in listener.incoming() {
            match stream {
                Ok(stream) if since.is_none() => waiting.push(stream),
                Ok(stream) => fibers.push(bast::spawn(move || serve(stream))),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(24), "{error}"); // EMFILE
                    refused += 1;
                    let (start, busy) =
                        *since.get_or_insert_with(|| (Instant::now(), cpu_time(&mut stat)));
                    let took = start.elapsed();
                    let enough = took >= Duration::from_secs(1) && refused >= 5;
                    if enough && !waiting.is_empty() {
                        println!("took {}", took.as_millis());
                        println!("tried {refused}");
                        println!("busy {}", (cpu_time(&mut stat) - busy).as_millis());
                        for stream in waiting.drain(..) {
                            fibers.push(bast::spawn(move || serve(stream)));
                        }
                    }
                    continue;
                }
            }
            served += 1;
            if served == 100 {
                break;
            }
        }
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
    report.join().unwrap();
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Interrupts it again and again until `heard` returns: nobody can see whether those that are to hear it wait already.
fn interrupt_until<T: Send>(child: &Child, heard: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let heard = scope.spawn(heard);
        while !heard.is_finished() {
            interrupt(child);
            std::thread::sleep(Duration::from_millis(20));
        }
        heard.join().unwrap()
    })
}

#[test]
fn ctrl_c_is_heard() {
    needs_kernel!();
    if is_child() {
        let first = bast::signal::CtrlC::new().unwrap();
        let second = bast::signal::CtrlC::new().unwrap();
        println!("ready 1");
        // By a fiber and by a plain thread.
        let waiter = bast::spawn(move || {
            first.wait().unwrap();
            first
        });
        second.wait().unwrap();
        let first = waiter.join().unwrap();
        let early = bast::spawn(move || first.wait());
        let once = bast::spawn(bast::signal::ctrl_c);
        bast::sleep(Duration::from_millis(50));
        for (who, fiber) in [("early", &early), ("once", &once)] {
            assert!(!fiber.is_finished(), "{who} has ended");
        }
        println!("ready 2");
        early.join().unwrap().unwrap();
        once.join().unwrap().unwrap();
        println!("ready 3");
        // Nobody listens: it is ignored now. The parent closes our stdin when it is time.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let mut child = child("process::ctrl_c_is_heard", "");
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line(&mut out, "ready "), "1");
    // Those that wait now are there since before it said so.
    interrupt(&child);
    assert_eq!(line(&mut out, "ready "), "2");
    assert_eq!(interrupt_until(&child, || line(&mut out, "ready ")), "3");
    interrupt(&child);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn ctrl_c_ends_who_does_not_listen() {
    needs_kernel!();
    if is_child() {
        bast::spawn(|| println!("ready 1")).join().unwrap();
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let mut child = child("process::ctrl_c_ends_who_does_not_listen", "");
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line(&mut out, "ready "), "1");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().signal(), Some(2));
}

#[test]
fn a_cancelled_wait_for_ctrl_c_leaves_the_rest_alone() {
    needs_kernel!();
    if is_child() {
        let listener = bast::signal::CtrlC::new().unwrap();
        let waiter = bast::spawn(bast::signal::ctrl_c);
        bast::sleep(Duration::from_millis(50));
        waiter.cancel();
        assert!(waiter.join().unwrap_err().is::<bast::Cancelled>());
        // It is at home in the same descriptor, and hears only what is for it.
        let again = bast::spawn(bast::signal::ctrl_c);
        bast::sleep(Duration::from_millis(50));
        assert!(!again.is_finished());
        println!("ready 1");
        again.join().unwrap().unwrap();
        listener.wait().unwrap();
        println!("ready 2");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let mut child = child("process::a_cancelled_wait_for_ctrl_c_leaves_the_rest_alone", "");
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line(&mut out, "ready "), "1");
    assert_eq!(interrupt_until(&child, || line(&mut out, "ready ")), "2");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_std_listener_is_what_the_tests_above_think() {
    // The canary of `running_out_of_descriptors`: without back-off the same loop does spin.
    needs_kernel!();
    if !is_child() {
        let mut child =
            child("process::a_std_listener_is_what_the_tests_above_think", "ulimit -n 32;");
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let addr: std::net::SocketAddr = line(&mut out, "listening ").parse().unwrap();
        // It ends when it has tried often enough, which may be before all of these have come.
        let connect = |_| match StdStream::connect(addr) {
            Ok(stream) => Some(stream),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
                None
            }
        };
        let streams: Vec<_> = (0..40).map_while(connect).collect();
        let took: u64 = line(&mut out, "took ").parse().unwrap();
        let tried: u64 = line(&mut out, "tried ").parse().unwrap();
        assert!(tried > attempts(took), "only {tried} attempts in {took} ms");
        drop(streams);
        assert!(child.wait().unwrap().success());
        return;
    }
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    println!("listening {}", listener.local_addr().unwrap());
    let (mut held, mut refused, mut since) = (Vec::new(), 0, None);
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => held.push(stream),
            Err(_) => {
                refused += 1;
                let since = *since.get_or_insert_with(Instant::now);
                if refused == 10_000 {
                    println!("took {}", since.elapsed().as_millis());
                    break;
                }
            }
        }
    }
    println!("tried {refused}");
}

#[test]
fn starting_children_with_few_descriptors() {
    needs_kernel!();
    if is_child() {
        return few_descriptors();
    }
    let child = child("process::starting_children_with_few_descriptors", "ulimit -n 64;");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("started without a pidfd"), "{text}");
}

fn few_descriptors() {
    use bast::process::{Command, Stdio};

    // Whoever is to run is started before the descriptors are gone. The directory of processes is read with one left.
    bast::spawn(|| Command::new("true").status().unwrap()).join().unwrap();
    let mut without = 0;
    for left in 0..12 {
        bast::spawn(move || {
            let mut all: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
            all.truncate(all.len() - left);
            let mut command = Command::new("sleep");
            command.arg("3600").stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
            let started = match command.spawn() {
                Err(error) => {
                    assert!(matches!(error.raw_os_error(), Some(23 | 24)), "{error}");
                    0
                }
                Ok(mut child) => {
                    // The rest is taken, so that there is none for a pidfd; then waiting can be given up, and works.
                    all.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
                    assert!(bast::timeout(Duration::from_millis(5), || child.wait()).is_err());
                    child.kill().unwrap();
                    assert_eq!(child.wait().unwrap().signal(), Some(9));
                    1
                }
            };
            drop(all);
            started
        })
        .join()
        .map(|started| without += started)
        .unwrap();
    }
    let end = Instant::now() + PATIENCE / 3;
    while !crate::children_only::children().is_empty() {
        assert!(Instant::now() < end, "left: {:?}", crate::children_only::children());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(without > 0);
    println!("started without a pidfd: {without} times");
}

#[test]
fn a_process_becomes_another_program() {
    use bast::os::unix::process::CommandExt;

    needs_kernel!();
    if is_child() {
        let fiber = bast::spawn(|| {
            let error = bast::process::Command::new("/bast-no-such-program").exec();
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            bast::process::Command::new("echo").arg("replaced").exec()
        });
        panic!("{:?}", fiber.join());
    }
    let output =
        child("process::a_process_becomes_another_program", "").wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.ends_with("replaced\n"), "{text}");
}
