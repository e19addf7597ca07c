//! [`Change`]: the operations that a request makes, within the scope of its caller.

use std::{collections::BTreeSet, sync::Arc};

use axum::http::StatusCode;
use uuid::Uuid;
use windlass::{
    Invalid, Json, Kind, TaskId, TransactionId,
    schedule::{self, Schedule},
    store::{Applied, Done, Error, Guard, IfExists, Line, Operation, Require, Submit, Transaction},
};

use crate::{access::Operator, app::App, key::KEY, problem::Problem};

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
        let guards: Vec<Guard> = guards.into_iter().chain(admitted).collect();
        if key.is_some() && !guards.is_empty() && matches!(operation, Operation::Submit(_)) {
            let what = "is not for a submit with if_exists by a token with a scope; leave it out: such a submit can be repeated";
            return Err(Problem::invalid(KEY, what));
        }
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
        let done = self.done(applied.into_iter().next());
        let done = done.map_err(|problem| match key {
            Some(_) => problem.of_key(KEY),
            None => problem,
        })?;
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
                    let done = self.done(applied.next());
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
        let new = |line: &Line| match line {
            Line::Operation(Operation::Submit(submit)) => Some(submit.task.id.clone()),
            _ => None,
        };
        let new: BTreeSet<TaskId> = lines.iter().filter_map(new).collect();
        for line in lines {
            match line {
                Line::Operation(operation) => {
                    for guard in self.admit(&operation, &new).await? {
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
            let checked = transaction.check().await;
            return self.done(Some(checked.map(|()| Applied::from(Vec::new()))));
        }
        self.done(Some(transaction.commit().await))
    }

    /// Checks a new task itself.
    fn check_new(&self, submit: &Submit) -> Result<(), Problem> {
        submit.task.check(usize::MAX)?;
        let (kind, props) = (&submit.task.kind, &submit.task.props);
        (self.app.check)(kind, props)?;
        // A spec that cannot be read fails the schedule, which shows why.
        if kind.as_str() == schedule::KIND
            && let Ok(spec) = Schedule::from_json(props)
        {
            check_runs(self.app, &spec)?;
        }
        Ok(())
    }

    /// Refuses an operation outside of the caller's scope, and props that its task cannot have. Returns guards for what the
    /// scope was compared with, so that it still holds when the operation is applied. `new` are the tasks that the same
    /// transaction submits.
    async fn admit(
        &self,
        operation: &Operation,
        new: &BTreeSet<TaskId>,
    ) -> Result<Vec<Guard>, Problem> {
        let is_scoped = !self.by.scope.is_everything();
        let (kind, props) = match operation {
            Operation::Submit(submit) => {
                let guards = match is_scoped {
                    true => self.admit_new(submit, new).await?,
                    false => Vec::new(),
                };
                self.check_new(submit)?;
                return Ok(guards);
            }
            Operation::Reschedule(change) => (change.kind.as_ref(), change.props.as_ref()),
            Operation::Retry(retry) => (None, retry.props.as_ref()),
            _ => (None, None),
        };
        if is_scoped && let Some(kind) = kind {
            self.by.check_kind("kind", kind)?;
        }
        if !is_scoped && kind.is_none() && props.is_none() {
            return Ok(Vec::new());
        }
        let task = operation.task();
        let record = self.by.task(task).await?;
        if kind.is_some() || props.is_some() {
            let props = props.unwrap_or(&record.task.props);
            (self.app.check)(kind.unwrap_or(&record.task.kind), props)?;
        }
        if !is_scoped {
            return Ok(Vec::new());
        }
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

    async fn admit_new(
        &self,
        submit: &Submit,
        new: &BTreeSet<TaskId>,
    ) -> Result<Vec<Guard>, Problem> {
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
        for waited in waits.filter(|waited| !new.contains(*waited)) {
            self.by.check(waited).await?;
        }
        if submit.if_exists == IfExists::Refuse {
            return Ok(Vec::new());
        }
        if task.unique.is_some() {
            // The task that has the key may be of others, and is found only by the write.
            return Err(Problem::forbidden(
                "if_exists: a token with a scope cannot give it together with a unique key; leave one of the two out",
            ));
        }
        // The submit may replace an existing task, or show its state.
        let require = match self.by.client().get(&task.id).await {
            Ok(record) if !scope.has_record(&record) => return Err(taken()),
            Ok(record) => Require::Kind(record.task.kind),
            Err(Error::NotFound { .. }) => Require::Absent,
            Err(error) => return Err(error.into()),
        };
        Ok(vec![Guard {
            task: task.id.clone(),
            require,
        }])
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

    /// Returns the results. A caller with a scope does not learn of the tasks of others why it was refused.
    fn done(&self, applied: Option<Result<Applied, Error>>) -> Result<Applied, Problem> {
        let lost = || Error::Unusable("the store returned no result".to_owned());
        let applied = applied.unwrap_or_else(|| Err(lost()));
        if self.by.scope.is_everything() {
            return Ok(applied?);
        }
        applied.map_err(|error| match error {
            Error::NotUnique { .. } | Error::AlreadyExists { .. } | Error::AlreadyFinished(_) => taken(),
            Error::Refused(_) => Problem::new(
                StatusCode::CONFLICT,
                "refused",
                "the transaction was refused; nothing was changed. A token with a scope does not learn why",
            ),
            error => error.into(),
        })
    }
}

/// Refuses props of the runs of a schedule that no run can have.
pub(crate) fn check_runs(app: &App, spec: &Schedule) -> Result<(), Invalid> {
    let spec = Json::new("schedule", spec)?;
    let Some(Ok(kind)) = spec.at("/run/kind").map(|kind| kind.get::<Kind>("kind")) else {
        return Ok(());
    };
    let props = spec.at("/run/props").unwrap_or_else(Json::null);
    (app.check)(&kind, &props)
}

/// That an id or a key is taken can be learned, and nothing more.
fn taken() -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "taken",
        "the id or the unique key is taken by another task",
    )
}
