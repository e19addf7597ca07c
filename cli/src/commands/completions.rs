//! `windlass completions`: scripts for shells.

use clap::Command;
use clap_complete::Shell;

use crate::{
    commands::candidates,
    exit::{Exit, Failure},
    global::Global,
};

/// Which shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass completions bash > ~/.local/share/bash-completion/completions/windlass
  windlass completions fish > ~/.config/fish/completions/windlass.fish

In bash, zsh and fish, the script also completes ids, kinds and nodes: at most 200, from the store
that the line, the environment or the configuration names.")]
pub(crate) struct Args {
    /// Your shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Asks the program first, and falls back to the fixed words.
const BASH: &str = r#"
_windlass_or_store() {
    local found
    found=$(command windlass @WORD@ "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
    if [[ -n $found ]]; then
        local one
        COMPREPLY=()
        while IFS= read -r one; do
            COMPREPLY+=("$(printf '%q' "$one")")
        done <<< "$found"
    else
        _windlass "$@"
    fi
}
complete -F _windlass_or_store -o bashdefault -o default windlass
"#;

/// Like the script for bash.
const ZSH: &str = r#"
_windlass_or_store() {
    local -a found
    found=("${(@f)$(command windlass @WORD@ "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[*]}" ]]; then
        compadd -- $found
    else
        _windlass "$@"
    fi
}
compdef _windlass_or_store windlass
"#;

/// fish adds these to the fixed words.
const FISH: &str = r#"
complete -c windlass -f -a '(command windlass @WORD@ (commandline -opc) (commandline -ct) 2>/dev/null)'
"#;

/// Prints the script.
pub(crate) fn execute(args: Args, mut cli: Command, global: &Global) -> Result<Exit, Failure> {
    // The generator panics when its writer fails, so it gets one that does not.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "windlass", &mut script);
    let dynamic = match args.shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => "",
    };
    script.extend(dynamic.replace("@WORD@", candidates::WORD).bytes());
    global.out().bytes(&script)?;
    Ok(Exit::Ok)
}
