//! Subcommands of other programs, and what they are called here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The words of other programs, each with the command line of this one.
const OTHERS: [(&[&str], &str); 14] = [
    (&["status", "show", "info", "inspect", "describe"], "get ID"),
    (&["cancel", "abort", "stop", "terminate"], "kill ID"),
    (&["wait", "follow"], "watch ID --until-ended"),
    (&["unpause", "continue", "wake"], "resume ID"),
    (&["ls", "ps", "tasks", "jobs"], "list"),
    (&["rm", "remove"], "delete ID"),
    (&["start", "work", "serve"], "worker"),
    (&["restart", "rerun", "requeue"], "retry ID"),
    (&["cron", "schedules"], "schedule list"),
    (&["history", "events"], "get ID --history"),
    (&["log", "output", "tail"], "logs ID"),
    (
        &["add", "enqueue", "push", "create", "new", "queue"],
        "submit KIND",
    ),
    (&["count", "counts", "metrics"], "stats"),
    (&["check", "health"], "doctor"),
];

fn command_for(word: &str) -> Option<&'static str> {
    let found = OTHERS.iter().find(|(words, _)| words.contains(&word));
    found.map(|(_, command)| *command)
}

/// Adds a tip to the error of an unknown subcommand.
pub(crate) fn add(error: &mut clap::Error) {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    if let Some(command) = command_for(word) {
        let tip = format!("here it is: windlass {command}");
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn no_word_is_a_subcommand_and_each_tip_is_one() {
        let cli = Cli::command();
        let names: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
        for (words, command) in OTHERS {
            let first = command.split(' ').next().unwrap();
            assert!(names.contains(&first), "{command}");
            for word in words {
                assert!(!names.contains(word), "{word}");
            }
        }
    }

    #[test]
    fn an_unknown_subcommand_of_another_program_is_translated() {
        let tried = Cli::command().try_get_matches_from(["windlass", "status", "a"]);
        let mut error = tried.unwrap_err();
        add(&mut error);
        let text = error.to_string();
        assert!(text.contains("here it is: windlass get ID"), "{text}");
        let tried = Cli::command().try_get_matches_from(["windlass", "lisst"]);
        let mut error = tried.unwrap_err();
        add(&mut error);
        assert!(error.to_string().contains("'list'"), "{error}");
    }
}
