//! Runs the conformance suite on stores that each have one planted defect, because a case that
//! cannot fail protects nothing.
//!
//! Each test runs one case twice: on a sound store, where it has to pass, and on a store with the
//! defect, where it has to fail. Time is paused, so that a case that waits for something that never
//! comes fails at once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod coordinator;
mod defect;
mod journal;
mod lacking;
mod registry;
mod repeated;
mod slow;
mod store;
mod tasks;
mod transactions;
mod transfer;
mod watch;
mod workers;
mod writes;

use std::panic::{AssertUnwindSafe, catch_unwind};

use windlass::testing::conformance::Harness;

use self::{defect::Defect, store::Planted};

/// Runs a case on a store with this defect. Returns whether it passed.
fn passes(defect: Option<Defect>, case: impl AsyncFnOnce(&dyn Harness)) -> bool {
    passes_on(&Planted::new(defect), case)
}

/// Runs a case on the stores of this harness. Returns whether it passed.
fn passes_on(harness: &dyn Harness, case: impl AsyncFnOnce(&dyn Harness)) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let run = || runtime.block_on(async { case(harness).await });
    catch_unwind(AssertUnwindSafe(run)).is_ok()
}

/// Makes a test of each defect and the case that has to find it.
macro_rules! planted {
    ($($test:ident: $defect:ident is found by $topic:ident::$case:ident;)*) => {
        $(
            #[test]
            fn $test() {
                use windlass::testing::conformance::$topic::$case;
                assert!(passes(None, async |h| $case(h).await), "a sound store is refused");
                let found = !passes(Some(Defect::$defect), async |h| $case(h).await);
                assert!(found, "{:?} is not found", Defect::$defect);
            }
        )*

        #[test]
        fn at_least_thirty_defects_are_planted() {
            let mut defects = vec![$(format!("{:?}", Defect::$defect)),*];
            defects.sort();
            defects.dedup();
            assert!(defects.len() >= 30, "{defects:?}");
        }
    };
}

