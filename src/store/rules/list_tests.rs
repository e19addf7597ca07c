//! Pages that are made of the tasks a store reads.

use jiff::Timestamp;
use windlass_statemachine::{Fence, TaskState, TaskStatus};

use super::*;
use crate::{NewTask, store::Filter};

/// A task of this submit order that ended at this second; a live one without it.
fn record(order: u64, ended: Option<i64>) -> TaskRecord {
    let task = NewTask::new("k").id(format!("t{order}")).props(&order);
    let mut state = TaskState::new(Timestamp::UNIX_EPOCH);
    if let Some(second) = ended {
        state.since = Timestamp::from_second(second).unwrap();
        state.status = TaskStatus::Killed;
    }
    TaskRecord {
        task: task.build().unwrap().task,
        state: Ok(state),
        order,
        submitted_at: Timestamp::UNIX_EPOCH,
        node: None,
        fence: Fence::default(),
        commands: 0,
        limited_by: None,
    }
}

/// The page of a query among these tasks.
fn read(all: &[TaskRecord], query: &Query, cursor: Option<&Cursor>) -> TaskPage {
    let mut selection = Selection::of(span(query, cursor).unwrap());
    for record in all {
        selection.take(record.clone());
    }
    page(query, cursor, selection.into_tasks())
}

fn orders(page: &TaskPage) -> Vec<u64> {
    page.tasks.iter().map(|record| record.order).collect()
}

#[test]
fn every_page_size_lists_every_task_once_in_both_directions() {
    let all: Vec<TaskRecord> = (1..=7).map(|n| record(n, None)).collect();
    for ascending in [true, false] {
        for limit in 1..=8 {
            let mut query = Query::new(Filter::default()).limit(limit);
            query.ascending = ascending;
            let mut expected: Vec<u64> = (1..=7).collect();
            if !ascending {
                expected.reverse();
            }
            let mut pages = vec![read(&all, &query, None)];
            assert_eq!(pages[0].previous, None);
            while let Some(next) = pages.last().unwrap().next.clone() {
                pages.push(read(&all, &query, Some(&next)));
            }
            let listed: Vec<u64> = pages.iter().flat_map(orders).collect();
            assert_eq!(listed, expected, "{limit}");
            // The pages are the same on the way back.
            while pages.len() > 1 {
                let last = pages.pop().unwrap();
                let back = read(&all, &query, last.previous.as_ref());
                assert_eq!(orders(&back), orders(pages.last().unwrap()), "{limit}");
                assert!(back.next.is_some());
            }
            let first = pages.pop().unwrap();
            assert!(first.previous.is_none());
        }
    }
}

#[test]
fn a_list_by_end_has_ended_tasks_only_and_equal_times_follow_their_submits() {
    let all = [
        record(1, Some(5)),
        record(2, None),
        record(3, Some(4)),
        record(4, Some(5)),
    ];
    let query = Query::new(Filter::default()).order(Order::Ended);
    assert_eq!(orders(&read(&all, &query, None)), [4, 1, 3]);
    assert_eq!(orders(&read(&all, &query.reversed(), None)), [3, 1, 4]);
}

#[test]
fn a_list_by_wake_up_has_sleeping_tasks_only() {
    let mut all = [1, 2, 3, 4].map(|order| record(order, None));
    for (task, second) in [(0, 9), (2, 5), (3, 9)] {
        let until = Timestamp::from_second(second).unwrap();
        let state = all[task].state.as_mut().unwrap();
        state.status = TaskStatus::Sleeping { until };
    }
    let query = Query::new(Filter::default()).order(Order::Due);
    assert_eq!(orders(&read(&all, &query, None)), [3, 1, 4]);
    assert_eq!(orders(&read(&all, &query.reversed(), None)), [4, 1, 3]);
}

