//! Applies the limits of an updated spec to runs that have not started.

use windlass_statemachine::{Limit, StateKind, TaskId};

use super::Schedules;
use crate::{
    schedule::{LABEL, ScheduledFor, spec::Schedule},
    store::{Error, Filter, Page, Reason, Reschedule, TaskRecord, Transaction},
};

/// The most runs that one read of the store returns.
const PAGE: u32 = 1000;

impl Schedules {
    /// Gives the runs of a schedule that have not started the limits of its present spec. A run that starts in the
    /// meantime keeps its own. A repeated call continues an interrupted one.
    ///
    /// With several updates at once, each call repeats until the spec is the same before and after it, so that
    /// the last update wins.
    pub(super) async fn limit_waiting_runs(
        &self,
        id: &TaskId,
        written: &Schedule,
    ) -> Result<(), Error> {
        let mut spec = written.clone();
        loop {
            self.limit_runs(id, &spec).await?;
            let present = match self.get(id.clone()).await {
                Ok(record) => record.spec?,
                Err(Error::NotFound { .. }) => return Ok(()),
                Err(error) => return Err(error),
            };
            if present.run.form.limits == spec.run.form.limits {
                return Ok(());
            }
            spec = present;
        }
    }

    async fn limit_runs(&self, id: &TaskId, spec: &Schedule) -> Result<(), Error> {
        let filter = Filter {
            states: vec![StateKind::Runnable, StateKind::Sleeping, StateKind::Paused],
            labels: vec![(LABEL.to_owned(), Some(id.to_string()))],
            ..Filter::default()
        };
        let mut page = Page {
            after: 0,
            limit: PAGE,
        };
        loop {
            let records = self.client.list(&filter, page).await?;
            let Some(last) = records.last() else {
                return Ok(());
            };
            page.after = last.order;
            let changes = records.iter().filter_map(|record| {
                let limits = new_limits(record, spec)?;
                let change = Reschedule::new(record.task.id.clone()).limits(limits);
                Some(Transaction::new().reschedule(change))
            });
            let changes: Vec<Transaction> = changes.collect();
            if changes.is_empty() {
                continue;
            }
            for answer in self.client.apply(changes).await {
                match answer {
                    Err(Error::Refused(refusals))
                        if refusals.iter().all(|one| has_started(&one.reason)) => {}
                    answer => drop(answer?),
                }
            }
        }
    }
}

/// Returns the new limits of a run; `None` for a run that keeps its own.
fn new_limits(record: &TaskRecord, spec: &Schedule) -> Option<Vec<Limit>> {
    let state = record.state.as_ref().ok()?;
    let waits = state.claims == 0 && record.node.is_none();
    ScheduledFor::of(&record.task).filter(|_| waits)?;
    // The keys contain values of the run, which keeps its labels and props.
    let mut run = record.task.clone();
    run.limits.clone_from(&spec.run.form.limits);
    // A run without a label or prop that a key names does not get that limit.
    run.fill_limit_keys().ok()?;
    (run.limits != record.task.limits).then_some(run.limits)
}

/// Returns whether the refusal means that the run has started, or no longer exists.
fn has_started(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Claimed | Reason::Finished { .. } | Reason::Missing | Reason::Unreadable(_)
    )
}
