//! [`Line`]: an operation or guards, as one line of JSON.

use jiff::Timestamp;
use windlass::{
    Command, CommandId, Fence, Invalid, Json, Kind, StateKind, TaskId,
    store::{Guard, IfExists, Operation, Require, Reschedule, SendCommand, Submit},
};

use super::fields::Fields;
use crate::{exec, line::TaskLine};

/// The operations of a line.
const OPERATIONS: &str = "submit, send, delete, retry, reschedule, require";

/// What a line adds to a transaction.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Operation(Operation),
    Guards(Vec<Guard>),
}

impl Line {
    /// Reads a line; times such as `in 5m` count from `now`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the field.
    pub(super) fn parse(text: &str, now: Timestamp) -> Result<Self, Invalid> {
        let mut fields = Fields::parse(text)?;
        let op: String = fields.need("op")?;
        let operation = match op.as_str() {
            "submit" => submit(fields, now)?,
            "send" => send(fields, now)?,
            "delete" => Operation::Delete(only_task(fields)?),
            "retry" => Operation::Retry(only_task(fields)?),
            "reschedule" => reschedule(fields, now)?,
            "require" => return require(fields).map(Self::Guards),
            other => {
                let reason = format!("'{other}' is none of {OPERATIONS}");
                return Err(Invalid::new("op", reason));
            }
        };
        Ok(Self::Operation(operation))
    }
}

/// Reads the field `task`.
fn task(fields: &mut Fields) -> Result<TaskId, Invalid> {
    let text: String = fields.need("task")?;
    TaskId::new(text).map_err(|e| Invalid::new("task", e.reason()))
}

fn only_task(mut fields: Fields) -> Result<TaskId, Invalid> {
    let task = task(&mut fields)?;
    fields.end(&["op", "task"])?;
    Ok(task)
}

fn submit(mut fields: Fields, now: Timestamp) -> Result<Operation, Invalid> {
    let if_exists = match fields.take::<String>("if_exists")?.as_deref() {
        None | Some("refuse") => IfExists::Refuse,
        Some("same") => IfExists::Same,
        Some("replace-finished") => IfExists::ReplaceFinished,
        Some("skip") => IfExists::Skip,
        Some(other) => {
            let reason = format!("'{other}' is none of refuse, same, replace-finished, skip");
            return Err(Invalid::new("if_exists", reason));
        }
    };
    if !fields.has("kind") {
        return Err(Invalid::new("kind", "is missing; a submit has a kind"));
    }
    let start_at = fields.take_time("start_at", now)?;
    let line = TaskLine {
        start_at,
        ..TaskLine::parse(&fields.into_text())?
    };
    let built = line.into_task(&TaskLine::default())?.build()?;
    if built.task.kind.as_str() == exec::KIND {
        // Invalid props of a command are an error now, not a failed task later.
        exec::Props::parse(&built.task.props)?;
    }
    let task = built.task;
    Ok(Operation::Submit(Submit { task, if_exists }))
}

fn send(mut fields: Fields, now: Timestamp) -> Result<Operation, Invalid> {
    let task = task(&mut fields)?;
    let name: String = fields.need("command")?;
    let command = match name.as_str() {
        "run" => Command::Run,
        "pause" => Command::Pause,
        "release" => Command::Release,
        "checkpoint" => Command::Checkpoint,
        "kill" => Command::Kill,
        "complete" => Command::Complete {
            result: fields.take::<Json>("result")?,
        },
        "sleep" => Command::Sleep {
            until: fields
                .take_time("until", now)?
                .ok_or_else(|| Invalid::new("until", "is missing; a sleep ends at a time"))?,
        },
        other => {
            let reason = format!(
                "'{other}' is none of run, sleep, pause, release, checkpoint, complete, kill"
            );
            return Err(Invalid::new("command", reason));
        }
    };
    let id = match fields.take::<String>("id")? {
        Some(id) => CommandId::new(id).map_err(|e| Invalid::new("id", e.reason()))?,
        None => CommandId::new(uuid::Uuid::now_v7().to_string())?,
    };
    fields.end(&["op", "task", "command", "id", "until", "result"])?;
    Ok(Operation::Send(SendCommand { task, id, command }))
}

fn reschedule(mut fields: Fields, now: Timestamp) -> Result<Operation, Invalid> {
    let mut change = Reschedule::new(task(&mut fields)?);
    change.due = fields.take_time("due", now)?;
    change.priority = fields.take("priority")?;
    fields.end(&["op", "task", "due", "priority"])?;
    if change.due.is_none() && change.priority.is_none() {
        let reason = "is missing, and 'priority' too; give one of them or both";
        return Err(Invalid::new("due", reason));
    }
    Ok(Operation::Reschedule(change))
}