#[test]
fn a_cursor_outlives_its_task() {
    let all: Vec<TaskRecord> = (1..=5).map(|n| record(n, None)).collect();
    let query = Query::new(Filter::default()).limit(2);
    let next = read(&all, &query, None).next.unwrap();
    // The tasks of the first page were deleted, and a newer task was added.
    let later = [&all[..3], &[record(9, None)]].concat();
    let page = read(&later, &query, Some(&next));
    assert_eq!(orders(&page), [3, 2]);
}

#[test]
fn a_cursor_of_another_list_is_refused() {
    let all = [record(1, None), record(2, None)];
    let query = Query::new(Filter::default()).limit(1);
    let cursor = read(&all, &query, None).next.unwrap();
    for other in [query.clone().order(Order::Ended), query.clone().reversed()] {
        let refused = span(&other, Some(&cursor)).unwrap_err().to_string();
        assert!(
            refused.starts_with("cursor: belongs to a list by submitted, "),
            "{refused}"
        );
    }
    let mut failed = query.clone();
    failed
        .filter
        .states
        .push(windlass_statemachine::StateKind::Failed);
    let refused = span(&failed, Some(&cursor)).unwrap_err().to_string();
    assert!(
        refused.starts_with("cursor: belongs to a list with another filter"),
        "{refused}"
    );
    // A command with "of the last hour" has another time for each page.
    let mut later = query.clone();
    later.filter.submitted.from = Some(jiff::Timestamp::UNIX_EPOCH);
    assert!(span(&later, Some(&cursor)).is_ok());
    let refused = span(&query.limit(0), None).unwrap_err().to_string();
    assert!(refused.starts_with("limit: is 0"), "{refused}");
}

#[test]
fn props_are_left_out_when_asked() {
    let all = [record(1, None)];
    let query = Query::new(Filter::default());
    assert_eq!(read(&all, &query, None).tasks[0].task.props.as_str(), "1");
    let page = read(&all, &query.without_props(), None);
    assert!(page.tasks[0].task.props.is_null());
}

/// Regression: a list by wake-up of runnable tasks, or of those that wait for a slot, was empty.
#[test]
fn an_order_that_leaves_out_the_tasks_of_the_filter_is_refused() {
    use StateKind::{Completed, Failed, Paused, Runnable, Sleeping};
    let asleep = Filter::new().states([Sleeping]);
    let claimed = |mut filter: Filter| {
        filter.claimed = true;
        filter
    };
    let quarantined = Filter {
        quarantined: true,
        ..Filter::default()
    };
    let of_ends = Filter {
        ended: crate::store::TimeRange::new(Timestamp::UNIX_EPOCH, None),
        ..Filter::default()
    };
    let states = |states: &[StateKind]| Filter::new().states(states.iter().copied());
    for (filter, waits, due, ended) in [
        (Filter::default(), None, true, true),
        (asleep.clone(), None, true, false),
        (states(&[Runnable]), None, false, false),
        (states(&[Runnable, Sleeping]), None, false, false),
        (states(&[Paused]), None, false, false),
        (states(&[Completed, Failed]), None, false, true),
        (states(&[Failed, Runnable]), None, false, false),
        (Filter::default(), Some(WaitKind::Tasks), true, false),
        (Filter::default(), Some(WaitKind::Full), false, false),
        (asleep.clone(), Some(WaitKind::NoNode), false, false),
        (Filter::default(), Some(WaitKind::Signal), false, false),
        (claimed(Filter::default()), None, false, false),
        (claimed(asleep), None, true, false),
        (quarantined, None, false, false),
        (of_ends, None, false, true),
    ] {
        let mut query = Query::new(filter);
        query.waits = waits;
        for (order, is_listed) in [
            (Order::Due, due),
            (Order::Ended, ended),
            (Order::Submitted, true),
            (Order::Id, true),
        ] {
            let checked = span(&query.clone().order(order), None);
            let refused = checked.err().map(|error| error.to_string());
            assert_eq!(
                refused.is_none(),
                is_listed,
                "{order} of {query:?}: {refused:?}"
            );
            let names = format!("order: '{order}' lists only");
            assert!(refused.is_none_or(|text| text.starts_with(&names)));
        }
    }
}
