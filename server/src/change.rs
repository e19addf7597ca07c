//! [`Change`]: the operations that a request makes, within the scope of its caller.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;
use windlass::{
    TaskId, TransactionId, schedule,
    statemachine::plain,
    store::{
        Applied, Done, Error, Guard, IfExists, Line, Operation, Require, Submit, Submitted,
        Transaction, read_line_at,
    },
};

use crate::{access::Operator, app::App, auth::to_hex, problem::Problem};

/// The most characters of an `Idempotency-Key`.
const LONGEST_KEY: usize = 256;

/// Reads a body as the fields of an operation. `op`, and `task` unless it is a submit, are not in the body. Times may be
/// relative. A new task without an id gets a UUID.
pub(crate) fn operation(
    op: &'static str,
    task: Option<&TaskId>,
    body: &[u8],
    now: Timestamp,
) -> Result<Operation, Problem> {
    let text = std::str::from_utf8(body).map_err(|_| Problem::invalid("body", "is not UTF-8"))?;
    let text = if text.trim().is_empty() { "{}" } else { text };
    let plain::Fields::<Box<RawValue>>(mut fields) =
        plain::object(text).map_err(|error| Problem::invalid("body", error))?;
    let mut set = vec![("op", op)];
    set.extend(task.map(|task| ("task", task.as_str())));
    for (name, value) in set {
        if fields.insert(name.to_owned(), raw(value)?).is_some() {
            let what = "is not a field of this body: the request says it";
            return Err(Problem::invalid(name, what));
        }
    }
    if op == "submit" && fields.get("id").is_none_or(|id| id.get() == "null") {
        fields.insert("id".to_owned(), raw(&Uuid::now_v7().to_string())?);
    }
    let line = serde_json::to_string(&fields).map_err(|e| Problem::invalid("body", e))?;
    match line_of(&line, now)? {
        Line::Operation(operation) => Ok(operation),
        Line::Guards(_) => Err(Problem::invalid("op", "is not an operation")),
    }
}

/// Reads an operation, or guards, as `windlass apply` does.
pub(crate) fn line_of(text: &str, now: Timestamp) -> Result<Line, Problem> {
    Ok(read_line_at(text, now)?)
}

fn raw(text: &str) -> Result<Box<RawValue>, Problem> {
    serde_json::value::to_raw_value(text).map_err(|error| Problem::invalid("body", error))
}

/// Returns the `Idempotency-Key` of a request as the beginning of a transaction's id: the key is the caller's own.
pub(crate) fn key(headers: &HeaderMap, by: &Operator) -> Result<Option<String>, Problem> {
    const NAME: &str = "Idempotency-Key";
    let mut keys = headers.get_all(NAME).iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    let text = key.to_str().ok().filter(|text| !text.is_empty());
    let text = text.filter(|text| text.len() <= LONGEST_KEY && keys.next().is_none());
    let Some(text) = text else {
        let what = format!("is not one text of 1 to {LONGEST_KEY} printable ASCII characters");
        return Err(Problem::invalid(NAME, what));
    };
    let hash = Sha256::new()
        .chain_update(by.key())
        .chain_update([0])
        .chain_update(text)
        .finalize();
    Ok(Some(to_hex(hash.get(..16).unwrap_or_default())))
}

/// The operations of a request, checked against the scope of its caller.
pub(crate) struct Change<'a> {
    app: &'a Arc<App>,
    by: &'a Operator,
}

impl<'a> Change<'a> {
    pub(crate) fn new(app: &'a Arc<App>, by: &'a Operator) -> Self {
        Self { app, by }
    }

    /// Applies one operation. With a key, repeating it within an hour has no further effect.
    pub(crate) async fn one(
        &self,
        operation: Operation,
        key: Option<&str>,
    ) -> Result<Done, Problem> {
        let guards = self.admit(&operation).await?;
        let id = key.map(TransactionId::new).transpose()?;
        let transaction = match (id, guards.is_empty()) {
            (None, true) => Transaction::from(operation.clone()),
            (id, _) => {
                let id = match id {
                    Some(id) => id,
                    None => TransactionId::new(Uuid::now_v7().to_string())?,
                };
                let transaction = Transaction::new().with_id(id).with(operation.clone());
                guards.into_iter().fold(transaction, |all, guard| {
                    all.require(guard.task, guard.require)
                })
            }
        };
        let transaction = transaction.by(self.by.author.clone());
        let applied = self.app.store.registry().apply(vec![transaction]).await;
        let done = self.done(applied.into_iter().next()).await?;
        match <[Done; 1]>::try_from(done.done().to_vec()) {
            Ok([done]) => Ok(done),
            Err(_) => Err(Error::Unusable("the store returned no result".to_owned()).into()),
        }
    }

