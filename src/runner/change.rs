//! Changes of a running node: its slots, its kinds and its labels.

use tokio::sync::oneshot;
use windlass_statemachine::{Invalid, Kind, task::Labels};

use super::{
    config::{KindConfig, MAX_SLOTS},
    control::{Change, ChangeRequest, Control},
    kinds::KindEntry,
    node::Runner,
};
use crate::{
    handler::{MissingState, StatefulHandler, Typed},
    job::Job,
    store::model::data_versions::check_data_version,
};

/// Why a running node was not changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The change is invalid; the error names the field. The node is unchanged.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The new handler needs a shared value that the node does not have ([`KindConfig::needs_state`]). Shared
    /// values can only be set before a node starts.
    #[error("could not add the handler of '{kind}': {missing}")]
    MissingState {
        /// The kind of the handler.
        kind: Kind,
        /// The type of the value.
        missing: MissingState,
    },
    /// The node has stopped.
    #[error("could not change the node: it has stopped; start another one")]
    Stopped,
}

/// # Changes while the node runs
///
/// A node can change its slots, its kinds and its labels without a restart. The node reports each change to the
/// store at once, so that `windlass nodes` and the other nodes see it, even after the node has joined again with
/// another lease. While the store does not respond, the node applies the change, and keeps trying to report it.
///
/// | to | call |
/// |---|---|
/// | finish the running tasks of a kind, and start no more | [`set_capacity`](Self::set_capacity) with 0 |
/// | hand the tasks of a kind over to other nodes | [`remove_kind`](Self::remove_kind) |
/// | start no task of any kind | [`freeze`](Self::freeze) |
/// | hand all tasks over | [`drain`](Self::drain) |
impl Runner {
    /// Sets how many handlers run at once on this node: 0 to 1,000,000. A lower number stops no handler: the node
    /// starts no task until enough handlers have returned.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]: the number is too large, or the node has stopped.
    pub async fn set_slots(&self, slots: u32) -> Result<(), ChangeError> {
        check("slots", slots)?;
        self.change(Change::Slots(slots)).await
    }

    /// Sets how many handlers of one kind run at once on this node: 0 to 1,000,000, within the slots of the node. A
    /// lower number stops no handler. With 0 the node starts no task of the kind, and running tasks continue until
    /// they return. As on a node whose slots are all in use, a task with a command (such as a kill) is still
    /// claimed, so that the command takes effect.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]: the number is too large, the node has no handler for the kind, the kind is built in
    /// (schedules), or the node has stopped.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{KindConfig, Message, Runner, TaskContext, store::Store};
    ///
    /// # #[tokio::main] async fn main() -> Result<(), windlass::BoxError> {
    /// let store = Store::open("memory:").await?;
    /// let done = |_: TaskContext| async { Message::complete() };
    /// let runner = Runner::builder(&store).handler("poll", done).start().await?;
    /// runner.set_capacity("poll", 0).await?;
    /// runner.add_handler("sync", KindConfig::default().slots(4), done).await?;
    /// runner.remove_kind("poll").await?;
    /// runner.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub async fn set_capacity(&self, kind: impl AsRef<str>, slots: u32) -> Result<(), ChangeError> {
        check("slots of a kind", slots)?;
        let kind = Kind::new(kind)?;
        self.change(Change::SlotsOf(kind, slots)).await
    }

    /// Adds the handler of a kind. Its tasks are claimed as soon as the node has listed the tasks again.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]: the kind already has its own handler, the settings are invalid, or the node has stopped.
    pub async fn add_handler(
        &self,
        kind: impl AsRef<str>,
        config: KindConfig,
        handler: impl StatefulHandler,
    ) -> Result<(), ChangeError> {
        let kind = Kind::new(kind)?;
        let entry = KindEntry::new(config, handler);
        check_data_version(entry.config.writes_version())?;
        check("slots of a kind", entry.config.slots.unwrap_or_default())?;
        if let Err(missing) = self.shared.has(&entry.config.needs) {
            return Err(ChangeError::MissingState { kind, missing });
        }
        self.change(Change::Add(kind, entry)).await
    }

    /// Adds the handler of a typed kind, like [`add_handler`](Self::add_handler).
    ///
    /// # Errors
    ///
    /// The errors of [`add_handler`](Self::add_handler).
    pub async fn add_job<J: Job, M: 'static>(
        &self,
        config: KindConfig,
        handler: impl StatefulHandler<J, M>,
    ) -> Result<(), ChangeError> {
        let config = config.data_version(J::DATA_VERSION);
        self.add_handler(J::KIND, config, Typed::new(handler)).await
    }

    /// Removes the handler of a kind, and hands its tasks over: asks each of its handlers to release its task, and
    /// aborts a handler at the end of the grace of the kind ([`KindConfig::stop_grace`]). Other nodes run the
    /// tasks, without a lost attempt. Returns when no handler of the kind runs here. If the node has a default
    /// handler, that handler runs tasks of the kind from then on.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]: the kind has no handler of its own, the kind is built in (schedules), or the node has stopped.
    pub async fn remove_kind(&self, kind: impl AsRef<str>) -> Result<(), ChangeError> {
        let kind = Kind::new(kind)?;
        self.change(Change::Remove(kind)).await
    }

    /// Replaces the labels that tasks must have for this node ([`Builder::select`](super::Builder::select)).
    /// Running tasks without the labels continue; the node claims no more of them.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Stopped`].
    pub async fn set_labels(&self, labels: Labels) -> Result<(), ChangeError> {
        self.change(Change::Labels(labels)).await
    }

    async fn change(&self, change: Change) -> Result<(), ChangeError> {
        let (done, changed) = oneshot::channel();
        self.request(Control::Change(ChangeRequest { change, done }));
        let changed = changed.await.map_err(|_| ChangeError::Stopped)?;
        Ok(changed?)
    }
}

fn check(field: &'static str, slots: u32) -> Result<(), Invalid> {
    if slots > MAX_SLOTS {
        let reason = format!("{slots} is not from 0 to {MAX_SLOTS}");
        return Err(Invalid::new(field, reason));
    }
    Ok(())
}
