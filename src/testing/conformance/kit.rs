//! The tools of the cases.

use std::{fmt::Debug, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp, Unit};
use serde_json::json;
use windlass_statemachine::{
    ActionKind, Command, CommandId, CommitId, Delete, Message, NodeName, Outcome, StateKind, Task,
    TaskId, TaskState,
    machine::{Step, Write},
    state::LastCommand,
    transition,
};

use super::{Capability, Harness, capability::need, wait::Watcher};
use crate::clock::Clock;
use crate::store::{
    Change, ChangeKind, Claimed, Commit, Coordinator, DataVersions, Error, Filter, IfExists, Lease,
    NodeCommand, NodeCommandId, NodeSpec, NodeStatus, Operation, Page, Registry, SendCommand,
    Store, Submit, Submitted, TaskRecord, Transfer,
};

/// The lease time of a node that stays.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// Asserts that a value matches a pattern; shows the value when it does not.
macro_rules! assert_matches {
    ($value:expr, $pattern:pat $(if $guard:expr)? $(,)?) => {{
        let value = &$value;
        assert!(matches!(value, $pattern $(if $guard)?), "{value:?}");
    }};
}
pub(super) use assert_matches;

pub(super) fn id(text: &str) -> TaskId {
    text.parse().expect("a legal id")
}

pub(super) fn task(text: &str) -> Task {
    Task::new(id(text), "demo".parse().expect("a legal kind"))
}

pub(super) fn of_kind(text: &str, kind: &str) -> Task {
    Task::new(id(text), kind.parse().expect("a legal kind"))
}

pub(super) fn fresh(task: Task) -> Submit {
    Submit {
        task,
        if_exists: IfExists::Refuse,
    }
}

/// Returns a submit that the same task satisfies.
pub(super) fn same(task: Task) -> Submit {
    Submit {
        task,
        if_exists: IfExists::Same,
    }
}

pub(super) fn sending(task: &str, name: &str, command: Command) -> SendCommand {
    SendCommand::new(id(task), command_of(name), command)
}

pub(super) fn field(error: &Error) -> &str {
    match error {
        Error::Invalid(invalid) => invalid.field(),
        Error::TooLarge { field, .. } => field,
        other => panic!("names no field: {other:?}"),
    }
}

/// A store under test.
pub(super) struct Kit {
    pub(super) store: Store,
}

impl Kit {
    pub(super) async fn new(harness: &dyn Harness) -> Self {
        let store = harness.store().await;
        Self { store }
    }

    /// Opens a store on which the node `n` lives.
    pub(super) async fn with_node(harness: &dyn Harness) -> (Self, Lease) {
        let kit = Self::new(harness).await;
        let node = kit.node("n").await;
        (kit, node)
    }

    /// Opens the same data again.
    pub(super) async fn reopened(self, harness: &dyn Harness) -> Self {
        let store = need(Capability::Reopen, harness.reopen(self.store).await);
        Self { store }
    }

    /// Opens a store that uses `clock`.
    pub(super) async fn with_clock(harness: &dyn Harness, clock: Arc<dyn Clock>) -> Self {
        let store = harness.store_with_clock(clock).await;
        let store = need(Capability::Clock, store);
        Self { store }
    }

    pub(super) fn registry(&self) -> &Arc<dyn Registry> {
        self.store.registry()
    }

    pub(super) fn transfer(&self) -> &dyn Transfer {
        need(Capability::Transfer, self.registry().transfer())
    }

