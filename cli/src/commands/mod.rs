//! A file per command.

pub(crate) mod completions;
pub(crate) mod reference;
pub(crate) mod worker;

use crate::{
    args::Command,
    exit::{Exit, Failure},
    global::Global,
};

/// Carries a command out.
///
/// # Errors
///
/// What stopped it.
pub(crate) async fn execute(command: Command, global: &Global) -> Result<Exit, Failure> {
    match command {
        Command::Completions(args) => completions::execute(args, global).await,
        Command::Worker(args) => worker::execute(args, global).await,
        Command::Reference(args) => reference::execute(args, global).await,
    }
}
