//! Reports: what the handlers of a worker did.

use std::{collections::HashSet, sync::Arc};

use windlass_statemachine::{
    ActionKind, CommandId, Invalid, Message, NodeName, Report, StateKind, TaskId, Trace,
    machine::{Answer, Input},
    wire::read_message,
};

use super::{
    error::WorkerError,
    exchange::check_seq,
    protocol::{Held, Item, ItemResult, ReportItems, Reported, ResultCode, What},
    secret,
    service::Service,
    session::{Entry, Session},
    worker::Worker,
};
use crate::{
    store::{LogWrite, Logged},
    telemetry::RunOutcome,
};

/// The most items of one report.
const ITEMS: usize = 1_000;

/// Handles a report. Once begun, it is carried out even if the connection ends.
pub(super) async fn report(
    service: Arc<Service>,
    name: NodeName,
    request: ReportItems,
) -> Result<Reported, WorkerError> {
    check_seq(request.seq)?;
    if request.items.len() > ITEMS {
        let reason = format!(
            "{} items; give at most {ITEMS} in one report",
            request.items.len()
        );
        return Err(Invalid::new("items", reason).into());
    }
    let items = request
        .items
        .iter()
        .map(|item| Ok((item.clone(), item.what()?)));
    let items = items.collect::<Result<Vec<_>, Invalid>>()?;
    let done = tokio::spawn(async move { carry_out(&service, &name, &request, items).await });
    match done.await {
        Ok(answer) => answer,
        Err(_) => Err(WorkerError::Store(crate::store::Error::unavailable(
            "report",
            "the request failed",
        ))),
    }
}

async fn carry_out(
    service: &Arc<Service>,
    name: &NodeName,
    request: &ReportItems,
    items: Vec<(Item, What)>,
) -> Result<Reported, WorkerError> {
    let hash = secret::hash(&request.secret);
    let known = service.dispatcher().named(name, &hash);
    let worker = match known {
        Some(worker) => worker,
        None => service.worker(&service.record(name, &hash).await?),
    };
    worker.is_seen();
    let mut session = worker.session.lock().await;
    // What does not follow from what this process knows may follow from what another server has written since.
    let unexpected = |session: &Session| session.unexpected(&items);
    let record = match session.speaks && unexpected(&session).is_empty() {
        true => None,
        false => Some(service.record(name, &hash).await?),
    };
    session.enter(service, &worker, request.seq, record).await?;
    let unexpected = unexpected(&session);
    if !unexpected.is_empty() {
        session
            .read_newer(service, &worker, unexpected, request.seq)
            .await?;
    }
    let results = session.apply(service, &worker, items).await;
    if request.claims_wanted && session.speaks {
        let views = service.dispatcher().take_for(&worker, service.moment());
        if !views.is_empty() {
            session.claim(service, &worker, views).await;
        }
    }
    let claims = session.starts(service, request.seq);
    drop(session);
    service.work.notify_one();
    Ok(Reported { results, claims })
}

/// Returns the result of a report that was applied before.
fn recorded(item: &Item, last: &Report, state: StateKind) -> ItemResult {
    match &last.refused {
        Some(why) if last.n == item.n => ItemResult {
            state: Some(state),
            ..ItemResult::refused(item, why)
        },
        _ => ItemResult {
            state: Some(state),
            ..ItemResult::new(item, ResultCode::Applied)
        },
    }
}

/// What is done with an item at once.
enum Fed {
    Answered(ItemResult),
    /// The answer follows when its write is stored.
    Waits,
}