    pub(super) fn coordinator(&self) -> &Arc<dyn Coordinator> {
        self.store.coordinator()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    /// Returns a time from now, in whole milliseconds, because an index of due times may not keep
    /// more.
    pub(super) fn later(&self, wait: Duration) -> Timestamp {
        let later = self.now() + SignedDuration::try_from(wait).expect("a short time");
        later.round(Unit::Millisecond).expect("a time of our days")
    }

    pub(super) fn in_an_hour(&self) -> Timestamp {
        self.later(Duration::from_secs(3600))
    }

    pub(super) fn spec(name: &str) -> NodeSpec {
        let mut data_versions = DataVersions::default();
        data_versions.set("k".parse().expect("a legal kind"), 3);
        data_versions.set_others(2);
        NodeSpec {
            data_versions,
            labels: [("zone".to_owned(), "north".to_owned())].into(),
            slots: 7,
            pid: 4711,
            version: "1.2.3".to_owned(),
            ..NodeSpec::new(name.parse().expect("a legal name"))
        }
    }

    pub(super) async fn node(&self, name: &str) -> Lease {
        self.node_for(name, LONG).await
    }

    pub(super) async fn node_for(&self, name: &str, ttl: Duration) -> Lease {
        let joined = self.coordinator().join(&Self::spec(name), ttl).await;
        joined.unwrap_or_else(|e| panic!("node {name} cannot join: {e}"))
    }

    pub(super) async fn renew(&self, lease: &Lease) -> Result<(), Error> {
        let status = NodeStatus::default();
        self.coordinator().renew(lease, &status).await
    }

    pub(super) async fn try_submit(&self, submit: Submit) -> Result<Submitted, Error> {
        one(self.registry().submit(vec![submit]).await)
    }

    pub(super) async fn submit(&self, text: &str) {
        self.submit_task(task(text)).await;
    }

    pub(super) async fn submit_task(&self, task: Task) {
        let answer = self.try_submit(fresh(task)).await;
        assert_eq!(answer.expect("submitted"), Submitted::New);
    }

    /// Submits a new task with the id of an ended one.
    pub(super) async fn replace(&self, text: &str) {
        let submit = Submit {
            task: task(text),
            if_exists: IfExists::ReplaceFinished,
        };
        assert_eq!(
            self.try_submit(submit).await.expect("replaced"),
            Submitted::New
        );
    }

    pub(super) async fn delete(&self, text: &str) {
        let delete = Operation::Delete(Delete::new(id(text)).forced());
        one(self.registry().apply(vec![delete.into()]).await).expect("deleted");
    }

    pub(super) async fn retry(&self, text: &str) {
        one(self.registry().retry(vec![id(text)]).await).expect("retried");
    }

    pub(super) async fn get(&self, text: &str) -> TaskRecord {
        let record = self.registry().get(&id(text)).await;
        record.unwrap_or_else(|e| panic!("'{text}' cannot be read: {e}"))
    }

    pub(super) async fn state(&self, text: &str) -> TaskState {
        self.get(text).await.state.expect("a readable state")
    }

    pub(super) async fn try_claim(
        &self,
        lease: &Lease,
        text: &str,
    ) -> Result<Option<Claimed>, Error> {
        one(self.coordinator().claim(lease, vec![id(text)]).await)
    }

    pub(super) async fn claim(&self, lease: &Lease, text: &str) -> Claimed {
        let claimed = self.try_claim(lease, text).await.expect("a claim");
        claimed.unwrap_or_else(|| panic!("'{text}' cannot be claimed"))
    }

    /// Submits a task and claims it.
    pub(super) async fn claimed(&self, lease: &Lease, text: &str) -> Claimed {
        self.submit(text).await;
        self.claim(lease, text).await
    }

    /// Returns the write of the state machine for this message.
    pub(super) fn write(&self, claimed: &Claimed, message: &Message) -> Write {
        let (before, now) = (&claimed.state, self.now());
        let mut state = transition(before, message, now).expect("a transition of the table");
        state.version += 1;
        state.commit = Some(CommitId(fastrand::u64(..)));
        let step = Step {
            message: message.kind(),
            from: before.code(),
            to: state.code(),
            command: None,
        };
        Write {
            follows: before.version,
            drop_claim: message.kind() == ActionKind::Release
                || state.code() != StateKind::Runnable,
            steps: vec![step],
            outcomes: Vec::new(),
            effects: message.effects().clone(),
            state,
        }
    }

    pub(super) async fn try_write(&self, claimed: &Claimed, write: Write) -> Result<(), Error> {
        let claim = claimed.claim.clone();
        one(self
            .coordinator()
            .commit(vec![Commit {
                claim,
                write,
                log: None,
            }])
            .await)
    }

    pub(super) async fn try_commit(
        &self,
        claimed: &Claimed,
        message: &Message,
    ) -> Result<(), Error> {
        self.try_write(claimed, self.write(claimed, message)).await
    }

    /// Asserts that a claim is refused: it is not the live one.
    pub(super) async fn assert_fenced(&self, claimed: &Claimed, message: &Message) {
        let refused = self.try_commit(claimed, message).await;
        assert!(is_fenced(&refused), "{message:?}: {refused:?}");
    }

    /// Commits a message, and puts the stored state into the claim.
    pub(super) async fn commit(&self, claimed: &mut Claimed, message: &Message) {
        let write = self.write(claimed, message);
        let state = write.state.clone();
        let answer = self.try_write(claimed, write).await;
        answer.unwrap_or_else(|e| panic!("{message:?} is refused: {e}"));
        claimed.state = state;
    }

    /// Commits a checkpoint with this data.
    pub(super) async fn checkpoint(&self, claimed: &mut Claimed, n: u64) {
        self.commit(claimed, &with_data(Message::checkpoint(), n))
            .await;
    }

    /// Submits a task, claims it and ends it with this message.
    pub(super) async fn ended(&self, lease: &Lease, text: &str, message: &Message) {
        let mut claimed = self.claimed(lease, text).await;
        self.end_by(&mut claimed, message).await;
    }

    /// Ends a claimed task with a message: an error fails it.
    pub(super) async fn end_by(&self, claimed: &mut Claimed, message: &Message) {
        if message.kind() == ActionKind::Error {
            // Two steps of the table: the error, and the end by the retry policy.
            let mut write = self.write(claimed, message);
            let fault = Claimed {
                state: write.state.clone(),
                ..claimed.clone()
            };
            let failed = self.write(&fault, &Message::error(""));
            write.steps.extend(failed.steps);
            write.state = TaskState {
                version: write.state.version,
                ..failed.state
            };
            self.try_write(claimed, write).await.expect("failed");
        } else {
            self.commit(claimed, message).await;
        }
    }

    pub(super) async fn try_send(
        &self,
        text: &str,
        command_id: &str,
        command: Command,
    ) -> Result<u64, Error> {
        let send = sending(text, command_id, command);
        one(self.registry().send(vec![send]).await)
    }

    pub(super) async fn send(&self, text: &str, command_id: &str, command: Command) -> u64 {
        let sent = self.try_send(text, command_id, command).await;
        sent.unwrap_or_else(|e| panic!("command {command_id} is refused: {e}"))
    }

    pub(super) async fn send_node(&self, node: &NodeName, command: NodeCommand) -> NodeCommandId {
        let sent = self.registry().send_node(node, command.clone(), None).await;
        sent.unwrap_or_else(|e| panic!("{command:?} is refused: {e}"))
    }

    /// Returns the outcome of a command; `None` while it is queued.
    pub(super) async fn outcome(&self, command_id: &str) -> Option<Outcome> {
        let record = self.registry().command(&command_of(command_id)).await;
        record.expect("a known command").outcome
    }

    pub(super) async fn list(&self, filter: Filter) -> Vec<String> {
        let records = self.registry().list(&filter, Page::default()).await;
        let records = records.expect("a list").into_iter();
        records.map(|r| r.task.id.to_string()).collect()
    }

    pub(super) async fn history(&self, text: &str) -> Vec<Change> {
        let history = self.registry().history(&id(text), 10_000).await;
        history.expect("a history")
    }

    /// Returns the history without checkpoints, because a store may add some.
    pub(super) async fn events(&self, text: &str) -> Vec<ChangeKind> {
        let changes = self.history(text).await.into_iter().map(|c| c.what);
        let is_checkpoint = |what: &ChangeKind| matches!(what, ChangeKind::Checkpointed { .. });
        changes.filter(|what| !is_checkpoint(what)).collect()
    }

    pub(super) async fn watch(&self, lease: &Lease) -> Watcher {
        Watcher::new(
            self.coordinator()
                .watch(lease, None)
                .await
                .expect("a watch"),
        )
    }
}

/// Returns whether a write was refused because its claim is not the live one.
pub(super) fn is_fenced(answer: &Result<(), Error>) -> bool {
    matches!(answer, Err(e @ Error::Fenced(_)) if !e.is_retryable())
}

/// Returns the answer to a call with one item.
pub(super) fn one<T: Debug>(mut answers: Vec<Result<T, Error>>) -> Result<T, Error> {
    assert_eq!(answers.len(), 1, "one item, one answer: {answers:?}");
    answers.remove(0)
}

pub(super) fn command_of(text: &str) -> CommandId {
    text.parse().expect("a legal command id")
}

/// Returns a message with data, as most handlers return one.
pub(super) fn with_data(message: Message, n: u64) -> Message {
    message.with_json(json!({ "n": n }).into())
}

/// Adds an outcome to a write, as the state machine does.
pub(super) fn settle(write: &mut Write, order: u64, outcome: Outcome) {
    write.outcomes.push((order, outcome.clone()));
    if matches!(outcome, Outcome::Answered { .. } | Outcome::Unanswered) {
        return;
    }
    write.state.last_command = Some(LastCommand::new(order, outcome));
}
