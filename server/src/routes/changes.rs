//! Changes as server-sent events.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{StreamExt, stream};
use windlass::{
    Client, TaskId,
    store::{Change, ChangeKind, ChangeStream, Error},
};

use crate::{
    access::Reader, app::App, auth::Refused, guard::refusal, in_work::full, params::Params,
    places::Place, problem::Problem,
};

/// After which silence a comment is sent.
const COMMENT: Duration = Duration::from_secs(15);
/// How many tasks a stream of a caller with a scope remembers at least: those whose changes came last.
const REMEMBERED: usize = 10_000;
/// How many changes of a task are read first, to find out whether a change is one of its own.
const FIRST_READ: u32 = 32;

/// Follows the changes: from now on, or after the change with the number `after` (or the header `Last-Event-ID`).
///
/// Events: `change`, with the number of the change as its id; `reset` when the changes in between are no longer kept, so
/// that the reader lists again; `end` when the server ends the stream, with the reason: connect again.
pub(super) async fn follow(
    State(app): State<Arc<App>>,
    by: Reader,
    mut params: Params,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get("last-event-id");
    let last = last.map(|id| String::from_utf8_lossy(id.as_bytes()));
    let read = |field: &str, text: &str| {
        let what = || {
            format!(
                "'{text}' is not the number of a change; give the id of an event, or 0 for the oldest"
            )
        };
        text.parse::<u64>()
            .map_err(|_| Problem::invalid(field, what()))
    };
    let after = match (params.text("after")?, last) {
        // A browser that connects again sends the header in addition to the first URL.
        (_, Some(last)) => Some(read("Last-Event-ID", &last)?),
        (Some(after), None) => Some(read("after", &after)?),
        (None, None) => None,
    };
    params.end()?;
    let place = by.begin_wait(&app.waits).map_err(full)?;
    let mut reset = None;
    let changes = match by.client().changes(after).await {
        Err(Error::Invalid(_)) if after.is_some() => {
            let (newest, changes) = from_newest(by.client()).await?;
            reset = Some(newest);
            changes
        }
        changes => changes?,
    };
    let following = Following {
        app,
        by,
        changes,
        reset,
        is_over: false,
        known: HashMap::new(),
        older: HashMap::new(),
        _place: place,
    };
    let events = stream::unfold(following, |mut following| async move {
        let events = following.next().await?;
        Some((
            stream::iter(events.into_iter().map(Ok::<_, Infallible>)),
            following,
        ))
    });
    let alive = KeepAlive::new().interval(COMMENT);
    Ok(Sse::new(events.flatten()).keep_alive(alive).into_response())
}

/// Returns the position after the newest change, and the changes after it.
async fn from_newest(client: &Client) -> Result<(u64, ChangeStream), Error> {
    let newest = client.newest_change().await?;
    Ok((newest, client.changes(Some(newest)).await?))
}

struct Following {
    app: Arc<App>,
    by: Reader,
    changes: ChangeStream,
    /// The position of a reset that the client has not got yet.
    reset: Option<u64>,
    is_over: bool,
    /// Which tasks are in the scope of the caller, of those whose changes have come.
    known: HashMap<TaskId, bool>,
    /// The tasks before those.
    older: HashMap<TaskId, bool>,
    _place: Option<Place>,
}