impl Session {
    /// Applies items. Those of one task follow each other; those of different tasks are written together.
    async fn apply(
        &mut self,
        service: &Arc<Service>,
        worker: &Arc<Worker>,
        items: Vec<(Item, What)>,
    ) -> Vec<ItemResult> {
        let mut results: Vec<Option<ItemResult>> = items.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..items.len()).collect();
        while !open.is_empty() {
            let (mut busy, mut later, mut fed) = (HashSet::new(), Vec::new(), Vec::new());
            self.written.clear();
            self.answers.clear();
            self.succeeding.clear();
            let mut logs = Vec::new();
            for at in open {
                let (item, what) = &items[at];
                if let What::Log(lines) = what {
                    results[at] = Some(self.log(service, item, lines, &mut logs));
                    continue;
                }
                if !busy.insert(&item.id) {
                    later.push(at);
                    continue;
                }
                match self.feed_item(service, worker, item, what) {
                    Some(Fed::Answered(answer)) => results[at] = Some(answer),
                    Some(Fed::Waits) => fed.push(at),
                    None => results[at] = Some(past(service, item).await),
                }
            }
            // Before the claim of a handler that has returned ends.
            if !logs.is_empty() {
                for answer in service.coordinator.log(logs).await {
                    if let Err(error) = answer {
                        tracing::debug!(worker = %worker.lease.node, %error, "lines of a handler were not stored");
                    }
                }
            }
            self.settle(service, worker).await;
            for at in fed {
                results[at] = Some(self.outcome(&items[at].0, &items[at].1));
            }
            open = later;
        }
        let items = items.iter().map(|(item, _)| item);
        let results = results.into_iter().zip(items);
        results
            .map(|(answer, item)| {
                answer.unwrap_or_else(|| ItemResult::new(item, ResultCode::Retry))
            })
            .collect()
    }

    /// Feeds an item to the machine of its task. `None` when the claim is not one of the worker.
    fn feed_item(
        &mut self,
        service: &Arc<Service>,
        worker: &Arc<Worker>,
        item: &Item,
        what: &What,
    ) -> Option<Fed> {
        let entry = self.tasks.get(&item.id);
        let entry = entry.filter(|entry| entry.fence() == item.fence)?;
        let state = match entry {
            Entry::Unconfirmed(claimed) => &claimed.state,
            Entry::Live(task) => task.state(),
        };
        if what.is_numbered() {
            let last = state.report.as_deref();
            if let Some(last) = last.filter(|last| item.n <= last.n) {
                return Some(Fed::Answered(recorded(item, last, state.code())));
            }
            let next = state.reported() + 1;
            if item.n != next {
                let why = format!("n: the next report of this claim has the number {next}");
                return Some(Fed::Answered(ItemResult::refused(item, why)));
            }
        }
        if let Entry::Unconfirmed(_) = entry {
            let held = Held::new(item.id.clone(), item.fence, item.run);
            self.start_machine(service, worker, &item.id, Some(&held), false);
        }
        let Some(Entry::Live(task)) = self.tasks.get_mut(&item.id) else {
            return Some(Fed::Answered(ItemResult::new(item, ResultCode::Retry)));
        };
        let trace = Trace::of(&task.task.meta);
        if task.machine.run() != Some(item.run) {
            task.ended(item.run);
            return Some(Fed::Answered(ItemResult::new(item, ResultCode::Lost)));
        }
        if task.machine.is_storing() {
            return Some(Fed::Answered(ItemResult::new(item, ResultCode::Retry)));
        }
        task.has(item.run);
        self.feed(service, &item.id, Input::Took(item.took));
        let ticket = 0;
        let input = match what {
            What::Checkpoint(data) => Input::Checkpoint {
                ticket,
                data: data.clone(),
            },
            What::Answer(reply) => Input::Answer {
                ticket,
                answer: Answer {
                    signal: reply.signal,
                    reply: reply.reply.clone(),
                    data: reply.data.clone(),
                },
            },
            What::Return(text) => {
                let new_id = || CommandId::new(crate::unique_id::new().to_string());
                match read_message(text.as_str(), service.now(), new_id) {
                    Ok(message) => {
                        if message.kind() != ActionKind::Error {
                            self.succeeding.insert(item.id.clone());
                        }
                        Input::Returned(match trace {
                            Some(trace) => trace.pass_on(message),
                            None => message,
                        })
                    }
                    Err(why) => {
                        let why = format!("the returned message cannot be read: {why}");
                        self.succeeding.insert(item.id.clone());
                        Input::Returned(Message::error(why))
                    }
                }
            }
            What::Aborted => Input::Aborted,
            What::Progress(progress) => {
                self.feed(service, &item.id, Input::Progress(progress.clone()));
                self.keep_progress(service, &item.id);
                return Some(Fed::Answered(ItemResult::new(item, ResultCode::Applied)));
            }
            What::Log(_) => return Some(Fed::Answered(ItemResult::new(item, ResultCode::Applied))),
        };
        let outcome = match (what, &input) {
            (What::Aborted, _) => Some(RunOutcome::Aborted),
            (_, Input::Returned(message)) if message.kind() == ActionKind::Error => {
                Some(RunOutcome::Failed)
            }
            (_, Input::Returned(_)) => Some(RunOutcome::Returned),
            _ => None,
        };
        if let (Some(outcome), Some(Entry::Live(task))) = (outcome, self.tasks.get(&item.id)) {
            let ran = task.ran(item.run, service.env().elapsed);
            service.metrics.ended(&task.task.kind, outcome, ran);
        }
        self.feed(service, &item.id, Input::Numbered(item.n));
        self.feed(service, &item.id, input);
        Some(Fed::Waits)
    }

    /// Stores progress by itself, unless that was done a moment ago.
    fn keep_progress(&mut self, service: &Arc<Service>, id: &TaskId) {
        let now = service.env().elapsed;
        if let Some(Entry::Live(task)) = self.tasks.get_mut(id)
            && task.may_keep_progress(now)
        {
            self.feed(service, id, Input::KeepProgress);
        }
    }

    /// Returns the result of an item whose write was sent.
    fn outcome(&self, item: &Item, what: &What) -> ItemResult {
        let is_lost = self.fenced.contains(&(item.id.clone(), item.fence));
        if let What::Checkpoint(_) | What::Answer(_) = what {
            return match self.answers.get(&item.id) {
                Some(Ok(())) => ItemResult::new(item, ResultCode::Applied),
                Some(Err(_)) if is_lost => ItemResult::new(item, ResultCode::Lost),
                Some(Err(why)) if self.is_live(item) => ItemResult::refused(item, why),
                // Its machine was given up, because another server has written.
                Some(Err(_)) => ItemResult::new(item, ResultCode::Retry),
                None => ItemResult::new(item, ResultCode::Retry),
            };
        }
        match self.written.get(&item.id) {
            Some((Some(last), state)) if last.n >= item.n => recorded(item, last, *state),
            _ if is_lost => ItemResult::new(item, ResultCode::Lost),
            _ => ItemResult::new(item, ResultCode::Retry),
        }
    }

    fn is_live(&self, item: &Item) -> bool {
        let entry = self.tasks.get(&item.id);
        entry.is_some_and(|entry| entry.fence() == item.fence && matches!(entry, Entry::Live(_)))
    }

    fn log(
        &self,
        service: &Arc<Service>,
        item: &Item,
        lines: &[super::protocol::Line],
        logs: &mut Vec<LogWrite>,
    ) -> ItemResult {
        let Some(entry) = self.tasks.get(&item.id) else {
            return ItemResult::new(item, ResultCode::Lost);
        };
        let (claim, state) = match entry {
            Entry::Unconfirmed(claimed) => (&claimed.claim, &claimed.state),
            Entry::Live(task) => (&task.claim, task.state()),
        };
        if claim.fence != item.fence {
            return ItemResult::new(item, ResultCode::Lost);
        }
        let at = service.now();
        let lines = lines.iter().map(|line| {
            let text: Arc<str> = line.text.replace(['\n', '\r'], " ").into();
            Logged {
                incarnation: state.incarnation,
                attempt: state.attempts.saturating_add(1),
                ..Logged::new(line.n, at, text)
            }
        });
        let lines: Vec<Logged> = lines.collect();
        logs.push(LogWrite::new(claim.clone(), lines));
        ItemResult::new(item, ResultCode::Applied)
    }

    /// Returns the runs that this answer starts.
    fn starts(&mut self, service: &Arc<Service>, seq: u64) -> Vec<super::protocol::Start> {
        let env = service.env();
        let entries = self.tasks.values_mut();
        let starts = entries.filter_map(|entry| match entry {
            Entry::Live(task) => task.take_start(seq, env),
            Entry::Unconfirmed(_) => None,
        });
        starts.collect()
    }
}

/// Returns the result of an item whose claim has ended: what the state of the task has recorded.
async fn past(service: &Arc<Service>, item: &Item) -> ItemResult {
    let state = match service.registry.get(&item.id).await {
        // The claim goes on: this process has given up what it knew of it, and reads it with the next request.
        Ok(record)
            if record.node.is_some() && record.fence == item.fence && record.state.is_ok() =>
        {
            return ItemResult::new(item, ResultCode::Retry);
        }
        Ok(record) => record.state,
        Err(error) if error.is_retryable() => return ItemResult::new(item, ResultCode::Retry),
        Err(_) => return ItemResult::new(item, ResultCode::Lost),
    };
    match state {
        Ok(state) if state.fence == item.fence && item.n > 0 => match &state.report {
            Some(last) if item.n <= last.n => recorded(item, last, state.code()),
            _ => ItemResult::new(item, ResultCode::Lost),
        },
        _ => ItemResult::new(item, ResultCode::Lost),
    }
}
