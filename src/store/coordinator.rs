//! [`Coordinator`]: the part of a store that runners use.

use std::{pin::Pin, time::Duration};

use async_trait::async_trait;
use futures::Stream;
use windlass_statemachine::{Kind, NodeName, TaskId};

use super::{
    Claimed, Commit, Error, Event, Lease, Limits, LogWrite, NewWorker, NodeCommandId, NodeRecord,
    NodeSpec, NodeStatus, Speaker, WorkerRecord,
};

/// A stream of batches of events. It ends only when the lease has ended. It retries after a fault
/// of the store (with backoff), and then reports [`Event::Reset`] if it may have missed something.
pub type EventStream = Pin<Box<dyn Stream<Item = Vec<Event>> + Send>>;

/// Returns the error of a store that has no workers.
fn no_workers() -> Error {
    Error::unsupported("coordinator", "speak for remote workers")
}

/// Leases, claims, the watch and commits of one namespace.
///
/// # Stability
///
/// Unstable: methods, duties and fields may change in each minor version ([stability](crate#stability)).
/// Pin the version (`windlass = "=X.Y.Z"`) and run the conformance suite at each update.
///
/// # Duties of an implementation
///
/// 1. **One owner.** A task has at most one live claim. A fence is greater than that of every
///    earlier claim of the task, also across restarts and retries.
///    Cases: `fences::fences_only_grow`, `claims::a_claimed_task_is_not_claimed_again`,
///    `claims::many_claimers_have_one_winner`, `claims::claiming_again_returns_a_lost_claim`,
///    `claims::one_id_twice_is_claimed_twice`.
/// 2. **Fenced writes.** [`commit`](Self::commit) compares claim and write in one atomic step: a
///    claim that is not the live one changes nothing and gets [`Error::Fenced`]. When a lease has
///    ended, so have its claims. Cases: `fences::a_stale_owner_changes_nothing`,
///    `fences::a_claim_shuts_out_the_one_before`, `fences::a_stale_end_does_not_end_a_later_task`,
///    `fences::writes_of_a_deleted_task_do_not_reach_the_next`, `fences::a_released_claim_is_gone`,
///    `fences::a_claim_ends_with_its_lease`, `fences::a_forged_claim_is_fenced`,
///    `effects::a_stale_owner_has_no_effects`, `effects_on_tasks::a_stale_owner_changes_no_task`,
///    `effects_on_tasks::the_owner_of_a_deleted_task_is_fenced`.
/// 3. **Durable.** Acknowledged writes are durable (SQLite: synced; memory: while the process
///    lives). Cases: `commits::commits_are_durable`, `durability::joins_are_durable`,
///    `durability::renewals_are_durable`, `durability::leaves_are_durable`,
///    `durability::claims_are_durable`, `durability::outcomes_of_node_commands_are_durable`.
/// 4. **Atomic.** State, history, outcomes, effects and the end of the claim of one commit happen
///    together or not at all. Items of one call are independent: a failed item does not affect the
///    others. Items with the same task are applied in their order. Results are in the order of the
///    items. Cases: `commits::a_transition_is_stored`, `commits::items_are_independent`,
///    `commits::two_writes_of_one_claim_happen_in_order`,
///    `commits::too_large_is_refused_and_the_claim_stands`, `claims::claims_are_independent`,
///    `commands::outcomes_are_recorded`, `commands::a_settled_command_is_gone_from_the_queue`,
///    `signals::a_reply_is_recorded`, `signals::replies_come_in_any_order`,
///    `signals::a_reply_that_is_too_large_is_refused`, `effects::effects_are_taken_or_refused`,
///    `effects::effects_come_with_the_transition`, `effects::a_new_task_can_be_commanded_at_once`,
///    `effects::a_refused_effect_refuses_all`, `effects_on_tasks::every_operation_is_an_effect`,
///    `effects_on_tasks::a_submit_follows_its_if_exists`,
///    `effects_on_tasks::guards_hold_or_refuse_the_message`,
///    `effects_on_tasks::guards_see_the_tasks_before_the_effects`,
///    `effects_on_tasks::every_refused_effect_is_listed`,
///    `effects_on_tasks::its_own_task_takes_only_commands`,
///    `effects_on_tasks::a_task_has_one_change`, `effects_on_tasks::more_than_the_limit_are_refused`.
/// 5. **Once, and in turn.** A commit names the version that it follows
///    ([`Write::follows`](windlass_statemachine::machine::Write::follows)) and has an id of its own
///    ([`TaskState::commit`](windlass_statemachine::TaskState::commit)), which the store keeps with the state. A
///    commit whose id is stored was applied before, and its answer was lost: it succeeds again and changes
///    nothing. A commit that follows another version than the stored one is refused with [`Error::Superseded`],
///    and never overwrites newer state: another writer of the claim came first. (A
///    [`Split`](super::split::Split) has one writer for each claim.) Cases:
///    `fences::two_writers_of_a_claim_write_in_turn`, `fences::a_write_that_arrives_late_is_superseded`,
///    `fences::a_repeated_commit_happens_once`, `fences::a_repeated_commit_does_not_undo`,
///    `effects::a_repeated_commit_has_its_effects_once`,
///    `effects_on_tasks::a_repeated_commit_changes_each_task_once`, `commands::an_outcome_is_final`.
/// 6. **States survive.** The state that a commit writes is the state that a claim and a record
///    return, with every field.
///    Cases: `commits::data_and_result_survive`, `commits::data_is_replaced_or_kept`,
///    `commits::errors_and_counters_survive`, `commits::a_checkpoint_keeps_the_claim`.
/// 7. **Ends.** A commit whose state is terminal removes the claim, and rejects, in the same step,
///    every queued command that is not among its outcomes (reason: the task has ended). Cases:
///    `commits::the_end_removes_the_claim`, `commands::the_end_rejects_waiting_commands`,
///    `signals::the_end_rejects_waiting_signals`.
/// 8. **Claimable.** [`claim`](Self::claim) claims a task that is live, unclaimed, and due or
///    commanded, and no other. It returns all that a node needs to start the task.
///    Cases: `claims::a_runnable_task_is_claimed`, `claims::an_unknown_task_is_not_claimed`,
///    `claims::an_ended_task_is_not_claimed`, `claims::a_sleeper_is_claimed_when_it_is_due`,
///    `claims::a_sleeper_is_not_claimed_early`,
///    `claims::a_paused_task_is_claimed_when_it_is_commanded`,
///    `claims::a_commanded_sleeper_is_claimed_early`,
///    `claims::a_runnable_task_from_a_clock_ahead_runs_now`,
///    `claims::a_released_task_is_claimed_by_another`,
///    `claims::an_ended_lease_claims_nothing`.
/// 9. **Nothing missed.** Every change for which there is an [`Event`] is reported to every watch that it
///    concerns, after the change is durable. The events of one task are in the order of its changes. A task
///    that is deleted and submitted again under its id is two tasks with different orders: [`Event::Gone`]
///    of the first reaches its owner even when the second is live by then, or is of a kind that the watch
///    does not list. Cases: `watch::a_watch_begins_with_live_tasks`,
///    `watch::only_watched_kinds_are_reported`, `watch::new_tasks_are_reported`,
///    `watch::claims_and_transitions_are_reported`, `watch_ends::ends_are_reported`,
///    `watch_ends::the_owner_is_notified_of_a_deletion`,
///    `watch_ends::a_deleted_task_and_the_next_of_its_id_are_two`,
///    `watch_ends::the_owner_is_notified_though_another_kind_has_the_id`,
///    `watch_ends::an_end_names_the_claims_that_are_over`, `watch::commands_are_reported`,
///    `watch::a_new_watch_reports_waiting_commands`, `watch::the_last_state_is_reported`,
///    `watch::a_watch_ends_with_the_lease`, `watch::a_long_list_is_whole`,
///    `watch::a_second_watch_lists_tasks_submitted_between`.
/// 10. **Leases.** A name belongs to one live node. A lease ends when its TTL has passed since the
///     last renewal, and with [`leave`](Self::leave), which releases its claims. An ended lease is
///     refused with [`Error::Fenced`], and its number is never reused. Cases:
///     `leases::two_nodes_with_one_name_are_refused`, `leases::the_name_of_a_lost_node_is_free`,
///     `leases::renewing_keeps_the_lease`, `leases::an_ended_lease_is_gone`,
///     `leases::leaving_releases_the_tasks`, `leases::peers_are_live_nodes`.
/// 11. **Lost leases.** When a lease ends without [`leave`](Self::leave), each of its claims is
///     removed, marked as abandoned for the next claim, and reported to the watches, within a
///     second of the lease's end while any node of the namespace lives. [`abandon`](Self::abandon)
///     ends such a lease at once. Cases: `leases::a_lost_node_abandons_its_tasks`,
///     `leases::an_abandoned_claim_counts_once`, `leases::an_abandoned_lease_ends_at_once`.
/// 12. **Node commands.** A command is queued for its node, which gets it from the watch. It leaves
///     the queue when the node answers with its own lease. The first answer is kept for the sender.
///     Cases: `watch::node_commands_are_reported`, `watch::an_answered_node_command_is_gone`,
///     `leases::node_commands_are_answered`, `leases::a_foreign_lease_answers_no_command`.
/// 13. **Retention.** [`maintain`](Self::maintain) removes tasks that ended longer ago than the
///     retention, and no others. It spares those that a live task waits for, until the claim of that task has read
///     their outcomes.
///     Cases: `ends::retention_prunes_only_what_has_ended`, `ends::retention_counts_from_the_end`,
///     `spared::retention_spares_what_a_waiting_task_names`.
/// 14. **Unreadable records.** A task whose state or envelope cannot be read is quarantined: watches
///     deliver [`Event::Gone`], and [`claim`](Self::claim) returns [`Error::Corrupt`] once and
///     `None` later. It stays listed for operators. No other task is affected.
///     Cases: `quarantine::it_does_not_stop_the_others`, `quarantine::watches_report_a_quarantine`,
///     `quarantine::an_unreadable_envelope_is_quarantined`.
/// 15. **Data versions.** The version of a task's data
///     ([`TaskState::data_version`](windlass_statemachine::TaskState::data_version)) survives, and every
///     [`TaskView`](super::TaskView) reports it.
///     Cases: `data_versions::they_survive`, `data_versions::watches_report_them`,
///     `data_versions::a_lost_claim_leaves_them`, `data_versions::a_retry_keeps_them`,
///     `data_versions::a_replacement_begins_with_the_first`, `data_versions::a_move_keeps_them`.
/// 16. **Waiting tasks.** A task that waits for others ([`TaskState::is_waiting`]) is claimable when none of them
///     is live, when its deadline is due, or when it is commanded. The claim reads them: with
///     [`TaskState::with_outcomes`], before [`TaskState::claimed`]. A task never runs with a claim that was made
///     while one of them was live, unless its deadline was due or a command asked for it. A
///     [`TaskView`](super::TaskView) of a waiting task sleeps while one of them is live, with the deadline as
///     `due` (`None` without one), and can be claimed when none is. Watches report it when that changes, whatever
///     the kinds of the others are. Waiting for a task writes nothing to that task. Cases:
///     `waits::a_task_waits_for_others`, `waits::a_message_waits`, `waits::watches_report_waiters`,
///     `waits::a_task_that_is_live_again_blocks`, `waits::a_deadline_ends_a_wait`,
///     `waits::a_command_does_not_end_a_wait_by_itself`, `waits::a_wait_that_is_over_is_forgotten`,
///     `waits::a_retry_waits_again`, `waits::many_wait`, `waits::a_move_keeps_the_wait`,
///     `long_waits::any_order_of_ends`, `long_waits::any_of_them_blocks_again`, `long_waits::many_wait_for_many`.
/// 17. **Limits.** A claim takes a slot of each limit of its task ([`Task::limits`]), in the same step, or is
///     refused. A slot of a limit on tasks at once is free again in the step that ends the claim, a slot of a
///     limit on starts after the period. A refused task joins the line of the first limit that is full: its
///     [`TaskView`](super::TaskView) has no `due` and is not `commanded` by a signal. When a slot is free, the
///     first of its line is reported as it is, one task for each free slot; the first of a line of starts is
///     reported in advance, as asleep until its slot is free. The choice is the task whose slot is free first by
///     the present limits and clock, whatever was reported before. A task with commands other than signals is
///     claimed without slots ([`Claimed::over_limit`]). A reported task that no node claims for 5 seconds no
///     longer holds back the next one. A task with several limits whose turn has come several times, while another
///     of them was full, has slots kept for it, one task at a time. Watches report the key by which tasks take
///     turns ([`TaskView::fair_key`](super::TaskView::fair_key)). Cases:
///     `limits::at_most_so_many_are_claimed_at_once`, `limits::every_end_of_a_claim_frees_its_slot`,
///     `limits::a_lost_lease_frees_its_slots`, `limits::a_lost_answer_takes_no_second_slot`,
///     `limits::starts_are_counted_within_the_period`, `lines::a_line_reports_one_task_for_each_slot`,
///     `lines::the_first_of_a_line_of_starts_sleeps`, `limits::a_commanded_task_is_claimed_over_the_limit`,
///     `limits::a_signal_waits_with_a_held_back_task`, `lines::a_claim_takes_a_slot_of_every_limit`,
///     `limits::each_task_has_its_own_number`, `limits::a_record_names_the_limit`,
///     `lines::a_task_that_leaves_the_line_lets_the_next_pass`,
///     `lines::a_task_that_no_node_claims_does_not_block`, `limits::slots_and_lines_are_durable`,
///     `limits::a_move_keeps_the_limits`, `lines::a_late_task_is_claimed_over_a_full_limit`,
///     `lines::watches_report_the_key`, `lines::a_task_that_goes_before_the_next_is_the_next`,
///     `lines::a_shorter_period_does_not_wait_for_a_longer_one`, `line_clocks::a_time_in_advance_is_revised`,
///     `line_clocks::patience_is_judged_by_the_clock_of_now`,
///     `reservations::a_task_with_two_limits_comes_to_its_turn`,
///     `reservations::slots_are_kept_for_one_task_at_a_time`, `reservations::a_task_that_is_gone_keeps_no_slot`,
///     `reservations::a_task_that_no_node_claims_keeps_no_slot`.
/// 18. **Deadlines.** A task whose [`TaskState::deadline`](windlass_statemachine::TaskState::deadline) has come
///     is claimable, whatever it waits for. Watches report the deadline of each task.
///     Cases: `deadlines::a_parked_task_is_claimed_at_its_deadline`, `deadlines::watches_report_deadlines`,
///     `deadlines::deadlines_are_durable`, `deadlines::a_moved_task_has_its_deadlines`.
/// 19. **Places.** The `due` of a [`TaskView`](super::TaskView) of a task without a claim that does not wait is that
///     of its state ([`TaskState::due`](windlass_statemachine::TaskState::due)): the time since which it can be
///     claimed, whenever it was submitted. A store may report an earlier time for a task whose claim was lost.
///     Cases: `places::a_resumed_task_stands_behind_those_before_it`,
///     `places::a_woken_task_stands_behind_those_before_it`,
///     `places::a_task_that_is_rescheduled_to_now_stands_behind_those_before_it`,
///     `places::a_retried_task_stands_behind_those_before_it`.
/// 20. **Nodes that change.** [`describe`](Self::describe) replaces the description that a live node gave
///     when it joined. The list of nodes has the new description from then on, with unchanged status,
///     claims and lease. The change is durable. Cases: `leases::a_node_is_described_again`,
///     `leases::an_ended_lease_is_not_described`, `durability::descriptions_are_durable`.
///
/// 21. **Log lines.** [`log`](Self::log), and a commit with lines ([`Commit::log`]), add the lines that the handler of
///     the live claim has logged, in order and each once. The lines of a commit are written in the step of its
///     transition. The lines of another claim are refused with [`Error::Fenced`]. The bounds of a log delete the
///     oldest lines first. A deleted task has no lines. Cases: `logs::lines_are_kept_with_their_attempt`,
///     `logs::a_commit_writes_its_lines`, `logs::lines_are_taken_once`, `logs::a_stale_owner_logs_nothing`,
///     `logs::the_oldest_lines_go_first`, `logs::a_deleted_task_has_no_lines`, `logs::lines_are_durable`,
///     `logs::a_moved_task_has_its_lines`. A part of a log that cannot be read is reported with its attempt, and the
///     other lines stay: `logs::a_damaged_part_is_reported`.
///
/// [`Task::limits`]: windlass_statemachine::Task::limits
/// [`TaskState::is_waiting`]: windlass_statemachine::TaskState::is_waiting
/// [`TaskState::with_outcomes`]: windlass_statemachine::TaskState::with_outcomes
/// [`TaskState::claimed`]: windlass_statemachine::TaskState::claimed
#[async_trait]
pub trait Coordinator: Send + Sync + 'static {
    /// Returns the limits of the store.
    fn limits(&self) -> Limits;

    /// Registers a node and grants it a lease.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] when a live node has that name.
    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error>;

    /// Renews the lease for its TTL from now, and records the node's status.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] when the lease has ended: join again.
    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error>;

    /// Replaces the description of the node of this lease: its kinds, data versions, labels and slots. An open
    /// watch keeps the kinds that it was opened with.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `node`) for the name of another node, [`Error::Fenced`] when the lease has
    /// ended, [`Error::Unavailable`].
    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error>;

    /// Ends the lease: its remaining claims are released (not abandoned), and the node is removed.
    /// Leaving a lease that has already ended is not an error.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn leave(&self, lease: &Lease) -> Result<(), Error>;

    /// Ends a lease that its node considers lost: its remaining claims are abandoned, as when the lease ends on
    /// its own, and the name of the node is free. The node calls this when its handlers have ended. Has no
    /// effect on a lease that has already ended.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn abandon(&self, lease: &Lease) -> Result<(), Error>;

    /// Lists every live task of these kinds (`None`: all kinds), then reports changes. Delivers
    /// [`Event::Reset`], then the tasks, then [`Event::Listed`]; also queued node commands. After the
    /// list, a task that this lease has claimed is reported only for its commands and its end: the result
    /// of [`claim`](Self::claim) has the rest. An end that this lease has written need not be reported.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Fenced`] when the lease has ended.
    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error>;

    /// Claims tasks that are live, unclaimed, and due or commanded. Returns `None` for any other
    /// task: the watch reports its present state. A task that this lease has already claimed is
    /// claimed again, with a new fence; that resolves a claim whose outcome is unknown.
    ///
    /// The claim changes the state by
    /// [`TaskState::claimed`](windlass_statemachine::TaskState::claimed), in the same step.
    ///
    /// # Errors
    ///
    /// Per task: [`Error::Fenced`] when the lease has ended, [`Error::Corrupt`] for a task that had
    /// to be quarantined, [`Error::Unavailable`].
    async fn claim(&self, lease: &Lease, tasks: Vec<TaskId>)
    -> Vec<Result<Option<Claimed>, Error>>;

    /// Writes transitions, each on behalf of its claim.
    ///
    /// The runner polls this call in the task of its engine, immediately after it has enqueued the
    /// writes. An implementation submits them when it is first polled, and does not block.
    ///
    /// `write.drop_claim` ends the claim (not abandoned). Outcomes are recorded and their commands
    /// leave the queue. `write.effects` are applied in the same step, by the rules of a
    /// [`Transaction`](super::Transaction) and those of [`Effects`](windlass_statemachine::Effects).
    ///
    /// # Errors
    ///
    /// Per commit: [`Error::Fenced`], [`Error::Superseded`], [`Error::Unavailable`]. Errors about the content of the
    /// write, after which the claim still stands: [`Error::TooLarge`], [`Error::Invalid`], and [`Error::Refused`] with
    /// every refused effect ([`Part::Effect`](super::Part::Effect)).
    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>>;

    /// Writes lines that handlers have logged, each write on behalf of its claim. Changes nothing else: there is no
    /// event and no change for them.
    ///
    /// # Errors
    ///
    /// Per write: [`Error::Fenced`], [`Error::Unavailable`].
    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>>;

    /// Returns the live nodes, from local knowledge if possible (such as a copy that a watch
    /// maintains): runners call this every few seconds. A store that does not know its nodes
    /// returns an empty list; the nodes then do not defer tasks to each other.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn peers(&self) -> Result<Vec<NodeRecord>, Error>;

    /// Answers a node command: it leaves the queue, and the outcome is kept for its sender.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] when the lease has ended, [`Error::NotFound`] when this command is not in
    /// the queue of the lease's node, [`Error::Unavailable`].
    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error>;

    /// Registers a remote worker, with a lease of its own that belongs to no process: it ends when its TTL has passed
    /// since the last renewal, whoever has made that, and with [`leave`](Self::leave). No end of a process ends it, and
    /// a restart of the machine gives it its whole TTL again. A live worker with the same name and secret keeps its
    /// lease, with its TTL, its status and its speaker: it is renewed, and described as `worker` says.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] when a live node, or a live worker with another secret, has that name.
    /// [`Error::Unsupported`] by default.
    async fn join_worker(&self, worker: &NewWorker) -> Result<WorkerRecord, Error> {
        let _ = worker;
        Err(no_workers())
    }

    /// Returns the live worker with this name, read from the store; `None` if no live node of that name is a worker.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`]. [`Error::Unsupported`] by default.
    async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        let _ = name;
        Err(no_workers())
    }

    /// Makes a server the speaker of a worker, if its `seq` is greater than that of the stored speaker, or the same
    /// server took its place with that `seq` before. Returns the lease with this speaker, for claims of this process.
    /// From then on, claims with the lease of an earlier speaker are refused.
    ///
    /// # Errors
    ///
    /// [`Error::OtherSpeaker`] for a lower `seq`, [`Error::Fenced`] when the lease has ended, [`Error::Unavailable`].
    /// [`Error::Unsupported`] by default.
    async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        let _ = (lease, speaker);
        Err(no_workers())
    }

    /// Reads the claims of a worker's lease, without changing them: all of them (`None`), or those of these tasks. Each
    /// is returned as [`claim`](Self::claim) has returned it, with the present state and the commands that wait now. So
    /// another process continues the claims, and a claim whose answer was lost is found. The read is made after
    /// the call, not from a copy that may lag behind.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] when the lease has ended, [`Error::Unavailable`]. [`Error::Unsupported`] by default.
    async fn held(&self, lease: &Lease, tasks: Option<Vec<TaskId>>) -> Result<Vec<Claimed>, Error> {
        let _ = (lease, tasks);
        Err(no_workers())
    }

    /// Drops what this process knows of a worker's lease and its claims, because another server speaks for the worker.
    /// Changes nothing in the store. Does nothing by default.
    fn detach(&self, lease: &Lease) {
        let _ = lease;
    }

    /// Compares the clock with the newest record of the store, and logs a warning when they are
    /// further apart than `retention` (`None`: does not compare). Writes nothing. Every node calls
    /// this before it joins, because from then on the store has records with that node's time. A
    /// store that keeps nothing beyond its process has nothing to compare.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        let _ = retention;
        Ok(())
    }

    /// Prunes finished tasks and history older than `retention` (`None`: prunes nothing), in
    /// bounded steps. Returns how many tasks were pruned. Every node calls this regularly.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error>;
}
