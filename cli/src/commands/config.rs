//! `windlass config`: the settings in effect, and where each value comes from.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use clap::{ArgMatches, Command, parser::ValueSource};
use serde::Serialize;

use crate::{
    config::{self, Config},
    exit::{Exit, Failure},
    flag_values::Words,
    global::Global,
    logs,
    view::text,
};

/// No options of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The options of `windlass worker` and `windlass run` are shown with the values that they have when the
command line does not set them. A value that contains a password is not printed.

Examples:
  windlass config
  windlass --config other.toml config
  windlass config -o json | jq -r 'select(.source == \"file\") | .setting'")]
pub(crate) struct Args {}

/// Environment variables that are not options, and whether their value is a secret.
const VARIABLES: [(&str, bool); 9] = [
    ("WINDLASS_LOG", false),
    ("WINDLASS_ETCD_USER", false),
    ("WINDLASS_ETCD_PASSWORD", true),
    ("WINDLASS_ETCD_PASSWORD_FILE", false),
    ("WINDLASS_ETCD_CA", false),
    ("WINDLASS_ETCD_CERT", false),
    ("WINDLASS_ETCD_KEY", false),
    ("WINDLASS_ETCD_MAX_TXN_OPS", false),
    ("WINDLASS_ETCD_MAX_REQUEST_BYTES", false),
];

/// The text in place of a secret value.
const HIDDEN: &str = "(not printed: it holds a password)";

/// The text in place of an empty store URL.
const EMPTY_STORE: &str = "(empty, which is not a store: unset it, or name one)";

/// A setting in effect.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Setting {
    /// The command of the option; `null` for an option of all commands.
    table: Option<&'static str>,
    /// The name of the option, or of the variable.
    setting: String,
    /// The values, as they would be typed; empty if nothing is set.
    values: Vec<String>,
    /// `flag`, `environment`, `file` or `default`.
    source: &'static str,
    /// The variable, or the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

/// Prints them.
pub(crate) fn execute(_: Args, command: Command, global: &Global) -> Result<Exit, Failure> {
    let out = global.out();
    let settings = settings(command, global)?;
    if out.is_json() {
        for setting in &settings {
            out.json(setting)?;
        }
        return Ok(Exit::Ok);
    }
    match config::path(global.config.as_deref()) {
        Some(path) if path.exists() => out.note(format_args!("file: {}", path.display())),
        Some(path) => out.note(format_args!(
            "file: none ({} does not exist)",
            path.display()
        )),
        None => out.note("file: none"),
    }
    let rows = settings.into_iter().map(|setting| {
        let name = match setting.table {
            Some(table) => format!("{table}.{}", setting.setting),
            None => setting.setting,
        };
        let source = match (setting.source, setting.from) {
            ("environment", Some(variable)) => variable,
            (source, _) => source.to_owned(),
        };
        vec![text(name), text(setting.values.join(", ")), text(source)]
    });
    out.table(&["SETTING", "VALUE", "SOURCE"], rows.collect())?;
    Ok(Exit::Ok)
}

fn settings(command: Command, global: &Global) -> Result<Vec<Setting>, Failure> {
    let file = config::load(global.config.as_deref(), &command)?;
    let Words { words, off } = Words::typed(&command);
    let with_file = match &file {
        Some(file) => file.apply(command, &off),
        None => command,
    };
    let parse = |words: Vec<OsString>| {
        let parsed = with_file.clone().try_get_matches_from(words);
        parsed.map_err(|e| Failure::Usage(format!("config: {e}")))
    };
    let path = config::path(global.config.as_deref()).filter(|_| file.is_some());
    let default_store = match global.store {
        None => global.store_url().ok(),
        Some(_) => None,
    };
    let reader = Reader {
        file,
        path,
        default_store,
    };
    let typed = parse(words)?;
    // Global options may come after the name of the command.
    let typed = typed.subcommand().map_or(&typed, |(_, typed)| typed);
    let mut settings = vec![reader.used(typed)];
    settings.extend(reader.settings(None, &with_file, typed));
    for table in config::TABLES {
        let matches = parse(vec!["windlass".into(), table.into()])?;
        let of = with_file.find_subcommand(table);
        if let (Some(of), Some(matches)) = (of, matches.subcommand_matches(table)) {
            settings.extend(reader.settings(Some(table), of, matches));
        }
    }
    let set = VARIABLES.into_iter();
    settings.extend(set.filter_map(|(name, is_secret)| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
        let value = if is_secret {
            HIDDEN.into()
        } else {
            shown(&value)
        };
        Some(Setting {
            table: None,
            setting: name.to_owned(),
            values: vec![value],
            source: "environment",
            from: Some(name.to_owned()),
        })
    }));
    Ok(settings)
}

