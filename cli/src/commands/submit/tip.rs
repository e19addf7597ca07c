//! Tips for a command line of `submit` that lacks the `--`.

use std::ffi::OsStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::{exec, hint::quoted};

/// Adds a tip to an error of the arguments of `submit`.
pub(crate) fn add(error: &mut clap::Error) {
    let is_missing = |name: &str| match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(args)) => args.iter().any(|arg| arg.contains(name)),
        _ => false,
    };
    let tip = match error.kind() {
        ErrorKind::MissingRequiredArgument if is_missing("--wait") => {
            "--timeout is how long --wait waits; the limit of a command is 'timeout' in its props: \
             windlass submit exec --props '{\"command\":\"make\",\"timeout\":\"1h\"}'"
        }
        ErrorKind::MissingRequiredArgument if is_missing("KIND") => {
            "a command goes behind --: windlass submit -- COMMAND; for the props of a command, KIND is exec"
        }
        ErrorKind::UnknownArgument => "a command goes behind --: windlass submit -- COMMAND",
        _ => return,
    };
    let mut tips = match error.get(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => tips.clone(),
        _ => Vec::new(),
    };
    tips.push(tip.into());
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

/// Returns how to submit the command that this kind seems to be: a command line, a path, or the name of a program.
/// `None` for other kinds.
pub(super) fn for_kind(kind: &str) -> Option<String> {
    let words = command_of(kind)?;
    Some(format!("to run a command, write: windlass submit {words}"))
}

/// Returns the command that this kind seems to be, as the words of a command line that give it.
pub(crate) fn command_of(kind: &str) -> Option<String> {
    let line = kind.contains(char::is_whitespace);
    let is_command = line || kind.contains('/') || exec::programs::is_known(OsStr::new(kind));
    let words = match line {
        true => format!("--shell {}", quoted(kind)),
        false => format!("-- {}", quoted(kind)),
    };
    is_command.then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_path_and_a_program_are_commands_and_a_word_is_a_kind() {
        let of = |kind| for_kind(kind).unwrap_or_default();
        let tip = "to run a command, write: windlass submit ";
        assert_eq!(of("tar czf x"), format!("{tip}--shell 'tar czf x'"));
        assert_eq!(of("./backup.sh"), format!("{tip}-- ./backup.sh"));
        assert_eq!(of("sh"), format!("{tip}-- sh"));
        assert_eq!(of("no-such-program"), "");
    }
}
