//! [`Access`]: the caller of a request, with the tasks that it may see and change.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, StatusCode, request::Parts},
};
use windlass::{
    Client, Invalid, Kind, TaskId, Trace,
    statemachine::trace,
    store::{Error, TaskRecord},
};

use crate::{
    app::App,
    auth::{Caller, Keyring, Role},
    in_work::Held,
    mask::Hiding,
    places::{Full, Place, Places},
    problem::Problem,
    room::Room,
};

/// A caller whose role allows a request that needs `ROLE`, given as its number.
pub(crate) struct Access<const ROLE: u8> {
    caller: Arc<Caller>,
    client: Client,
    keyring: Keyring,
    /// What the request holds; `None` for one that a page has made.
    held: Option<Arc<Held>>,
}

/// A task whose values are read in more than one step, as it was before the first.
pub(crate) struct MaskedRead {
    id: TaskId,
    /// Its submit order and its kind.
    seen: Option<(u64, Kind)>,
}

/// May read.
pub(crate) type Reader = Access<0>;
/// May also change tasks.
pub(crate) type Operator = Access<1>;
/// May do everything.
pub(crate) type Admin = Access<2>;
/// May run tasks as a remote worker.
pub(crate) type Worker = Access<3>;

/// Returns the role with a number. An unknown number is that of a request which nobody but an admin may send.
const fn role(number: u8) -> Role {
    match number {
        0 => Role::Read,
        1 => Role::Operate,
        3 => Role::Work,
        _ => Role::Admin,
    }
}

/// Returns the place in a trace that a request names. One that is no `traceparent` is ignored, as the standard has it.
fn trace(headers: &HeaderMap) -> Option<Trace> {
    let parent = headers.get(trace::PARENT)?.to_str().ok()?;
    // Several headers are one list.
    let states = headers.get_all(trace::STATE).into_iter();
    let states: Vec<&str> = states.filter_map(|value| value.to_str().ok()).collect();
    let state = (!states.is_empty()).then(|| states.join(","));
    Trace::new(parent, state.as_deref()).ok()
}

impl<const ROLE: u8> Deref for Access<ROLE> {
    type Target = Caller;
    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl<const ROLE: u8> FromRequestParts<Arc<App>> for Access<ROLE> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let Some(caller) = parts.extensions.get::<Arc<Caller>>() else {
            // The guard in front of the routes refuses such a request.
            return Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "who are you?",
            ));
        };
        let needs = role(ROLE);
        if !caller.role.allows(needs) {
            let detail = format!(
                "this request needs the role {needs}, and the token has {}; use another token",
                caller.role
            );
            return Err(Problem::forbidden(detail));
        }
        if matches!(needs, Role::Admin | Role::Work) {
            // These requests are not transactions.
            crate::key::refuse_key(&parts.headers)?;
        }
        Ok(Self {
            client: app
                .client
                .clone()
                .on_behalf_of(caller.author.clone())
                .in_trace(trace(&parts.headers)),
            caller: caller.clone(),
            keyring: app.keyring.clone(),
            held: parts.extensions.get().cloned(),
        })
    }
}

impl Worker {
    /// Returns the caller as one who may change tasks, for what its handlers change.
    pub(crate) fn as_operator(&self) -> Operator {
        Access {
            caller: self.caller.clone(),
            client: self.client.clone(),
            keyring: self.keyring.clone(),
            held: self.held.clone(),
        }
    }
}

impl<const ROLE: u8> Access<ROLE> {
    /// Returns the client that acts for the caller.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Begins to wait, in a place of those that wait: the request leaves its own to others. Keep what is returned until the
    /// wait ends. Without a place the answer says when to ask again.
    pub(crate) fn begin_wait(&self, waits: &Places) -> Result<Option<Place>, Full> {
        let key = self.caller.key();
        let Some(held) = &self.held else {
            return waits.try_take(&key).map(Some);
        };
        held.wait(waits, &key)
            .inspect_err(|_| held.ask_again())
            .map(|()| None)
    }

    /// Waits for room for an answer of at most so many bytes: of one caller so many are made and sent at once.
    pub(crate) async fn room(&self, app: &App, bytes: usize) -> Result<Room, Problem> {
        Room::take(&app.answers, &self.caller.key(), bytes).await
    }

