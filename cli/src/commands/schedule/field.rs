//! [`Field`]: the fields of a schedule that `update --clear` removes.

use clap::ValueEnum;
use serde_json::{Map, Value};

use super::texts::{TIMES, time_texts};

/// Fields to remove.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(super) struct ClearArgs {
    #[arg(long, value_name = "FIELD", value_delimiter = ',', hide_possible_values = true, requires = "id", help = HELP)]
    clear: Vec<Field>,
}

const HELP: &str = "Remove a field, before the other options are applied: 'every', 'except-date', or any other option \
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
    Description,
    Props,
    Priority,
    #[value(alias = "labels")]
    Label,
    /// The limits, set by `--at-once` and `--rate` together.
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
            Self::Description => (TOP, "description"),
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

/// Returns notes about the parts of a schedule that an update keeps or removes although the user may not expect
/// it.
pub(super) fn notes_of(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
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
    notes.extend(gone(before, after));
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

/// Returns a note for each list from which an option has removed entries, because the option gives the whole
/// list.
fn gone(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let mut notes = Vec::new();
    for (field, option, what) in LISTS {
        let (was, is) = (entries(before, field), entries(after, field));
        let gone: Vec<String> = was.into_iter().filter(|one| !is.contains(one)).collect();
        // A list that is gone completely was removed by --clear.
        if !gone.is_empty() && !is.is_empty() {
            notes.push(format!(
                "{what} {} {} gone: {option} gives all of them",
                gone.join(", "),
                if gone.len() == 1 { "is" } else { "are" }
            ));
        }
    }
    notes
}

/// The lists to which users often want to add an entry: their place in the spec, the option that sets them, and
/// their name in a note.
const LISTS: [(Field, &str, &str); 4] = [
    (Field::Label, "--label", "label"),
    (Field::ExceptDate, "--except-date", "the exception of"),
    (Field::ExceptCron, "--except-cron", "the exception of"),
    (Field::ExceptAt, "--except-at", "the exception of"),
];

/// Returns the entries of a list, or the names and values of an object, as text.
fn entries(spec: &Map<String, Value>, field: Field) -> Vec<String> {
    let (around, name) = field.place();
    let mut object = Some(spec);
    for outer in around {
        object = object.and_then(|object| object.get(*outer)?.as_object());
    }
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    match object.and_then(|object| object.get(name)) {
        Some(Value::Array(list)) => list.iter().map(text).collect(),
        Some(Value::Object(pairs)) => {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| format!("{name}={}", text(value)))
                .collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;
    use serde_json::json;

    use super::{super::args::UpdateArgs, *};

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn what_an_update_keeps_beside_what_it_gives_is_noted() {
        let run = json!({"kind": "exec", "props": {"command": "true"}});
        let before = object(&json!({"run": run, "every": [{"interval": "5m"}], "at": ["T"]}));
        assert_eq!(notes_of(&before, &before), Vec::<String>::new());
        let mut after = before.clone();
        after.insert("cron".to_owned(), json!(["@daily"]));
        let notes = notes_of(&before, &after);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("--every stay: every 5m; --clear every"));
        assert!(notes[1].contains("--at stay: T; --clear at"));
        // If times are only removed, nothing needs an explanation.
        after = before.clone();
        after.remove("every");
        assert_eq!(notes_of(&before, &after), Vec::<String>::new());
        after = before.clone();
        after["run"]["kind"] = json!("report");
        assert!(notes_of(&before, &after)[0].contains("props of kind \"exec\""));
        after["run"]["props"] = json!({});
        assert_eq!(notes_of(&before, &after), Vec::<String>::new());
    }

    /// Regression: `--label b=2` silently removed label a.
    #[test]
    fn the_entries_that_an_update_removes_from_a_list_are_noted() {
        let run = json!({"kind": "k", "labels": {"a": "1", "c": "3"}});
        let except = json!({"dates": ["2030-12-25"], "cron": ["0 0 1 * *"]});
        let before = object(&json!({"run": run, "except": except, "cron": ["@daily"]}));
        let mut after = before.clone();
        after["run"]["labels"] = json!({"b": "2", "c": "3"});
        after["except"]["dates"] = json!(["2031-01-01"]);
        let says = [
            "label a=1 is gone: --label gives all of them",
            "the exception of 2030-12-25 is gone: --except-date gives all of them",
        ];
        assert_eq!(notes_of(&before, &after), says);
        after = before.clone();
        after["run"]["labels"] = json!({"a": "1", "c": "3", "d": "4"});
        after["except"]["dates"] = Value::Null;
        assert_eq!(notes_of(&before, &after), Vec::<String>::new());
    }

    #[test]
    fn every_option_of_an_update_has_a_field_to_clear() {
        // `--anchor` is a part of an interval; a run always has a kind, and an exec run a command.
        let others = ["spec", "clear", "anchor", "kind", "shell", "dry-run"];
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
