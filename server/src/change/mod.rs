//! [`Change`]: the operations that a request makes, within the scope and the quota of its caller.

mod admit;
mod batch;
mod missing;
mod quota;

use std::{collections::BTreeSet, sync::Arc};

use axum::http::StatusCode;
use windlass::{
    Kind, TaskId, TransactionId,
    store::{
        Applied, Done, Error, Guard, IfExists, Line, Operation, Reason, Refusal, Require, Submit,
        Transaction,
    },
};

pub(crate) use admit::check_runs;
pub(crate) use missing::Asked;

use crate::{
    access::Operator,
    app::App,
    key::KEY,
    mask::{Hiding, masked_result},
    problem::{Problem, is_id_used, of_retry},
};

/// The operations of a request, checked against the scope of its caller.
pub(crate) struct Change<'a> {
    app: &'a Arc<App>,
    by: &'a Operator,
    /// The hash of the body of the request.
    request: String,
}

/// An operation that the caller may make.
#[derive(Default)]
struct Admitted {
    /// What must still hold for it when it is applied.
    guards: Vec<Guard>,
    /// How many live tasks it adds, at most.
    adds: u64,
    /// How many live tasks it deletes.
    deletes: u64,
    /// Whether the store's error may quote a masked value.
    hides: bool,
}

impl Admitted {
    /// Notes whether values of tasks of these kinds are masked.
    fn hiding(self, hiding: &Hiding, kinds: &[&Kind]) -> Self {
        let hides = |kind: &&Kind| hiding.hides_props_of(kind) || hiding.hides_data_of(kind);
        let hides = kinds.iter().any(hides);
        Self { hides, ..self }
    }
}

impl<'a> Change<'a> {
    /// Returns whether the caller may see what concerns the whole namespace.
    pub(crate) fn sees_everything(&self) -> bool {
        self.by.scope.is_everything()
    }

    pub(crate) fn new(app: &'a Arc<App>, by: &'a Operator) -> Self {
        let request = String::new();
        Self { app, by, request }
    }

    /// Lets a key be for the body as it was sent: another body with the key is refused.
    pub(crate) fn sent(mut self, body: &[u8]) -> Self {
        self.request = crate::key::hash_of(body);
        self
    }

    /// Returns what must still hold for an operation that the caller may make, when it is applied.
    pub(crate) async fn guards_of(
        &self,
        operation: &Operation,
        new: &BTreeSet<TaskId>,
    ) -> Result<Vec<Guard>, Problem> {
        let admitted = self.admit(operation, new).await?;
        Ok(admitted.guards)
    }

    /// Applies one operation. With a key, repeating it within an hour has no further effect.
    pub(crate) async fn one(
        &self,
        operation: Operation,
        key: Option<&str>,
    ) -> Result<Done, Problem> {
        self.one_if(operation, Vec::new(), key).await
    }

    /// Applies one operation as [`one`](Self::one), if the guards hold.
    pub(crate) async fn one_if(
        &self,
        operation: Operation,
        guards: Vec<Guard>,
        key: Option<&str>,
    ) -> Result<Done, Problem> {
        let admitted = self.admit(&operation, &BTreeSet::new()).await?;
        let held = self.hold(admitted.adds).await?;
        if let Some(held) = &held
            && !held.has_room_for(admitted.adds)
            && !self.exists_for(&operation).await?
        {
            let id = key.map(TransactionId::new).transpose()?;
            if !self.is_applied(id.as_ref(), &operation).await? {
                return Err(held.refusal());
            }
        }
        let transaction = self.transaction(operation, (guards, admitted.guards), key)?;
        let applied = self.app.store.registry().apply(vec![transaction]).await;
        let applied = masked_result(applied.into_iter().next(), admitted.hides);
        self.single(applied, key)
    }

