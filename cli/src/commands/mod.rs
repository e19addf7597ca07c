//! A file per command.

pub(crate) mod candidates;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod copy;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod purge;
pub(crate) mod reference;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod stats;
pub(crate) mod steer;
pub(crate) mod submit;
mod submit_lines;
pub(crate) mod watch;
pub(crate) mod worker;

use windlass::Command as Steer;

use crate::{
    args::Command,
    exit::{Exit, Failure},
    global::Global,
};

/// Runs a command.
///
/// # Errors
///
/// The failure that ended the command.
pub(crate) async fn execute(command: Command, global: &Global) -> Result<Exit, Failure> {
    match command {
        Command::Submit(args) => submit::execute(args, global).await,
        Command::List(args) => list::execute(args, global).await,
        Command::Get(args) => get::execute(args, global).await,
        Command::Logs(args) => logs::execute(args, global).await,
        Command::Watch(args) => watch::execute(args, global).await,
        Command::Pause(args) => steer::execute(Steer::Pause, args, global).await,
        Command::Resume(args) => steer::execute(Steer::Run, args, global).await,
        Command::Release(args) => steer::execute(Steer::Release, args, global).await,
        Command::Checkpoint(args) => steer::execute(Steer::Checkpoint, args, global).await,
        Command::Kill(args) => steer::execute(Steer::Kill, args, global).await,
        Command::Sleep(args) => steer::sleep(args, global).await,
        Command::Complete(args) => steer::complete(args, global).await,
        Command::Retry(args) => retry::execute(args, global).await,
        Command::Delete(args) => delete::execute(args, global).await,
        Command::Purge(args) => purge::execute(args, global).await,
        Command::Copy(args) => copy::execute(args, global).await,
        Command::Doctor(args) => doctor::execute(args, global).await,
        Command::Stats(args) => stats::execute(args, global).await,
        Command::Nodes(args) => nodes::execute(args, global).await,
        Command::Node(args) => node::execute(args, global).await,
        Command::Config(args) => config::execute(args, global),
        Command::Completions(args) => completions::execute(args, global).await,
        Command::Run(args) => run::execute(args, global).await,
        Command::Worker(args) => worker::execute(args, global).await,
    }
}
