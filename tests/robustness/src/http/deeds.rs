//! [`Deed`]: what a client asks for, repeated until it is acknowledged.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::client::{Answer, Ask, Client};
use crate::BoxError;

/// The label that names the deed of a task.
pub const LABEL: &str = "deed";
/// The kind of every task.
pub const KIND: &str = "noop";
/// How many lines a deed of lines has.
const LINES: usize = 10;
/// How many tasks a deed of an array has.
const SEVERAL: usize = 3;

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// One task without an id, with an `Idempotency-Key`.
    Keyed,
    /// One task with an id.
    Named,
    /// An array of tasks without ids, with an `Idempotency-Key`.
    Array,
    /// Two tasks without ids in a transaction, with an `Idempotency-Key`.
    Transaction,
    /// Lines of tasks with ids.
    Lines,
    /// A task far in the future, and a command with an id that ends it.
    Command,
}

/// The tasks that were acknowledged, by deed.
pub type Promised = BTreeMap<u64, Vec<String>>;

impl Deed {
    /// Draws a deed.
    pub fn draw(rng: &mut fastrand::Rng) -> Self {
        match rng.u8(..10) {
            0..=2 => Self::Keyed,
            3 | 4 => Self::Named,
            5 => Self::Array,
            6 | 7 => Self::Transaction,
            8 => Self::Lines,
            _ => Self::Command,
        }
    }

    /// Does it, under a number, and returns the tasks that were acknowledged.
    ///
    /// # Errors
    ///
    /// When it is refused, or not answered in time.
    pub async fn done(self, client: &Client, number: u64) -> Result<Vec<String>, BoxError> {
        let (key, id) = (format!("key-{number}"), format!("task-{number}"));
        let labels = json!({LABEL: number.to_string()});
        let task = json!({"kind": KIND, "labels": labels});
        let named =
            |id: &str| json!({"id": id, "kind": KIND, "labels": labels, "if_exists": "same"});
        let keyed = |line, body: Value| Ask {
            line,
            header: Some(("Idempotency-Key", &*key)),
            body: body.to_string(),
        };
        let plain = |line, body: String| Ask {
            line,
            header: None,
            body,
        };
        const SUBMIT: &str = "POST /v1/tasks";
        match self {
            Self::Keyed => ids(&accepted(client, &keyed(SUBMIT, task)).await?, ""),
            Self::Named => ids(
                &accepted(client, &plain(SUBMIT, named(&id).to_string())).await?,
                "",
            ),
            Self::Array => {
                let tasks = Value::from(vec![task; SEVERAL]);
                ids(&accepted(client, &keyed(SUBMIT, tasks)).await?, "")
            }
            Self::Transaction => {
                let line = json!({"op": "submit", "kind": KIND, "labels": labels});
                let body = json!({"lines": [line, line]});
                let answer = accepted(client, &keyed("POST /v1/transactions", body)).await?;
                ids(&answer, "operations")
            }
            Self::Lines => {
                let line = |n| named(&format!("{id}-{n}")).to_string() + "\n";
                let mut ask = plain(SUBMIT, (0..LINES).map(line).collect());
                ask.header = Some(("Content-Type", "application/x-ndjson"));
                let answer = accepted(client, &ask).await?;
                let lines: Result<Vec<Value>, _> =
                    answer.body.lines().map(serde_json::from_str).collect();
                let body = Value::from(lines?).to_string();
                ids(&Answer { body, ..answer }, "")
            }
            Self::Command => {
                let mut task = named(&id);
                task["start_at"] = json!("2100-01-01T00:00:00Z");
                let made = accepted(client, &plain(SUBMIT, task.to_string())).await?;
                let line = format!("POST /v1/tasks/{id}/commands");
                let kill = json!({"command": "kill", "id": format!("kill-{number}")});
                accepted(client, &plain(&line, kill.to_string())).await?;
                ids(&made, "")
            }
        }
    }

    /// Returns how many tasks the deed makes.
    pub fn tasks(self) -> usize {
        match self {
            Self::Keyed | Self::Named | Self::Command => 1,
            Self::Transaction => 2,
            Self::Array => SEVERAL,
            Self::Lines => LINES,
        }
    }
}

/// Sends a request until it succeeds.
async fn accepted(client: &Client, ask: &Ask<'_>) -> Result<Answer, BoxError> {
    let answer = client.until_answered(ask).await?;
    match answer.status {
        200..300 => Ok(answer),
        status => Err(format!("{} was refused with {status}: {}", ask.line, answer.body).into()),
    }
}

/// Returns the ids of an answer: of an object, or of the objects of an array, below a field if one is named.
fn ids(answer: &Answer, field: &str) -> Result<Vec<String>, BoxError> {
    let mut json = answer.json()?;
    if let Some(within) = json.get_mut(field) {
        json = within.take();
    }
    let all = match json {
        Value::Array(all) => all,
        one => vec![one],
    };
    let id = |one: &Value| {
        let id = one.get("id").or_else(|| one.get("task"));
        let id = id.and_then(Value::as_str).map(str::to_owned);
        id.ok_or_else(|| format!("an acknowledgement has no id: {}", answer.body).into())
    };
    all.iter().map(id).collect()
}
