//! [`Field`]: the fields of a schedule that `update --clear` removes.

use clap::ValueEnum;
use serde_json::{Map, Value};

use super::show::{TIMES, time_texts};

/// Fields to remove.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(super) struct ClearArgs {
    #[arg(long, value_name = "FIELD", value_delimiter = ',', hide_possible_values = true, requires = "id", help = HELP)]
    clear: Vec<Field>,
}

const HELP: &str = "Remove a field, before the other options are set: 'every', 'except-date', or any other option \
    of a time or a run; 'limits' for --at-once and --rate";

/// A field, named as the option that sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Field {
    Cron,
    Every,
    At,
    Except,
    ExceptCron,
    ExceptAt,
    #[value(alias = "except-dates")]
    ExceptDate,
    Start,
    End,
    Count,
    Zone,
    Offset,
    Jitter,
    StartWithin,
    EndWithin,
    Gap,
    Fold,
    Overlap,
    Missed,
    Within,
    PauseOnFailure,
    Props,
    Priority,
    #[value(alias = "labels")]
    Label,
    /// What `--at-once` and `--rate` set together.
    #[value(alias = "at-once", alias = "rate")]
    Limits,
    Retry,
    Cwd,
    EnvFile,
    #[value(alias = "env-from-file")]
    EnvFrom,
}

impl Field {
    /// Returns its place in the spec: the objects around it, and its name.
    fn place(self) -> (&'static [&'static str], &'static str) {
        const TOP: &[&str] = &[];
        const EXCEPT: &[&str] = &["except"];
        const MISSED: &[&str] = &["missed"];
        const RUN: &[&str] = &["run"];
        const PROPS: &[&str] = &["run", "props"];
        match self {
            Self::Cron => (TOP, "cron"),
            Self::Every => (TOP, "every"),
            Self::At => (TOP, "at"),
            Self::Except => (TOP, "except"),
            Self::ExceptCron => (EXCEPT, "cron"),
            Self::ExceptAt => (EXCEPT, "at"),
            Self::ExceptDate => (EXCEPT, "dates"),
            Self::Start => (TOP, "start"),
            Self::End => (TOP, "end"),
            Self::Count => (TOP, "count"),
            Self::Zone => (TOP, "zone"),
            Self::Offset => (TOP, "offset"),
            Self::Jitter => (TOP, "jitter"),
            Self::StartWithin => (TOP, "start_within"),
            Self::EndWithin => (TOP, "end_within"),
            Self::Gap => (TOP, "gap"),
            Self::Fold => (TOP, "fold"),
            Self::Overlap => (TOP, "overlap"),
            Self::Missed => (MISSED, "run"),
            Self::Within => (MISSED, "within"),
            Self::PauseOnFailure => (TOP, "pause_on_failure"),
            Self::Props => (RUN, "props"),
            Self::Priority => (RUN, "priority"),
            Self::Label => (RUN, "labels"),
            Self::Limits => (RUN, "limits"),
            Self::Retry => (RUN, "retry"),
            Self::Cwd => (PROPS, "cwd"),
            Self::EnvFile => (PROPS, "env_file"),
            Self::EnvFrom => (PROPS, "env_from_file"),
        }
    }

    fn remove(self, spec: &mut Map<String, Value>) {
        let (around, name) = self.place();
        let mut object = Some(spec);
        for outer in around {
            object = object.and_then(|object| object.get_mut(*outer)?.as_object_mut());
        }
        if let Some(object) = object {
            object.remove(name);
        }
    }
}

impl ClearArgs {
    /// Removes the fields.
    pub(super) fn apply(&self, spec: &mut Map<String, Value>) {
        for field in &self.clear {
            field.remove(spec);
        }
    }
}

/// Returns a note for each part of a schedule that an update keeps beside what it changes, where both together
/// are easily not what was meant.
pub(super) fn kept(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let has = |name: &str| !time_texts(after, name).is_empty();
    let is_changed = |name: &str| time_texts(before, name) != time_texts(after, name);
    let mut notes = Vec::new();
    if TIMES.iter().any(|name| has(name) && is_changed(name)) {
        for name in TIMES {
            if has(name) && !is_changed(name) {
                notes.push(format!(
                    "its earlier times of --{name} stay: {}; --clear {name} removes them",
                    time_texts(after, name).join(", ")
                ));
            }
        }
    }
    let run = |spec: &Map<String, Value>, name: &str| {
        let value = spec.get("run").and_then(|run| run.get(name));
        value.filter(|value| !value.is_null()).cloned()
    };
    let props = run(after, "props");
    let is_other_kind = run(before, "kind") != run(after, "kind");
    if is_other_kind && props.is_some() && props == run(before, "props") {
        let kind = run(before, "kind").unwrap_or_default();
        notes.push(format!(
            "its runs keep the props of kind {kind}; --props replaces them, and --clear props removes them"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use clap::Args;
    use serde_json::json;

    use super::{super::spec::UpdateArgs, *};

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn what_an_update_keeps_beside_what_it_gives_is_noted() {
        let run = json!({"kind": "exec", "props": {"command": "true"}});
        let before = object(&json!({"run": run, "every": [{"interval": "5m"}], "at": ["T"]}));
        assert_eq!(kept(&before, &before), Vec::<String>::new());
        let mut after = before.clone();
        after.insert("cron".to_owned(), json!(["@daily"]));
        let notes = kept(&before, &after);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("--every stay: every 5m; --clear every"));
        assert!(notes[1].contains("--at stay: T; --clear at"));
        // Times that only go leave nothing to explain.
        after = before.clone();
        after.remove("every");
        assert_eq!(kept(&before, &after), Vec::<String>::new());
        after = before.clone();
        after["run"]["kind"] = json!("report");
        assert!(kept(&before, &after)[0].contains("props of kind \"exec\""));
        after["run"]["props"] = json!({});
        assert_eq!(kept(&before, &after), Vec::<String>::new());
    }

    #[test]
    fn every_option_of_an_update_has_a_field_to_clear() {
        // `--anchor` is a part of an interval; a run always has a kind, and an exec a command.
        let others = ["spec", "clear", "anchor", "kind", "shell"];
        let command = UpdateArgs::augment_args(clap::Command::new("update"));
        let longs = command.get_arguments().filter_map(clap::Arg::get_long);
        for long in longs.filter(|long| !others.contains(long)) {
            assert!(Field::from_str(long, false).is_ok(), "--{long}");
        }
    }

    #[test]
    fn a_field_is_removed_wherever_it_is() {
        let mut spec = object(&json!({"missed": {"run": "all", "within": "1h"}, "run": {}}));
        ClearArgs {
            clear: vec![Field::Within, Field::Cwd, Field::Every],
        }
        .apply(&mut spec);
        assert_eq!(
            Value::Object(spec),
            json!({"missed": {"run": "all"}, "run": {}})
        );
    }
}
