//! The list of the cases of stores: nodes.

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_of_nodes {
    ($($before:tt)*) => {
        $crate::__conformance_of_data! { $($before)*
            deadlines {
                a_parked_task_is_claimed_at_its_deadline needs Clock,
                watches_report_deadlines,
                a_retry_ignores_deadlines_that_have_passed needs Clock,
                deadlines_are_durable needs Reopen,
                a_moved_task_has_its_deadlines needs Transfer Clock,
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
                a_release_reports_what_still_waits,
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
                a_task_of_a_lost_node_is_deleted_by_force_only,
                an_abandoned_claim_counts_once,
                leaving_releases_the_tasks,
                an_abandoned_lease_ends_at_once,
                node_commands_are_answered,
                a_foreign_lease_answers_no_command,
                a_dead_node_takes_no_commands,
                peers_are_live_nodes,
            }
            data_versions {
                they_survive,
                watches_report_them,
                a_lost_claim_leaves_them,
                a_retry_keeps_them,
                a_replacement_begins_with_the_first,
                a_move_keeps_them needs Transfer,
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
            limits_of_props {
                a_limit_follows_the_props needs Limits,
                props_without_the_value_of_a_key_are_refused,
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
                another_period_is_another_limit needs Limits Clock,
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
            logs {
                lines_are_kept_with_their_attempt,
                a_commit_writes_its_lines,
                lines_are_taken_once,
                a_stale_owner_logs_nothing,
                the_oldest_lines_go_first,
                a_deleted_task_has_no_lines,
                lines_are_durable needs Reopen,
                a_moved_task_has_its_lines needs Transfer,
                a_damaged_part_is_reported needs CorruptLog,
                a_damaged_part_is_found_and_repaired needs Examine CorruptLog,
            }
            workers {
                a_worker_keeps_its_lease needs Workers,
                another_secret_is_refused needs Workers,
                a_worker_is_read_and_listed needs Workers,
                a_description_keeps_the_worker needs Workers,
                a_node_is_no_worker needs Workers,
                a_lost_worker_abandons_its_tasks needs Workers,
                a_greater_seq_takes_the_place needs Workers,
                a_status_is_that_of_the_speaker needs Workers,
                nodes_receive_commands_to_workers needs Workers,
                workers_are_durable needs Workers Reopen,
            }
            worker_claims {
                another_speaker_claims_nothing needs Workers,
                claims_are_read_without_a_change needs Workers,
                some_claims_are_read needs Workers,
                a_claim_of_a_worker_is_made_once needs Workers,
                a_read_claim_is_continued needs Workers,
                nodes_receive_tasks_of_workers needs Workers,
                a_slot_of_a_worker_frees_the_next needs Workers Limits,
            }
            usage {
                the_limits_in_use_are_listed needs Limits,
                a_limit_keeps_its_template_wherever_it_is_shown needs Limits,
            }
        }
    };
}