/// The sources of values, in addition to the command line and the environment.
struct Reader {
    file: Option<Config>,
    path: Option<PathBuf>,
    /// The URL of the store, if no setting names one.
    default_store: Option<String>,
}

impl Reader {
    /// Returns the file in use.
    fn used(&self, matches: &ArgMatches) -> Setting {
        let (source, from) = match matches.value_source("config") {
            Some(ValueSource::CommandLine) => ("flag", None),
            Some(ValueSource::EnvVariable) => ("environment", Some("WINDLASS_CONFIG".to_owned())),
            _ => ("default", None),
        };
        Setting {
            table: None,
            setting: "config".to_owned(),
            values: (self.path.iter())
                .map(|path| path.display().to_string())
                .collect(),
            source,
            from,
        }
    }

    /// Returns the text for an option without a value: what the commands then do.
    fn unset(&self, table: Option<&str>, id: &str) -> Option<String> {
        match (table, id) {
            (None, "store") => self.default_store.clone(),
            (Some("run"), "retry") => Some("abandoned".to_owned()),
            (Some(_), "log_limit") => Some(format!("{}MiB", logs::LIMIT >> 20)),
            _ => None,
        }
    }

    /// Returns the settings of a command.
    fn settings(
        &self,
        table: Option<&'static str>,
        of: &Command,
        matches: &ArgMatches,
    ) -> Vec<Setting> {
        let args = of.get_arguments().filter(|arg| config::is_setting(arg));
        let args = args.filter(|arg| table.is_none() || !arg.is_global_set());
        args.filter_map(|arg| {
            let id = arg.get_id().as_str();
            let in_file = || (self.file.as_ref()).is_some_and(|file| file.sets(table, id));
            let (source, from) = match matches.value_source(id) {
                Some(ValueSource::CommandLine) => ("flag", None),
                Some(ValueSource::EnvVariable) => {
                    let name = arg.get_env().map(|name| name.to_string_lossy());
                    ("environment", name.map(|name| name.into_owned()))
                }
                _ if in_file() => {
                    let path = self.path.as_ref().map(|path| path.display().to_string());
                    ("file", path)
                }
                _ => ("default", None),
            };
            let values = matches.try_get_raw(id).ok().flatten();
            let values = values.into_iter().flatten();
            let mut values: Vec<String> = match id {
                "store" => values.map(shown_store).collect(),
                _ => values.map(shown).collect(),
            };
            if source == "default" && values.is_empty() {
                values.extend(self.unset(table, id));
            }
            Some(Setting {
                table,
                setting: arg.get_long()?.to_owned(),
                values,
                source,
                from,
            })
        })
        .collect()
    }
}

/// Returns the URL of a store. Every command that opens a store rejects an empty one.
fn shown_store(url: &OsStr) -> String {
    match url.is_empty() {
        true => EMPTY_STORE.to_owned(),
        false => shown(url),
    }
}

/// Returns a value that may be printed.
fn shown(value: &OsStr) -> String {
    let text = value.to_string_lossy();
    if windlass::store::has_password(&text) {
        return HIDDEN.to_owned();
    }
    text.into_owned()
}
