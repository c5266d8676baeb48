//! The program: see the crate's documentation.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use rrd_export::cli::{self, Cli, Command};
use rrd_export::exit::Exit;
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
    let fiber = bast::Builder::new().name("export".to_owned()).stack_size(STACK);
    match fiber.spawn(move || export(&args)).map(|fiber| fiber.join()) {
        Ok(Ok(exit)) => exit,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => {
            eprintln!("rrd-export: cannot start: {error}");
            Exit::Fatal
        }
    }
}

fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Exit {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Exit::Complete,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::OutputClosed,
        Err(error) => {
            eprintln!("rrd-export: {error}");
            Exit::Fatal
        }
    }
}
