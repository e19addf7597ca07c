//! `--FLAG=false`: turns off a flag that the configuration file turns on.

use std::ffi::OsString;

use clap::{ArgAction, Command};

use crate::config;

/// The words of a command line, and the flags that they turn off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// The words without `--FLAG=false`, and with `--FLAG` for `--FLAG=true`.
    pub(crate) words: Vec<OsString>,
    /// The names of the flags that are off.
    pub(crate) off: Vec<String>,
}

impl Words {
    /// Returns the words of this process.
    pub(crate) fn typed(command: &Command) -> Self {
        Self::of(std::env::args_os(), command)
    }

    /// Reads the words up to `--`. Only the flags that the file can set take a value.
    pub(crate) fn of(words: impl IntoIterator<Item = OsString>, command: &Command) -> Self {
        let mut read = Self::default();
        let mut ended = false;
        for word in words {
            ended |= word == "--";
            let flag = word.to_str().filter(|_| !ended);
            let flag = flag.and_then(|word| word.strip_prefix("--")?.split_once('='));
            match flag.filter(|(name, _)| is_flag(command, name)) {
                Some((name, "false")) => read.off.push(name.to_owned()),
                Some((name, "true")) => read.words.push(format!("--{name}").into()),
                _ => read.words.push(word),
            }
        }
        read
    }
}

/// Returns whether the file can set a flag with this name.
fn is_flag(command: &Command, name: &str) -> bool {
    let tables = config::TABLES.into_iter();
    tables
        .filter_map(|table| command.find_subcommand(table))
        .flat_map(Command::get_arguments)
        .filter(|arg| config::is_setting(arg) && matches!(arg.get_action(), ArgAction::SetTrue))
        .any(|arg| arg.get_long() == Some(name))
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn read(words: &[&str]) -> (Vec<String>, Vec<String>) {
        let flag = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let run = Command::new("run").args([flag("again"), flag("fail-fast")]);
        let command = Command::new("windlass").subcommand(run);
        let words = words.iter().map(OsString::from);
        let Words { words, off } = Words::of(words, &command);
        let words = words.into_iter().map(|w| w.into_string().unwrap());
        (words.collect(), off)
    }

    #[test]
    fn only_flags_that_the_file_can_set_take_a_value() {
        let (words, off) = read(&["windlass", "run", "--again=false", "--fail-fast=true"]);
        assert_eq!(words, ["windlass", "run", "--fail-fast"]);
        assert_eq!(off, ["again"]);
        let same = ["w", "run", "--jobs=3", "--again=no", "--", "--again=false"];
        assert_eq!(read(&same), (same.map(str::to_owned).to_vec(), vec![]));
    }
}
