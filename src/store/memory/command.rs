//! The commands of tasks.

use jiff::Timestamp;
use windlass_statemachine::{CommandId, Outcome, StateKind, TaskId, message::SendCommand};

use super::world::World;
use crate::store::{
    ChangeKind, CommandRecord, Error,
    rules::{self, kept_time::kept},
};

impl World {
    /// Puts a checked command into the queue of its task, unless its id is known.
    pub(super) fn enqueue(&mut self, send: SendCommand, now: Timestamp) -> u64 {
        if let Some((_, order)) = self.commands.get(&send.id) {
            return *order;
        }
        let what = ChangeKind::Commanded {
            command: self.next_seq(),
        };
        let order = self.record(&send.task, what, now);
        let SendCommand {
            task,
            id,
            command,
            note,
            ..
        } = send;
        self.commands.insert(id.clone(), (task.clone(), order));
        if let Some(row) = self.tasks.get_mut(&task) {
            row.waiting.insert(order);
            let record = CommandRecord {
                id,
                task: task.clone(),
                order,
                command,
                sent_at: kept(now),
                by: self.by.clone(),
                note,
                outcome: None,
            };
            row.commands.insert(order, record);
        }
        self.touch(&task);
        order
    }

    /// Records the outcome of a command. The first outcome stays.
    pub(super) fn settle(&mut self, id: &TaskId, order: u64, outcome: Outcome) {
        let Some(row) = self.tasks.get_mut(id) else {
            return;
        };
        if row.waiting.remove(&order)
            && let Some(record) = row.commands.get_mut(&order)
        {
            record.outcome = Some(outcome);
        }
    }

    /// Rejects the waiting commands of a task that has ended.
    pub(super) fn reject_waiting(&mut self, id: &TaskId, code: StateKind) {
        let waiting = self.tasks.get(id).map(|row| row.waiting.clone());
        for order in waiting.unwrap_or_default() {
            self.settle(id, order, rules::command::ended(code));
        }
    }

    pub(super) fn command(&self, id: &CommandId) -> Result<CommandRecord, Error> {
        let place = self.commands.get(id);
        let record = place.and_then(|(task, order)| self.tasks.get(task)?.commands.get(order));
        record.cloned().ok_or_else(|| Error::no_command(id))
    }
}
