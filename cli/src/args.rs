//! The command line: its commands, and the function that each of them runs.

use std::{ffi::OsString, io, process::ExitCode};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, parser::ValueSource};

use windlass::Command as TaskCommand;

use crate::{
    commands,
    commands::{steer, worker::NodeArgs},
    config,
    exit::{self, Exit, Failure},
    flag_values::Words,
    global::Global,
    other_words, pairs,
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
    /// Run a list of commands; if started again, continue where it stopped
    Run(commands::run::Args),
    /// Run submitted commands until stopped
    Worker(commands::worker::Args),
    /// Check a client of the protocol of remote workers
    WorkerCheck(commands::worker_check::Args),
    /// Submit one task, or many
    Submit(Box<commands::submit::Args>),
    /// Apply many changes in one transaction: all of them, or none
    Apply(commands::apply::Args),
    /// List tasks
    List(commands::list::Args),
    /// Show all details of one task
    Get(commands::get::Args),
    /// Draw the tasks that wait for a task, and those that it waits for
    Graph(commands::graph::Args),
    /// Print the output of a task
    Logs(commands::logs::Args),
    /// Print changes of tasks as they happen
    Watch(commands::watch::Args),
    /// Wait until tasks have ended, or until no live task matches a filter
    Wait(commands::wait::Args),
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
    /// Send a signal to a task; with --wait, wait for the reply
    Signal(commands::signal::Args),
    /// In a command of a task: wait for a signal, and print its payload
    WaitSignal(commands::wait_signal::Args),
    /// Change unclaimed tasks: their time, priority, kind, limits, data or props
    Reschedule(Box<commands::reschedule::Args>),
    /// Restart ended tasks with the data that they had
    Retry(commands::retry::Args),
    /// Submit tasks at times: cron expressions, intervals, calendars
    Schedule(Box<commands::schedule::Args>),
    /// Change every task that a filter selects, by a task that does it in the background
    Bulk(commands::bulk::Args),
    /// Delete tasks with their state and history; claimed ones with --force only
    Delete(commands::delete::Args),
    /// Delete tasks that ended long ago
    Purge(commands::purge::Args),
    /// Copy all tasks of one store into another
    Copy(commands::copy::Args),
    /// Back up a store on SQLite to a file, while workers run
    Backup(commands::backup::Args),
    /// Write all tasks to a file
    Export(commands::export::Args),
    /// Read a file of `windlass export` into an empty store
    Import(commands::import::Args),
    /// Check the store's health
    Doctor(commands::doctor::Args),
    /// Count tasks by kind and state, and show what holds tasks back and the limits in use
    Stats(commands::stats::Args),
    /// Show failed tasks in groups by their error
    Failures(commands::failures::Args),
    /// Show which tasks are not run, why, and what to do
    Why(commands::why::Args),
    /// Show what tasks do now: rates, lateness, failing kinds, why tasks wait, nodes
    Top(commands::top::Args),
    /// Show who deleted or purged tasks, and who sent commands to nodes
    Audit(commands::audit::Args),
    /// List live nodes
    Nodes(commands::nodes::Args),
    /// Send a command to a node
    Node(commands::node::Args),
    /// Serve the store by HTTP: pages for people, requests for programs
    Serve(commands::serve::Args),
    /// Hide values of tasks from every caller of a server
    Mask(commands::mask::Args),

    /// Make, list, rotate and revoke the tokens with which programs call a server
    Token(commands::token::Args),
    /// Print the time with which start times and deadlines are compared
    Time(commands::time::Args),
    /// Show the settings in effect, and where each comes from
    Config(commands::config::Args),
    /// Print a completion script for your shell
    Completions(commands::completions::Args),
}

