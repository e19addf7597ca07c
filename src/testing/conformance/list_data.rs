//! The list of the cases of stores: durability, copies and damage.

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_of_data {
    ($($before:tt)*) => {
        $crate::__conformance_cases! { $($before)*
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
            moments {
                what_a_transaction_moves_is_exported_once needs Transfer,
                a_moment_does_not_change needs Transfer,
                nodes_and_claims_are_those_of_the_moment needs Transfer,
                times_of_a_task_are_the_same_in_every_store needs Transfer,
            }
            copies {
                a_waiting_task_from_another_store_keeps_its_history needs Transfer,
                a_waiting_task_for_another_store_keeps_its_history needs Transfer,
                a_copied_store_takes_no_tasks_and_no_nodes needs Transfer,
                what_changes_before_the_mark_is_reported needs Transfer,
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
