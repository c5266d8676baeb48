//! The command line, and what is made of it: help, a man page, completions for shells.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use rrd_file::Cf;

use crate::{devices, exit, time};

/// Where most fleets have their files.
pub const PATTERN: &str = "{base}/{dc}/{id}/*.rrd";

const EXAMPLES: &str = "\
Examples:
  A data set to try things with, and all of it as CSV:
    rrd-export generate fleet --devices 1000 --files 5000
    rrd-export --devices fleet/devices.sqlite --base fleet --from -1d -o fleet.csv

  Yesterday, compressed, with two columns of the devices' table and the failures in a file:
    rrd-export -d devices.sqlite -b /var/lib/rrd --from yesterday --to today \\
        --columns time,name,rack,iface --query 'SELECT id, name, dc, rack FROM hosts' \\
        -o yesterday.csv.zst --report errors.tsv

  Munin's files, as they lie there, hourly maxima since a date, for a program that likes Parquet:
    rrd-export -d hosts.tsv -b /var/lib/munin -p '{base}/{dc}/{id}-*.rrd' \\
        --cf MAX --resolution 1h --from 2018-10-28 --layout long -o munin.parquet

  Devices from a server, rows into a pipe:
    rrd-export -d postgres://cacti@db/cacti --ifaces 'eth*,ge-*' -o - | head";

/// Every RRD file of a fleet into one CSV, on all cores, in little memory.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, after_long_help = [EXAMPLES, exit::HELP].join("\n\n"))]
#[command(after_help = "Examples and exit status: --help")]
pub struct Cli {
    /// What to do; without one: export.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to export, without the command's name.
    #[command(flatten)]
    pub export: Export,
}

/// What can be done.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)]
pub enum Command {
    /// Write the rows of all files to one output (the default command)
    #[command(after_long_help = [EXAMPLES, exit::HELP].join("\n\n"))]
    Export(Export),
    /// Make a data set: RRD files and a table of devices
    Generate(Generate),
    /// Print the man page
    Man,
    /// Print completions for a shell
    Completions {
        /// Which one
        shell: Shell,
    },
}

/// Who reads the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReaderKind {
    /// Our own reader, and rrdtool for files that it does not know
    Auto,
    /// Our own reader alone
    Native,
    /// rrdtool alone
    Rrdtool,
}

/// See [`Layout`](crate::job::Layout).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayoutKind {
    /// A line for each time, a column for each source
    Wide,
    /// A line for each time and source, with columns metric and value
    Long,
}

/// What is exported, and how.
#[derive(Clone, Debug, Args)]
pub struct Export {
    /// Where the devices are: an SQLite file, a .tsv file, mysql://… or postgres://…
    #[arg(
        short,
        long,
        value_name = "SOURCE",
        default_value = "devices.sqlite",
        help_heading = "Files"
    )]
    pub devices: String,
    /// What is asked of the database; a column must be called id
    #[arg(short, long, value_name = "SQL", default_value = devices::QUERY, help_heading = "Files")]
    pub query: String,
    /// The directory that {base} stands for
    #[arg(short, long, value_name = "DIR", default_value = ".", help_heading = "Files")]
    pub base: PathBuf,
    /// Where a device's files are: {columns} of the query, and * ? [a-z] {a,b} **
    #[arg(short, long, default_value = PATTERN, help_heading = "Files")]
    pub pattern: String,
    /// Only files with these names (without .rrd), which may have wildcards
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Files")]
    pub ifaces: Vec<String>,

    /// The first moment: 2018-10-28, '2018-10-28 14:30', yesterday, -1d, end-6h, '2 days ago', seconds since the epoch; in the
    /// zone of TZ
    #[arg(
        long,
        value_name = "TIME",
        default_value = "end-1d",
        allow_hyphen_values = true,
        help_heading = "Rows"
    )]
    pub from: String,
    /// The last moment
    #[arg(
        long,
        value_name = "TIME",
        default_value = "now",
        allow_hyphen_values = true,
        help_heading = "Rows"
    )]
    pub to: String,
    /// The consolidation function
    #[arg(long, default_value = "AVERAGE", ignore_case = true, value_parser = cf, help_heading = "Rows")]
    pub cf: Cf,
    /// The wanted time between rows: 300, 5m, 1h; the finest there is, if not given
    #[arg(long, value_name = "TIME", value_parser = time::seconds, help_heading = "Rows")]
    pub resolution: Option<u64>,
    /// The columns before the values: time, iface, path, and those of the query
    #[arg(long, value_delimiter = ',', default_value = "time,dc,id,iface", help_heading = "Rows")]
    pub columns: Vec<String>,
    /// How the sources of a file become columns
    #[arg(long, value_enum, default_value = "wide", help_heading = "Rows")]
    pub layout: LayoutKind,
    /// The sources that are wanted; if not given, all, and in the wide layout those of the first file
    #[arg(long, value_delimiter = ',', value_name = "SOURCES", help_heading = "Rows")]
    pub metrics: Vec<String>,
    /// A file that says what metrics are called: source (or iface/source), tab, name
    #[arg(long, value_name = "FILE", help_heading = "Rows")]
    pub names: Option<PathBuf>,
    /// No first line with the columns' names
    #[arg(long, help_heading = "Rows")]
    pub no_header: bool,

    /// Where rows go: .csv, .csv.gz, .csv.zst, .parquet, or - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "export.csv", help_heading = "Output")]
    pub output: PathBuf,
    /// A file for what failed, and why
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub report: Option<PathBuf>,
    /// Go on where an interrupted run with the same options has stopped
    #[arg(long, help_heading = "Output")]
    pub resume: bool,
    /// How often the output is made lasting, for --resume to go on from there; 0: after every file
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = pause, help_heading = "Output")]
    pub checkpoint: Duration,
    /// Do not wait for the disk: a loss of power may then cost the output, a kill still does not
    #[arg(long, help_heading = "Output")]
    pub no_sync: bool,
    /// Begin afresh, though an unfinished run has left something of this output
    #[arg(long, conflicts_with = "resume", help_heading = "Output")]
    pub restart: bool,
    /// Nothing on standard error but what is fatal
    #[arg(long, help_heading = "Output")]
    pub quiet: bool,

    /// Who reads the files
    #[arg(long, value_enum, default_value = "auto", help_heading = "Readers")]
    pub reader: ReaderKind,
    /// How many files are read at a time; if not given, what suits the reader
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Readers")]
    pub readers: Option<u32>,
    /// The program rrdtool
    #[arg(long, value_name = "PATH", default_value = "rrdtool", help_heading = "Readers")]
    pub rrdtool: PathBuf,
    /// How many processes of rrdtool; one for each core, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Readers")]
    pub daemons: Option<u16>,
    /// How long rrdtool may take for a file before it is replaced
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = patience, help_heading = "Readers")]
    pub rrdtool_timeout: Duration,
}

