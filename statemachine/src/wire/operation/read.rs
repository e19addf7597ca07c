//! Reads an operation or the guards of one task.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};

use crate::{
    Command, CommandId, Delete, Fence, Guard, IfExists, Invalid, Json, Kind, Note, Operation,
    Require, Reschedule, RetryTask, StateKind, Submit, TaskId, Waits,
    operation::SendCommand,
    plain,
    wire::{Line, TIMES, TaskForm, fields::Fields, read_moment},
};

/// The example for an operation whose `op` is unknown.
const EXAMPLE: &str = r#"write it like {"op":"submit","id":"a","kind":"report"}"#;

/// Returns the form of an operation with this `op`; `command` is that of a `send`.
pub(super) fn example(op: &str, command: &str) -> &'static str {
    match (op, command) {
        ("send", "sleep") => {
            r#"write it like {"op":"send","task":"a","command":"sleep","until":"2030-01-02T03:04:05Z"}"#
        }
        ("send", "signal") => {
            r#"write it like {"op":"send","task":"a","command":"signal","name":"approve","payload":"ann"}"#
        }
        ("send", _) => r#"write it like {"op":"send","task":"a","command":"pause"}"#,
        ("delete", _) => r#"write it like {"op":"delete","task":"a"}"#,
        ("retry", _) => r#"write it like {"op":"retry","task":"a"}"#,
        ("reschedule", _) => r#"write it like {"op":"reschedule","task":"a","priority":5}"#,
        ("require", _) => r#"write it like {"op":"require","task":"a","state":"completed"}"#,
        _ => EXAMPLE,
    }
}

/// The stored form of `after`, which a submit may use instead.
pub(super) const WAITS: &str = "waits";

/// The fields of a guard.
const CONDITIONS: [&str; 9] = [
    "exists",
    "state",
    "version",
    "fence",
    "order",
    "kind",
    "unclaimed",
    "data",
    "no_data",
];

/// The fields of a reschedule.
const CHANGES: [&str; 8] = [
    "due", "priority", "kind", "limits", "data", "no_data", "props", "no_props",
];

/// The values of the field `op`.
const OPERATIONS: &str = "submit, send, delete, retry, reschedule, require";

/// Reads a JSON object. `new_id` makes the id of a command that has none.
pub(super) fn read(
    text: &str,
    new_id: impl FnOnce() -> Result<CommandId, Invalid>,
) -> Result<Line, Invalid> {
    line(Fields::parse(text, "operation", EXAMPLE)?, new_id)
}

/// Reads a JSON object whose times may be relative to `now`.
pub(super) fn read_at(
    text: &str,
    now: Timestamp,
    new_id: impl FnOnce() -> Result<CommandId, Invalid>,
) -> Result<Line, Invalid> {
    let mut fields = Fields::parse(text, "operation", EXAMPLE)?;
    for name in TIMES {
        let text = fields.left.get(name);
        if let Some(text) = text.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok()) {
            let at = Value::from(read_moment(name, &text, now)?.to_string());
            let raw = RawValue::from_string(at.to_string());
            let raw = raw.map_err(|e| Invalid::new(name, plain::words(&e)))?;
            fields.left.insert(name.to_owned(), raw);
        }
    }
    line(fields, new_id)
}

fn line(
    mut fields: Fields,
    new_id: impl FnOnce() -> Result<CommandId, Invalid>,
) -> Result<Line, Invalid> {
    let Some(op) = fields.take::<String>("op")? else {
        let reason = format!("is missing; it is one of {OPERATIONS}: {EXAMPLE}");
        return Err(Invalid::new("op", reason));
    };
    fields.example = example(&op, fields.command().as_deref().unwrap_or_default());
    let operation = match op.as_str() {
        "submit" => Operation::Submit(fields.submit()?),
        "send" => Operation::Send(fields.send(new_id)?),
        "delete" => Operation::Delete(fields.delete()?),
        "retry" => Operation::Retry(fields.retry()?),
        "reschedule" => Operation::Reschedule(fields.reschedule()?),
        "require" => return fields.guards().map(Line::Guards),
        other => {
            let reason = format!("'{other}' is not one of {OPERATIONS}");
            return Err(Invalid::new("op", reason));
        }
    };
    Ok(Line::Operation(operation))
}

impl Fields {
    /// Returns the name of the command of a `send`.
    fn command(&self) -> Option<String> {
        serde_json::from_str(self.left.get("command")?.get()).ok()
    }

    fn task(&mut self) -> Result<TaskId, Invalid> {
        let text: String = self.need("task")?;
        TaskId::new(text).map_err(|e| Invalid::new("task", e.reason()))
    }

    fn delete(mut self) -> Result<Delete, Invalid> {
        let mut delete = Delete::new(self.task()?);
        delete.force = self.take("force")?.unwrap_or_default();
        self.end(["op", "task", "force"])?;
        Ok(delete)
    }

    fn retry(mut self) -> Result<RetryTask, Invalid> {
        let mut retry = RetryTask::new(self.task()?);
        retry.data = self.take_new("data", "no_data")?;
        retry.props = self.take_new("props", "no_props")?;
        self.end(["op", "task", "data", "no_data", "props", "no_props"])?;
        Ok(retry)
    }

