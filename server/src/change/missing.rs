//! Refuses submits that wait for tasks that do not exist.

use windlass::{
    TransactionId,
    client::{SameRequest, ToCheck},
    store::{Operation, Submit},
};

use super::Change;
use crate::{body::ALLOW_MISSING, problem::Problem};

/// A submit of a request.
pub(crate) struct Asked {
    pub(crate) submit: Submit,
    /// Whether the tasks that it waits for need not exist.
    pub(crate) allow_missing: bool,
}

impl Change<'_> {
    /// Returns for each submit the problem of a task that it waits for and that does not exist: the id may be mistyped, and
    /// the task would start at once. `key_of` returns the id of the transaction of a submit, whose repetition is not checked.
    /// The tasks that a caller with a scope may name are checked with the scope.
    pub(crate) async fn missing(
        &self,
        asked: &[Asked],
        same: SameRequest,
        key_of: impl Fn(usize) -> Option<String>,
    ) -> Vec<Option<Problem>> {
        let mut problems: Vec<Option<Problem>> = asked.iter().map(|_| None).collect();
        let is_checked = |one: &Asked| one.submit.task.waits.is_some() && !one.allow_missing;
        if !self.by.scope.is_everything() || !asked.iter().any(is_checked) {
            return problems;
        }
        let checks = asked.iter().map(|one| ToCheck {
            submit: &one.submit,
            allow_missing: one.allow_missing,
        });
        let checks: Vec<_> = checks.collect();
        let missing = match self.by.client().missing_awaited(&checks, same).await {
            Ok(missing) => missing,
            Err(error) => {
                let problem = Problem::from(error);
                let of = |one| is_checked(one).then(|| problem.copy());
                return asked.iter().map(of).collect();
            }
        };
        for (n, id) in missing.into_iter().enumerate() {
            let Some(id) = id else { continue };
            let submit = &asked[n].submit;
            let field = match submit.task.waits.as_ref().is_some_and(|waits| waits.ok) {
                true => "after_ok",
                false => "after",
            };
            let before = match same {
                SameRequest::All => "",
                SameRequest::Earlier => ", and no line before submits it",
            };
            let what = format!(
                "task '{id}' does not exist{before}; check the id, or give \"{ALLOW_MISSING}\":true if it may have been deleted: \
                 a missing task counts as ended"
            );
            problems[n] = match self.is_made(submit, key_of(n)).await {
                Ok(true) => None,
                Ok(false) => Some(Problem::invalid(field, what)),
                Err(problem) => Some(problem),
            };
        }
        problems
    }

    /// Returns whether the transaction of a submit was applied before.
    async fn is_made(&self, submit: &Submit, key: Option<String>) -> Result<bool, Problem> {
        let Some(key) = key else { return Ok(false) };
        let id = TransactionId::new(key)?;
        let operation = Operation::Submit(submit.clone());
        self.is_applied(Some(&id), &operation).await
    }
}
