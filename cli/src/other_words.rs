//! Subcommands of other programs, with the corresponding ones of this program.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of other programs, each with the corresponding command line of this one.
const OTHERS: [(&[&str], &str); 19] = [
    (&["status", "show", "info", "inspect", "describe"], "get ID"),
    (&["stop", "hold", "suspend"], "pause ID"),
    (&["cancel", "abort", "terminate"], "kill ID"),
    (&["follow"], "watch ID --until-ended"),
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
    (&["join", "await"], "wait ID"),
    (&["now", "clock", "date"], "time"),
    (&["check", "health"], "doctor"),
    (&["backup", "dump"], "export FILE"),
    (&["restore", "load"], "import FILE"),
];

/// The commands with subcommands.
const GROUPS: [&str; 2] = ["schedule", "node"];

fn command_for(word: &str) -> Option<&'static str> {
    let found = OTHERS.iter().find(|(words, _)| words.contains(&word));
    found.map(|(_, command)| *command)
}

/// Adds a tip to the error of an unknown subcommand at the top level: `schedule` and `node` have their own subcommands.
pub(crate) fn add(error: &mut clap::Error, words: &[OsString]) {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let before = words.iter().take_while(|other| *other != word.as_str());
    if before
        .clone()
        .any(|other| GROUPS.contains(&other.to_string_lossy().as_ref()))
    {
        return;
    }
    if let Some(command) = command_for(word) {
        let tip = format!("use 'windlass {command}'");
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
        let text = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let mut error = Cli::command().try_get_matches_from(&words).unwrap_err();
            add(&mut error, &words);
            error.to_string()
        };
        assert!(text("windlass status a").contains("use 'windlass get ID'"));
        assert!(text("windlass lisst").contains("'list'"));
        let of_schedule = text("windlass schedule stop x");
        assert!(!of_schedule.contains("windlass pause"), "{of_schedule}");
    }
}
