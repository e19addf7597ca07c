//! Commands to tasks, and signals with their replies.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde::Serialize;
use windlass::{
    Command, CommandId, Json, Outcome, TaskId,
    statemachine::command::NotedCommand,
    store::{CommandRecord, Done, Operation, SendCommand},
};

use super::{json, json_with};
use crate::{
    access::{Operator, Reader, name},
    app::App,
    change::Change,
    params::{Params, whole},
    problem::Problem,
    wait::{wait_for, wait_of},
};

/// A command that was sent.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct SentForm<'a> {
    /// The id of the command.
    id: &'a CommandId,
    task: &'a TaskId,
    /// Its place in the queue of the task.
    order: u64,
    /// The outcome; `null` while the task has not answered.
    outcome: Option<Outcome>,
}

/// Sends a command; with `wait`, answers when the command has an outcome, or after that time.
pub(super) async fn send(
    State(app): State<Arc<App>>,
    by: Operator,
    Path(task): Path<String>,
    mut params: Params,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let task: TaskId = name(&task)?;
    let wait = wait_of(&mut params, &app)?;
    params.end()?;
    let key = crate::key::key_of(request.headers(), &by.key())?;
    let body = whole(request, &app).await?;
    let operation = crate::body::operation("send", (Some(&task), None), &body, app.client.now())?;
    let Operation::Send(send) = operation else {
        return Err(Problem::invalid("body", "is not a command"));
    };
    let has_id = crate::body::has_id(&body);
    sent(&app, (&by, &body), (send, has_id), (key, wait)).await
}

/// Sends a signal with the body as its payload; with `wait`, answers with the reply.
pub(super) async fn signal(
    State(app): State<Arc<App>>,
    by: Operator,
    Path((task, signal)): Path<(String, String)>,
    mut params: Params,
    headers: HeaderMap,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let task: TaskId = name(&task)?;
    let wait = wait_of(&mut params, &app)?;
    let id: Option<CommandId> = params.get("id")?;
    params.end()?;
    let key = crate::key::key_of(&headers, &by.key())?;
    let body = whole(request, &app).await?;
    let text = std::str::from_utf8(&body).map_err(|_| Problem::invalid("body", "is not UTF-8"))?;
    let payload = match text.trim() {
        "" => Json::null(),
        text => Json::parse("body", text)?,
    };
    let command = Command::signal(&signal, &payload)?;
    let has_id = id.is_some();
    let id = match id {
        Some(id) => id,
        None => CommandId::new(uuid::Uuid::now_v7().to_string())?,
    };
    let send = SendCommand::new(task, id, command);
    sent(&app, (&by, &body), (send, has_id), (key, wait)).await
}

async fn sent(
    app: &Arc<App>,
    (by, body): (&Operator, &[u8]),
    (mut send, has_id): (SendCommand, bool),
    (key, wait): (Option<String>, Option<Duration>),
) -> Result<Response, Problem> {
    if has_id && key.is_some() {
        let what = "is given together with 'Idempotency-Key'; give one of the two";
        return Err(Problem::invalid("id", what));
    }
    if let Some(key) = &key {
        // A repetition is the same command, also for the wait.
        send.id = CommandId::new(format!("key-{key}"))?;
    }
    let (id, task) = (send.id.clone(), send.task.clone());
    let sent = send.noted();
    let read = by.begin_masked_read(&task).await?;
    let change = Change::new(app, by).sent(body);
    let done = change.one(Operation::Send(send), key.as_deref()).await?;
    if has_id {
        let first = app.store.registry().command(&id).await?;
        // The store keeps the first one.
        if NotedCommand::new(first.command, first.note) != sent {
            return Err(Problem::id_used(&id));
        }
    }
    let order = match done {
        Done::Sent(order) => order,
        _ => 0,
    };
    let mut outcome = None;
    if let Some(wait) = wait {
        let settled = wait_for(app, by, wait, by.client().wait_outcome(&id));
        outcome = settled.await?.transpose()?;
    }
    if let Some(one) = outcome {
        let (hiding, kind) = by.end_masked_read(read).await?;
        outcome = Some(hiding.outcome(kind.as_ref(), one));
    }
    let form = SentForm {
        id: &id,
        task: &task,
        order,
        outcome,
    };
    let status = match form.outcome {
        Some(_) => StatusCode::OK,
        None => StatusCode::ACCEPTED,
    };
    json_with(status, &form)
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct CommandsForm {
    commands: Vec<CommandRecord>,
}

/// Returns the commands of a task.
pub(super) async fn of_task(
    by: Reader,
    Path(task): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    params.end()?;
    let task: TaskId = name(&task)?;
    by.check(&task).await?;
    let read = by.begin_masked_read(&task).await?;
    let commands = by.client().commands(&task).await?;
    let (hiding, kind) = by.end_masked_read(read).await?;
    let commands = commands.into_iter();
    json(&CommandsForm {
        commands: commands
            .map(|command| hiding.command(kind.as_ref(), command))
            .collect(),
    })
}

/// Returns a command; with `wait`, when it has an outcome, or as it is after that time.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    by: Reader,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Response, Problem> {
    let id: CommandId = name(&id)?;
    let wait = wait_of(&mut params, &app)?;
    params.end()?;
    let registry = app.store.registry();
    let missing = || {
        let detail = format!("command '{id}' does not exist");
        Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
    };
    let mut record = registry.command(&id).await?;
    by.check(&record.task).await.map_err(|_| missing())?;
    let read = by.begin_masked_read(&record.task).await?;
    if let Some(wait) = wait
        && record.outcome.is_none()
    {
        wait_for(&app, &by, wait, by.client().wait_outcome(&id)).await?;
    }
    // Read again after the task was seen.
    record = registry.command(&id).await?;
    let (hiding, kind) = by.end_masked_read(read).await?;
    json(&hiding.command(kind.as_ref(), record))
}
