//! Subcommands of other programs, with the corresponding ones of this program.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of other programs, each with the corresponding command line of this one.
const OTHERS: [(&[&str], &str); 20] = [
    (&["status", "show", "info", "inspect", "describe"], "get ID"),
    (&["stop", "hold", "suspend"], "pause ID"),
    (&["cancel", "abort", "terminate"], "kill ID"),
    (&["follow"], "watch ID --until-ended"),
    (&["unpause", "continue", "wake"], "resume ID"),
    (&["ls", "ps", "tasks", "jobs"], "list"),
    (&["rm", "remove"], "delete ID"),
    (&["start", "work"], "worker"),
    (&["restart", "rerun", "requeue"], "retry ID"),
    (&["cron", "schedules"], "schedule list"),
    (&["history", "events"], "get ID --history"),
    (&["log", "output", "tail"], "logs ID"),
    (
        &["add", "enqueue", "push", "create", "new", "queue"],
        "submit KIND",
    ),
    (&["count", "counts", "metrics"], "stats"),
    (&["explain", "blocked", "pending"], "why"),
    (&["join", "await"], "wait ID"),
    (&["now", "clock", "date"], "time"),
    (&["check", "health"], "doctor"),
    (&["dump"], "export FILE"),
    (&["restore", "load"], "import FILE"),
];

/// The commands with subcommands.
const GROUPS: [&str; 2] = ["schedule", "node"];

/// Words of other schedulers behind `schedule`, each with the command line of this program.
const OF_SCHEDULES: [(&[&str], &str); 9] = [
    (
        &["run", "force", "fire", "start", "now"],
        "schedule trigger ID",
    ),
    (
        &[
            "disable",
            "deactivate",
            "inactive",
            "stop",
            "suspend",
            "hold",
        ],
        "schedule pause ID",
    ),
    (
        &["enable", "activate", "active", "unpause", "continue"],
        "schedule resume ID",
    ),
    (&["show", "info", "describe", "status"], "schedule get ID"),
    (&["edit", "change", "set", "modify"], "schedule update ID"),
    (&["ls", "schedules"], "schedule list"),
    (&["rm", "remove"], "schedule delete ID"),
    (&["next", "times", "upcoming"], "schedule preview ID"),
    (
        &["rerun", "replay", "catch-up", "catchup"],
        "schedule backfill ID --from TIME",
    ),
];

fn command_for(group: Option<&str>, word: &str) -> Option<&'static str> {
    let others = match group {
        None => OTHERS.as_slice(),
        Some("schedule") => OF_SCHEDULES.as_slice(),
        Some(_) => &[],
    };
    let found = others.iter().find(|(words, _)| words.contains(&word));
    found.map(|(_, command)| *command)
}

/// Adds a tip to the error of an unknown subcommand of the program or of `schedule`.
pub(crate) fn add(error: &mut clap::Error, words: &[OsString]) {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let before = words.iter().take_while(|other| *other != word.as_str());
    let group = before
        .filter_map(|other| other.to_str())
        .find(|other| GROUPS.contains(other));
    if let Some(command) = command_for(group, word) {
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
        let schedule = cli.find_subcommand("schedule").unwrap();
        let of_schedules: Vec<&str> = schedule
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        for (words, command) in OF_SCHEDULES {
            assert!(
                of_schedules.contains(&command.split(' ').nth(1).unwrap()),
                "{command}"
            );
            for word in words {
                assert!(!of_schedules.contains(word), "{word}");
            }
        }
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
        assert!(
            of_schedule.contains("use 'windlass schedule pause ID'"),
            "{of_schedule}"
        );
        assert!(text("windlass schedule run x").contains("use 'windlass schedule trigger ID'"));
        let of_node = text("windlass node stop x");
        assert!(!of_node.contains("pause"), "{of_node}");
    }
}
