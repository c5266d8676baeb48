//! The program: see the crate's documentation.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use rrd_export::cli::{self, Cli, Command};
use rrd_export::exit::Exit;
use rrd_export::export::export;
use rrd_export::generate;

/// Of the fiber that drives an export, in bytes. What is not used takes no memory.
const STACK: usize = 2 << 20;

fn main() -> ExitCode {
    let Cli { command, export: args } = Cli::parse();
    let exit = match command.unwrap_or(Command::Export(args)) {
        Command::Export(args) => {
            // SQLite and the frames of a build without optimisation want more than fibers have.
            let builder = bast::Builder::new().name("export".into()).stack_size(STACK);
            match builder.spawn(move || export(&args)).map(bast::JoinHandle::join) {
                Ok(Ok(exit)) => exit,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(error) => {
                    eprintln!("rrd-export: {error}");
                    Exit::Fatal
                }
            }
        }
        Command::Generate(args) => generate::command(&args),
        Command::Man => print(|out| cli::man(out)),
        Command::Completions { shell } => print(|out| cli::completions(shell, out)),
    };
    exit.into()
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
