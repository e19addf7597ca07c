//! What a caller may do: its scope, and the values that are masked.

use std::collections::BTreeSet;

use windlass::{
    Invalid, Json, Kind, StateKind, TaskId,
    schedule::{self, Schedule},
    store::{Error, Guard, IfExists, Operation, Require, Submit, TaskRecord},
};

use super::{Admitted, Change, taken};
use crate::{
    app::App,
    bulk,
    mask::{Hiding, refuse_placeholders},
    problem::Problem,
};

/// Refuses a task that is a bulk operation: only the request that compares it with its dry run makes one.
fn refuse_bulk(kind: &Kind) -> Result<(), Problem> {
    if kind.as_str() != bulk::KIND {
        return Ok(());
    }
    let what = "is that of bulk operations; POST /v1/bulk makes one, after a dry run";
    Err(Problem::invalid("kind", what))
}

impl Change<'_> {
    /// Refuses an operation outside of the caller's scope, props that its task cannot have, and what would write or show a
    /// masked value. Returns guards for what the scope was compared with, so that it still holds when the operation is
    /// applied. `new` are the tasks that the same transaction submits.
    pub(super) async fn admit(
        &self,
        operation: &Operation,
        new: &BTreeSet<TaskId>,
    ) -> Result<Admitted, Problem> {
        refuse_placeholders(operation)?;
        let hiding = self.by.hiding().await?;
        let is_scoped = !self.by.scope.is_everything();
        let (kind, props, data, adds) = match operation {
            Operation::Submit(submit) => {
                let admitted = match is_scoped {
                    true => self.admit_new(submit, new).await?,
                    false => Admitted {
                        adds: 1,
                        ..Admitted::default()
                    },
                };
                self.check_new(submit, &hiding)?;
                // Its error quotes what the request has given.
                return Ok(admitted);
            }
            Operation::Reschedule(change) => {
                let (kind, data) = (change.kind.as_ref(), change.data.as_ref());
                (kind, change.props.as_ref(), data, 0)
            }
            Operation::Retry(retry) => (None, retry.props.as_ref(), retry.data.as_ref(), 1),
            _ => (None, None, None, 0),
        };
        if let Some(kind) = kind {
            refuse_bulk(kind)?;
        }
        if is_scoped && let Some(kind) = kind {
            self.by.check_kind("kind", kind)?;
        }
        let is_edit = props.is_some() || data.is_some();
        if !is_scoped && kind.is_none() && !is_edit {
            return Ok(Admitted {
                adds,
                ..Admitted::default()
            });
        }
        let task = operation.task();
        let record = self.by.task(task).await?;
        let old = &record.task.kind;
        if is_edit && old.as_str() == bulk::KIND {
            let what = "has the filter, the count and the author that were compared with a dry run, and cannot be changed; POST \
                        /v1/bulk makes another operation";
            return Err(Problem::invalid("props", what));
        }
        let kind = kind.unwrap_or(old);
        if hiding.would_show(&record.task, kind) {
            let what = format!(
                "tasks of kind '{old}' have masked values that would be shown of tasks of kind '{kind}'; give both the same \
                 mask first"
            );
            return Err(Problem::masked("kind", what));
        }
        if kind != old || props.is_some() {
            let checked = (self.app.check)(kind, props.unwrap_or(&record.task.props));
            checked.map_err(|error| without_value(error, &hiding, &[kind, old]))?;
        }
        let guards = match is_scoped {
            true if old.is_built_in() => {
                return Err(Problem::forbidden(
                    "schedules and bulk operations concern tasks of any kind; a token with a scope cannot change one",
                ));
            }
            true => guards_of(&record),
            false => Vec::new(),
        };
        let is_live = record
            .state
            .as_ref()
            .is_ok_and(|state| !state.code().is_terminal());
        let is_deletion = matches!(operation, Operation::Delete(_));
        let admitted = Admitted {
            guards,
            adds,
            deletes: u64::from(is_live && is_deletion),
            hides: false,
        };
        Ok(admitted.hiding(&hiding, &[kind, old]))
    }

    /// Checks a new task itself.
    fn check_new(&self, submit: &Submit, hiding: &Hiding) -> Result<(), Problem> {
        submit.task.check(usize::MAX)?;
        let kind = &submit.task.kind;
        refuse_bulk(kind)?;
        let checked = (self.app.check)(kind, &submit.task.props);
        checked.map_err(|error| without_value(error, hiding, &[kind]))?;
        // A spec that cannot be read fails the schedule, which shows why.
        match Schedule::from_json(&submit.task.props) {
            Ok(spec) if kind.as_str() == schedule::KIND => check_runs(self.app, &spec, hiding),
            _ => Ok(()),
        }
    }

    async fn admit_new(
        &self,
        submit: &Submit,
        new: &BTreeSet<TaskId>,
    ) -> Result<Admitted, Problem> {
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
        if task.unique.is_some() && submit.if_exists != IfExists::Refuse {
            // The task that has the key may be of others, and is found only by the write.
            return Err(Problem::forbidden(
                "if_exists: a token with a scope cannot give it together with a unique key; leave one of the two out",
            ));
        }
        // Every submit replaces a completed task whose id is free. One that does not refuse may also replace another task, or
        // show its state.
        let refuses = submit.if_exists == IfExists::Refuse;
        let found = match self.by.client().get(&task.id).await {
            Ok(record) => Some(record),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let (guards, adds) = match &found {
            Some(record) if scope.has_record(record) && (!refuses || is_free(record)) => {
                (guards_of(record), adds(record, submit.if_exists))
            }
            // A repetition of a request with a key finds the task that it has made.
            Some(record) if !scope.has_record(record) && !refuses => return Err(taken()),
            _ => {
                let guard = Guard {
                    task: task.id.clone(),
                    require: Require::Absent,
                };
                (vec![guard], 1)
            }
        };
        Ok(Admitted {
            guards,
            adds,
            ..Admitted::default()
        })
    }

    /// Refuses a guard on a task outside of the scope, and one that compares masked data with a guess.
    pub(crate) async fn admit_guard(&self, guard: &Guard) -> Result<(), Problem> {
        let hiding = self.by.hiding().await?;
        let compares = matches!(guard.require, Require::Data(_)) && !hiding.is_nothing();
        if self.by.scope.is_everything() && !compares {
            return Ok(());
        }
        let record = match self.by.client().get(&guard.task).await {
            Ok(record) if !self.by.scope.has_record(&record) => return Err(taken()),
            Ok(record) => record,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if compares && hiding.hides_data_of(&record.task.kind) {
            let what = format!(
                "is masked for tasks of kind '{}', so a guard cannot compare it; require the version instead",
                record.task.kind
            );
            return Err(Problem::masked("data", what));
        }
        Ok(())
    }

    /// Returns whether a submit adds nothing, because a task that the caller may see has its id.
    pub(super) async fn exists_for(&self, operation: &Operation) -> Result<bool, Problem> {
        let Operation::Submit(submit) = operation else {
            return Ok(false);
        };
        // Others replace an ended task.
        let adds_none = matches!(
            submit.if_exists,
            IfExists::Refuse | IfExists::Same | IfExists::Skip
        );
        match self.by.client().get(&submit.task.id).await {
            Ok(record) => Ok(adds_none && !is_free(&record) && self.by.scope.has_record(&record)),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns whether a task has completed and its id is free: every submit with the id replaces it.
fn is_free(record: &TaskRecord) -> bool {
    let state = record.state.as_ref();
    record.task.free_id && state.is_ok_and(|state| state.code() == StateKind::Completed)
}

/// Returns how many live tasks a submit adds whose id a task has.
fn adds(record: &TaskRecord, if_exists: IfExists) -> u64 {
    let state = record.state.as_ref();
    let has_ended = state.is_ok_and(|state| state.code().is_terminal());
    let keeps = matches!(
        if_exists,
        IfExists::Refuse | IfExists::Same | IfExists::Skip
    );
    u64::from(is_free(record) || has_ended && !keeps)
}

/// Refuses props of the runs of a schedule that no run can have.
pub(crate) fn check_runs(app: &App, spec: &Schedule, hiding: &Hiding) -> Result<(), Problem> {
    let spec = Json::new("schedule", spec)?;
    let Some(Ok(kind)) = spec.at("/run/kind").map(|kind| kind.get::<Kind>("kind")) else {
        return Ok(());
    };
    refuse_bulk(&kind)?;
    let props = spec.at("/run/props").unwrap_or_else(Json::null);
    let checked = (app.check)(&kind, &props);
    checked.map_err(|error| without_value(error, hiding, &[&kind]))
}

/// Returns guards for a task that was compared with a scope: its labels are those of its submit, and its kind may change.
fn guards_of(record: &TaskRecord) -> Vec<Guard> {
    let guard = |require| Guard {
        task: record.task.id.clone(),
        require,
    };
    vec![
        guard(Require::Order(record.order)),
        guard(Require::Kind(record.task.kind.clone())),
    ]
}

/// Returns the error of a check of props. For a kind with masked props it does not quote them.
fn without_value(error: Invalid, hiding: &Hiding, kinds: &[&Kind]) -> Problem {
    match kinds.iter().any(|kind| hiding.hides_props_of(kind)) {
        false => error.into(),
        true => Problem::invalid(
            "props",
            "are not valid for the kind; the reason is not shown, because props of the kind are masked. A program that opens \
             the store itself gets it (`windlass submit`)",
        ),
    }
}
