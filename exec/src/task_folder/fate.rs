//! [`Fate`]: whether the task of a folder on this machine still exists.

use windlass::{
    Client, StateKind, TaskId,
    store::{Error, Filter, Page, TaskRecord},
};

use super::name::decode;

/// What a folder needs to know about its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The task exists and has not completed.
    Kept,
    /// The task has completed.
    Completed,
    /// The store no longer has the task.
    Gone,
}

impl Fate {
    /// Returns the fate of the task with this submit order. `record` is what the store has under
    /// its id.
    fn of(record: Option<&TaskRecord>, order: u64) -> Self {
        match record.filter(|record| record.order == order) {
            None => Self::Gone,
            Some(record) => match &record.state {
                Ok(state) if state.code() == StateKind::Completed => Self::Completed,
                _ => Self::Kept,
            },
        }
    }

    /// Asks the store for the task with this id and submit order. Returns `None` when the store does
    /// not answer.
    pub(crate) async fn ask(client: &Client, id: &TaskId, order: u64) -> Option<Self> {
        match client.get(id).await {
            Ok(record) => Some(Self::of(Some(&record), order)),
            Err(Error::NotFound { .. }) => Some(Self::Gone),
            Err(_) => None,
        }
    }

    /// Asks the store for the task that the name of a folder (`ID@ORDER`) stands for. Returns `None`
    /// when the store does not answer, and for other names.
    pub(crate) async fn ask_by_name(client: &Client, name: &str) -> Option<Self> {
        let (id, order) = name.rsplit_once('@')?;
        let order: u64 = order.parse().ok().filter(|order| *order > 0)?;
        if let Some(id) = decode(id) {
            return Self::ask(client, &id, order).await;
        }
        // The id was too long for a folder name, but the order identifies the task.
        let page = Page::new(1).after(order - 1);
        let listed = client.list(&Filter::default(), page).await.ok()?;
        Some(Self::of(listed.first(), order))
    }
}
