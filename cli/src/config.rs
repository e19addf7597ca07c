//! [`Config`]: settings from a file, named like the options. Options and environment variables take precedence.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgAction, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};
use toml::de::{DeTable, DeValue};

use windlass::statemachine::plain;

use crate::{
    exit::Failure,
    input::{text_of, without_mark},
};

/// The commands that may have a table.
pub(crate) const TABLES: [&str; 2] = ["worker", "run"];
/// Options of a single call, which cannot be settings.
// The options in the last line belong to another option of the same call: on their own they would
// change how every file of tasks is read, or have no effect.
const NO_SETTINGS: [&str; 9] = [
    "help",
    "version",
    "config",
    "quiet",
    "verbose",
    "use-copied", //
    "null",
    "inputs",
    "prefix",
];

/// The settings of a file, checked against the definitions of the options.
#[derive(Debug)]
pub(crate) struct Config {
    settings: Vec<Setting>,
}

#[derive(Debug)]
struct Setting {
    /// The command whose option it sets; `None` for a global one.
    table: Option<&'static str>,
    /// The id of the option.
    id: String,
    values: Vec<String>,
}

/// A file that is being read.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

/// Finds the file: the given path, or the default one if it exists. An empty path means no file.
///
/// # Errors
///
/// When the file cannot be read, or has an unknown setting.
pub(crate) fn load(given: Option<&Path>, command: &Command) -> Result<Option<Config>, Failure> {
    let Some(path) = path(given) else {
        return Ok(None);
    };
    match text_of(&path, MAX_BYTES) {
        Ok(text) => Source {
            path: &path,
            text: &text,
        }
        .read(command)
        .map(Some),
        Err(e) if given.is_none() && is_out_of_reach(&path, &e) => Ok(None),
        Err(e) => Err(Failure::file(
            &format!("config: could not read {}", path.display()),
            &e,
        )),
    }
}

/// The largest configuration file.
const MAX_BYTES: u64 = 1 << 20;

/// Returns whether this user has no file: it does not exist, or it is in the home of another user
/// that this user may not access (after `sudo -u`, say).
fn is_out_of_reach(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::PermissionDenied => std::fs::metadata(path).is_err(),
        _ => false,
    }
}

/// Returns the path of the file to read if it exists. An empty path means no file.
pub(crate) fn path(given: Option<&Path>) -> Option<PathBuf> {
    match given {
        Some(path) => Some(path.to_owned()).filter(|path| !path.as_os_str().is_empty()),
        None => default_path(),
    }
}

fn default_path() -> Option<PathBuf> {
    let dirs = directories::ProjectDirs::from("", "", "windlass")?;
    Some(dirs.config_dir().join("config.toml"))
}

impl Config {
    /// Returns whether the file sets this option, for a command or for all of them.
    pub(crate) fn sets(&self, table: Option<&str>, id: &str) -> bool {
        let mut settings = self.settings.iter();
        settings.any(|setting| setting.table == table && setting.id == id)
    }

    /// Returns the definitions of the options with the settings as their defaults. Flags that the
    /// command line turns off stay off.
    pub(crate) fn apply(&self, mut command: Command, off: &[String]) -> Command {
        let is_off = |id: &str| off.iter().any(|name| name.replace('-', "_") == id);
        for setting in self.settings.iter().filter(|setting| !is_off(&setting.id)) {
            let values = setting.values.clone();
            let with =
                |command: Command| command.mut_arg(&setting.id, |arg| arg.default_values(values));
            command = match setting.table {
                Some(table) => command.mut_subcommand(table, with),
                None => with(command),
            };
        }
        command
    }
}

