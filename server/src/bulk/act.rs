//! What a bulk operation does to one task.

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use windlass::{
    Command, CommandId, StateKind, TransactionId,
    statemachine::{Delete, Operation, RetryTask, message::SendCommand},
    store::{Require, TaskRecord, Transaction},
};

use super::{BulkAction, BulkFilter, KIND, Spec};
use crate::Scope;

/// The tasks that were submitted before the dry run of an operation. The order of submits decides, because the clocks of the
/// programs that submit tasks differ.
#[derive(Debug, Clone, Copy)]
pub(super) enum Before {
    /// Those with this submit order or a smaller one.
    Order(u64),
    /// For an operation that came from another store, where tasks have other orders: those that were submitted before the task
    /// of the operation, which has this order, and by their clock before the dry run.
    Copied(u64, Timestamp),
}

impl Before {
    pub(super) fn has(self, record: &TaskRecord) -> bool {
        match self {
            Self::Order(last) => record.order <= last,
            Self::Copied(own, at) => record.order < own && record.submitted_at <= at,
        }
    }
}

/// Returns whether an operation concerns a task that its filter selects: it is in the scope, was submitted before the dry
/// run, and is no bulk operation itself, unless the filter names that kind.
pub(super) fn concerns(
    record: &TaskRecord,
    filter: &BulkFilter,
    scope: &Scope,
    before: Before,
) -> bool {
    let kind = &record.task.kind;
    let is_bulk = kind.as_str() == KIND && filter.kind.as_deref() != Some(KIND);
    // A token with a scope changes neither schedules nor bulk operations.
    let is_others = kind.is_built_in() && !scope.is_everything();
    !is_bulk && !is_others && before.has(record) && scope.has_record(record)
}

/// Returns the name of the change of one task by the operation `of`, in this incarnation of it. The name is made of what a copy
/// of the store keeps: ids and times of submits. Submit orders are numbers of one store, so another store may have given
/// the same ones to other tasks.
pub(super) fn name(of: &TaskRecord, incarnation: u32, record: &TaskRecord) -> String {
    let submit = |record: &TaskRecord| {
        let at = record.submitted_at.as_microsecond();
        format!("{}\n{at}\n", record.task.id)
    };
    let text = format!("{}{}{incarnation}", submit(of), submit(record));
    let hash = Sha256::digest(text.as_bytes());
    let hash = hash.iter().take(16);
    let hash: String = hash.map(|byte| format!("{byte:02x}")).collect();
    format!("bulk-{hash}")
}

/// Returns the change of one task. `id` names it ([`name`]), so that it happens once.
///
/// # Errors
///
/// Why the action changes nothing in this task.
pub(super) fn change(spec: &Spec, record: &TaskRecord, id: &str) -> Result<Transaction, String> {
    let command = CommandId::new(id).map_err(|error| error.to_string())?;
    let task = record.task.id.clone();
    let send = |what: Command| {
        Operation::Send(
            SendCommand::new(task.clone(), command.clone(), what).note(spec.note.clone()),
        )
    };
    let state = record.state.as_ref().map(|state| state.code());
    let has_ended = state.is_ok_and(StateKind::is_terminal);
    let operation = match spec.action {
        BulkAction::Pause => send(Command::Pause),
        BulkAction::Resume => send(Command::Run),
        BulkAction::Release => send(Command::Release),
        BulkAction::Complete => send(Command::Complete { result: None }),
        BulkAction::Kill => send(Command::Kill),
        BulkAction::Retry => Operation::Retry(RetryTask::new(task.clone())),
        BulkAction::Delete => Operation::Delete(Delete::new(task.clone())),
    };
    if has_ended && matches!(operation, Operation::Send(_)) {
        return Err("the task has ended".to_owned());
    }
    let id = TransactionId::new(id).map_err(|error| error.to_string())?;
    let transaction = Transaction::from(operation).with_id(id).by(spec.by.clone());
    // The id may name another task by now.
    Ok(transaction.require(task, Require::Order(record.order)))
}