impl Cli {
    /// Reads the options, and whether the store comes from the command line.
    fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut cli = Self::from_arg_matches(matches)?;
        pairs::check(matches, Self::command)?;
        let is = |name, source| matches.value_source(name) == Some(source);
        cli.global.is_store_typed = is("store", ValueSource::CommandLine)
            || is("store", ValueSource::DefaultValue) && is("config", ValueSource::CommandLine);
        Ok(cli)
    }

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
            .and_then(|matches| Self::of(&matches))
            .map_err(|e| {
                let code = ExitCode::from(if e.use_stderr() { 2 } else { 0 });
                match explained(without_environment(e), &words).print() {
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
            .and_then(|matches| Self::of(&matches));
        read.map_err(|e| report(Failure::Usage(format!("config: {e}"))))
    }
}

impl Command {
    /// Returns the options of a node, of a command that runs one.
    pub(crate) fn node(&self) -> Option<&NodeArgs> {
        match self {
            Self::Worker(args) => Some(&args.node),
            Self::Run(args) => Some(&args.node),
            _ => None,
        }
    }

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// The failure that ended the command.
    pub(crate) async fn execute(self, global: &Global) -> Result<Exit, Failure> {
        match self {
            Self::Submit(args) => commands::submit::execute(*args, global).await,
            Self::Apply(args) => commands::apply::execute(args, global).await,
            Self::List(args) => commands::list::execute(args, global).await,
            Self::Get(args) => commands::get::execute(args, global).await,
            Self::Graph(args) => commands::graph::execute(args, global).await,
            Self::Logs(args) => commands::logs::execute(args, global).await,
            Self::Watch(args) => commands::watch::execute(args, global).await,
            Self::Wait(args) => commands::wait::execute(args, global).await,
            Self::Pause(args) => steer::execute(TaskCommand::Pause, args, global).await,
            Self::Resume(args) => steer::execute(TaskCommand::Run, args, global).await,
            Self::Release(args) => steer::execute(TaskCommand::Release, args, global).await,
            Self::Checkpoint(args) => steer::execute(TaskCommand::Checkpoint, args, global).await,
            Self::Kill(args) => steer::execute(TaskCommand::Kill, args, global).await,
            Self::Sleep(args) => steer::sleep(args, global).await,
            Self::Complete(args) => steer::complete(args, global).await,
            Self::Signal(args) => commands::signal::execute(args, global).await,
            Self::WaitSignal(args) => commands::wait_signal::execute(args, global).await,
            Self::Reschedule(args) => commands::reschedule::execute(*args, global).await,
            Self::Retry(args) => commands::retry::execute(args, global).await,
            Self::Schedule(args) => commands::schedule::execute(*args, global).await,
            Self::Bulk(args) => commands::bulk::execute(args, global).await,
            Self::Delete(args) => commands::delete::execute(args, global).await,
            Self::Purge(args) => commands::purge::execute(args, global).await,
            Self::Copy(args) => commands::copy::execute(args, global).await,
            Self::Backup(args) => commands::backup::execute(args, global).await,
            Self::Export(args) => commands::export::execute(args, global).await,
            Self::Import(args) => commands::import::execute(args, global).await,
            Self::Doctor(args) => commands::doctor::execute(args, global).await,
            Self::Stats(args) => commands::stats::execute(args, global).await,
            Self::Failures(args) => commands::failures::execute(args, global).await,
            Self::Why(args) => commands::why::execute(args, global).await,
            Self::Top(args) => commands::top::execute(args, global).await,
            Self::Audit(args) => commands::audit::execute(args, global).await,
            Self::Nodes(args) => commands::nodes::execute(args, global).await,
            Self::Node(args) => commands::node::execute(args, global).await,
            Self::Serve(args) => commands::serve::execute(args, global).await,
            Self::Mask(args) => commands::mask::execute(args, global).await,
            Self::Token(args) => commands::token::execute(args, global).await,
            Self::Time(args) => commands::time::execute(args, global).await,
            Self::Config(args) => commands::config::execute(args, Cli::command(), global),
            Self::Completions(args) => commands::completions::execute(args, Cli::command(), global),
            Self::Run(args) => commands::run::execute(args, global).await,
            Self::Worker(args) => commands::worker::execute(args, global).await,
            Self::WorkerCheck(args) => commands::worker_check::execute(args, global).await,
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

/// Adds to an error of the arguments of `submit` what is right.
fn explained(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    if words.iter().any(|word| word == "submit") {
        commands::submit::tip::add(&mut error);
    }
    other_words::add(&mut error, words);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }
}
