//! The program: see the crate's documentation.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use rrd_export::cli::{self, Cli, Command, ReaderKind};
use rrd_export::exit::{Exit, say};
use rrd_export::export::export;
use rrd_export::generate;

/// Bytes; what is not used costs nothing.
const STACK: usize = 4 << 20;

fn main() -> ExitCode {
    let Cli { command, export: args } = Cli::parse();
    let exit = match command.unwrap_or(Command::Export(args)) {
        Command::Export(args) => run(args),
        Command::Generate(args) => generate::command(&args),
        Command::Man => print(|out| cli::man(out)),
        Command::Completions { shell } => print(|out| cli::completions(shell, out)),
    };
    exit.into()
}

/// In a fiber, so that everything in it can wait. What it calls was written for threads (time zones, databases' clients),
/// so its stack is a thread's; the readers' fibers have small ones.
fn run(args: cli::Export) -> Exit {
    let workers = workers(&args);
    let begin = move || {
        let fiber = bast::Builder::new().name("export".to_owned()).stack_size(STACK);
        fiber.spawn(move || export(&args)).map(|fiber| fiber.join())
    };
    let ended = match workers {
        None => begin(),
        Some(workers) => {
            let runtime = bast::Runtime::builder().workers(workers).build();
            runtime.and_then(|runtime| runtime.run(begin))
        }
    };
    match ended {
        Ok(Ok(exit)) => exit,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => {
            say(format_args!("rrd-export: cannot start: {error}"));
            Exit::Fatal
        }
    }
}

/// What rrdtool does with a file takes three times as long as what is left for us. With a worker for each core most would
/// be idle most of the time, and watch for each other's posts on cores that rrdtool has work for.
fn workers(args: &cli::Export) -> Option<usize> {
    let chosen = args.reader != ReaderKind::Rrdtool || std::env::var_os("BAST_WORKERS").is_some();
    let cores = bast::available_parallelism().map_or(1, usize::from);
    (!chosen).then(|| cores.div_ceil(3))
}

fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Exit {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Exit::Complete,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::OutputClosed,
        Err(error) => {
            say(format_args!("rrd-export: {error}"));
            Exit::Fatal
        }
    }
}
