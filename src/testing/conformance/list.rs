//! The list of the cases of stores, as a macro that makes a test of each.

/// Makes one `#[tokio::test]` per case of the suite for stores, in a module of this name. The
/// expression makes a [`Harness`](crate::testing::conformance::Harness) and is evaluated once per
/// case. The expression sees the items in scope at the call of the macro.
///
/// `paused` runs the cases in tokio's paused time (tokio's feature `test-util`). The store must then
/// follow a clock like [`TokioClock`](crate::testing::TokioClock).
///
/// `cannot` declares each [`Capability`](crate::testing::conformance::Capability) that the store
/// lacks, with the reason. The cases that need the capability are ignored tests with that reason. They
/// fail when `--ignored` runs them, and without the declaration. The test
/// `capabilities::are_as_declared` fails when the store has a capability that it declares as lacking.
///
/// ```
/// use windlass::{async_trait, store::Store, testing::conformance::Harness};
///
/// struct Volatile;
///
/// #[async_trait]
/// impl Harness for Volatile {
///     async fn store(&self) -> Store {
///         Store::open("memory:").await.expect("the store opens")
///     }
/// }
///
/// windlass::conformance_tests!(volatile, Volatile, cannot {
///     Reopen: "the data end with the process",
///     Clock: "the harness sets no clock",
///     CorruptState: "the harness damages nothing",
///     RepairState: "the harness damages nothing",
///     CorruptEnvelope: "the harness damages nothing",
///     Examine: "the store has no check of its own",
/// });
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance_tests {
    ($name:ident, $harness:expr $(,)?) => {
        $crate::conformance_tests! { @list $name, $harness, (), {} }
    };
    ($name:ident, $harness:expr, paused $(,)?) => {
        $crate::conformance_tests! { @list $name, $harness, (start_paused = true), {} }
    };
    ($name:ident, $harness:expr, cannot { $($what:ident: $why:literal),* $(,)? } $(,)?) => {
        $crate::conformance_tests! { @list $name, $harness, (), { $($what $why)* } }
    };
    ($name:ident, $harness:expr, paused, cannot { $($what:ident: $why:literal),* $(,)? } $(,)?) => {
        $crate::conformance_tests! { @list $name, $harness, (start_paused = true), { $($what $why)* } }
    };
    (@list $name:ident, $harness:expr, $time:tt, $cannot:tt) => {
        $crate::__conformance_cases! { $name, $harness, $time, $cannot, assert_declared,
            submit {
                a_new_task_is_runnable,
                a_future_start_sleeps,
                a_past_start_is_runnable,
                a_live_id_is_refused,
                an_ended_id_is_refused,
                the_same_task_exists,
                another_task_is_not_the_same,
                props_are_compared_as_values,
                a_replacement_has_nothing_of_the_old,
                two_items_with_one_id,
                one_id_twice_follows_each_rule,
                a_bad_item_does_not_touch_the_others,
                large_integers_survive,
                every_field_survives,
                submits_are_durable needs Reopen,
            }
            guards {
                guards_hold_or_refuse,
                guards_see_the_state_before_the_operations,
            }
            transactions {
                every_operation_is_applied,
                one_refusal_leaves_everything_as_it_was,
                each_refusal_names_its_operation,
                a_repeated_id_has_no_further_effect,
                a_refused_id_is_decided_again,
                an_id_of_another_transaction_is_refused,
                retention_does_not_forget_a_transaction,
                a_taken_id_is_skipped,
                an_unclaimed_task_is_rescheduled,
                other_tasks_are_not_rescheduled,
                one_task_twice_is_refused,
                the_limit_is_named,
                transactions_are_independent,
                watches_report_every_task,
                transactions_are_durable needs Reopen,
            }
            rescheduling {
                a_task_gets_another_kind,
                watches_follow_the_kind,
                waiters_follow_the_kind,
                a_reschedule_writes_the_next_version,
                props_are_replaced,
                a_schedule_keeps_its_kind,
                a_retry_takes_other_props_and_data,
                a_claimed_task_is_deleted_by_force_only,
                guards_alone_are_answered,
            }
            unique {
                a_taken_key_is_refused,
                the_same_task_is_that_with_the_key,
                the_id_is_decided_first,
                an_ended_task_loses_its_key_to_a_replacement,
                a_deleted_task_has_no_key,
                a_key_is_free_after_its_period needs Clock,
                a_key_of_a_clock_that_was_ahead_is_free needs Clock,
                a_transaction_takes_a_key_once,
                effects_follow_the_keys needs Effects,
                a_key_is_taken_at_once_by_one_of_many,
                keys_are_durable needs Reopen,
                a_moved_task_has_its_key needs Transfer,
            }
            deadlines {
                a_parked_task_is_claimed_at_its_deadline needs Clock,
                watches_report_deadlines,
                a_retry_ignores_deadlines_that_have_passed needs Clock,
                deadlines_are_durable needs Reopen,
                a_moved_task_has_its_deadlines needs Transfer Clock,
            }
            spared {
                retention_spares_what_a_waiting_task_names,
                a_purge_spares_what_a_waiting_task_names,
            }
            places {
                a_resumed_task_stands_behind_those_before_it,
                a_woken_task_stands_behind_those_before_it,
                a_task_that_is_rescheduled_to_now_stands_behind_those_before_it,
                a_retried_task_stands_behind_those_before_it,
            }
            claims {
                a_runnable_task_is_claimed,
                a_claimed_task_is_not_claimed_again,
                an_unknown_task_is_not_claimed,
                an_ended_task_is_not_claimed,
                a_sleeper_is_claimed_when_it_is_due,
                a_sleeper_is_not_claimed_early needs Clock,
                a_paused_task_is_claimed_when_it_is_commanded,
                a_commanded_sleeper_is_claimed_early,
                a_runnable_task_from_a_clock_ahead_runs_now needs Clock,
                claims_are_independent,
                one_id_twice_is_claimed_twice,
                claiming_again_returns_a_lost_claim,
                many_claimers_have_one_winner,
                a_released_task_is_claimed_by_another,
                an_ended_lease_claims_nothing,
            }
            fences {
                fences_only_grow,
                a_stale_owner_changes_nothing,
                a_claim_shuts_out_the_one_before,
                a_stale_end_does_not_end_a_later_task,
                writes_of_a_deleted_task_do_not_reach_the_next,
                a_released_claim_is_gone,
                a_claim_ends_with_its_lease,
                a_forged_claim_is_fenced,
                a_repeated_commit_happens_once,
                a_repeated_commit_does_not_undo,
                two_writers_of_a_claim_write_in_turn needs Effects,
                a_write_that_arrives_late_is_superseded needs Effects,
            }
            commits {
                a_transition_is_stored,
                data_and_result_survive,
                data_is_replaced_or_kept,
                errors_and_counters_survive,
                a_checkpoint_keeps_the_claim,
                the_end_removes_the_claim,
                items_are_independent,
                two_writes_of_one_claim_happen_in_order,
                too_large_is_refused_and_the_claim_stands,
                commits_are_durable needs Reopen,
            }
            commands {
                commands_queue_in_order,
                orders_grow_across_retries,
                the_same_id_is_the_same_command,
                one_id_twice_in_one_call_is_one_command,
                a_known_id_is_known_after_its_time needs Clock,
                an_id_of_another_task_is_refused,
                items_are_independent,
                outcomes_are_recorded,
                an_outcome_is_final,
                a_settled_command_is_gone_from_the_queue,
                the_end_rejects_waiting_commands,
                commands_survive_a_change_of_owner,
                no_command_hits_a_later_task,
                unknown_commands_are_not_found,
                commands_are_durable needs Reopen,
            }
            signals {
                a_payload_survives,
                a_signal_makes_a_parked_task_claimable,
                a_reply_is_recorded,
                replies_come_in_any_order,
                the_end_rejects_waiting_signals,
                a_reply_that_is_too_large_is_refused,
                bad_signals_are_refused,
            }
            effects {
                effects_are_taken_or_refused,
                effects_come_with_the_transition needs Effects,
                a_new_task_can_be_commanded_at_once needs Effects,
                a_refused_effect_refuses_all needs Effects,
                a_stale_owner_has_no_effects needs Effects,
                a_repeated_commit_has_its_effects_once needs Effects,
            }
            effects_on_tasks {
                every_operation_is_an_effect needs Effects,
                a_submit_follows_its_if_exists needs Effects,
                guards_hold_or_refuse_the_message needs Effects,
                guards_see_the_tasks_before_the_effects needs Effects,
                every_refused_effect_is_listed needs Effects,
                its_own_task_takes_only_commands needs Effects,
                a_task_has_one_change needs Effects,
                more_than_the_limit_are_refused needs Effects,
                the_owner_of_a_deleted_task_is_fenced needs Effects,
                a_stale_owner_changes_no_task needs Effects,
                a_repeated_commit_changes_each_task_once needs Effects,
            }
            watch {
                a_watch_begins_with_live_tasks,
                only_watched_kinds_are_reported,
                new_tasks_are_reported,
                claims_and_transitions_are_reported,
                commands_are_reported,
                a_new_watch_reports_waiting_commands,
                the_last_state_is_reported,
                node_commands_are_reported,
                an_answered_node_command_is_gone,
                a_watch_ends_with_the_lease,
                a_long_list_is_whole,
                a_second_watch_lists_tasks_submitted_between,
            }
            watch_ends {
                ends_are_reported,
                the_owner_is_notified_of_a_deletion,
                a_deleted_task_and_the_next_of_its_id_are_two,
                the_owner_is_notified_though_another_kind_has_the_id,
                an_end_names_the_claims_that_are_over,
            }
            leases {
                two_nodes_with_one_name_are_refused,
                the_name_of_a_lost_node_is_free,
                nodes_are_listed,
                a_node_is_described_again,
                an_ended_lease_is_not_described,
                renewing_keeps_the_lease,
                an_ended_lease_is_gone,
                a_lost_node_abandons_its_tasks,
                an_abandoned_claim_counts_once,
                leaving_releases_the_tasks,
                an_abandoned_lease_ends_at_once,
                node_commands_are_answered,
                a_foreign_lease_answers_no_command,
                a_dead_node_takes_no_commands,
                peers_are_live_nodes,
            }
            authors {
                each_change_names_its_author,
                effects_are_by_their_task needs Effects,
                what_leaves_no_task_is_in_the_history_of_the_namespace,
                a_refused_transaction_leaves_no_line,
                authors_are_durable needs Reopen,
                a_moved_task_has_its_authors needs Transfer,
            }
            pages {
                the_newest_submits_come_first,
                pages_are_stable_while_tasks_come_and_go,
                a_list_by_due_time_has_the_sleeping_tasks,
                a_list_by_end_has_the_last_end_first,
                a_list_by_end_follows_what_becomes_of_ended_tasks,
                a_filter_by_fingerprint_selects_the_same_error,
                a_list_by_id_is_in_the_order_of_the_ids,
                filters_by_ids_times_and_props,
                an_unreadable_task_ends_no_list needs CorruptState,
            }
            registry {
                unknown_tasks_are_not_found,
                pages_are_in_submit_order,
                pages_of_a_filter_are_full,
                a_page_of_no_size_is_refused,
                filters_select_matching_tasks,
                a_prefix_is_no_pattern,
                counts_are_by_kind_and_state,
                a_record_shows_owner_and_queue,
                limits_are_the_same,
                errors_read_the_same,
                a_namespace_has_one_identity_of_its_own,
                the_identity_is_durable needs Reopen,
                a_task_submitted_again_has_another_order,
            }
            counts {
                every_change_is_counted,
                what_is_available_is_counted,
            }
            ends {
                deleting_one_leaves_its_neighbours,
                deleting_ends_the_claim,
                a_deleted_id_is_free,
                deletions_are_independent,
                a_retry_starts_again,
                a_retry_forgets_the_result,
                a_live_task_is_not_retried,
                one_id_twice_is_retried_once,
                purge_deletes_only_matching_tasks,
                retention_prunes_only_what_has_ended,
                retention_counts_from_the_end,
            }
            data_versions {
                they_survive,
                watches_report_them,
                a_lost_claim_leaves_them,
                a_retry_keeps_them,
                a_replacement_begins_with_the_first,
                a_move_keeps_them needs Transfer,
            }
            waits {
                a_task_waits_for_others,
                a_message_waits,
                watches_report_waiters,
                a_task_that_is_live_again_blocks,
                a_deadline_ends_a_wait,
                a_command_does_not_end_a_wait_by_itself,
                a_wait_that_is_over_is_forgotten,
                a_retry_waits_again,
                many_wait,
                a_circle_is_refused,
                a_move_keeps_the_wait needs Transfer,
            }
            long_waits {
                any_order_of_ends,
                any_of_them_blocks_again,
                many_wait_for_many,
            }
            limits {
                at_most_so_many_are_claimed_at_once needs Limits,
                every_end_of_a_claim_frees_its_slot needs Limits,
                a_lost_lease_frees_its_slots needs Limits,
                a_lost_answer_takes_no_second_slot needs Limits,
                starts_are_counted_within_the_period needs Limits Clock,
                a_commanded_task_is_claimed_over_the_limit needs Limits,
                a_signal_waits_with_a_held_back_task needs Limits,
                each_task_has_its_own_number needs Limits,
                a_record_names_the_limit needs Limits,
                slots_and_lines_are_durable needs Limits Reopen,
                a_move_keeps_the_limits needs Limits Transfer,
            }
            lines {
                a_claim_takes_a_slot_of_every_limit needs Limits,
                a_line_reports_one_task_for_each_slot needs Limits,
                the_first_of_a_line_of_starts_sleeps needs Limits,
                a_task_that_leaves_the_line_lets_the_next_pass needs Limits,
                a_reschedule_changes_the_limits needs Limits,
                a_task_that_no_node_claims_does_not_block needs Limits Clock,
                a_late_task_is_claimed_over_a_full_limit needs Limits Clock,
                watches_report_the_key needs Limits,
                a_task_that_goes_before_the_next_is_the_next needs Limits,
                a_shorter_period_does_not_wait_for_a_longer_one needs Limits Clock,
            }
            line_clocks {
                a_time_in_advance_is_revised needs Limits Clock,
                patience_is_judged_by_the_clock_of_now needs Limits Clock,
            }
            reservations {
                a_task_with_two_limits_comes_to_its_turn needs Limits,
                slots_are_kept_for_one_task_at_a_time needs Limits,
                a_task_that_is_gone_keeps_no_slot needs Limits,
                a_task_that_no_node_claims_keeps_no_slot needs Limits Clock,
            }
            usage {
                the_limits_in_use_are_listed needs Limits,
            }
            moving {
                a_task_from_another_store_is_complete needs Transfer,
                a_task_for_another_store_is_complete needs Transfer,
                imported_tasks_come_before_later_submits needs Transfer,
                fences_go_on_growing needs Transfer,
                fences_grow_past_a_delete needs Transfer,
                waiting_commands_go_on_waiting needs Transfer,
                nodes_see_imported_tasks needs Transfer,
                a_taken_id_takes_nothing needs Transfer,
                one_id_twice_is_imported_once needs Transfer,
                a_claimed_task_is_not_exported needs Transfer,
                a_lost_claim_counts_after_an_import needs Transfer,
                a_task_that_is_too_large_is_refused needs Transfer,
                imported_ended_tasks_can_be_retried_and_purged needs Transfer,
            }
            copies {
                a_waiting_task_from_another_store_keeps_its_history needs Transfer,
                a_waiting_task_for_another_store_keeps_its_history needs Transfer,
                a_copied_store_takes_no_tasks_and_no_nodes needs Transfer,
            }
            replacing {
                a_copy_that_is_refused_leaves_the_target needs Transfer,
                an_import_takes_the_place_of_the_task_it_names needs Transfer,
                a_refused_import_leaves_the_old_task needs Transfer,
            }
            changes {
                the_history_of_a_task,
                a_limit_means_the_last,
                changes_from_now_on,
                changes_go_on_after_one,
                changes_from_the_beginning,
                followers_do_not_take_from_each_other,
                pruned_history_is_refused,
                a_cursor_beyond_the_end_is_refused,
            }
            durability {
                joins_are_durable needs Reopen,
                renewals_are_durable needs Reopen,
                descriptions_are_durable needs Reopen,
                leaves_are_durable needs Reopen,
                claims_are_durable needs Reopen,
                node_commands_are_durable needs Reopen,
                outcomes_of_node_commands_are_durable needs Reopen,
                deletions_are_durable needs Reopen,
                retries_are_durable needs Reopen,
                purges_are_durable needs Reopen,
                imports_are_durable needs Reopen Transfer,
            }
            quarantine {
                counts_include_it needs CorruptState,
                it_does_not_stop_the_others needs CorruptState,
                it_stays_listed_with_the_reason needs CorruptState,
                watches_report_a_quarantine needs CorruptState,
                a_retry_starts_it_from_its_props needs CorruptState,
                a_retry_goes_on_counting needs CorruptState,
                one_that_can_be_read_again_goes_on needs CorruptState RepairState,
                an_ended_task_stays_ended needs CorruptState,
                the_same_submit_reports_it needs CorruptState,
                each_quarantine_is_in_the_history needs CorruptState,
                it_can_be_deleted needs CorruptState,
                an_unreadable_envelope_is_quarantined needs CorruptEnvelope,
                a_retry_of_an_unreadable_envelope_is_refused needs CorruptEnvelope,
                a_claimed_task_is_not_retried needs CorruptState,
            }
            examine {
                a_store_in_order_has_nothing_wrong needs Examine,
                an_unreadable_state_is_reported needs Examine CorruptState,
                an_unreadable_envelope_is_reported needs Examine CorruptEnvelope,
            }
        }
    };
}
