//! [`Registry`] for [`PlantedStore`].

use windlass::{
    Author, CommandId, Invalid, NodeName, StateKind, TaskId, async_trait,
    store::{
        Applied, AuditAction, AuditEntry, Availability, Change, ChangeKind, ChangeStream,
        CommandRecord, Doctor, Done, Error, Expected, Filter, Limits, NamedValue, NodeCommand,
        NodeCommandId, NodeRecord, Operation, Page, Purge, Registry, SetValue, Span, StoredLog,
        TaskCount, TaskRecord, TaskStats, Transaction, Transfer,
    },
};

use super::{defect::Defect, journal::Call, store::PlantedStore, tasks::never_free};

#[async_trait]
impl Registry for PlantedStore {
    fn name(&self) -> &str {
        "planted"
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        Some(self)
    }

    fn doctor(&self) -> Option<&dyn Doctor> {
        Some(self)
    }

    fn limits(&self) -> Limits {
        Registry::limits(&self.inner)
    }

    async fn identity(&self) -> Result<String, Error> {
        let own = self.inner.identity().await?;
        if self.has(Defect::IdentitiesAreNotDurable) {
            return Ok(own);
        }
        let mut memory = self.memory.lock().unwrap();
        Ok(memory.identity.get_or_insert(own).clone())
    }

