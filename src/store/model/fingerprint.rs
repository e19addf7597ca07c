//! The fingerprint of a transaction, by which a store knows its operations again.

use windlass_statemachine::{Command, Invalid, Task, Terms};

use super::{operation::Operation, transaction::Transaction};
use crate::store::Error;

impl Transaction {
    /// Returns 16 digits that stand for the guards and operations: their tasks with all fields, and commands.
    /// Not for times and the ids of commands, which a program that repeats a transaction may compute again.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::store::Transaction;
    ///
    /// let delete = |id: &str| Transaction::new().delete(id.parse().unwrap());
    /// assert_eq!(delete("a").fingerprint(), delete("a").fingerprint());
    /// assert_ne!(delete("a").fingerprint(), delete("b").fingerprint());
    /// ```
    pub fn fingerprint(&self) -> String {
        let mut hash = Fnv::default();
        for guard in self.holding_guards() {
            hash.text("require");
            hash.text(guard.task.as_str());
            hash.text(&format!("{:?}", guard.require));
        }
        for operation in self.operations() {
            hash.text(operation.verb());
            hash.text(operation.task().as_str());
            match operation {
                Operation::Submit(submit) => {
                    hash.task(&submit.task);
                    hash.text(&format!("{:?}", submit.if_exists));
                }
                Operation::Send(send) => hash.command(&send.command),
                Operation::Reschedule(change) => {
                    hash.text(&format!("{:?}", change.priority));
                    if let Some(limits) = &change.limits {
                        hash.text("limits");
                        hash.text(&serde_json::to_string(limits).unwrap_or_default());
                    }
                }
                _ => {}
            }
        }
        format!("{:016x}", hash.0)
    }

    /// Checks that this transaction is the one that was applied with its id: `applied` is the fingerprint of
    /// that one, or `None` when an earlier version applied it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `transaction id`).
    pub fn check_repeats(&self, applied: Option<&str>) -> Result<(), Error> {
        if applied.is_none_or(|applied| applied == self.fingerprint()) {
            return Ok(());
        }
        let id = self.id().map_or("", |id| id.as_str());
        let reason = format!(
            "'{id}' was applied with other operations or guards; give each transaction an id of its own"
        );
        Err(Invalid::new("transaction id", reason).into())
    }
}

/// The hash FNV-1a: the same in every version of the program.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds a text and its end.
    fn text(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn task(&mut self, task: &Task) {
        self.text(task.kind.as_str());
        self.text(task.props.as_str());
        self.text(&task.priority.to_string());
        for (label, value) in &task.labels {
            self.text(label);
            self.text(value);
        }
        let retry = serde_json::to_string(&task.retry);
        self.text(&retry.unwrap_or_default());
        if let Some(waits) = &task.waits {
            self.text(if waits.ok { "after_ok" } else { "after" });
            waits.tasks.iter().for_each(|id| self.text(id.as_str()));
        }
        // Without the times, which a program that repeats a transaction may compute again.
        if let Some(terms) = task.terms() {
            let terms = Terms {
                start_by: None,
                end_by: None,
                ..terms
            };
            self.text(&serde_json::to_string(&terms).unwrap_or_default());
        }
    }

    fn command(&mut self, command: &Command) {
        self.text(command.kind().as_str());
        if !matches!(command, Command::Sleep { .. }) {
            self.text(&serde_json::to_string(command).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{
        CommandId, Limit, Retry, TransactionId, Waits, message::SendCommand,
    };

    use super::*;
    use crate::store::{IfExists, Require, Reschedule, Submit};

    fn send(id: &str, command: Command) -> SendCommand {
        SendCommand {
            task: "a".parse().unwrap(),
            id: CommandId::new(id).unwrap(),
            command,
        }
    }

    fn submit(props: i64) -> Submit {
        let mut task = Task::new("a".parse().unwrap(), "k".parse().unwrap());
        task.props = serde_json::json!(props).into();
        let if_exists = IfExists::Refuse;
        Submit { task, if_exists }
    }

    #[test]
    fn it_stands_for_what_a_transaction_changes() {
        let new = || Transaction::new().with_id(TransactionId::new("t").unwrap());
        let id = || "a".parse().unwrap();
        let until = |second| Command::Sleep {
            until: jiff::Timestamp::from_second(second).unwrap(),
        };
        let all = [
            new().delete(id()),
            new().retry(id()),
            new().delete("b".parse().unwrap()),
            new().delete(id()).require(id(), Require::Exists),
            new().delete(id()).require(id(), Require::Version(1)),
            new().submit(submit(1)),
            new().submit(submit(2)),
            new().send(send("c", Command::Pause)),
            new().send(send("c", until(1))),
            new().reschedule(Reschedule::new(id()).priority(1)),
            new().reschedule(Reschedule::new(id()).priority(2)),
            new().reschedule(Reschedule::new(id()).priority(2).limits([])),
            new().reschedule(Reschedule::new(id()).limits([Limit::at_once("k", 1).unwrap()])),
            new().reschedule(Reschedule::new(id()).limits([Limit::at_once("k", 2).unwrap()])),
        ];
        for (n, one) in all.iter().enumerate() {
            for (m, other) in all.iter().enumerate() {
                let checked = one.check_repeats(Some(&other.fingerprint()));
                assert_eq!(checked.is_ok(), n == m, "{one:?} {other:?}");
            }
            assert!(one.check_repeats(None).is_ok());
        }
        let again = new().send(send("d", until(2)));
        assert!(again.check_repeats(Some(&all[8].fingerprint())).is_ok());
        let refused = all[0].check_repeats(Some("0")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "transaction id: 't' was applied with other operations or guards; give each transaction an id of its \
             own"
        );
    }

    #[test]
    fn every_field_of_a_submit_counts_but_its_times() {
        type Change = fn(&mut Submit);
        let of = |change: Change| {
            let mut submit = submit(1);
            change(&mut submit);
            Transaction::new().submit(submit).fingerprint()
        };
        let same = of(|_| {});
        let changes: [Change; 7] = [
            |s| s.task.priority = 1,
            |s| drop(s.task.labels.insert("team".into(), "a".into())),
            |s| s.task.retry = Some(Retry::Never),
            |s| s.task.waits = Waits::new("after", ["b"]).ok().map(Box::new),
            |s| s.task.waits = Waits::new("after", ["b", "c"]).ok().map(Box::new),
            |s| s.task.waits = Waits::new("after", ["b"]).ok().map(|w| Box::new(w.ok())),
            |s| s.if_exists = IfExists::Skip,
        ];
        let mut found: Vec<String> = changes.into_iter().map(of).collect();
        found.push(same.clone());
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 8, "two are equal");
        assert_eq!(of(|s| s.task.start_at = Some(jiff::Timestamp::MAX)), same);
    }
}