    /// Applies submits, each on its own.
    pub(crate) async fn submits(
        &self,
        submits: Vec<Submit>,
        key: Option<&str>,
    ) -> Vec<Result<Done, Problem>> {
        if key.is_some() || !self.by.scope.is_everything() {
            let mut done = Vec::with_capacity(submits.len());
            for (n, submit) in submits.into_iter().enumerate() {
                let key = key.map(|key| format!("{key}-{n}"));
                done.push(self.one(Operation::Submit(submit), key.as_deref()).await);
            }
            return done;
        }
        let mut answers: Vec<Option<Result<Done, Problem>>> = Vec::new();
        let mut good = Vec::new();
        for submit in submits {
            answers.push(self.check_new(&submit).err().map(Err));
            if matches!(answers.last(), Some(None)) {
                let one = Transaction::from(Operation::Submit(submit));
                good.push(one.by(self.by.author.clone()));
            }
        }
        let applied = self.app.store.registry().apply(good).await;
        let mut applied = applied.into_iter();
        let mut all = Vec::with_capacity(answers.len());
        for answer in answers {
            all.push(match answer {
                Some(refused) => refused,
                None => {
                    let done = self.done(applied.next()).await;
                    done.and_then(|applied| {
                        let first = applied.done().first().cloned();
                        let lost = || Error::Unusable("the store returned no result".to_owned());
                        first.ok_or_else(|| lost().into())
                    })
                }
            });
        }
        all
    }

    /// Applies a transaction, or with `check` only checks it.
    pub(crate) async fn all(
        &self,
        id: Option<TransactionId>,
        lines: Vec<Line>,
        check: bool,
    ) -> Result<Applied, Problem> {
        let mut transaction = self.by.client().transaction();
        if let Some(id) = id {
            transaction = transaction.id(id);
        }
        for line in lines {
            match line {
                Line::Operation(operation) => {
                    for guard in self.admit(&operation).await? {
                        transaction = transaction.require(guard.task, guard.require);
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
        if check {
            transaction.check().await?;
            return Ok(Applied::from(Vec::new()));
        }
        self.done(Some(transaction.commit().await)).await
    }

    /// Checks a new task itself.
    fn check_new(&self, submit: &Submit) -> Result<(), Problem> {
        submit.task.check(usize::MAX)?;
        (self.app.check)(&submit.task.kind, &submit.task.props)?;
        Ok(())
    }

    /// Refuses an operation outside of the caller's scope. Returns guards for what the scope was compared with, so that
    /// it still holds when the operation is applied.
    async fn admit(&self, operation: &Operation) -> Result<Vec<Guard>, Problem> {
        if let Operation::Submit(submit) = operation {
            if !self.by.scope.is_everything() {
                self.admit_new(submit).await?;
            }
            self.check_new(submit)?;
            return Ok(Vec::new());
        }
        if self.by.scope.is_everything() {
            return Ok(Vec::new());
        }
        if let Operation::Reschedule(change) = operation
            && let Some(kind) = &change.kind
        {
            self.by.check_kind("kind", kind)?;
        }
        let task = operation.task();
        let record = self.by.task(task).await?;
        if record.task.kind.as_str() == schedule::KIND {
            return Err(Problem::forbidden(
                "a schedule starts tasks of any kind; a token with a scope cannot change one",
            ));
        }
        Ok(vec![Guard {
            task: task.clone(),
            require: Require::Kind(record.task.kind),
        }])
    }

    async fn admit_new(&self, submit: &Submit) -> Result<(), Problem> {
        let (scope, task) = (&self.by.scope, &submit.task);
        if task.kind.as_str() == schedule::KIND {
            return Err(Problem::forbidden(
                "a schedule starts tasks of any kind; a token with a scope cannot make one",
            ));
        }
        if !scope.has_task(task) {
            return Err(Problem::forbidden(format!(
                "a task of kind '{}' with these labels is outside of the scope of the token",
                task.kind
            )));
        }
        let waits = task.waits.iter().flat_map(|waits| &waits.tasks);
        for waited in waits {
            self.by.check(waited).await?;
        }
        if submit.if_exists == IfExists::Refuse {
            return Ok(());
        }
        // What becomes of an existing task, or is shown of it.
        match self.by.client().get(&task.id).await {
            Ok(record) if !scope.has_record(&record) => Err(taken()),
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn admit_guard(&self, guard: &Guard) -> Result<(), Problem> {
        if self.by.scope.is_everything() {
            return Ok(());
        }
        match self.by.client().get(&guard.task).await {
            Ok(record) if !self.by.scope.has_record(&record) => Err(taken()),
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the results, without what a caller with a scope may not learn.
    async fn done(&self, applied: Option<Result<Applied, Error>>) -> Result<Applied, Problem> {
        let lost = || Error::Unusable("the store returned no result".to_owned());
        let applied = applied.unwrap_or_else(|| Err(lost()));
        if self.by.scope.is_everything() {
            return Ok(applied?);
        }
        let applied = applied.map_err(|error| match error {
            Error::NotUnique { .. } | Error::AlreadyExists { .. } | Error::AlreadyFinished(_) => taken(),
            Error::Refused(_) => Problem::new(
                StatusCode::CONFLICT,
                "refused",
                "the transaction was refused; nothing was changed. A token with a scope does not learn why",
            ),
            error => error.into(),
        })?;
        for done in applied.done() {
            if let Done::Submitted(Submitted::Other { task, .. }) = done {
                self.by.check(task).await.map_err(|_| taken())?;
            }
        }
        Ok(applied)
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