    /// Reads all remaining fields as one value. An error names the wrong field.
    fn rest<T: DeserializeOwned>(self) -> Result<T, Invalid> {
        let wrong = match plain::object(&self.text()) {
            Ok(value) => return Ok(value),
            Err(wrong) => wrong,
        };
        let is_whole = wrong.is_whole();
        let error = wrong.into_invalid("operation");
        if !is_whole {
            if self.left.contains_key(error.field()) {
                return Err(error);
            }
            let reason = format!("{}; {}", error.reason(), self.example);
            return Err(Invalid::new(error.field().to_owned(), reason));
        }
        // An error of a tagged value has no place in the text. The checks of windlass name the field; serde's
        // type errors do not, but disappear without the wrong field.
        if let Some((name, reason)) = error.reason().split_once(": ")
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || "_.".contains(c))
        {
            let field = name.split('.').next().unwrap_or(name);
            let reason = match self.left.contains_key(field) {
                true => reason.to_owned(),
                false => format!("{reason}; {}", self.example),
            };
            return Err(Invalid::new(name.to_owned(), reason));
        }
        let passes_without = |name: &&String| plain::object::<T>(&self.text_without(name)).is_ok();
        Err(match self.left.keys().find(passes_without) {
            Some(name) => Invalid::new(name.clone(), error.reason()),
            None => error,
        })
    }

    fn submit(mut self) -> Result<Submit, Invalid> {
        let known = || TaskForm::FIELDS.into_iter().chain(["if_exists"]);
        let is_unknown = |name: &&String| *name != WAITS && !known().any(|field| field == *name);
        if let Some(name) = self.left.keys().find(is_unknown) {
            let fields = ["op"].into_iter().chain(known());
            return Err(plain::unknown_in("operation", name.clone(), fields));
        }
        let if_exists: Option<IfExists> = self.take("if_exists")?;
        let waits: Option<Waits> = self.take(WAITS)?;
        let missing = format!("is missing; {}", self.example);
        let form = self.rest::<TaskForm>()?;
        for (field, value) in [("id", &form.id), ("kind", &form.kind)] {
            if value.is_none() {
                return Err(Invalid::new(field, missing));
            }
        }
        let mut task = form.into_task()?;
        task.waits = task.waits.or(waits.map(Box::new));
        task.fill_limit_keys()?;
        Ok(Submit {
            task,
            if_exists: if_exists.unwrap_or_default(),
        })
    }

    fn send(
        mut self,
        new_id: impl FnOnce() -> Result<CommandId, Invalid>,
    ) -> Result<SendCommand, Invalid> {
        let task = self.task()?;
        let id = match self.take::<String>("id")? {
            Some(id) => CommandId::new(id).map_err(|e| Invalid::new("id", e.reason()))?,
            None => new_id()?,
        };
        let note: Option<String> = self.take("note")?;
        let note = note.map(Note::new).transpose()?;
        let name = Value::from(self.need::<String>("command")?).to_string();
        let name = RawValue::from_string(name);
        let name = name.map_err(|e| Invalid::new("command", plain::words(&e)))?;
        // The stored form of a command has its name in `message`, and ignores unknown fields.
        self.left.insert("message".to_owned(), name);
        let names: Vec<String> = self.left.keys().cloned().collect();
        let command: Command = self.rest().map_err(|e| match e.field() {
            "message" => Invalid::new("command", e.reason()),
            _ => e,
        })?;
        let text = serde_json::to_string(&command).unwrap_or_default();
        let known = Self::parse(&text, "operation", EXAMPLE)?.left;
        if let Some(name) = names.into_iter().find(|name| !known.contains_key(name)) {
            let fields = known.keys().map(String::as_str);
            let fields = fields.filter(|name| *name != "message");
            let fields = ["op", "task", "command", "id", "note"]
                .into_iter()
                .chain(fields);
            return Err(plain::unknown_in("operation", name, fields));
        }
        Ok(SendCommand::new(task, id, command).note(note))
    }

    fn reschedule(mut self) -> Result<Reschedule, Invalid> {
        let mut change = Reschedule::new(self.task()?);
        change.due = self.take_time("due")?;
        change.priority = self.take("priority")?;
        let kind: Option<String> = self.take("kind")?;
        change.kind = kind.map(Kind::new).transpose()?;
        change.limits = self.take("limits")?;
        change.data = self.take_new("data", "no_data")?;
        change.props = self.take_new("props", "no_props")?;
        self.end(["op", "task"].into_iter().chain(CHANGES))?;
        if change.is_empty() {
            let reason = "is missing, and 'priority', 'kind', 'limits', 'data', 'no_data', 'props' and 'no_props' too; give at \
                          least one of them";
            return Err(Invalid::new("due", reason));
        }
        Ok(change)
    }

    fn guards(mut self) -> Result<Vec<Guard>, Invalid> {
        let task = self.task()?;
        let mut required = Vec::new();
        required.extend(self.take("exists")?.map(|exists| match exists {
            true => Require::Exists,
            false => Require::Absent,
        }));
        if let Some(state) = self.take::<String>("state")? {
            required.push(Require::State(state.parse::<StateKind>()?));
        }
        required.extend(self.take("version")?.map(Require::Version));
        required.extend(
            self.take("fence")?
                .map(|fence| Require::Fence(Fence(fence))),
        );
        required.extend(self.take("order")?.map(Require::Order));
        if let Some(kind) = self.take::<String>("kind")? {
            required.push(Require::Kind(Kind::new(kind)?));
        }
        if self.take_true("unclaimed", "no guard requires a claim")? {
            required.push(Require::Unclaimed);
        }
        required.extend(
            self.take::<Json>("data")?
                .map(|data| Require::Data(Some(data))),
        );
        if self.take_true(
            "no_data",
            "a guard requires the data that it names, in 'data'",
        )? {
            required.push(Require::Data(None));
        }
        self.end(["op", "task"].into_iter().chain(CONDITIONS))?;
        if required.is_empty() {
            let reason = format!("names no condition; give one of {}", CONDITIONS.join(", "));
            return Err(Invalid::new("require", reason));
        }
        let guard = |require| Guard {
            task: task.clone(),
            require,
        };
        Ok(required.into_iter().map(guard).collect())
    }
}
