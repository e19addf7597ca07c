//! [`Registry`]: what a client asks of a store.

use std::pin::Pin;

#[cfg(doc)]
use super::AUDIT_RETENTION;
use async_trait::async_trait;
use futures::Stream;
use windlass_statemachine::{
    Author, CommandId, Delete, NodeName, RetryTask, TaskId, message::SendCommand,
};

use super::{
    Applied, AuditEntry, Change, CommandRecord, Doctor, Error, Filter, LimitUse, Limits,
    NodeCommand, NodeCommandId, NodeRecord, Operation, Order, Page, Purge, Span, Submit, Submitted,
    TaskCount, TaskRecord, TaskStats, Transaction, Transfer, rules,
};
use crate::clock::{Clock, SystemClock};

/// A stream of batches of changes. An error means that the history before the next change is gone
/// (pruned): what happened meanwhile has to be listed.
pub type ChangeStream = Pin<Box<dyn Stream<Item = Result<Vec<Change>, Error>> + Send>>;

/// The tasks of one namespace, as clients see and change them.
///
/// # Stability
///
/// Unstable: methods, duties and fields may change in each minor version ([stability](crate#stability)).
/// Pin the version (`windlass = "=X.Y.Z"`) and run the conformance suite at each update.
///
/// # Duties of an implementation
///
/// 1. **Acknowledged is durable**, and reaches the watches of the nodes.
///    Cases: `submit::submits_are_durable`, `commands::commands_are_durable`,
///    `durability::deletions_are_durable`, `durability::retries_are_durable`,
///    `durability::purges_are_durable`, `durability::imports_are_durable`,
///    `durability::node_commands_are_durable`.
/// 2. **Items are independent**: one that fails does not touch the others; answers come in the
///    order of the items, also when two items name the same task. Such items happen one after the
///    other.
///    Cases: `submit::a_bad_item_does_not_touch_the_others`, `submit::two_items_with_one_id`,
///    `submit::one_id_twice_follows_each_rule`, `commands::items_are_independent`,
///    `commands::one_id_twice_in_one_call_is_one_command`, `ends::deletions_are_independent`,
///    `ends::one_id_twice_is_retried_once`, `moving::one_id_twice_is_imported_once`.
/// 3. **Ids are taken.** A new task is runnable, or sleeps until its start. A submit of an id that
///    is taken follows its [`IfExists`](super::IfExists).
///    Cases: `submit::a_new_task_is_runnable`, `submit::a_future_start_sleeps`,
///    `submit::a_past_start_is_runnable`, `submit::a_live_id_is_refused`,
///    `submit::an_ended_id_is_refused`, `submit::the_same_task_exists`,
///    `submit::another_task_is_not_the_same`, `submit::props_are_compared_as_values`,
///    `submit::a_replacement_has_nothing_of_the_old`,
///    `registry::a_task_submitted_again_has_another_order`, `quarantine::the_same_submit_reports_it`,
///    `transactions::a_taken_id_is_skipped`,
///    `quarantine::an_ended_task_stays_ended`.
/// 4. **Tasks survive.** Every field of a task comes back as it was submitted, numbers digit by
///    digit.
///    Cases: `submit::large_integers_survive`, `submit::every_field_survives`.
/// 5. **Commands queue.** None replaces another; they get growing orders, and a command whose id is
///    known already is the same command (for the same task; else [`Error::Invalid`]). A command
///    waits for an owner and is kept with its outcome as long as its task.
///    Cases: `commands::commands_queue_in_order`, `commands::orders_grow_across_retries`,
///    `commands::the_same_id_is_the_same_command`, `commands::a_known_id_is_known_after_its_time`,
///    `commands::an_id_of_another_task_is_refused`, `commands::commands_survive_a_change_of_owner`,
///    `commands::no_command_hits_a_later_task`, `commands::unknown_commands_are_not_found`,
///    `signals::a_payload_survives`, `signals::a_signal_makes_a_parked_task_claimable`,
///    `signals::bad_signals_are_refused`.
/// 6. **Unreadable records are listed**: a task whose record cannot be read is listed and counted,
///    with the reason.
///    Cases: `quarantine::it_stays_listed_with_the_reason`, `quarantine::counts_include_it`,
///    `quarantine::an_unreadable_envelope_is_quarantined`.
/// 7. **Lists are exact.** A list has every matching task once, in submit order, page by page, with
///    its owner and queue. Counts agree with it. Limits are those of the coordinator.
///    Cases: `registry::unknown_tasks_are_not_found`, `registry::pages_are_in_submit_order`,
///    `registry::pages_of_a_filter_are_full`, `registry::a_page_of_no_size_is_refused`,
///    `registry::filters_select_matching_tasks`, `registry::a_prefix_is_no_pattern`,
///    `registry::counts_are_by_kind_and_state`, `counts::every_change_is_counted`,
///    `counts::what_is_available_is_counted`, `registry::a_record_shows_owner_and_queue`,
///    `registry::limits_are_the_same`, `pages::the_newest_submits_come_first`,
///    `pages::pages_are_stable_while_tasks_come_and_go`, `pages::a_list_by_due_time_has_the_sleeping_tasks`,
///    `pages::a_list_by_end_has_the_last_end_first`,
///    `pages::a_list_by_end_follows_what_becomes_of_ended_tasks`,
///    `pages::a_filter_by_fingerprint_selects_the_same_error`,
///    `pages::a_list_by_id_is_in_the_order_of_the_ids`, `pages::filters_by_ids_times_and_props`,
///    `pages::an_unreadable_task_ends_no_list`.
/// 8. **Deleted is gone.** A task is deleted with all that belongs to it, and no other task is touched. A claimed one
///    is deleted with its claim, by a forced deletion only. A purge deletes the oldest tasks that ended in one of the states, and
///    no others. It spares those that a live task waits for.
///    Cases: `rescheduling::a_claimed_task_is_deleted_by_force_only`, `ends::deleting_one_leaves_its_neighbours`,
///    `ends::deleting_ends_the_claim`,
///    `ends::a_deleted_id_is_free`, `ends::purge_deletes_only_matching_tasks`,
///    `spared::a_purge_spares_what_a_waiting_task_names`.
/// 9. **Retries.** A retry starts an ended task, or one whose state cannot be read, in a new
///    incarnation, and no live or claimed one. It never replaces an envelope that cannot be read. A
///    quarantined task whose record can be read again goes on in its incarnation. Every retry writes the
///    next version.
///    Cases: `ends::a_retry_starts_again`, `ends::a_retry_forgets_the_result`,
///    `ends::a_live_task_is_not_retried`, `rescheduling::a_retry_takes_other_props_and_data`,
///    `quarantine::a_retry_starts_it_from_its_props`,
///    `quarantine::a_retry_of_an_unreadable_envelope_is_refused`,
///    `quarantine::a_claimed_task_is_not_retried`,
///    `quarantine::a_retry_goes_on_counting`, `quarantine::one_that_can_be_read_again_goes_on`,
///    `quarantine::it_can_be_deleted`.
/// 10. **Nodes.** Live nodes are listed with what they reported last. A command for a node that does
///     not live is refused, and one that waits ends with its node.
///     Cases: `leases::nodes_are_listed`, `leases::a_dead_node_takes_no_commands`.
/// 11. **History.** The history of a task and the stream of changes have every change once, in
///     order. A cursor whose history is pruned, or that is beyond the end, is refused with
///     [`Error::Invalid`] (field `after`).
///     Cases: `changes::the_history_of_a_task`, `changes::a_limit_means_the_last`,
///     `changes::changes_from_now_on`, `changes::changes_go_on_after_one`,
///     `changes::changes_from_the_beginning`, `changes::followers_do_not_take_from_each_other`,
///     `changes::pruned_history_is_refused`, `changes::a_cursor_beyond_the_end_is_refused`,
///     `quarantine::each_quarantine_is_in_the_history`.
/// 12. **Errors** are made by the constructors of [`Error`], so that an operator reads the same
///     sentence on every store.
///     Cases: `registry::errors_read_the_same`.
/// 13. **Transactions are all or nothing**: every operation is applied in one durable step that the
///     watches report, or none. A refusal lists every guard and operation that is refused, with its reason.
///     Guards see the store as it is before the operations.
///     Cases: `transactions::every_operation_is_applied`,
///     `transactions::one_refusal_leaves_everything_as_it_was`,
///     `transactions::each_refusal_names_its_operation`, `guards::guards_hold_or_refuse`,
///     `guards::guards_see_the_state_before_the_operations`,
///     `rescheduling::guards_alone_are_answered`,
///     `transactions::transactions_are_independent`, `transactions::watches_report_every_task`,
///     `transactions::transactions_are_durable`, `waits::a_circle_is_refused`.
/// 14. **Transactions happen once.** A transaction whose id was applied changes nothing and returns the
///     result of the first time, for at least one hour. A refused one is decided again.
///     Cases: `transactions::a_repeated_id_has_no_further_effect`,
///     `transactions::a_refused_id_is_decided_again`,
///     `transactions::an_id_of_another_transaction_is_refused`,
///     `transactions::retention_does_not_forget_a_transaction`.
/// 15. **The form of a transaction is checked first**: at most one operation for each task, and no more
///     operations and guards than [`Limits::max_operations`].
///     Cases: `transactions::one_task_twice_is_refused`, `transactions::the_limit_is_named`.
/// 16. **Reschedule** changes the due time of a runnable or sleeping task, and the priority, the kind, the limits, the
///     data and the props of a live one, if no node has claimed the task. It writes the next version. The watches
///     of a node that lists the old kind deliver [`Event::Gone`](super::Event::Gone), those of the new kind the task.
///     Cases: `transactions::an_unclaimed_task_is_rescheduled`,
///     `transactions::other_tasks_are_not_rescheduled`, `lines::a_reschedule_changes_the_limits`,
///     `rescheduling::a_task_gets_another_kind`, `rescheduling::watches_follow_the_kind`,
///     `rescheduling::waiters_follow_the_kind`, `rescheduling::a_reschedule_writes_the_next_version`,
///     `rescheduling::props_are_replaced`, `rescheduling::a_schedule_keeps_its_kind`.
/// 17. **Unique keys.** While a task has a unique key ([`Unique`](windlass_statemachine::Unique)), a submit of
///     another task with the key does what it does when its id is taken; [`Error::NotUnique`] is the refusal,
///     [`Submitted::Other`] the result for a task that counts as there. A task has its key for the period
///     from its submit on, and at most as long as its record exists. A period that would end much later than its
///     length from now began by a clock that was ahead, and is over.
///     Cases: `unique::a_taken_key_is_refused`, `unique::the_same_task_is_that_with_the_key`,
///     `unique::the_id_is_decided_first`, `unique::an_ended_task_loses_its_key_to_a_replacement`,
///     `unique::a_deleted_task_has_no_key`, `unique::a_key_is_free_after_its_period`,
///     `unique::a_key_of_a_clock_that_was_ahead_is_free`,
///     `unique::a_transaction_takes_a_key_once`, `unique::effects_follow_the_keys`,
///     `unique::keys_are_durable`, `unique::a_moved_task_has_its_key`.
/// 18. **Limits in use** are listed while a claim has a slot of them or a task waits in their line, with the
///     number of each.
///     Cases: `usage::the_limits_in_use_are_listed`.
/// 19. **Authors.** A change that a transaction makes names the author of the transaction, and so does a command that
///     it sends. A change that the effects of a message make names the task ([`Author::task`]). The history of the
///     namespace has each deletion, purge and command to a node, with its author, and is as durable as these. The
///     change of a deletion may lack its author.
///     Cases: `authors::each_change_names_its_author`, `authors::effects_are_by_their_task`,
///     `authors::what_leaves_no_task_is_in_the_history_of_the_namespace`,
///     `authors::a_refused_transaction_leaves_no_line`, `authors::authors_are_durable`,
///     `authors::a_moved_task_has_its_authors`.
#[async_trait]
pub trait Registry: Send + Sync + 'static {
    /// Returns the name of this kind of store, as errors show it: `SQLite`.
    fn name(&self) -> &str;

    /// Returns the part that exports and imports whole tasks; `None` when the store lacks it.
    fn transfer(&self) -> Option<&dyn Transfer> {
        None
    }

    /// Returns the part that examines the store; `None` when the store lacks it.
    fn doctor(&self) -> Option<&dyn Doctor> {
        None
    }

    /// What it takes at the most.
    fn limits(&self) -> Limits;

    /// The identity of this namespace: 16 to 64 lower-case letters and digits, which can stand in
    /// the name of a file. Where something is kept beside a store, it is found by this, since the same
    /// store has many names (another order of endpoints, a link to a file) and the same name may
    /// stand for one store after another.
    ///
    /// # Duties of an implementation
    ///
    /// 1. It is made at random with the namespace, or with the first call, and kept in it: every
    ///    process that opens the namespace, however it names it, reads the same.
    ///    Cases: `registry::a_namespace_has_one_identity_of_its_own`,
    ///    `registry::the_identity_is_durable`.
    /// 2. Another namespace has another one. What [`Transfer::import`] takes does not bring it.
    ///    Cases: `registry::a_namespace_has_one_identity_of_its_own`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn identity(&self) -> Result<String, Error>;

    /// Applies transactions. They are independent: one that is refused does not touch the others. Those
    /// that name the same task are applied in their order, and the results come in that order. Many of
    /// one call should become one write.
    ///
    /// # Errors
    ///
    /// Per transaction:
    ///
    /// | operation | errors |
    /// |---|---|
    /// | submit | [`Error::Invalid`], [`Error::TooLarge`], [`Error::AlreadyExists`], [`Error::AlreadyFinished`]; [`Error::Corrupt`] for the same task ([`IfExists::Same`](super::IfExists::Same)) whose state cannot be read |
    /// | send | [`Error::NotFound`], [`Error::AlreadyFinished`], [`Error::Invalid`], [`Error::TooLarge`] |
    /// | delete | [`Error::NotFound`]; [`Error::Claimed`] for a claimed task, unless the operation is forced |
    /// | retry | [`Error::NotFound`], [`Error::Invalid`] (field `state`) for a live task |
    /// | any | [`Error::Unavailable`] |
    ///
    /// A transaction that is more than one operation without an id
    /// ([`into_single`](Transaction::into_single)), a reschedule, and a retry with other data or props, is refused
    /// with:
    ///
    /// - [`Error::Refused`]: every guard and operation that is refused, with its reason.
    /// - [`Error::Invalid`] (field `operations`): no operation, more operations and guards than
    ///   [`Limits::max_operations`], or two operations on one task.
    /// - [`Error::Invalid`] (field `transaction id`): the id was that of another transaction.
    async fn apply(&self, transactions: Vec<Transaction>) -> Vec<Result<Applied, Error>>;

    /// A command and its outcome. It is kept as long as its task.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn command(&self, id: &CommandId) -> Result<CommandRecord, Error>;

    /// The commands of a task, in order, those that have an outcome included.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn commands(&self, task: &TaskId) -> Result<Vec<CommandRecord>, Error>;

    /// One task.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn get(&self, id: &TaskId) -> Result<TaskRecord, Error>;

    /// Lists the tasks that the filter selects, in submit order.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a page of no size, [`Error::Unavailable`].
    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<TaskRecord>, Error>;

    /// Returns the order of a list with the newest tasks first that costs what the list returns: by submit, or by id on a
    /// store whose one index is that of the ids.
    fn order_of_newest(&self) -> Order {
        Order::Submitted
    }

    /// Returns the tasks of a span that the filter selects: those of a page of [`Client::page`](crate::Client::page).
    ///
    /// The default reads every matching task by [`list`](Self::list). A store with an index of an order reads what it
    /// returns.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn span(&self, filter: &Filter, span: Span) -> Result<Vec<TaskRecord>, Error> {
        rules::list::span_of_list(span, |page| self.list(filter, page)).await
    }

    /// How many tasks there are by kind and state.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn counts(&self) -> Result<Vec<TaskCount>, Error>;

    /// Returns how many tasks there are, by what decides whether a node claims them.
    ///
    /// The default reads every task by [`list`](Self::list), at the clock of the operating system. A store that keeps
    /// counts reads these, and returns `true` from [`keeps_counts`](Self::keeps_counts).
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn stats(&self) -> Result<TaskStats, Error> {
        let mut counter = rules::stats::Counter::new(SystemClock.now());
        let mut page = Page {
            after: 0,
            limit: 10_000,
        };
        loop {
            let records = self.list(&Filter::default(), page).await?;
            let Some(last) = records.last() else {
                return Ok(counter.into_stats(true));
            };
            page.after = last.order;
            records.iter().for_each(|record| counter.take(record));
        }
    }

    /// Returns whether [`stats`](Self::stats) costs the same however many tasks there are. Nodes set the gauges of the
    /// namespace only then.
    fn keeps_counts(&self) -> bool {
        false
    }

    /// Returns the limits that tasks use at present, by key. It reads what has a slot or waits for one, and not
    /// every task, where the store keeps the lines.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn limits_in_use(&self) -> Result<Vec<LimitUse>, Error>;

    /// Deletes ended tasks, oldest first, and returns how many. A task that a live task waits for at that time stays,
    /// and does not count. The history of the namespace gets one line, unless no task was deleted.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn purge(&self, purge: &Purge) -> Result<u64, Error>;

    /// Returns the history of the namespace, oldest first: at most the last `limit` lines. It has every deletion of a
    /// task, every purge and every command to a node of the last [`AUDIT_RETENTION`], but what retention deletes on
    /// its own.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, Error>;

    /// Returns the error of a node that joins at present; `None`, the default, when nodes may join.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn no_node_may_join(&self) -> Result<Option<Error>, Error> {
        Ok(None)
    }

    /// The nodes that live.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn nodes(&self) -> Result<Vec<NodeRecord>, Error>;

    /// Sends a command to a node on behalf of an author, and returns its order.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when no live node has that name, [`Error::Unavailable`].
    async fn send_node(
        &self,
        node: &NodeName,
        command: NodeCommand,
        by: Option<&Author>,
    ) -> Result<NodeCommandId, Error>;

    /// What a node answered to the command of this order; `None` while it waits.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when there is no such command (or its node is gone and took it along),
    /// [`Error::Unavailable`].
    async fn node_outcome(&self, command: NodeCommandId) -> Result<Option<String>, Error>;

    /// The history of one task, oldest first, as far back as it is kept; at most the last `limit`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    async fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error>;

    /// What happens from now on (`None`), or after the change with this `seq`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `after`) when the history after it is not kept any more,
    /// [`Error::Unavailable`].
    async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error>;

    /// Submits tasks, each in a transaction of its own. Implementations leave this and the next three
    /// as they are: they call [`apply`](Self::apply).
    ///
    /// # Errors
    ///
    /// Per task: those of [`Operation::Submit`], as [`apply`](Self::apply) has them.
    async fn submit(&self, tasks: Vec<Submit>) -> Vec<Result<Submitted, Error>> {
        let answers = self.apply(each(tasks, Operation::Submit)).await;
        let submitted = |answer: Result<Applied, Error>| answer?.submitted();
        answers.into_iter().map(submitted).collect()
    }

    /// Sends commands, each in a transaction of its own, and returns their orders.
    ///
    /// # Errors
    ///
    /// Per command: those of [`Operation::Send`].
    async fn send(&self, commands: Vec<SendCommand>) -> Vec<Result<u64, Error>> {
        let answers = self.apply(each(commands, Operation::Send)).await;
        let sent = |answer: Result<Applied, Error>| answer?.sent();
        answers.into_iter().map(sent).collect()
    }

    /// Deletes tasks that no node has claimed, each in a transaction of its own.
    ///
    /// # Errors
    ///
    /// Per task: those of [`Operation::Delete`].
    async fn delete(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let tasks = ids.into_iter().map(Delete::new).collect();
        let answers = self.apply(each(tasks, Operation::Delete)).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }

    /// Retries tasks, each in a transaction of its own.
    ///
    /// # Errors
    ///
    /// Per task: those of [`Operation::Retry`].
    async fn retry(&self, ids: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let tasks = ids.into_iter().map(RetryTask::new).collect();
        let answers = self.apply(each(tasks, Operation::Retry)).await;
        answers.into_iter().map(|answer| answer.map(drop)).collect()
    }
}

fn each<T>(items: Vec<T>, operation: fn(T) -> Operation) -> Vec<Transaction> {
    let operations = items.into_iter().map(operation);
    operations.map(Transaction::from).collect()
}