    /// Applies a transaction, or with `check` only checks it.
    pub(crate) async fn all(
        &self,
        id: Option<TransactionId>,
        lines: Vec<Line>,
        check: bool,
    ) -> Result<Applied, Problem> {
        let mut transaction = self.by.client().transaction();
        if let Some(id) = id.clone() {
            transaction = transaction.id(id).of_request(&self.request);
        }
        let new = |line: &Line| match line {
            Line::Operation(Operation::Submit(submit)) => Some(submit.task.id.clone()),
            _ => None,
        };
        let new: BTreeSet<TaskId> = lines.iter().filter_map(new).collect();
        let (mut adds, mut deletes, mut hides) = (0, 0, false);
        let first = lines.iter().find_map(|line| match line {
            Line::Operation(operation) => Some(operation.clone()),
            Line::Guards(_) => None,
        });
        for line in lines {
            match line {
                Line::Operation(operation) => {
                    let admitted = self.admit(&operation, &new).await?;
                    adds += admitted.adds;
                    deletes += admitted.deletes;
                    hides |= admitted.hides;
                    self.check_command(id.as_ref(), &operation).await?;
                    for guard in admitted.guards {
                        transaction = transaction.compared(guard.task, guard.require);
                    }
                    transaction = transaction.with(operation);
                }
                Line::Guards(guards) => {
                    for guard in guards {
                        self.admit_guard(&guard).await?;
                        transaction = transaction.require(guard.task, guard.require);
                    }
                }
            }
        }
        let held = self.hold(adds).await?;
        let adds = adds.saturating_sub(deletes);
        if let (Some(held), Some(first)) = (held.as_ref(), &first)
            && !held.has_room_for(adds)
            && !self.is_applied(id.as_ref(), first).await?
        {
            return Err(held.refusal());
        }
        if check {
            let checked = transaction.check().await;
            let checked = checked.map(|()| Applied::from(Vec::new()));
            return self.done(masked_result(Some(checked), hides));
        }
        self.done(masked_result(Some(transaction.commit().await), hides))
    }

