//! `tail`: the end of files, and what is added to them, with one fiber for each.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bast::signal::CtrlC;
use bast::sync::mpsc;
use bast_examples::tail::{Options, Output, is_output, tail};
use clap::Parser;

/// Shows the last lines of files, and goes on with what is added to them.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    /// How many of the last lines.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: usize,

    /// Go on with what is added, until Ctrl-C. A file may be truncated, replaced, or come later.
    #[arg(short, long)]
    follow: bool,

    /// No line that says which file it is about.
    #[arg(short, long)]
    quiet: bool,

    /// The files; - is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tail -n 3 /etc/passwd /etc/group
  tail -f /var/log/syslog access.log     both at once, also when they are rotated
  dmesg | tail -n 5";

enum News {
    Ended(PathBuf, io::Result<()>),
    CtrlC,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            bast::eprintln!("tail: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well.
fn run(cli: Cli) -> io::Result<bool> {
    let ctrl_c = CtrlC::new()?;
    let out = Arc::new(Output::new(bast::io::stdout(), cli.files.len() > 1 && !cli.quiet));
    let options = Options { lines: cli.lines, follow: cli.follow };
    let (tell, news) = mpsc::channel();
    let mut left = cli.files.len();
    let mut fibers: Vec<_> = cli
        .files
        .into_iter()
        .map(|path| {
            let (out, tell) = (Arc::clone(&out), tell.clone());
            bast::spawn(move || {
                let result = tail(&path, options, &out);
                // The receiver is gone when everything ends.
                let _ = tell.send(News::Ended(path, result));
            })
        })
        .collect();
    fibers.push(bast::spawn(move || {
        let _ = ctrl_c.wait();
        let _ = tell.send(News::CtrlC);
    }));
    let mut well = true;
    while left > 0 {
        match news.recv() {
            Ok(News::Ended(path, result)) => {
                left -= 1;
                if let Err(error) = result {
                    well = false;
                    if is_output(&error) {
                        bast::eprintln!("tail: {error}");
                        break;
                    }
                    bast::eprintln!("tail: {}: {error}", path.display());
                }
            }
            Ok(News::CtrlC) | Err(_) => break,
        }
    }
    fibers.iter().for_each(|fiber| fiber.cancel());
    for fiber in fibers {
        // Cancelled, or ended.
        let _ = fiber.join();
    }
    Ok(well)
}