impl Following {
    /// Returns the next events; `None` after the end.
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.is_over {
            return None;
        }
        if let Some(newest) = self.reset.take() {
            return Some(reset(newest));
        }
        loop {
            let app = self.app.clone();
            let next = tokio::select! {
                biased;
                () = app.stop.cancelled() => return Some(self.end("the server shuts down")),
                refused = app.keyring.ends(self.by.caller()) => {
                    return Some(self.refused(refused));
                }
                next = self.changes.next() => next,
            };
            let changes = match next {
                Some(Ok(changes)) => changes,
                Some(Err(Error::Invalid(_))) => {
                    // The changes in between are no longer kept; the stream goes on after them.
                    match from_newest(self.by.client()).await {
                        Ok((newest, changes)) => {
                            self.changes = changes;
                            return Some(reset(newest));
                        }
                        Err(error) => return Some(self.end(&error.to_string())),
                    }
                }
                Some(Err(error)) => return Some(self.end(&error.to_string())),
                None => return Some(self.end("the feed of changes has ended")),
            };
            let Ok(hiding) = self.by.hiding().await else {
                return Some(self.refused(Refused::Unconfirmed));
            };
            let mut events = Vec::with_capacity(changes.len());
            for change in changes {
                match self.is_in_scope(&change).await {
                    // A change does not say of which kind its task was: what may be hidden is.
                    Ok(true) => events.extend(event(&hiding.change(None, change))),
                    Ok(false) => {}
                    Err(error) => {
                        // What was not shown comes again after the last event.
                        events.extend(self.end(&error.to_string()));
                        return Some(events);
                    }
                }
            }
            if !events.is_empty() {
                return Some(events);
            }
        }
    }

    fn refused(&mut self, refused: Refused) -> Vec<Event> {
        self.is_over = true;
        let problem = String::from_utf8(refusal(refused).json()).unwrap_or_default();
        vec![Event::default().event("end").data(problem)]
    }

    fn end(&mut self, reason: &str) -> Vec<Event> {
        self.is_over = true;
        let data =
            serde_json::json!({ "reason": reason, "servers": self.app.others() }).to_string();
        vec![Event::default().event("end").data(data)]
    }

    /// Returns whether the task of a change is in the scope of the caller. A task is read when its first change comes,
    /// and when it is submitted again or gets another kind. A change from before its submit is of an earlier task with
    /// the id, of which nothing says what it was.
    async fn is_in_scope(&mut self, change: &Change) -> Result<bool, Error> {
        if self.by.scope.is_everything() {
            return Ok(true);
        }
        let may_differ = match &change.what {
            ChangeKind::Submitted { .. } => true,
            ChangeKind::Rescheduled { kind, .. } => kind.is_some(),
            _ => false,
        };
        let known = self.recall(&change.task);
        if change.what == ChangeKind::Deleted {
            // A task that has the id now is another one, and nothing says what an unknown one was.
            return Ok(known.unwrap_or(false));
        }
        let is_in = match known.filter(|_| !may_differ) {
            Some(known) => known,
            None => is_of_task_in_scope(&self.by, change).await?,
        };
        if self.known.len() >= REMEMBERED {
            self.older = std::mem::take(&mut self.known);
        }
        self.known.insert(change.task.clone(), is_in);
        Ok(is_in)
    }

    /// Returns whether a task is in the scope, as far as it is known, and forgets it.
    fn recall(&mut self, task: &TaskId) -> Option<bool> {
        let older = self.older.remove(task);
        self.known.remove(task).or(older)
    }
}

/// Returns whether a change is one of the task that has its id now, and the task is in the scope. The history of a task
/// begins with its submit, and the numbers of changes are an order; times are none, because clocks differ.
async fn is_of_task_in_scope(by: &Reader, change: &Change) -> Result<bool, Error> {
    let client = by.client();
    let registry = client.store().registry();
    let Some(before) = found(client.get(&change.task).await)? else {
        // A task that is gone already is not shown.
        return Ok(false);
    };
    if !by.scope.has_record(&before) {
        return Ok(false);
    }
    let mut limit = FIRST_READ;
    let is_its_own = loop {
        let Some(history) = found(registry.history(&change.task, limit).await)? else {
            return Ok(false);
        };
        let is_within = history.first().is_some_and(|first| first.seq <= change.seq);
        if is_within || history.len() < limit as usize || limit == u32::MAX {
            break is_within;
        }
        limit = limit.saturating_mul(8);
    };
    // The history may be that of a task which was submitted since.
    let after = found(client.get(&change.task).await)?;
    let is_same = after.is_some_and(|after| after.order == before.order);
    Ok(is_its_own && is_same)
}

/// Returns what was read of a task; `None` when it does not exist.
fn found<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the event that the changes before this position are no longer kept. A client that connects again goes on from it.
fn reset(newest: u64) -> Vec<Event> {
    let event = Event::default().event("reset").id(newest.to_string());
    vec![event.data("{}")]
}

fn event(change: &Change) -> Option<Event> {
    let data = serde_json::to_string(change).ok()?;
    let event = Event::default().event("change");
    Some(event.id(change.seq.to_string()).data(data))
}
