//! The index after each change of a key.

mod of_changes;

use jiff::Timestamp;
use windlass_statemachine::{Json, StateKind, Task, TaskId, TaskState, TaskStatus};

use super::{
    entry::IndexKey,
    rows::{Found, Rows, STEP},
};
use crate::store::{
    Availability, Filter, Order, Place, Span,
    etcd::schema::{
        Entry, Envelope, Fences, KeyValue, Part, Recent,
        json::write,
        records::{Hold, write_state},
    },
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn id(n: u8) -> TaskId {
    format!("t{n}").parse().unwrap()
}

/// The value of the envelope of a task, live or ended.
fn envelope(kind: &str, order: u64, ended: bool) -> KeyValue {
    enveloped(kind, order, ended.then_some(0))
}

/// The value of the envelope of a live task, or of an ended one with props of this length.
fn enveloped(kind: &str, order: u64, ended: Option<usize>) -> KeyValue {
    let task = Task::new(id(0), kind.parse().unwrap());
    let mut envelope = Envelope::new(&task, at(1), 0);
    envelope.order = Some(order);
    if let Some(length) = ended {
        envelope.state = Some(StateKind::Completed);
        envelope.ended_at = Some(at(9));
        envelope.props = Some(Json::parse("props", &text(length)).unwrap());
    }
    KeyValue::new("k", &write("envelope", &envelope).unwrap(), 1)
}

/// A JSON text with so many characters between its quotes.
fn text(length: usize) -> String {
    format!("{:?}", "x".repeat(length))
}

/// The value of a state, with a line of its history and data of this length.
fn stored(status: TaskStatus, data: usize) -> KeyValue {
    let mut state = TaskState::new(at(1));
    state.status = status;
    state.data = (data > 0).then(|| Json::parse("data", &text(data)).unwrap());
    let mut lines = Recent::default();
    lines.push(1, Entry::write(at(2), (0, None), &[]).unwrap());
    let text = write_state(&state, &Hold::default()).unwrap();
    KeyValue::new("k", &lines.extend(text), 1)
}

fn state(status: TaskStatus) -> KeyValue {
    stored(status, 0)
}

/// An index of runnable tasks 1 to `n`, of which each tenth sleeps until the second of its number.
fn rows(n: u64) -> Rows {
    let (mut rows, fences) = (Rows::default(), Fences::default());
    for order in 1..=n {
        let id: TaskId = format!("t{order}").parse().unwrap();
        let task = envelope("a", order, false);
        rows.take(
            id.clone(),
            &IndexKey::Part(Part::Task),
            Some(&task),
            &fences,
        );
        if order % 10 == 0 {
            let until = at(i64::try_from(order).unwrap());
            let asleep = state(TaskStatus::Sleeping { until });
            rows.take(id, &IndexKey::State, Some(&asleep), &fences);
        }
    }
    rows
}

fn span((order, ascending): (Order, bool), after: Option<Place>, limit: usize) -> Span {
    Span {
        order,
        ascending,
        after,
        limit,
        without_props: false,
        only_waiting: false,
    }
}

fn ids_of(found: &Found) -> Vec<TaskId> {
    let tasks = found.known.tasks.iter();
    tasks.map(|task| task.id.clone()).collect()
}

/// The ids of a list, step by step.
fn list(rows: &Rows, filter: &Filter, towards: (Order, bool), most: usize) -> (Vec<TaskId>, usize) {
    let (mut ids, mut after, mut steps) = (Vec::new(), None::<Place>, 0);
    loop {
        let found = rows.step(filter, &span(towards, after, most));
        ids.extend(ids_of(&found));
        steps += 1;
        match found.last {
            Some(last) => after = Some(last),
            None => return (ids, steps),
        }
    }
}

#[test]
fn every_step_goes_on_where_the_last_one_ended() {
    let rows = rows(55);
    for most in [1, 7, 100] {
        let (ids, _) = list(&rows, &Filter::default(), (Order::Submitted, true), most);
        let all: Vec<TaskId> = (1..=55).map(|n| format!("t{n}").parse().unwrap()).collect();
        assert_eq!(ids, all);
        let (ids, _) = list(&rows, &Filter::default(), (Order::Due, false), most);
        assert_eq!(
            ids,
            ["t50", "t40", "t30", "t20", "t10"].map(|id| id.parse().unwrap())
        );
    }
    let after = |order| Place {
        at: 0,
        order,
        id: None,
    };
    let all = Filter::default();
    let behind = rows.step(&all, &span((Order::Submitted, true), Some(after(54)), 9));
    assert_eq!(ids_of(&behind), ["t55".parse().unwrap()]);
    let behind = rows.step(&all, &span((Order::Submitted, false), Some(after(2)), 9));
    assert_eq!(ids_of(&behind), ["t1".parse().unwrap()]);
}

#[test]
fn tasks_are_listed_by_id_and_by_end() {
    let (mut rows, fences) = (rows(25), Fences::default());
    for order in [3, 20, 7] {
        let ended = TaskStatus::Killed;
        let mut state = TaskState::new(at(100 - order));
        state.status = ended;
        let text = write_state(&state, &Hold::default()).unwrap();
        let (id, kv): (TaskId, _) = (
            format!("t{order}").parse().unwrap(),
            KeyValue::new("k", &text, 1),
        );
        rows.take(id, &IndexKey::State, Some(&kv), &fences);
    }
    let all = Filter::default();
    for most in [1, 2, 100] {
        let (ids, _) = list(&rows, &all, (Order::Ended, true), most);
        assert_eq!(ids, ["t20", "t7", "t3"].map(|id| id.parse().unwrap()));
        let (ids, _) = list(&rows, &all, (Order::Ended, false), most);
        assert_eq!(ids, ["t3", "t7", "t20"].map(|id| id.parse().unwrap()));
        let mut some = Filter::default();
        (some.ended.from, some.ended.until) = (Some(at(93)), Some(at(93)));
        let (ids, _) = list(&rows, &some, (Order::Ended, true), most);
        assert_eq!(
            ids[0].as_str(),
            "t7",
            "the list begins at the time of the filter"
        );
        let (ids, _) = list(&rows, &some, (Order::Ended, false), most);
        assert_eq!(ids[0].as_str(), "t7");
        let (ids, _) = list(&rows, &all, (Order::Id, false), most);
        let mut expected: Vec<TaskId> =
            (1..=25).map(|n| format!("t{n}").parse().unwrap()).collect();
        expected.sort();
        expected.reverse();
        assert_eq!(ids, expected);
    }
}

#[test]
fn a_step_looks_at_a_bounded_number_of_tasks() {
    let many = u64::try_from(STEP).unwrap() + 10;
    let none = Filter {
        kind: Some("b".parse().unwrap()),
        ..Filter::default()
    };
    let (ids, steps) = list(&rows(many), &none, (Order::Submitted, true), 10);
    assert_eq!((ids.len(), steps), (0, 2));
}

#[test]
fn sleepers_are_available_from_their_wake_up_on() {
    let (counter, complete) = rows(55).counter(at(25));
    assert!(complete);
    let stats = counter.into_stats(true);
    let counted = |availability| {
        let groups = stats.groups.iter();
        let of = groups.filter(|group| group.availability == availability);
        of.map(|group| group.tasks).sum::<u64>()
    };
    assert_eq!(counted(Availability::Available), 50 + 2);
    assert_eq!(counted(Availability::Future), 3);
    let mut sleeping = stats.groups.iter();
    let sleeping = sleeping.find(|group| {
        group.state == Some(StateKind::Sleeping) && group.availability == Availability::Available
    });
    assert_eq!(sleeping.unwrap().oldest_due, Some(at(10)));
}
