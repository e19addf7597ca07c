//! The options of the runs of a schedule.

use serde_json::{Map, Value, json};
use windlass::{Invalid, Json, Limit, statemachine::wire::read_retry};

use crate::{
    command_args::CommandArgs,
    exec,
    exit::Failure,
    help, input,
    parse::{at_once, label, priority, rate},
};

/// The run.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(super) struct RunArgs {
    /// The kind of the runs; exec by default when a command is given
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// The props of the runs: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    pub(super) props: Option<String>,

    /// The priority of the runs
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = priority)]
    priority: Option<i32>,

    /// A label of the runs
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,

    #[arg(long, value_name = "KEY=N", value_parser = at_once, help = help::AT_ONCE)]
    at_once: Vec<Limit>,

    #[arg(long, value_name = "KEY=N/DURATION", value_parser = rate, help = help::RATE)]
    rate: Vec<Limit>,

    #[arg(long, value_name = "POLICY", help = help::RETRY)]
    retry: Option<String>,

    /// The command of each run. `update` keeps its folder and its files of variables.
    #[command(flatten)]
    command: CommandArgs,
}

/// The fields of a command that an update with another command keeps, because they have options of
/// their own.
const KEPT: [&str; 3] = ["cwd", "env_file", "env_from_file"];

impl RunArgs {
    /// Sets the limits of an option that was given. The limits of the other option stay.
    fn set_limits(&self, run: &mut Map<String, Value>) {
        let given: Vec<&Limit> = self.at_once.iter().chain(&self.rate).collect();
        if given.is_empty() {
            return;
        }
        let stays = |limit: &&Value| match is_at_once(limit) {
            true => self.at_once.is_empty(),
            false => self.rate.is_empty(),
        };
        let before = run.get("limits").and_then(Value::as_array);
        let mut limits: Vec<Value> = before
            .into_iter()
            .flatten()
            .filter(stays)
            .cloned()
            .collect();
        limits.extend(given.into_iter().map(|limit| json!(limit)));
        run.insert("limits".to_owned(), limits.into());
    }

    /// Sets the fields that were given.
    pub(super) fn apply(&self, spec: &mut Map<String, Value>) -> Result<(), Failure> {
        let is_wrong = spec.get("run").is_some_and(|run| !run.is_object());
        let is_replaced = self.kind.is_some() || self.command.is_given();
        let Some(run) = inner(spec, "run").filter(|_| is_replaced || !is_wrong) else {
            let reason = "is not an object; write it like {\"kind\":\"exec\"}";
            return Err(Invalid::new("run", reason).into());
        };
        if let Some(mut props) = self.command.props()? {
            for field in KEPT {
                if let Some(value) = run.get("props").and_then(|props| props.get(field)) {
                    props[field] = value.clone();
                }
            }
            run.insert("props".to_owned(), props);
            run.entry("kind").or_insert_with(|| exec::KIND.into());
        }
        set(run, "kind", self.kind.clone());
        if let Some(props) = &self.props {
            let props = input::json("props", props)?;
            run.insert("props".to_owned(), props.get("props")?);
        }
        set(run, "priority", self.priority);
        if !self.labels.is_empty() {
            let labels = self
                .labels
                .iter()
                .map(|(n, v)| (n.clone(), v.clone().into()));
            run.insert("labels".to_owned(), Value::Object(labels.collect()));
        }
        self.set_limits(run);
        if let Some(retry) = &self.retry {
            let retry = read_retry(retry).map_err(|e| Invalid::new("retry", e))?;
            let retry = Json::new("retry", &retry)?;
            run.insert("retry".to_owned(), retry.get("retry")?);
        }
        if !run.contains_key("kind") {
            let reason = "is missing; give a command after --, --shell or --kind";
            return Err(Invalid::new("run.kind", reason).into());
        }
        let kind = run.get("kind").and_then(Value::as_str).unwrap_or_default();
        self.command.check_kind("runs", kind)?;
        if !exec::KINDS.contains(&kind) {
            return Ok(());
        }
        // Props of the wrong type cause an error below.
        if self.command.has_place()
            && let Some(props) = run.entry("props").or_insert(json!({})).as_object_mut()
        {
            self.command.set_in(props)?;
        }
        let props = run.get("props").cloned().unwrap_or_default();
        exec::Props::parse(&props.into())?;
        Ok(())
    }
}

/// Returns whether a limit in its JSON form is one of --at-once.
fn is_at_once(limit: &Value) -> bool {
    limit.get("at_once").is_some()
}

/// Sets a field that was given.
pub(super) fn set(spec: &mut Map<String, Value>, field: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        spec.insert(field.to_owned(), value.into());
    }
}

/// Returns the object in a field, and creates it if the field is missing or not an object.
pub(super) fn inner<'a>(
    spec: &'a mut Map<String, Value>,
    field: &str,
) -> Option<&'a mut Map<String, Value>> {
    let value = spec.entry(field).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}
