//! [`Copied`]: the mark in a store that was copied; [`Outside`]: what a copy cannot include.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use crate::store::model::Copied;
#[cfg(any(feature = "sqlite-system", feature = "etcd"))]
use crate::store::{
    Advice, Remedy,
    examine::{Finding, Verdict},
};
use crate::store::{Error, NodeCommand, Operation, Transaction};

impl Copied {
    /// Returns the error of a call that the mark refuses.
    pub(crate) fn refusal(&self) -> Error {
        Error::Copied(self.clone())
    }

    /// Returns the finding about the mark of a store; `None` for a store without one.
    #[cfg(any(feature = "sqlite-system", feature = "etcd"))]
    pub(crate) fn finding(mark: Result<Option<Self>, Error>) -> Option<Finding> {
        let advice = "use that store; without the mark of the copy, both stores run the same tasks";
        let advice = Advice::new(advice, Remedy::UseCopied);
        let found = match mark {
            Ok(None) => return None,
            Ok(Some(mark)) => {
                format!("this store was {mark}, and accepts no tasks, commands and nodes")
            }
            Err(error) => error.to_string(),
        };
        Some(Finding::new("copied", Verdict::Warning, found, advice))
    }

    /// Checks a change of tasks against the mark of a store: only deletes pass.
    ///
    /// # Errors
    ///
    /// [`Error::Copied`].
    pub(crate) fn check(mark: Option<&Self>, transaction: &Transaction) -> Result<(), Error> {
        let mut operations = transaction.operations().iter();
        match mark {
            Some(mark) if !operations.all(|one| matches!(one, Operation::Delete(_))) => {
                Err(mark.refusal())
            }
            _ => Ok(()),
        }
    }

    /// Like [`check`](Self::check), for a command to a node: none resumes work.
    ///
    /// # Errors
    ///
    /// [`Error::Copied`].
    pub(crate) fn check_node(mark: Option<&Self>, command: &NodeCommand) -> Result<(), Error> {
        match command {
            NodeCommand::Unfreeze => Self::refuse(mark),
            _ => Ok(()),
        }
    }

    /// Like [`check`](Self::check), for an import or a new node.
    ///
    /// # Errors
    ///
    /// [`Error::Copied`].
    pub(crate) fn refuse(mark: Option<&Self>) -> Result<(), Error> {
        mark.map_or(Ok(()), |mark| Err(mark.refusal()))
    }
}

/// An operation that is committed in a store but belongs to no task: a row of the
/// [inbox](crate::store::sqlite::inbox) of a file, or a task whose id cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Outside {
    /// A description: `row 7 of windlass_inbox`.
    pub what: String,
    /// Why it was refused, or cannot be read; `None` while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whether it is a task with an unreadable id.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_task: bool,
    /// When it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_at: Option<Timestamp>,
}

impl Outside {
    /// Returns a pending operation, with a description for operators.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            refused: None,
            is_task: false,
            refused_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{IfExists, Submit};

    #[test]
    fn a_mark_refuses_all_but_deletes() {
        let mark = Copied::new("sqlite:/b.db", "2030-01-01T00:00:00.5Z".parse().unwrap());
        let id: windlass_statemachine::TaskId = "a".parse().unwrap();
        let task = windlass_statemachine::Task::new(id.clone(), "k".parse().unwrap());
        let if_exists = IfExists::Refuse;
        let submit = Operation::Submit(Submit { task, if_exists });
        let delete = || Transaction::from(Operation::Delete(id.clone().into()));
        assert!(Copied::check(Some(&mark), &delete()).is_ok());
        assert!(Copied::check(None, &submit.clone().into()).is_ok());
        for transaction in [submit.clone().into(), delete().with(submit)] {
            let error = Copied::check(Some(&mark), &transaction).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Copied(_)), "{text}");
            assert!(
                text.contains("copied to 'sqlite:/b.db' at 2030-01-01T00:00:00Z"),
                "{text}"
            );
            assert!(text.contains("remove the mark"), "{text}");
        }
        assert!(Copied::refuse(Some(&mark)).is_err() && Copied::refuse(None).is_ok());
        assert!(Copied::check_node(Some(&mark), &NodeCommand::Unfreeze).is_err());
        assert!(Copied::check_node(Some(&mark), &NodeCommand::Drain).is_ok());
    }
}
