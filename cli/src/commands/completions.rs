//! `windlass completions`: scripts for shells.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{
    args::Cli,
    exit::{Exit, Failure},
    global::Global,
};

/// Which shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass completions bash > ~/.local/share/bash-completion/completions/windlass
  windlass completions fish > ~/.config/fish/completions/windlass.fish")]
pub(crate) struct Args {
    /// Your shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    // The generator panics when its writer fails, so it gets one that does not.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "windlass", &mut script);
    global.out().bytes(&script)?;
    Ok(Exit::Ok)
}
