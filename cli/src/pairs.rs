//! Options that give a name a value, such as `--label team=a`: a name has one value.

use std::{any::Any, collections::BTreeMap, fmt::Display, path::PathBuf};

use clap::{ArgMatches, Command, error::ErrorKind};
use windlass::Json;
use windlass_server::Role;

/// Refuses a name that is given with two values. Every option whose values are pairs is checked.
///
/// # Errors
///
/// An error of the command line that names the option and both values.
pub(crate) fn check(
    matches: &ArgMatches,
    command: impl Fn() -> Command,
) -> Result<(), clap::Error> {
    let mut path = Vec::new();
    let mut next = Some(matches);
    while let Some(matches) = next {
        for id in matches.ids() {
            let id = id.as_str();
            let twice = twice(matches, id, |text: &String| Some(text.clone()))
                .or_else(|| twice(matches, id, |text: &Option<String>| text.clone()))
                .or_else(|| twice(matches, id, |json: &Json| Some(json.to_string())))
                .or_else(|| twice(matches, id, |role: &Role| Some(role.to_string())))
                .or_else(|| {
                    twice(matches, id, |file: &PathBuf| {
                        Some(file.display().to_string())
                    })
                });
            if let Some([first, second]) = twice {
                let option = long(&command(), &path, id);
                let text = format!(
                    "{option}: '{first}' and '{second}' give one name two values; give one of them"
                );
                return Err(clap::Error::raw(ErrorKind::ValueValidation, text + "\n"));
            }
        }
        next = matches.subcommand().map(|(name, matches)| {
            path.push(name);
            matches
        });
    }
    Ok(())
}

/// Returns two values of one name in an option with pairs of this type.
fn twice<T: Any + Clone + Send + Sync>(
    matches: &ArgMatches,
    id: &str,
    value: impl Fn(&T) -> Option<String>,
) -> Option<[String; 2]> {
    let pairs = matches.try_get_many::<(String, T)>(id).ok().flatten()?;
    let mut known = BTreeMap::new();
    for (name, given) in pairs {
        let Some(value) = value(given) else { continue };
        let written = |value: &dyn Display| format!("{name}={value}");
        match known.insert(name, value.clone()) {
            Some(other) if other != value => return Some([written(&other), written(&value)]),
            _ => {}
        }
    }
    None
}

/// Returns the option with this id of the subcommand at the path, as it is typed.
fn long(command: &Command, path: &[&str], id: &str) -> String {
    let find = |command: &Command, name: &&str| command.find_subcommand(name).cloned();
    let mut command = command.clone();
    for name in path {
        command = find(&command, name).unwrap_or(command);
    }
    let option = command.get_arguments().find(|arg| arg.get_id() == id);
    format!("--{}", option.and_then(|arg| arg.get_long()).unwrap_or(id))
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use clap::{ArgAction, CommandFactory};

    use super::*;
    use crate::args::Cli;

    fn checked(line: &str) -> Result<(), String> {
        let words = line.split(' ');
        let matches = Cli::command().try_get_matches_from(words).unwrap();
        check(&matches, Cli::command).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_with_two_values_is_refused_with_both() {
        for (line, option) in [
            (
                "windlass submit k --label a=1 --label b=1 --label a=2",
                "--label",
            ),
            ("windlass submit k --meta a=1 --meta a=2", "--meta"),
            ("windlass worker --select a=1 --select a=2", "--select"),
            ("windlass list --label a=1 --label a=2", "--label"),
            ("windlass schedule pause --label a=1 --label a=2", "--label"),
            (
                "windlass submit --env-from a=1 --env-from a=2 -- x",
                "--env-from",
            ),
        ] {
            let says = format!("error: {option}: 'a=1' and 'a=2' give one name two values");
            let refused = checked(line).unwrap_err();
            assert!(refused.starts_with(&says), "{line}: {refused}");
        }
        let props = checked("windlass list --props-at /a=1 --props-at /a=2").unwrap_err();
        assert!(
            props.starts_with("error: --props-at: '/a=1' and '/a=2' give"),
            "{props}"
        );
        for line in [
            "windlass submit k --label a=1 --label a=1 --meta a=2",
            "windlass list --label a --label a=1",
        ] {
            assert_eq!(checked(line), Ok(()), "{line}");
        }
    }

    /// A new option of another type has to be added to the check.
    #[test]
    fn every_option_with_pairs_has_a_type_that_is_checked() {
        let known = [
            TypeId::of::<(String, String)>(),
            TypeId::of::<(String, Option<String>)>(),
            TypeId::of::<(String, Json)>(),
            TypeId::of::<(String, Role)>(),
            TypeId::of::<(String, PathBuf)>(),
            // Checked with the task: a key may have a limit of each form.
            TypeId::of::<windlass::Limit>(),
        ];
        let (mut commands, mut checked) = (vec![Cli::command()], 0);
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            for arg in command.get_arguments() {
                let is_repeated = matches!(arg.get_action(), ArgAction::Append);
                let names = arg.get_value_names().unwrap_or_default();
                if !is_repeated || !names.iter().any(|name| name.contains('=')) {
                    continue;
                }
                let is = arg.get_value_parser().type_id();
                assert!(known.iter().any(|known| is == *known), "{}", arg.get_id());
                checked += 1;
            }
        }
        assert!(checked > 10, "{checked}");
    }
}
