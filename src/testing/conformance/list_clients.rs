//! The list of the cases of stores: clients.

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_of_clients {
    ($($before:tt)*) => {
        $crate::__conformance_of_nodes! { $($before)*
            submit {
                a_new_task_is_runnable,
                a_future_start_sleeps,
                a_past_start_is_runnable,
                a_paused_task_is_paused_from_its_submit_on,
                a_live_id_is_refused,
                an_ended_id_is_refused,
                the_same_task_exists,
                another_task_is_not_the_same,
                a_refusal_says_how_the_task_differs needs Effects,
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
                an_order_names_one_task_of_an_id,
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
                a_schedule_has_the_props_of_one,
                a_schedule_keeps_its_kind,
                a_schedule_is_changed_by_its_own_operations,
                a_time_after_a_deadline_is_refused,
                a_retry_takes_other_props_and_data,
                a_claimed_task_is_deleted_by_force_only,
                guards_alone_are_answered,
            }
            debounce {
                a_waiting_task_gets_the_props_and_the_time,
                only_a_task_that_waits_for_its_time_is_changed,
                terms_of_a_new_task_are_refused,
                a_transaction_changes_a_waiting_task_once,
                effects_change_a_waiting_task needs Effects,
                many_at_once_leave_one_task,
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
                moved_keys_keep_their_holders needs Transfer,
            }
            spared {
                retention_spares_what_a_waiting_task_names,
                a_purge_spares_what_a_waiting_task_names,
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
            authors {
                each_change_names_its_author,
                effects_are_by_their_task needs Effects,
                what_leaves_no_task_is_in_the_history_of_the_namespace,
                a_refused_transaction_leaves_no_line,
                authors_are_durable needs Reopen,
                a_moved_task_has_its_authors needs Transfer,
            }
            values {
                values_are_listed_by_folder,
                values_are_durable needs Reopen,
                an_expectation_that_does_not_hold_changes_nothing,
                of_concurrent_writes_one_is_expected,
                a_version_is_never_used_again,
                the_history_of_the_namespace_has_their_writes,
                names_and_sizes_are_checked,
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
            awaited_signals {
                a_task_waits_for_a_signal,
                the_deadline_ends_a_wait_for_a_signal,
                ends_and_copies_of_waits_for_a_signal,
            }
            standings {
                runnable_tasks_are_running_or_queued,
                a_task_waits_since_its_claim_has_ended,
                a_list_by_lateness_has_the_latest_first,
                a_task_is_late_since_it_could_be_claimed,
            }
            notes {
                a_note_stays_with_its_command,
                a_copy_has_the_notes,
            }
            failures {
                failed_tasks_are_grouped,
            }
            counts {
                every_change_is_counted,
                what_is_available_is_counted,
            }
            ends {
                deleting_one_leaves_its_neighbours,
                deleting_ends_the_claim,
                a_deleted_id_is_free,
                the_id_of_a_completed_task_may_be_free,
                deletions_are_independent,
                a_retry_starts_again,
                a_retry_forgets_the_result,
                a_live_task_is_not_retried,
                one_id_twice_is_retried_once,
                purge_deletes_only_matching_tasks,
                retention_prunes_only_what_has_ended,
                retention_counts_from_the_end,
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
                lists_may_have_only_waiting_tasks,
            }
        }
    };
}