impl Source<'_> {
    fn read(&self, command: &Command) -> Result<Config, Failure> {
        let text = without_mark(self.text);
        let skipped = self.text.len() - text.len();
        let table = DeTable::parse(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start + skipped);
            self.error(at, &format!("is not TOML: {}", e.message()))
        })?;
        let mut settings = Vec::new();
        for (key, value) in table.get_ref() {
            let at = key.span().start + skipped;
            let key: &str = key.get_ref();
            let DeValue::Table(inner) = value.get_ref() else {
                settings.push(self.setting(command, None, key, (at, value.get_ref()))?);
                continue;
            };
            let Some(table) = TABLES.into_iter().find(|table| *table == key) else {
                let reason = match plain::nearest(key, TABLES) {
                    Some(near) => {
                        format!("is not a table of settings; write [{near}], if that is the one")
                    }
                    None => format!(
                        "is not a table of settings; the tables are {}",
                        TABLES.join(" and ")
                    ),
                };
                return Err(self.error(at, &format!("[{key}] {reason}")));
            };
            for (key, value) in inner {
                let at = key.span().start + skipped;
                let value = (at, value.get_ref());
                settings.push(self.setting(command, Some(table), key.get_ref(), value)?);
            }
        }
        Ok(Config { settings })
    }

    fn setting(
        &self,
        command: &Command,
        table: Option<&'static str>,
        key: &str,
        (at, value): (usize, &DeValue<'_>),
    ) -> Result<Setting, Failure> {
        let of = match table {
            Some(table) => command.find_subcommand(table).unwrap_or(command),
            None => command,
        };
        let known = || of.get_arguments().filter(|arg| is_setting(arg));
        let Some(arg) = known().find(|arg| arg.get_long() == Some(key)) else {
            return Err(self.error(at, &unknown(command, table, key)));
        };
        let mut values =
            values_of(value, arg).map_err(|e| self.error(at, &format!("{key}: {e}")))?;
        if table.is_none() && key == "store" {
            for value in &mut values {
                *value = self.beside(value);
            }
        }
        if values
            .iter()
            .any(|text| windlass::store::has_password(text))
        {
            let reason = format!(
                "{key}: holds a password, which this file may not; write the path of a file with it into \
                 WINDLASS_ETCD_PASSWORD_FILE"
            );
            return Err(self.error(at, &reason));
        }
        self.check(command, table, arg, &values)
            .map_err(|e| self.error(at, &format!("{key}: {e}")))?;
        Ok(Setting {
            table,
            id: arg.get_id().to_string(),
            values,
        })
    }

    /// Returns the URL of a store with a file path relative to the folder of this file, so that a
    /// setting means the same store in every working folder.
    fn beside(&self, url: &str) -> String {
        let folder = std::path::absolute(self.path);
        let folder = folder.as_deref().ok().and_then(Path::parent);
        match (url.strip_prefix("sqlite:"), folder) {
            (Some(file), Some(folder)) if !file.is_empty() && Path::new(file).is_relative() => {
                format!("sqlite:{}", folder.join(file).display())
            }
            _ => url.to_owned(),
        }
    }

    /// Parses the values as if they were typed.
    fn check(
        &self,
        command: &Command,
        table: Option<&str>,
        arg: &Arg,
        values: &[String],
    ) -> Result<(), String> {
        let name = arg.get_long().unwrap_or_default();
        if !arg.get_action().takes_values() {
            return Ok(());
        }
        let mut words = vec!["windlass".to_owned(), table.unwrap_or("stats").to_owned()];
        words.extend(values.iter().map(|value| format!("--{name}={value}")));
        let Err(error) = command.clone().try_get_matches_from(words) else {
            return Ok(());
        };
        match error.kind() {
            ErrorKind::InvalidValue => {
                let valid = match error.get(ContextKind::ValidValue) {
                    Some(ContextValue::Strings(valid)) => valid.join(", "),
                    _ => String::new(),
                };
                Err(format!("is not one of {valid}"))
            }
            ErrorKind::ValueValidation => Err(std::error::Error::source(&error)
                .map_or_else(|| "has a wrong value".to_owned(), ToString::to_string)),
            // Values that other options would have to complete are valid here.
            _ => Ok(()),
        }
    }

    fn error(&self, at: usize, reason: &str) -> Failure {
        let before = self.text.get(..at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Failure::Usage(format!(
            "config: {} line {line}: {reason}",
            self.path.display()
        ))
    }
}

pub(crate) fn is_setting(arg: &Arg) -> bool {
    arg.get_long()
        .is_some_and(|long| !NO_SETTINGS.contains(&long))
}

/// Returns the hint for an unknown key: in which table it exists, or which one is similar.
fn unknown(command: &Command, table: Option<&str>, key: &str) -> String {
    let names = |of: &Command| -> Vec<String> {
        let args = of.get_arguments().filter(|arg| is_setting(arg));
        args.filter_map(|arg| arg.get_long().map(str::to_owned))
            .collect()
    };
    let tables = TABLES
        .into_iter()
        .filter_map(|name| Some((name, names(command.find_subcommand(name)?))));
    for (name, keys) in tables {
        if table.is_none() && keys.iter().any(|k| k == key) {
            return format!("'{key}' is a setting of a command; write it below [{name}]");
        }
    }
    if table.is_some() && names(command).iter().any(|k| k == key) {
        return format!("'{key}' is a setting of all commands; write it above the first table");
    }
    if NO_SETTINGS.contains(&key) {
        return format!("'{key}' is for one call only; give --{key}");
    }
    let of = table.and_then(|table| command.find_subcommand(table));
    let known = names(of.unwrap_or(command));
    match plain::nearest(key, known.iter().map(String::as_str)) {
        Some(near) => format!("'{key}' is not a setting; write '{near}', if that is the one"),
        None => format!(
            "'{key}' is not a setting; the settings are {}",
            known.join(", ")
        ),
    }
}

/// Returns the values of a setting, as they would be typed.
fn values_of(value: &DeValue<'_>, arg: &Arg) -> Result<Vec<String>, String> {
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    match value {
        DeValue::Boolean(on) if is_flag => Ok(vec![on.to_string()]),
        _ if is_flag => Err("is not true or false".to_owned()),
        DeValue::Array(values) if matches!(arg.get_action(), ArgAction::Append) => {
            let values = values.iter().map(|value| one(value.get_ref()));
            values.collect()
        }
        DeValue::Array(_) => Err("is an array; give one value".to_owned()),
        value => Ok(vec![one(value)?]),
    }
}

fn one(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        _ => Err("is not text or a number".to_owned()),
    }
}
