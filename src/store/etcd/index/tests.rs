//! The index after each change of a key.

use jiff::Timestamp;
use proptest::prelude::*;
use windlass_statemachine::{StateKind, Task, TaskId, TaskState, TaskStatus};

use super::{
    entry::Of,
    rows::{Found, Rows, STEP},
};
use crate::store::{
    Availability, Filter, Order, Place,
    etcd::{
        read::KeySet,
        schema::{
            Envelope, Fences, KeyValue, Part,
            json::write,
            records::{Hold, write_state},
        },
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
    let task = Task::new(id(0), kind.parse().unwrap());
    let mut envelope = Envelope::new(&task, at(1), 0);
    envelope.order = Some(order);
    if ended {
        envelope.state = Some(StateKind::Completed);
        envelope.ended_at = Some(at(9));
    }
    KeyValue::new("k", &write("envelope", &envelope).unwrap(), 1)
}

/// The value of a state.
fn state(status: TaskStatus) -> KeyValue {
    let mut state = TaskState::new(at(1));
    state.status = status;
    let text = write_state(&state, &Hold::default()).unwrap();
    KeyValue::new("k", &text, 1)
}

/// One change of one key.
#[derive(Debug, Clone)]
struct Change {
    task: u8,
    key: u8,
    value: Option<u8>,
}

impl Change {
    fn of(&self) -> Of<'static> {
        match self.key {
            0 => Of::Part(Part::Task),
            1 => Of::Part(Part::Owner),
            2 => Of::Finished,
            3 => Of::State,
            4 => Of::Parked,
            5 => Of::Part(Part::Props),
            6 => Of::Part(Part::Slot),
            7 => Of::Part(Part::Command("c")),
            _ => Of::PropsApart,
        }
    }

    /// The set of keys to which this key belongs.
    fn keys(&self) -> KeySet {
        match self.key {
            0 => KeySet::TASK,
            2 => KeySet::FINISHED,
            3 => KeySet::STATE,
            4 => KeySet::PARKED,
            8 => KeySet::PROPS_APART,
            _ => KeySet::PARTS,
        }
    }

    fn kv(&self) -> Option<KeyValue> {
        let value = self.value?;
        let order = u64::from(self.task) + 1;
        Some(match (self.key, value) {
            (0 | 2, 3) => KeyValue::new("k", "{", 1),
            (0 | 2, _) => envelope(["a", "b", "c"][usize::from(value)], order, self.key == 2),
            (3, 0) => state(TaskStatus::Runnable),
            (3, 1) => state(TaskStatus::Sleeping { until: at(50) }),
            (3, 2) => state(TaskStatus::Paused),
            (4, 0) => KeyValue::new("k", r#"{"quarantined":"damaged"}"#, 1),
            (4, _) => KeyValue::new("k", "{}", 1),
            _ => KeyValue::new("k", "?", 1),
        })
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (0..6u8, 0..9u8, prop::option::weighted(0.7, 0..4u8));
    let change = change.prop_map(|(task, key, value)| Change { task, key, value });
    prop::collection::vec(change, 0..80)
}

proptest! {
    /// An index that has followed the changes equals an index that lists the remaining keys.
    #[test]
    fn it_is_the_same_whether_it_followed_or_listed(changes in changes()) {
        let (mut followed, fences) = (Rows::default(), Fences::default());
        let mut left = std::collections::BTreeMap::new();
        for change in &changes {
            followed.take(id(change.task), &change.of(), change.kv().as_ref(), &fences);
            left.remove(&(change.task, change.key));
            if change.value.is_some() {
                left.insert((change.task, change.key), change.clone());
            }
        }
        let mut listed = Rows::default();
        for change in left.values() {
            listed.take(id(change.task), &change.of(), change.kv().as_ref(), &fences);
        }
        prop_assert_eq!(&followed, &listed);
        let tasks: u64 = listed.states().iter().map(|count| count.tasks).sum();
        let of_task = |n: &u8| left.contains_key(&(*n, 0)) || left.contains_key(&(*n, 2));
        prop_assert_eq!(tasks, (0..6).filter(of_task).count() as u64);
        for n in 0..6 {
            let mut keys = KeySet::default();
            for change in left.values().filter(|change| change.task == n) {
                keys.set(change.keys(), true);
            }
            prop_assert_eq!(followed.keys(&id(n)), keys);
        }
    }
}

/// An index of runnable tasks 1 to `n`, of which each tenth sleeps until the second of its number.
fn rows(n: u64) -> Rows {
    let (mut rows, fences) = (Rows::default(), Fences::default());
    for order in 1..=n {
        let id: TaskId = format!("t{order}").parse().unwrap();
        let task = envelope("a", order, false);
        rows.take(id.clone(), &Of::Part(Part::Task), Some(&task), &fences);
        if order % 10 == 0 {
            let until = at(i64::try_from(order).unwrap());
            let asleep = state(TaskStatus::Sleeping { until });
            rows.take(id, &Of::State, Some(&asleep), &fences);
        }
    }
    rows
}

fn ids_of(found: &Found) -> Vec<TaskId> {
    let tasks = found.known.tasks.iter();
    tasks.map(|(id, _)| id.clone()).collect()
}

/// The ids of a list, step by step.
fn list(rows: &Rows, filter: &Filter, towards: (Order, bool), most: usize) -> (Vec<TaskId>, usize) {
    let (mut ids, mut after, mut steps) = (Vec::new(), None::<Place>, 0);
    loop {
        let found = rows.step(filter, towards, after.as_ref(), most);
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
    let behind = rows.step(
        &Filter::default(),
        (Order::Submitted, true),
        Some(&after(54)),
        9,
    );
    assert_eq!(ids_of(&behind), ["t55".parse().unwrap()]);
    let behind = rows.step(
        &Filter::default(),
        (Order::Submitted, false),
        Some(&after(2)),
        9,
    );
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
        rows.take(id, &Of::State, Some(&kv), &fences);
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