/// What is made.
#[derive(Clone, Debug, Args)]
pub struct Generate {
    /// The directory
    pub dir: PathBuf,
    /// Rows in the devices' table
    #[arg(long, value_name = "N", default_value = "1000")]
    pub devices: u64,
    /// RRD files, spread over the devices
    #[arg(long, value_name = "N", default_value = "5000")]
    pub files: u64,
    /// Data centres, over which the devices are spread
    #[arg(long, value_name = "N", default_value = "4")]
    pub dcs: u64,
    /// Rows in each file
    #[arg(long, value_name = "N", default_value = "288")]
    pub rows: u64,
    /// Sources in each file
    #[arg(long, value_name = "N", default_value = "2")]
    pub sources: u64,
    /// Time between rows
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time::seconds)]
    pub step: u64,
    /// When the last row ends
    #[arg(long, value_name = "TIME", default_value = "now", allow_hyphen_values = true)]
    pub end: String,
    /// The same seed (and end) gives the same bytes
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// No progress
    #[arg(long)]
    pub quiet: bool,
}

fn cf(name: &str) -> Result<Cf, String> {
    let found = name.to_uppercase().parse();
    found.map_err(|error: rrd_file::Error| {
        format!("{error}: AVERAGE, MIN, MAX and LAST are the usual ones")
    })
}

fn patience(text: &str) -> Result<Duration, String> {
    time::seconds(text).map(Duration::from_secs)
}

fn pause(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { patience(text) }
}

/// Writes the man page.
///
/// # Errors
/// Those of `out`.
pub fn man(out: &mut dyn Write) -> io::Result<()> {
    let mut out = out;
    clap_mangen::Man::new(Cli::command()).render(&mut out)
}

/// Writes a shell's completions.
///
/// # Errors
/// Those of `out`.
pub fn completions(shell: Shell, out: &mut dyn Write) -> io::Result<()> {
    // The generator panics where it cannot write.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "rrd-export", &mut text);
    out.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
        let cli =
            Cli::parse_from(["rrd-export", "--from", "-1d", "--cf", "max", "--ifaces", "a,b*"]);
        assert!(cli.command.is_none());
        assert_eq!((&*cli.export.from, cli.export.cf), ("-1d", Cf::Max));
        assert_eq!(cli.export.ifaces, ["a", "b*"]);
        let cli = Cli::parse_from(["rrd-export", "export", "-o", "-", "--resolution", "1h"]);
        assert!(matches!(cli.command, Some(Command::Export(e)) if e.resolution == Some(3600)));
        for wrong in
            [["--cf", "MEDIAN"], ["--resolution", "0"], ["--readers", "0"], ["--reader", "x"]]
        {
            let args = ["rrd-export"].iter().chain(&wrong);
            assert_eq!(Cli::try_parse_from(args).unwrap_err().exit_code(), 2, "{wrong:?}");
        }
    }

    #[test]
    fn help_man_page_and_completions_tell_of_it_all() {
        let mut page = Vec::new();
        man(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        let help = Cli::command().render_long_help().to_string();
        for text in [&page.replace("\\-", "-"), &help] {
            for word in ["--ifaces", "--resume", "generate", "Exit status", "Examples", "141"] {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
        for shell in Shell::value_variants() {
            let mut text = Vec::new();
            completions(*shell, &mut text).unwrap();
            assert!(String::from_utf8(text).unwrap().contains("resolution"), "{shell}");
        }
    }
}