fn require(mut fields: Fields) -> Result<Vec<Guard>, Invalid> {
    let task = task(&mut fields)?;
    let mut required = Vec::new();
    if let Some(exists) = fields.take::<bool>("exists")? {
        required.push(match exists {
            true => Require::Exists,
            false => Require::Absent,
        });
    }
    if let Some(state) = fields.take::<String>("state")? {
        required.push(Require::State(state.parse::<StateKind>()?));
    }
    if let Some(version) = fields.take("version")? {
        required.push(Require::Version(version));
    }
    if let Some(fence) = fields.take("fence")? {
        required.push(Require::Fence(Fence(fence)));
    }
    if let Some(kind) = fields.take::<String>("kind")? {
        required.push(Require::Kind(Kind::new(kind)?));
    }
    match fields.take::<bool>("unclaimed")? {
        None => {}
        Some(true) => required.push(Require::Unclaimed),
        Some(false) => {
            let reason = "is false; give true, or leave it out: no guard requires a claim";
            return Err(Invalid::new("unclaimed", reason));
        }
    }
    fields.end(&[
        "op",
        "task",
        "exists",
        "state",
        "version",
        "fence",
        "kind",
        "unclaimed",
    ])?;
    if required.is_empty() {
        let reason = "names no condition; give exists, state, version, fence, kind or unclaimed";
        return Err(Invalid::new("require", reason));
    }
    let guard = |require| Guard {
        task: task.clone(),
        require,
    };
    Ok(required.into_iter().map(guard).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn every_operation_is_read() {
        let due: Timestamp = "1970-01-01T00:05:00Z".parse().unwrap();
        let a = || TaskId::new("a").unwrap();
        let guard = |require| Guard { task: a(), require };
        for (text, line) in [
            (
                r#"{"op":"delete","task":"a"}"#,
                Line::Operation(Operation::Delete(a())),
            ),
            (
                r#"{"op":"retry","task":"a"}"#,
                Line::Operation(Operation::Retry(a())),
            ),
            (
                r#"{"op":"reschedule","task":"a","due":"in 5m","priority":3}"#,
                Line::Operation(Operation::Reschedule(
                    Reschedule::new(a()).due(due).priority(3),
                )),
            ),
            (
                r#"{"op":"send","task":"a","command":"sleep","until":"in 5m","id":"c"}"#,
                Line::Operation(Operation::Send(SendCommand {
                    task: a(),
                    id: CommandId::new("c").unwrap(),
                    command: Command::Sleep { until: due },
                })),
            ),
            (
                r#"{"op":"require","task":"a","exists":true,"state":"paused","version":3,"fence":4,"kind":"k","unclaimed":true}"#,
                Line::Guards(vec![
                    guard(Require::Exists),
                    guard(Require::State(StateKind::Paused)),
                    guard(Require::Version(3)),
                    guard(Require::Fence(Fence(4))),
                    guard(Require::Kind(Kind::new("k").unwrap())),
                    guard(Require::Unclaimed),
                ]),
            ),
        ] {
            assert_eq!(Line::parse(text, NOW).unwrap(), line, "{text}");
        }
    }

    #[test]
    fn a_submit_has_the_fields_of_a_task() {
        let text = r#"{"op":"submit","id":"a","kind":"k","props":{"n":9007199254740993},"start_at":"in 5m","if_exists":"skip"}"#;
        let Line::Operation(Operation::Submit(submit)) = Line::parse(text, NOW).unwrap() else {
            panic!("a submit");
        };
        assert_eq!(submit.if_exists, IfExists::Skip);
        assert_eq!(submit.task.props.as_str(), r#"{"n":9007199254740993}"#);
        assert!(submit.task.start_at.is_some());
    }

    #[test]
    fn wrong_lines_name_the_field() {
        for (text, says) in [
            ("{", "text: is not JSON: "),
            ("7", "op: is missing"),
            (r#"{"task":"a"}"#, "op: is missing"),
            (
                r#"{"op":"drop","task":"a"}"#,
                "op: 'drop' is none of submit, send",
            ),
            (r#"{"op":"delete"}"#, "task: is missing"),
            (
                r#"{"op":"delete","task":"a/b"}"#,
                "task: 'a/b' contains '/'",
            ),
            (r#"{"op":"delete","task":7}"#, "task: is "),
            (
                r#"{"op":"delete","task":"a","due":1}"#,
                "due: 'due' is no field",
            ),
            (r#"{"op":"submit","id":"a"}"#, "kind: is missing"),
            (
                r#"{"op":"submit","kind":"k","prop":1}"#,
                "'prop' is no field",
            ),
            (r#"{"op":"submit","kind":"exec"}"#, "props: is null"),
            (
                r#"{"op":"submit","kind":"k","if_exists":"x"}"#,
                "if_exists: 'x' is none of",
            ),
            (
                r#"{"op":"send","task":"a","command":"stop"}"#,
                "command: 'stop' is none of",
            ),
            (
                r#"{"op":"send","task":"a","command":"sleep"}"#,
                "until: is missing",
            ),
            (r#"{"op":"reschedule","task":"a"}"#, "due: is missing"),
            (
                r#"{"op":"reschedule","task":"a","due":"soon"}"#,
                "due: 'soon'",
            ),
            (
                r#"{"op":"reschedule","task":"a","priority":"high"}"#,
                "priority: is",
            ),
            (
                r#"{"op":"require","task":"a"}"#,
                "require: names no condition",
            ),
            (
                r#"{"op":"require","task":"a","state":"done"}"#,
                "state: 'done' is none of",
            ),
            (
                r#"{"op":"require","task":"a","unclaimed":false}"#,
                "unclaimed: is false",
            ),
            (
                r#"{"op":"require","task":"a","owner":"n"}"#,
                "owner: 'owner' is no field",
            ),
        ] {
            let error = Line::parse(text, NOW).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