    /// Each call has operations of one kind.
    async fn apply(&self, transactions: Vec<Transaction>) -> Vec<Result<Applied, Error>> {
        let (mut submits, mut sends) = (Vec::new(), Vec::new());
        let (mut deletes, mut retries) = (Vec::new(), Vec::new());
        let mut whole = Vec::new();
        for transaction in transactions {
            // The planted calls below pass no author on.
            if transaction.author().is_some() {
                whole.push(transaction);
                continue;
            }
            match transaction.into_single() {
                Ok(Operation::Submit(mut submit)) => {
                    match self.defect {
                        Some(Defect::WaitsAreForgotten) => submit.task.waits = None,
                        Some(Defect::LimitsAreForgotten) => submit.task.limits.clear(),
                        Some(Defect::SlotsAreNeverFree) => never_free(&mut submit.task),
                        _ => {}
                    }
                    submits.push(submit);
                }
                Ok(Operation::Send(send)) => sends.push(send),
                Ok(Operation::Delete(delete))
                    if delete.force || self.has(Defect::ClaimedTasksAreDeleted) =>
                {
                    deletes.push(delete.task);
                }
                Ok(operation @ Operation::Delete(_)) => whole.push(operation.into()),
                Ok(Operation::Retry(retry)) if !retry.is_edited() => retries.push(retry.task),
                Ok(other) => panic!("no case asks for {other:?}"),
                Err(transaction) => whole.push(transaction),
            }
        }
        let mut answers: Vec<Result<Applied, Error>> = Vec::new();
        if !submits.is_empty() {
            let submitted = self.planted_submit(submits).await.into_iter();
            answers.extend(submitted.map(|a| a.map(|a| Done::Submitted(a).into())));
        }
        if !sends.is_empty() {
            let sent = self.planted_send(sends).await.into_iter();
            answers.extend(sent.map(|a| a.map(|a| Done::Sent(a).into())));
        }
        if !deletes.is_empty() {
            let deleted = self.planted_delete(deletes).await.into_iter();
            answers.extend(deleted.map(|a| a.map(|()| Done::Deleted.into())));
        }
        if !retries.is_empty() {
            let retried = self.planted_retry(retries).await.into_iter();
            answers.extend(retried.map(|a| a.map(|()| Done::Retried.into())));
        }
        if !whole.is_empty() {
            answers.extend(self.planted_transactions(whole).await);
        }
        answers
    }

    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        let mut record = self.inner.command(id).await?;
        if self.has(Defect::OutcomesAreForgotten) {
            record.outcome = None;
        }
        if self.has(Defect::SendersAreForgotten) {
            record.by = None;
        }
        let memory = self.memory.lock().unwrap();
        if let Some(last) = memory.outcomes.get(&record.order) {
            record.outcome = Some(last.clone());
        }
        Ok(record)
    }

    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error> {
        match self.inner.commands(task).await {
            Err(Error::NotFound { .. }) if self.has(Defect::UnknownTasksAreEmpty) => Ok(Vec::new()),
            commands => commands,
        }
    }

    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error> {
        let mut record = self.inner.get(id).await?;
        let is_retried = self.memory.lock().unwrap().retried.contains(id);
        if self.has(Defect::RetriesCountFromNothing)
            && is_retried
            && let Ok(state) = &mut record.state
        {
            state.version = 0;
        }
        if self.has(Defect::ReschedulesKeepTheVersion)
            && let Ok(state) = &mut record.state
        {
            state.version -= state.reschedules;
        }
        if self.has(Defect::HeldTasksNameNoLimit) {
            record.limited_by = None;
        }
        if record.state.is_err() && self.has(Defect::UnreadableTasksAreOmitted) {
            return Err(Error::no_task(id));
        }
        Ok(record)
    }

    async fn span(&self, filter: &Filter, mut span: Span) -> Result<Vec<TaskRecord>, Error> {
        if self.has(Defect::PagesBeginAfterTheirTime)
            && let Some(place) = &mut span.after
        {
            // All tasks of the same time count as passed.
            place.order = if span.ascending { u64::MAX } else { 0 };
            // So do all ids with the same first letter.
            place.id = place.id.as_ref().and_then(|id| {
                let first = &id.as_str()[..1];
                let last = if span.ascending { "~" } else { "" };
                format!("{first}{last}").parse().ok()
            });
        }
        if self.has(Defect::PagesAreInOneDirection) {
            span.ascending = false;
        }
        self.inner.span(filter, span).await
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error> {
        let listed = self.inner.list(filter, page).await;
        if self.has(Defect::ErrorsAreReworded) && listed.is_err() {
            return Err(Invalid::new("limit", "is wrong").into());
        }
        let mut records = listed?;
        if self.has(Defect::ListsAreNotInOrder) {
            records.reverse();
        }
        if self.has(Defect::UnreadableTasksAreOmitted) {
            records.retain(|record| record.state.is_ok());
        }
        Ok(records)
    }

    async fn no_node_may_join(&self) -> Result<Option<Error>, Error> {
        self.inner.no_node_may_join().await
    }

    async fn counts(&self) -> Result<Vec<TaskCount>, Error> {
        let mut counts = self.inner.counts().await?;
        if self.has(Defect::CountsOmitTheQuarantined) {
            counts.retain(|count| count.state.is_some());
        }
        if self.has(Defect::CountsStayAsTheyWere) {
            let mut memory = self.memory.lock().unwrap();
            return Ok(memory.counts.get_or_insert(counts).clone());
        }
        Ok(counts)
    }

    async fn stats(&self) -> Result<TaskStats, Error> {
        let mut stats = self.inner.stats().await?;
        for group in stats
            .groups
            .iter_mut()
            .filter(|_| self.has(Defect::SleepersCountAsAvailable))
        {
            if group.availability == Availability::Future {
                group.availability = Availability::Available;
            }
        }
        Ok(stats)
    }

    async fn limits_in_use(&self) -> Result<Vec<windlass::store::LimitUse>, Error> {
        let mut in_use = self.inner.limits_in_use().await?;
        in_use.retain(|_| !self.has(Defect::LimitsInUseAreNotListed));
        if self.has(Defect::LimitsInUseLoseTheirTemplate) {
            for used in &mut in_use {
                used.limit = used.limit.as_ref().and_then(without_template);
            }
        }
        Ok(in_use)
    }

    async fn purge(&self, purge: &Purge) -> Result<u64, Error> {
        let mut purge = purge.clone();
        if self.has(Defect::PurgesTakeEveryState) {
            purge.states = vec![StateKind::Completed, StateKind::Failed, StateKind::Killed];
        }
        self.forget_what_others_wait_for().await?;
        self.write(Call::Purge(purge.clone()));
        self.inner.purge(&purge).await
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Error> {
        let mut lines = self.inner.audit(limit).await?;
        if self.has(Defect::DeletionsAreNotAudited) {
            lines.retain(|line| !matches!(line.what, AuditAction::Deleted { .. }));
        }
        if self.has(Defect::ValuesAreNotAudited) {
            lines.retain(|line| !matches!(line.what, AuditAction::ValueSet { .. }));
        }
        if self.has(Defect::AuditsTakeTheOldest) {
            lines = self.inner.audit(u32::MAX).await?;
            lines.truncate(limit as usize);
        }
        Ok(lines)
    }

    async fn values(&self, folder: &str) -> Result<Vec<NamedValue>, Error> {
        let mut values = self.inner.values(folder).await?;
        if self.has(Defect::EveryValueIsListed) {
            values = self.inner.values("").await?;
        }
        if self.has(Defect::VersionsStay) {
            values.iter_mut().for_each(|value| value.version = 1);
        }
        Ok(values)
    }

    async fn set_value(&self, change: &SetValue) -> Result<bool, Error> {
        let mut change = change.clone();
        if self.has(Defect::ExpectationsAreIgnored) {
            change.expected = Expected::Anything;
        }
        self.write(Call::SetValue(change.clone()));
        self.inner.set_value(&change).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error> {
        let mut nodes = self.inner.nodes().await?;
        if self.has(Defect::SecretsAreListed) {
            self.with_secrets(&mut nodes).await?;
        }
        Ok(nodes)
    }

    async fn send_node(
        &self,
        node: &NodeName,
        command: NodeCommand,
        by: Option<&Author>,
    ) -> Result<NodeCommandId, Error> {
        let call = Call::SendNode(node.clone(), command.clone(), by.cloned());
        self.write(call);
        self.inner.send_node(node, command, by).await
    }

    async fn node_outcome(&self, command: NodeCommandId) -> Result<Option<String>, Error> {
        self.inner.node_outcome(command).await
    }

    async fn log_parts(&self, id: &TaskId, from: u64) -> Result<StoredLog, Error> {
        self.inner.log_parts(id, from).await
    }

    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        if self.has(Defect::ALimitTakesTheOldest) {
            let mut all = self.inner.history(id, u32::MAX).await?;
            all.truncate(limit as usize);
            return Ok(all);
        }
        let mut history = self.inner.history(id, limit).await?;
        if self.has(Defect::QuarantinesAreToldOnce) {
            let is_quarantine = |change: &Change| change.what == ChangeKind::Quarantined;
            let last = history.iter().rposition(is_quarantine);
            let mut place = 0;
            history.retain(|change| {
                place += 1;
                !is_quarantine(change) || Some(place - 1) == last
            });
        }
        Ok(history)
    }

    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        let after = match self.defect {
            Some(Defect::ChangesRepeatTheLast) => after.map(|seq| seq.saturating_sub(1)),
            _ => after,
        };
        match self.inner.changes(after).await {
            Err(_) if self.has(Defect::CursorsBeyondTheEndAreAccepted) => {
                self.inner.changes(None).await
            }
            changes => changes,
        }
    }

    async fn newest_change(&self) -> Result<u64, Error> {
        self.inner.newest_change().await
    }
}

/// Returns a limit with the same key that says nothing of where the key comes from.
fn without_template(limit: &windlass::Limit) -> Option<windlass::Limit> {
    let key = limit.key();
    match limit.bound() {
        windlass::Bound::AtOnce(most) => windlass::Limit::at_once(key, most).ok(),
        windlass::Bound::Starts { most, within } => windlass::Limit::starts(key, most, within).ok(),
    }
}