    /// Returns what is hidden at this moment. Ask when an answer is made, not before a wait.
    pub(crate) async fn hiding(&self) -> Result<Arc<Hiding>, Problem> {
        let hiding = self.keyring.hiding().await;
        hiding.map_err(|_| {
            let detail = "the server cannot reach its store, and so cannot check which values are masked; try again";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unconfirmed", detail).retry_after(1)
        })
    }

    /// Begins to read values of a task of which something may be hidden.
    pub(crate) async fn begin_masked_read(&self, id: &TaskId) -> Result<MaskedRead, Problem> {
        let seen = match self.hiding().await?.is_nothing() {
            true => None,
            false => self.seen(id).await?,
        };
        let id = id.clone();
        Ok(MaskedRead { id, seen })
    }

    /// Ends the read: returns what is hidden, and the kind of the task. `None` for a task that is not the same any more, or
    /// has another kind: of its values everything is hidden.
    pub(crate) async fn end_masked_read(
        &self,
        read: MaskedRead,
    ) -> Result<(Arc<Hiding>, Option<Kind>), Problem> {
        let hiding = self.hiding().await?;
        if hiding.is_nothing() {
            return Ok((hiding, None));
        }
        let seen = self
            .seen(&read.id)
            .await?
            .filter(|seen| read.seen.as_ref() == Some(seen));
        Ok((hiding, seen.map(|(_, kind)| kind)))
    }

    async fn seen(&self, id: &TaskId) -> Result<Option<(u64, Kind)>, Problem> {
        match self.client.get(id).await {
            Ok(record) => Ok(Some((record.order, record.task.kind))),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a task that the caller may see, with what is hidden: for checks, not for answers.
    pub(crate) async fn task(&self, id: &TaskId) -> Result<TaskRecord, Problem> {
        match self.client.get(id).await {
            Ok(record) if self.scope.has_record(&record) => Ok(record),
            Ok(_) | Err(Error::NotFound { .. }) => Err(Problem::no_task(id.as_str())),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses a task that the caller may not see. Reads it only for a caller with a scope.
    pub(crate) async fn check(&self, id: &TaskId) -> Result<(), Problem> {
        match self.scope.is_everything() {
            true => Ok(()),
            false => self.task(id).await.map(drop),
        }
    }

    /// Refuses a kind outside of the scope.
    pub(crate) fn check_kind(&self, field: &str, kind: &Kind) -> Result<(), Problem> {
        match self.scope.has_kind(kind) {
            true => Ok(()),
            false => Err(Problem::forbidden(format!(
                "{field}: tasks of kind '{kind}' are outside of the scope of the token"
            ))),
        }
    }

    /// Refuses tasks outside of the scope, of which a worker would get or have one.
    pub(crate) fn check_worked(
        &self,
        field: &str,
        (kind, labels): (&Kind, &BTreeMap<String, String>),
    ) -> Result<(), Problem> {
        self.check_kind(field, kind)?;
        let of_scope = self.scope.labels.iter();
        let mut missing = of_scope.filter(|(name, value)| labels.get(*name) != Some(value));
        match missing.next() {
            None => Ok(()),
            Some((name, value)) => Err(Problem::forbidden(format!(
                "labels: tasks without the label {name}={value} are outside of the scope of the token; register with \
                 \"labels\":{{\"{name}\":\"{value}\"}}"
            ))),
        }
    }

    /// Refuses a request that counts tasks by kind, for a caller whose scope has labels.
    pub(crate) fn check_counted(&self) -> Result<(), Problem> {
        match self.scope.labels.is_empty() {
            true => Ok(()),
            false => Err(Problem::forbidden(
                "tasks are not counted by label, and the scope of the token has labels; use a token without",
            )),
        }
    }

    /// Refuses a request that concerns the whole namespace, for a caller with a scope.
    pub(crate) fn check_unscoped(&self) -> Result<(), Problem> {
        match self.scope.is_everything() {
            true => Ok(()),
            false => Err(Problem::forbidden(
                "this request concerns every task, and the token has a scope; use a token without one",
            )),
        }
    }
}

/// Reads a part of the path.
pub(crate) fn name<T: std::str::FromStr<Err = Invalid>>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(Problem::from)
}
