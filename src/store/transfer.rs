//! [`Transfer`]: moves tasks with everything that belongs to them from one store to another.

use std::path::Path;

use async_trait::async_trait;
use windlass_statemachine::TaskId;

use super::{
    Error, Exported, Moment,
    copy::{Backup, Copied, Outside},
};

/// The part of a store that exports and imports whole tasks. A store may lack it
/// ([`Registry::transfer`](super::Registry::transfer)).
///
/// # Stability
///
/// Unstable: methods, duties and fields may change in each minor version ([stability](crate#stability)).
/// Pin the version (`windlass = "=X.Y.Z"`) and run the conformance suite at each update.
#[async_trait]
pub trait Transfer: Send + Sync + 'static {
    /// Returns the id of every task, in submit order. Claims with an expired lease are ended first.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn ids(&self) -> Result<Vec<TaskId>, Error>;

    /// Returns up to `limit` operations that are committed in the store but not applied to a task
    /// yet, so that [`export`](Self::export) does not include them. Empty by default.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn outside(&self, limit: u32) -> Result<Vec<Outside>, Error> {
        let _ = limit;
        Ok(Vec::new())
    }

    /// Returns the mark that a copy of this store has left; `None` for a store that is in use.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    async fn copied(&self) -> Result<Option<Copied>, Error>;

    /// Sets the mark of a copy, or removes it.
    ///
    /// # Duties of an implementation
    ///
    /// 1. **A copied store is at rest.** While the mark is set, submits, commands, retries, reschedules, imports,
    ///    new nodes and the node command [`Unfreeze`](super::NodeCommand::Unfreeze) are refused with [`Error::Copied`].
    ///    Everything works again once the mark is removed. Reads, exports and deletes still work. A process that opened
    ///    the store before may notice the mark late, if checking it would need an extra request with each call. Cases:
    ///    `copies::a_copied_store_takes_no_tasks_and_no_nodes`, `copies::what_changes_before_the_mark_is_reported`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Unusable`] for a store that cannot be written.
    async fn set_copied(&self, mark: Option<Copied>) -> Result<(), Error>;

    /// Returns the file of a store that is one file, by its canonical path. `None` by default.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// Writes a backup of the whole store, as it is at one moment, to a new file that only its owner can read. Other
    /// programs use the store in the meantime. Returns when the file is on the disk, under its name.
    ///
    /// The backup is a store with the mark of a copy ([`Copied::is_backup`](super::copy::Copied::is_backup)), so that no
    /// task runs in both. It has no nodes: claims of the time of the backup count as abandoned. Once its mark is
    /// removed ([`set_copied`](Self::set_copied)), it gives out greater fences than the store that was backed up, as long
    /// as the clock of the machine is right.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `file`) when the file exists, or its folder does not; [`Error::Unsupported`] from a store
    /// that is no file, with what to do instead; [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (file, copy) = (folder.path().join("tasks.db"), folder.path().join("backup.db"));
    /// let store = Store::open(&format!("sqlite:{}", file.display())).await?;
    /// Client::new(&store).submit(NewTask::new("mail").id("a")).await?;
    /// let backup = store.transfer()?.backup(&copy).await?;
    /// assert!(backup.bytes > 0);
    ///
    /// let restored = Store::open(&format!("sqlite:{}", copy.display())).await?;
    /// let client = Client::new(&restored);
    /// assert!(client.submit(NewTask::new("mail").id("b")).await.is_err());
    /// restored.transfer()?.set_copied(None).await?;
    /// client.submit(NewTask::new("mail").id("b")).await?;
    /// # Ok(()) }
    /// ```
    async fn backup(&self, to: &Path) -> Result<Backup, Error>;

    /// Returns the state of the store at one moment, for an export: every read of it returns the state of that moment,
    /// whatever is written meanwhile. Claims with an expired lease are ended first.
    ///
    /// # Duties of an implementation
    ///
    /// 1. **One moment.** Ids, nodes, claims and tasks are those of one state that the store had after the call began.
    ///    A store that can no longer read that state fails, and names the reason. Cases:
    ///    `moments::what_a_transaction_moves_is_exported_once`, `moments::a_moment_does_not_change`,
    ///    `moments::nodes_and_claims_are_those_of_the_moment`,
    ///    `moments::times_of_a_task_are_the_same_in_every_store`.
    /// 2. **Nothing waits for it.** The store accepts writes while the moment is read, and a moment that is dropped leaves
    ///    nothing behind. Cases: `moments::a_moment_does_not_change`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`], [`Error::Unavailable`].
    async fn moment(&self) -> Result<Moment, Error>;

    /// Exports tasks with everything that belongs to them, for [`import`](Self::import) into another
    /// store. A task that changes during the export may be exported in part, so it should have no
    /// owner, and no node should run. [`moment`](Self::moment) exports many tasks as they were at one moment.
    ///
    /// # Errors
    ///
    /// Per task: [`Error::NotFound`]; [`Error::Invalid`] (field `task`) for a claimed task;
    /// [`Error::Corrupt`] for a quarantined one; [`Error::Unavailable`].
    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>>;

    /// Imports tasks of another store, in this order: state, data, errors, due times, commands with
    /// their outcomes, and as much of the history as this store can keep.
    ///
    /// # Duties of an implementation
    ///
    /// 1. **All or nothing** per task: a task that can be read has everything that belongs to it.
    ///    The remains of an interrupted import do not count as a task, and a repeated import
    ///    overwrites them. A task with [`replaces`](Exported::replaces) replaces the task of that
    ///    submit order in the same step: when the import is refused or interrupted, the old task is
    ///    unchanged. When the id is free, nothing is replaced. Cases:
    ///    `moving::a_task_from_another_store_is_complete`,
    ///    `moving::a_task_for_another_store_is_complete`,
    ///    `copies::a_waiting_task_from_another_store_keeps_its_history`,
    ///    `copies::a_waiting_task_for_another_store_keeps_its_history`,
    ///    `moving::waiting_commands_go_on_waiting`, `moving::nodes_see_imported_tasks`,
    ///    `moving::a_taken_id_takes_nothing`, `moving::a_claimed_task_is_not_exported`,
    ///    `moving::a_task_that_is_too_large_is_refused`,
    ///    `moving::imported_ended_tasks_can_be_retried_and_purged`,
    ///    `replacing::an_import_takes_the_place_of_the_task_it_names`,
    ///    `replacing::a_refused_import_leaves_the_old_task`.
    /// 2. **Orders.** Tasks get submit orders in the order of the items, after those of existing
    ///    tasks; commands and history keep their order ([`Exported::renumbered`]). Cases:
    ///    `moving::imported_tasks_come_before_later_submits`.
    /// 3. **Fences grow.** The next claim of the task has a greater fence than the one in the
    ///    import; the state's version is kept.
    ///    Cases: `moving::fences_go_on_growing`, `moving::fences_grow_past_a_delete`,
    ///    `moving::a_lost_claim_counts_after_an_import`.
    ///
    /// # Errors
    ///
    /// Per task: [`Error::AlreadyExists`] and [`Error::AlreadyFinished`] when another task than the
    /// one that it replaces has its id, [`Error::Invalid`] (field `task`) when the replaced task is
    /// claimed, [`Error::Invalid`] (field `command id`) when the id of one of its commands exists
    /// already, [`Error::TooLarge`], [`Error::Unavailable`]; [`Error::Unusable`] from a store that
    /// accepts no imports.
    async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>>;
}