planted! {
    joins_that_are_not_durable: JoinsAreNotDurable is found by durability::joins_are_durable;
    renewals_that_are_not_durable: RenewalsAreNotDurable is found by durability::renewals_are_durable;
    descriptions_that_are_not_durable: DescriptionsAreNotDurable is found by durability::descriptions_are_durable;
    leaves_that_are_not_durable: LeavesAreNotDurable is found by durability::leaves_are_durable;
    claims_that_are_not_durable: ClaimsAreNotDurable is found by durability::claims_are_durable;
    commits_that_are_not_durable: CommitsAreNotDurable is found by commits::commits_are_durable;
    acknowledgements_that_are_not_durable: AcknowledgementsAreNotDurable is found by durability::outcomes_of_node_commands_are_durable;
    submits_that_are_not_durable: SubmitsAreNotDurable is found by submit::submits_are_durable;
    commands_that_are_not_durable: CommandsAreNotDurable is found by commands::commands_are_durable;
    deletions_that_are_not_durable: DeletionsAreNotDurable is found by durability::deletions_are_durable;
    retries_that_are_not_durable: RetriesAreNotDurable is found by durability::retries_are_durable;
    purges_that_are_not_durable: PurgesAreNotDurable is found by durability::purges_are_durable;
    node_commands_that_are_not_durable: NodeCommandsAreNotDurable is found by durability::node_commands_are_durable;
    imports_that_are_not_durable: ImportsAreNotDurable is found by durability::imports_are_durable;
    fences_that_repeat: FencesRepeat is found by fences::fences_only_grow;
    late_writes_that_succeed: LateWritesSucceed is found by fences::a_stale_owner_changes_nothing;
    repeated_writes_that_are_refused: RepeatedWritesAreRefused is found by fences::a_repeated_commit_happens_once;
    writes_that_share_a_version: EveryWriteOfAVersionIsTheSame is found by fences::two_writers_of_a_claim_write_in_turn;
    late_writes_that_are_rebased: LateWritesAreRebased is found by fences::a_write_that_arrives_late_is_superseded;
    a_bad_write_that_refuses_all: OneBadWriteRefusesAll is found by commits::items_are_independent;
    effects_that_are_dropped: EffectsAreDropped is found by effects::effects_come_with_the_transition;
    effects_on_tasks_that_are_dropped: EffectsOnTasksAreDropped is found by effects_on_tasks::every_operation_is_an_effect;
    guards_of_messages_that_are_ignored: GuardsOfMessagesAreIgnored is found by effects_on_tasks::guards_hold_or_refuse_the_message;
    effects_that_refuse_every_taken_id: EffectsRefuseEveryTakenId is found by effects_on_tasks::a_submit_follows_its_if_exists;
    losses_that_are_not_counted: LossesAreNotCounted is found by leases::a_lost_node_abandons_its_tasks;
    outcomes_that_are_overwritten: OutcomesAreOverwritten is found by commands::an_outcome_is_final;
    outcomes_that_are_forgotten: OutcomesAreForgotten is found by commands::outcomes_are_recorded;
    commands_that_replace_each_other: CommandsReplaceEachOther is found by commands::commands_queue_in_order;
    repeated_commands_that_are_new: RepeatedCommandsAreNew is found by commands::the_same_id_is_the_same_command;
    payloads_that_are_forgotten: PayloadsAreForgotten is found by signals::a_payload_survives;
    replies_that_are_forgotten: RepliesAreForgotten is found by signals::a_reply_is_recorded;
    a_second_watch_that_misses_tasks: ASecondWatchMissesTasks is found by watch::a_second_watch_lists_tasks_submitted_between;
    a_stale_view_that_comes_last: AStaleViewComesLast is found by watch::the_last_state_is_reported;
    ends_that_are_not_delivered: EndsAreNotDelivered is found by watch_ends::ends_are_reported;
    a_quarantine_that_is_not_delivered: EndsAreNotDelivered is found by quarantine::watches_report_a_quarantine;
    kinds_that_were_not_asked_for: EveryKindIsDelivered is found by watch::only_watched_kinds_are_reported;
    watches_that_outlive_their_lease: WatchesOutliveTheirLease is found by watch::a_watch_ends_with_the_lease;
    losses_that_are_delivered_late: LossesAreDeliveredLate is found by leases::a_lost_node_abandons_its_tasks;
    commands_that_are_not_delivered: CommandsAreNotDelivered is found by watch::commands_are_reported;
    node_commands_that_are_not_delivered: NodeCommandsAreNotDelivered is found by watch::node_commands_are_reported;
    data_versions_that_are_not_delivered: DataVersionsAreNotDelivered is found by data_versions::watches_report_them;
    data_versions_that_a_lost_claim_loses: DataVersionsAreNotDelivered is found by data_versions::a_lost_claim_leaves_them;
    data_versions_that_a_retry_loses: DataVersionsAreNotDelivered is found by data_versions::a_retry_keeps_them;
    data_versions_that_a_move_loses: DataVersionsAreNotDelivered is found by data_versions::a_move_keeps_them;
    data_versions_that_are_not_stored: DataVersionsAreNotStored is found by data_versions::they_survive;
    waits_that_are_forgotten: WaitsAreForgotten is found by waits::a_task_waits_for_others;
    waits_that_are_forgotten_after_a_retry: WaitsAreForgotten is found by waits::a_retry_waits_again;
    waiters_that_look_claimable: WaitersLookClaimable is found by waits::watches_report_waiters;
    waiters_that_look_claimable_again: WaitersLookClaimable is found by waits::a_task_that_is_live_again_blocks;
    ready_waiters_that_are_not_delivered: ReadyWaitersAreNotDelivered is found by waits::watches_report_waiters;
    ready_waiters_that_are_not_all_delivered: ReadyWaitersAreNotDelivered is found by waits::many_wait;
    outcomes_of_waits_that_are_forgotten: OutcomesOfWaitsAreForgotten is found by waits::a_message_waits;
    limits_that_are_forgotten: LimitsAreForgotten is found by limits::at_most_so_many_are_claimed_at_once;
    limits_of_which_one_is_forgotten: LimitsAreForgotten is found by lines::a_claim_takes_a_slot_of_every_limit;
    numbers_that_are_forgotten: LimitsAreForgotten is found by limits::each_task_has_its_own_number;
    answers_that_are_lost_with_their_slots: LimitsAreForgotten is found by limits::a_lost_answer_takes_no_second_slot;
    slots_that_are_never_free: SlotsAreNeverFree is found by limits::every_end_of_a_claim_frees_its_slot;
    slots_that_a_lost_lease_keeps: SlotsAreNeverFree is found by limits::a_lost_lease_frees_its_slots;
    held_tasks_that_look_claimable: HeldTasksLookClaimable is found by lines::a_line_reports_one_task_for_each_slot;
    held_tasks_that_signals_wake: HeldTasksLookClaimable is found by limits::a_signal_waits_with_a_held_back_task;
    next_tasks_that_are_not_delivered: NextTasksAreNotDelivered is found by lines::a_line_reports_one_task_for_each_slot;
    starts_that_are_not_reported_in_advance: HeldTasksLookClaimable is found by lines::the_first_of_a_line_of_starts_sleeps;
    reports_in_advance_that_are_not_revised: NextTasksAreNotDelivered is found by lines::a_task_that_goes_before_the_next_is_the_next;
    tasks_after_a_reservation_that_are_not_delivered: NextTasksAreNotDelivered is found by reservations::a_task_that_is_gone_keeps_no_slot;
    claims_over_a_limit_that_are_not_marked: OverLimitIsNotMarked is found by limits::a_commanded_task_is_claimed_over_the_limit;
    held_tasks_that_name_no_limit: HeldTasksNameNoLimit is found by limits::a_record_names_the_limit;
    keys_that_are_not_delivered: KeysAreNotDelivered is found by lines::watches_report_the_key;
    limits_in_use_that_are_not_listed: LimitsInUseAreNotListed is found by usage::the_limits_in_use_are_listed;
    limits_in_use_that_lose_their_template: LimitsInUseLoseTheirTemplate is found by usage::a_limit_keeps_its_template_wherever_it_is_shown;
    limits_that_a_move_forgets: LimitsAreForgotten is found by limits::a_move_keeps_the_limits;
    peers_that_are_never_forgotten: PeersAreNeverForgotten is found by leases::peers_are_live_nodes;
    names_that_are_shared: NamesAreShared is found by leases::two_nodes_with_one_name_are_refused;
    ended_leases_that_are_renewed: EndedLeasesAreRenewed is found by leases::an_ended_lease_is_gone;
    descriptions_that_are_forgotten: DescriptionsAreForgotten is found by leases::a_node_is_described_again;
    ended_leases_that_are_described: EndedLeasesAreDescribed is found by leases::an_ended_lease_is_not_described;
    leaving_that_is_forgotten: LeavingIsForgotten is found by leases::leaving_releases_the_tasks;
    abandoned_claims_that_are_released: AbandonedClaimsAreReleased is found by leases::an_abandoned_lease_ends_at_once;
    pauses_of_new_tasks_that_are_forgotten: PausesAreForgotten is found by submit::a_paused_task_is_paused_from_its_submit_on;
    ids_that_are_never_free: IdsAreNeverFree is found by ends::the_id_of_a_completed_task_may_be_free;
    taken_ids_that_are_accepted: TakenIdsAreAccepted is found by submit::a_live_id_is_refused;
    lateness_that_counts_the_run: LatenessCountsTheRun is found by standings::a_task_is_late_since_it_could_be_claimed;
    differences_that_are_not_named: DifferencesAreNotNamed is found by submit::a_refusal_says_how_the_task_differs;
    tasks_that_are_all_the_same: EveryTaskIsTheSame is found by submit::another_task_is_not_the_same;
    integers_that_become_floats: IntegersBecomeFloats is found by submit::large_integers_survive;
    a_bad_submit_that_refuses_all: OneBadSubmitRefusesAll is found by submit::a_bad_item_does_not_touch_the_others;
    deadlines_that_are_not_delivered: DeadlinesAreNotDelivered is found by deadlines::watches_report_deadlines;
    purges_that_take_what_others_wait_for: PruningTakesWhatOthersWaitFor is found by spared::a_purge_spares_what_a_waiting_task_names;
    retention_that_takes_what_others_wait_for: PruningTakesWhatOthersWaitFor is found by spared::retention_spares_what_a_waiting_task_names;
    places_that_are_not_delivered: PlacesAreNotDelivered is found by places::a_retried_task_stands_behind_those_before_it;
    unique_keys_that_are_ignored: UniqueKeysAreIgnored is found by unique::a_taken_key_is_refused;
    unique_keys_that_are_not_decided: UniqueKeysAreIgnored is found by unique::the_same_task_is_that_with_the_key;
    ended_tasks_that_have_no_key: EndedTasksHaveNoKey is found by unique::a_taken_key_is_refused;
    unknown_tasks_that_are_empty: UnknownTasksAreEmpty is found by commands::unknown_commands_are_not_found;
    lists_that_are_not_in_order: ListsAreNotInOrder is found by registry::pages_are_in_submit_order;
    pages_in_one_direction: PagesAreInOneDirection is found by pages::the_newest_submits_come_first;
    pages_that_begin_after_their_time: PagesBeginAfterTheirTime is found by pages::the_newest_submits_come_first;
    senders_that_are_forgotten: SendersAreForgotten is found by authors::each_change_names_its_author;
    deletions_that_are_not_audited: DeletionsAreNotAudited is found by authors::what_leaves_no_task_is_in_the_history_of_the_namespace;
    audits_that_take_the_oldest: AuditsTakeTheOldest is found by authors::what_leaves_no_task_is_in_the_history_of_the_namespace;
    counts_that_omit_the_quarantined: CountsOmitTheQuarantined is found by quarantine::counts_include_it;
    counts_that_stay_as_they_were: CountsStayAsTheyWere is found by counts::every_change_is_counted;
    sleepers_that_count_as_available: SleepersCountAsAvailable is found by counts::what_is_available_is_counted;
    deleting_that_takes_the_prefix: DeletingTakesThePrefix is found by ends::deleting_one_leaves_its_neighbours;
    live_tasks_that_are_retried: LiveTasksAreRetried is found by ends::a_live_task_is_not_retried;
    purges_that_take_every_state: PurgesTakeEveryState is found by ends::purge_deletes_only_matching_tasks;
    age_that_counts_from_the_submit: AgeCountsFromTheSubmit is found by ends::retention_counts_from_the_end;
    a_limit_that_takes_the_oldest: ALimitTakesTheOldest is found by changes::a_limit_means_the_last;
    changes_that_repeat_the_last: ChangesRepeatTheLast is found by changes::changes_go_on_after_one;
    repeated_submits_that_are_skipped: RepeatedItemsAreSkipped is found by submit::one_id_twice_follows_each_rule;
    repeated_claims_that_are_skipped: RepeatedItemsAreSkipped is found by claims::one_id_twice_is_claimed_twice;
    repeated_writes_that_are_skipped: RepeatedItemsAreSkipped is found by commits::two_writes_of_one_claim_happen_in_order;
    repeated_commands_that_are_skipped: RepeatedItemsAreSkipped is found by commands::one_id_twice_in_one_call_is_one_command;
    repeated_retries_that_are_skipped: RepeatedItemsAreSkipped is found by ends::one_id_twice_is_retried_once;
    repeated_imports_that_are_skipped: RepeatedItemsAreSkipped is found by moving::one_id_twice_is_imported_once;
    node_commands_that_any_lease_answers: AnyLeaseAcknowledges is found by leases::a_foreign_lease_answers_no_command;
    cursors_beyond_the_end_that_are_accepted: CursorsBeyondTheEndAreAccepted is found by changes::a_cursor_beyond_the_end_is_refused;
    identities_that_are_not_durable: IdentitiesAreNotDurable is found by registry::the_identity_is_durable;
    values_of_every_folder: EveryValueIsListed is found by values::values_are_listed_by_folder;
    versions_that_stay: VersionsStay is found by values::a_version_is_never_used_again;
    expectations_that_are_ignored: ExpectationsAreIgnored is found by values::an_expectation_that_does_not_hold_changes_nothing;
    comparisons_apart_from_the_write: ExpectationsAreIgnored is found by values::of_concurrent_writes_one_is_expected;
    values_that_are_not_audited: ValuesAreNotAudited is found by values::the_history_of_the_namespace_has_their_writes;
    values_that_are_not_durable: ValuesAreNotDurable is found by values::values_are_durable;
    unreadable_tasks_that_are_omitted: UnreadableTasksAreOmitted is found by quarantine::an_unreadable_envelope_is_quarantined;
    unreadable_tasks_that_are_not_retried: UnreadableTasksAreNotRetried is found by quarantine::a_retry_starts_it_from_its_props;
    unreadable_tasks_that_are_live: UnreadableTasksAreLive is found by quarantine::an_ended_task_stays_ended;
    unreadable_tasks_that_are_the_same: UnreadableTasksAreTheSame is found by quarantine::the_same_submit_reports_it;
    claimed_tasks_that_are_retried: ClaimedTasksAreRetried is found by quarantine::a_claimed_task_is_not_retried;
    retries_that_count_from_nothing: RetriesCountFromNothing is found by quarantine::a_retry_goes_on_counting;
    retries_that_forget_the_version: RetriesCountFromNothing is found by quarantine::one_that_can_be_read_again_goes_on;
    quarantines_that_are_told_once: QuarantinesAreToldOnce is found by quarantine::each_quarantine_is_in_the_history;
    errors_that_are_reworded: ErrorsAreReworded is found by registry::errors_read_the_same;
    examinations_that_miss_a_state: ExaminationsFindNothing is found by examine::an_unreadable_state_is_reported;
    examinations_that_miss_an_envelope: ExaminationsFindNothing is found by examine::an_unreadable_envelope_is_reported;
    examinations_that_blame_the_sound: ExaminationsBlameTheSound is found by examine::a_store_in_order_has_nothing_wrong;
    lines_that_are_forgotten: LinesAreForgotten is found by logs::lines_are_kept_with_their_attempt;
    lines_that_are_not_durable: LinesAreNotDurable is found by logs::lines_are_durable;
    lines_of_commits_that_are_forgotten: LinesOfCommitsAreForgotten is found by logs::a_commit_writes_its_lines;
    stale_lines_that_are_accepted: StaleLinesAreAccepted is found by logs::a_stale_owner_logs_nothing;
    moved_tasks_without_their_lines: MovedTasksLoseTheirLines is found by logs::a_moved_task_has_its_lines;
    workers_that_get_another_lease: WorkersGetAnotherLease is found by workers::a_worker_keeps_its_lease;
    secrets_that_are_ignored: SecretsAreIgnored is found by workers::another_secret_is_refused;
    secrets_that_are_listed: SecretsAreListed is found by workers::a_worker_is_read_and_listed;
    descriptions_that_forget_the_speaker: DescriptionsForgetTheSpeaker is found by workers::a_description_keeps_the_worker;
    nodes_that_become_workers: NodesBecomeWorkers is found by workers::a_node_is_no_worker;
    lost_workers_that_are_renewed: EndedLeasesAreRenewed is found by workers::a_lost_worker_abandons_its_tasks;
    losses_of_workers_that_are_not_counted: LossesAreNotCounted is found by workers::a_lost_worker_abandons_its_tasks;
    servers_that_all_speak: EveryServerSpeaks is found by workers::a_greater_seq_takes_the_place;
    statuses_of_every_server: EveryServerRecordsTheStatus is found by workers::a_status_is_that_of_the_speaker;
    commands_to_workers_that_are_not_delivered: CommandsToWorkersAreNotDelivered is found by workers::nodes_receive_commands_to_workers;
    workers_that_are_not_durable: WorkersAreNotDurable is found by workers::workers_are_durable;
    speakers_that_are_not_durable: SpeakersAreNotDurable is found by workers::workers_are_durable;
    speakers_that_are_not_compared: SpeakersAreNotCompared is found by worker_claims::another_speaker_claims_nothing;
    claims_of_workers_that_are_made_again: WorkersClaimAgain is found by worker_claims::a_claim_of_a_worker_is_made_once;
    read_claims_that_are_made_again: ReadClaimsAreMadeAgain is found by worker_claims::claims_are_read_without_a_change;
    claims_that_are_read_unasked: EveryClaimIsRead is found by worker_claims::some_claims_are_read;
    read_claims_with_another_fence: ReadClaimsHaveAnotherFence is found by worker_claims::a_read_claim_is_continued;
    tasks_of_workers_that_are_not_delivered: TasksOfWorkersAreNotDelivered is found by worker_claims::nodes_receive_tasks_of_workers;
    slots_of_workers_that_free_no_task: NextTasksAreNotDelivered is found by worker_claims::a_slot_of_a_worker_frees_the_next;
    transactions_that_are_not_durable: TransactionsAreNotDurable is found by transactions::transactions_are_durable;
    transactions_that_are_half_applied: TransactionsAreHalfApplied is found by transactions::one_refusal_leaves_everything_as_it_was;
    refusals_that_name_the_first: RefusalsNameTheFirst is found by transactions::each_refusal_names_its_operation;
    repeated_transactions_that_are_new: RepeatedTransactionsAreNew is found by transactions::a_repeated_id_has_no_further_effect;
    ids_of_other_transactions_that_are_taken: RepeatedTransactionsAreNew is found by transactions::an_id_of_another_transaction_is_refused;
    ids_that_stand_for_any_operations: IdsStandForAnyOperations is found by transactions::an_id_of_another_transaction_is_refused;
    pruning_that_forgets_transactions: PruningForgetsTransactions is found by transactions::retention_does_not_forget_a_transaction;
    guards_that_are_ignored: GuardsAreIgnored is found by guards::guards_hold_or_refuse;
    guards_that_see_the_operations: GuardsSeeTheOperations is found by guards::guards_see_the_state_before_the_operations;
    claimed_tasks_that_are_rescheduled: ClaimedTasksAreRescheduled is found by transactions::other_tasks_are_not_rescheduled;
    rescheduled_tasks_that_keep_their_time: RescheduledTasksKeepTheirTime is found by transactions::an_unclaimed_task_is_rescheduled;
    rescheduled_tasks_that_keep_their_limits: RescheduledTasksKeepTheirTime is found by lines::a_reschedule_changes_the_limits;
    kinds_that_stay: KindsStay is found by rescheduling::a_task_gets_another_kind;
    old_kinds_that_are_not_notified: EndsAreNotDelivered is found by rescheduling::watches_follow_the_kind;
    waiters_for_another_kind: ReadyWaitersAreNotDelivered is found by rescheduling::waiters_follow_the_kind;
    reschedules_that_keep_the_version: ReschedulesKeepTheVersion is found by rescheduling::a_reschedule_writes_the_next_version;
    props_that_stay: PropsStay is found by rescheduling::props_are_replaced;
    schedules_that_move: SchedulesMove is found by rescheduling::a_schedule_keeps_its_kind;
    retries_that_take_nothing: RetriesTakeNothing is found by rescheduling::a_retry_takes_other_props_and_data;
    claimed_tasks_that_are_deleted: ClaimedTasksAreDeleted is found by rescheduling::a_claimed_task_is_deleted_by_force_only;
    guards_alone_that_are_refused: GuardsAloneAreRefused is found by rescheduling::guards_alone_are_answered;
    repeated_tasks_that_are_accepted: RepeatedTasksAreAccepted is found by transactions::one_task_twice_is_refused;
    large_transactions_that_are_accepted: LargeTransactionsAreAccepted is found by transactions::the_limit_is_named;
    a_bad_transaction_that_refuses_all: OneBadTransactionRefusesAll is found by transactions::transactions_are_independent;
    a_deletion_that_is_not_delivered: EndsAreNotDelivered is found by transactions::watches_report_every_task;
    a_copy_that_leaves_no_mark: TheMarkOfACopyIsForgotten is found by copies::a_copied_store_takes_no_tasks_and_no_nodes;
    a_moment_without_its_claims: MomentsForgetClaims is found by moments::nodes_and_claims_are_those_of_the_moment;
    a_refused_import_that_leaves_its_task: ARefusedImportLeavesItsTask is found by moving::a_task_that_is_too_large_is_refused;
}
