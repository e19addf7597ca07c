//! The command line: its commands, and parsers of durations, times and labels.

use std::{io, process::ExitCode, time::Duration};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

use crate::{
    commands,
    commands::steer,
    config,
    exit::{self, Failure},
    flags::Words,
    global::Global,
};

/// Runs durable tasks on one SQLite file or on etcd. Every step of a task is stored before the next
/// one begins, so a crash loses no step that was stored.
#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    after_help = exit::HELP,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a list of commands; started again, continue where it stopped
    Run(commands::run::Args),
    /// Run submitted commands until stopped
    Worker(commands::worker::Args),
    /// Submit one task, or many
    Submit(commands::submit::Args),
    /// List tasks
    List(commands::list::Args),
    /// Show all details of one task
    Get(commands::get::Args),
    /// Print the output of a task
    Logs(commands::logs::Args),
    /// Print changes of tasks as they happen
    Watch(commands::watch::Args),
    /// Pause tasks until they are resumed
    #[command(after_help = steer::PAUSE)]
    Pause(steer::Args),
    /// Resume paused or sleeping tasks (sends the command run)
    #[command(after_help = steer::RESUME)]
    Resume(steer::Args),
    /// Let tasks sleep until a time
    #[command(after_help = steer::SLEEP)]
    Sleep(steer::SleepArgs),
    /// Release the claims of tasks; any node may claim them again
    #[command(after_help = steer::RELEASE)]
    Release(steer::Args),
    /// Ask running tasks for a checkpoint
    #[command(after_help = steer::CHECKPOINT)]
    Checkpoint(steer::Args),
    /// End tasks in the state completed
    #[command(after_help = steer::COMPLETE)]
    Complete(steer::CompleteArgs),
    /// End tasks in the state killed
    #[command(after_help = steer::KILL)]
    Kill(steer::Args),
    /// Restart ended tasks with the data that they had
    Retry(commands::retry::Args),
    /// Delete tasks with their state and history; running ones are stopped
    Delete(commands::delete::Args),
    /// Delete tasks that ended long ago
    Purge(commands::purge::Args),
    /// Copy all tasks of one store into another
    Copy(commands::copy::Args),
    /// Check the store's health
    Doctor(commands::doctor::Args),
    /// Count tasks by kind and state
    Stats(commands::stats::Args),
    /// List live nodes
    Nodes(commands::nodes::Args),
    /// Send a command to a node
    Node(commands::node::Args),
    /// Show the settings in effect, and where each comes from
    Config(commands::config::Args),
    /// Print a completion script for your shell
    Completions(commands::completions::Args),
}

impl Cli {
    /// Parses the command line, with the settings of the configuration file as its defaults.
    ///
    /// # Errors
    ///
    /// The failure with which the program ends. Help and the version are returned as one too, with
    /// exit code 0.
    pub(crate) fn read() -> Result<Self, ExitCode> {
        let command = Self::command();
        let Words { words, off } = Words::typed(&command);
        let typed = command
            .try_get_matches_from(&words)
            .and_then(|matches| Self::from_arg_matches(&matches))
            .map_err(|e| {
                let code = ExitCode::from(if e.use_stderr() { 2 } else { 0 });
                match without_environment(e).print() {
                    // A closed pipe is not an error.
                    Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                        Failure::from(e).report().into()
                    }
                    _ => code,
                }
            })?;
        let report = |failure: Failure| ExitCode::from(typed.global.report(&failure));
        let command = Self::command();
        let config = config::load(typed.global.config.as_deref(), &command).map_err(report)?;
        let Some(config) = config else {
            return Ok(typed);
        };
        // The settings are the defaults of a second parse: typed options take precedence.
        let read = config
            .apply(command, &off)
            .try_get_matches_from(&words)
            .and_then(|matches| Self::from_arg_matches(&matches));
        read.map_err(|e| report(Failure::Usage(format!("config: {e}"))))
    }
}

impl Command {
    /// How long the commands of tasks may take to end, of a command that runs them.
    pub(crate) fn grace(&self) -> Option<Duration> {
        match self {
            Self::Worker(args) => Some(args.node.grace),
            Self::Run(args) => Some(args.node.grace),
            _ => None,
        }
    }
}

/// Returns the error that the same words give without `WINDLASS_STORE`. clap's usage line shows an
/// option that the environment sets as if it were required.
fn without_environment(error: clap::Error) -> clap::Error {
    let mut command = Cli::command();
    for name in ["store", "log_format", "config"] {
        command = command.mut_arg(name, |arg| arg.env(None::<&str>));
    }
    let again = command.try_get_matches_from(std::env::args_os());
    again.err().unwrap_or(error)
}

/// Reads a duration such as `90s`, `15m`, `1h30m` or `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let like = || format!("'{text}' is not a duration; write it like 90s, 15m, 1h30m or 7d");
    if text.starts_with('-') {
        return Err(format!(
            "'{text}' is negative; write it like 90s, 15m, 1h30m or 7d"
        ));
    }
    let span: Span = text.parse().map_err(|_| like())?;
    let signed: SignedDuration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| like())?;
    Duration::try_from(signed).map_err(|_| like())
}

/// Reads a number of bytes such as `65536`, `64KiB`, `10M` or `1GiB`; units are powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let like = || format!("'{text}' is not a size; write it like 65536, 64KiB, 10MiB or 1GiB");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib") {
        "" | "b" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(like()),
    };
    let number: u64 = number.parse().map_err(|_| like())?;
    number.checked_mul(1 << shift).ok_or_else(like)
}

/// Reads a time as RFC 3339.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    windlass::statemachine::time::parse("time", text).map_err(|e| e.reason().to_owned())
}

/// Reads a priority.
pub(crate) fn priority(text: &str) -> Result<i32, String> {
    let (least, most) = (i32::MIN, i32::MAX);
    text.parse().map_err(|_| {
        format!("'{text}' is not a whole number from {least} to {most}; the usual one is 0, and greater ones are claimed first")
    })
}

/// Reads `name=value`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!(
            "'{text}' is not a label; write it like team=billing"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("90s", 90),
            ("1h30m", 5400),
            ("7d", 604_800),
            ("2w", 1_209_600),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for text in ["", "10", "soon", "-5s", "1y", "1mo"] {
            assert!(
                duration(text).unwrap_err().contains("write it like"),
                "{text}"
            );
        }
    }

    #[test]
    fn sizes() {
        for (text, size) in [
            ("0", 0),
            ("65536", 65_536),
            ("64KiB", 65_536),
            ("2m", 2 << 20),
            ("1G", 1 << 30),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5M", "10 M", "7x", "99999999999T"] {
            assert!(bytes(text).unwrap_err().contains("write it like"), "{text}");
        }
    }

    #[test]
    fn labels() {
        assert_eq!(label("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(label("a").is_err() && label("=b").is_err());
    }
}
