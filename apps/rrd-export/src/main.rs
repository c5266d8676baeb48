//! The program: see the crate's documentation.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use rrd_export::cli::{self, Cli, Command};
use rrd_export::exit::Exit;
use rrd_export::export::export;
use rrd_export::generate;

fn main() -> ExitCode {
    let Cli { command, export: args } = Cli::parse();
    let exit = match command.unwrap_or(Command::Export(args)) {
        Command::Export(args) => match bast::spawn(move || export(&args)).join() {
            Ok(exit) => exit,
            Err(panic) => std::panic::resume_unwind(panic),
        },
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