    /// Refuses a command with the id of an earlier one that has another content: the store keeps the first. A transaction that
    /// was applied is compared by the store.
    async fn check_command(
        &self,
        id: Option<&TransactionId>,
        operation: &Operation,
    ) -> Result<(), Problem> {
        let Operation::Send(send) = operation else {
            return Ok(());
        };
        match self.app.store.registry().command(&send.id).await {
            Ok(there)
                if (&there.task, &there.command, &there.note)
                    != (&send.task, &send.command, &send.note) =>
            {
                match self.is_applied(id, operation).await? {
                    true => Ok(()),
                    false => Err(Problem::id_used(&send.id)),
                }
            }
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a key for a request of several transactions, each of which has an id that begins with the key. A repetition of the
    /// request passes; another request with the key is refused.
    pub(crate) async fn take(&self, key: &str) -> Result<(), Problem> {
        // No task has this id, so the guard holds.
        let none = TaskId::new(format!("key-{key}"))?;
        let taken = self.by.client().transaction();
        let taken = taken.id(TransactionId::new(key)?).of_request(&self.request);
        let taken = taken.require(none, Require::Absent).commit().await;
        taken
            .map(drop)
            .map_err(|error| Problem::from(error).key_used(KEY))
    }

    /// Returns whether a transaction with an id was applied: its repetition adds no task, whatever the quota is. Tries another
    /// transaction with the id, whose guard never holds: a store refuses it for its id if one was applied, and for the guard
    /// otherwise.
    async fn is_applied(
        &self,
        id: Option<&TransactionId>,
        operation: &Operation,
    ) -> Result<bool, Problem> {
        let Some(id) = id else { return Ok(false) };
        let task = operation.task().clone();
        let other = Transaction::from(operation.clone()).with_id(id.clone());
        let other = other.require(task, Require::Version(u64::MAX));
        let applied = self.app.store.registry().apply(vec![other]).await;
        match applied.into_iter().next() {
            Some(Err(Error::Invalid(invalid))) => Ok(invalid.field() == "transaction id"),
            Some(Err(error @ Error::Unavailable { .. })) => Err(error.into()),
            _ => Ok(false),
        }
    }

    /// Returns an operation with its guards. One that is alone and has no key is a transaction without an id, of which the
    /// store keeps no record.
    fn transaction(
        &self,
        operation: Operation,
        (guards, compared): (Vec<Guard>, Vec<Guard>),
        key: Option<&str>,
    ) -> Result<Transaction, Problem> {
        let compares = |one: &Submit| one.if_exists != IfExists::Refuse && !compared.is_empty();
        if key.is_some() && matches!(&operation, Operation::Submit(one) if compares(one)) {
            let what = "is not for a submit with if_exists by a token with a scope; leave it out: such a submit can be repeated";
            return Err(Problem::invalid(KEY, what));
        }
        let mut transaction = Transaction::from(operation);
        if let Some(key) = key {
            transaction = transaction.with_id(TransactionId::new(key)?);
            transaction = transaction.of_request(&self.request);
        }
        let transaction = self.by.client().signed(transaction);
        let transaction = guards.into_iter().fold(transaction, |all, guard| {
            all.require(guard.task, guard.require)
        });
        Ok(compared.into_iter().fold(transaction, |all, guard| {
            all.compared(guard.task, guard.require)
        }))
    }

    /// Returns the result of a transaction of one operation.
    fn single(
        &self,
        applied: Option<Result<Applied, Error>>,
        key: Option<&str>,
    ) -> Result<Done, Problem> {
        let applied = match applied {
            Some(Err(error)) if !self.sees_everything() => Some(Err(of_one(error))),
            applied => applied,
        };
        let done = self.done(applied);
        let done = done.map_err(|problem| match key {
            Some(_) => problem.of_key(KEY),
            None => problem,
        })?;
        match done.done() {
            [done] => Ok(done.clone()),
            _ => Err(Error::Unusable("the store returned no result".to_owned()).into()),
        }
    }

    /// Returns the results. A caller with a scope does not learn of the tasks of others why it was refused.
    fn done(&self, applied: Option<Result<Applied, Error>>) -> Result<Applied, Problem> {
        let lost = || Error::Unusable("the store returned no result".to_owned());
        let applied = applied.unwrap_or_else(|| Err(lost()));
        if self.by.scope.is_everything() {
            return Ok(applied?);
        }
        applied.map_err(|error| match error {
            Error::NotUnique { .. } | Error::AlreadyExists { .. } | Error::AlreadyFinished { .. } => taken(),
            error if is_id_used(&error) => Problem::from(error).of_used_id(),
            Error::Refused(_) => Problem::new(
                StatusCode::CONFLICT,
                "refused",
                "the transaction was refused; nothing was changed. A token with a scope does not learn why",
            ),
            error => error.into(),
        })
    }
}

/// Returns the error that the only operation of a transaction has without the guards of a scope, if these hold: then it is about
/// the request, or about a task of the scope.
fn of_one(error: Error) -> Error {
    let Error::Refused(refusals) = &error else {
        return error;
    };
    let is_taken = |one: &Refusal| {
        matches!(
            one.reason,
            Reason::Exists { .. } | Reason::Finished { .. } | Reason::NotUnique { .. }
        )
    };
    let mut all = refusals.iter();
    match (all.next(), all.next()) {
        (Some(one), _) if refusals.iter().all(is_taken) => Error::task_exists(&one.task),
        (Some(one @ Refusal { reason, .. }), None) => match reason {
            Reason::Invalid(invalid) => invalid.clone().into(),
            Reason::TooLarge {
                field,
                bytes,
                limit,
            } => Error::too_large(field, *bytes, *limit),
            _ => of_retry(one).unwrap_or(error),
        },
        _ => error,
    }
}

/// That an id or a key is taken can be learned, and nothing more.
fn taken() -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "taken",
        "the id or the unique key is taken by another task",
    )
}
