//! What changes put into a write, without a server.

use jiff::Timestamp;
use windlass_statemachine::{
    Command, Json, Kind, Outcome, StateKind, Task, TaskId, TaskState, TaskStatus,
    command::NotedCommand,
};

use super::{
    edit::{Edit, HISTORY, Sent},
    item::{Guard, Item, Op},
    slots::Slots,
};
use crate::store::{
    ChangeKind, Error,
    etcd::schema::{Envelope, KeyValue, Keys, Layout, Snapshot, Stored, TaskKey, end_of},
};

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> T {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// What an edit of the task `a` in the namespace `n` makes.
fn edited(edit: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>) -> Item {
    edited_in(Layout::Shared, edit)
}

fn edited_in(layout: Layout, edit: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>) -> Item {
    let (keys, id) = (Keys::new("n"), parsed("a"));
    keys.keep_layout(layout);
    let mut item = Item::of(&id).at(3, 1);
    edit(&mut Edit::new(&keys, &id, &mut item)).unwrap_or_else(|e| panic!("{e}"));
    item
}

/// Each key with the value that it gets, `-` if it goes.
fn writes(item: &Item) -> Vec<(&str, &str)> {
    let of = |op| match op {
        &Op::Put(ref key, ref value) | &Op::PutOn(ref key, ref value, _) => (&**key, &**value),
        Op::Delete(key) | Op::DeleteRange(key, _) => (&**key, "-"),
        Op::DeleteAt(key, _) | Op::DeleteIf(key, ..) => (&**key, "-?"),
        Op::Get(key) => (&**key, "?"),
        Op::All(_) => ("", ""),
    };
    item.then.iter().map(of).collect()
}

fn command(name: Option<&str>, revision: i64) -> Stored {
    let kv = KeyValue::new("/n/x", r#"{"message":"pause"}"#, revision);
    Stored::read(name, &kv)
}

#[test]
fn a_new_task_leaves_no_state_and_no_mark_of_another_one() {
    let now = parsed::<Timestamp>("2030-01-01T00:00:00Z");
    let kind: Kind = parsed("k");
    let task = Task::new(parsed("a"), kind);
    let item = edited(|edit| edit.put_task(&task, 3, now));
    let (at, place) = (r#""submitted_at":"2030-01-01T00:00:00Z""#, r#""place":3"#);
    let envelope = format!(r#"{{"kind":"k",{at},{place}}}"#);
    let expected = [
        ("/n/tasks/a", &*envelope),
        ("/n/parked/a", "-"),
        ("/n/state/a", "-"),
    ];
    assert_eq!(writes(&item), expected);
    assert_eq!(item.touches, ["ta"]);
}

#[test]
fn a_task_that_starts_later_sleeps_by_its_state_and_its_mark() {
    let now = parsed::<Timestamp>("2030-01-01T00:00:00Z");
    let mut task = Task::new(parsed("a"), parsed("k"));
    task.start_at = Some(parsed("2030-01-02T00:00:00Z"));
    task.props = Json::parse("props", "[1]").unwrap_or_else(|e| panic!("{e}"));
    let item = edited(|edit| edit.put_task(&task, 0, now));
    let written = writes(&item);
    let keys: Vec<&str> = written.iter().map(|(key, _)| *key).collect();
    let expected = [
        "/n/tasks/a",
        "/n/tasks/a/props",
        "/n/parked/a",
        "/n/state/a",
    ];
    assert_eq!(keys, expected);
    assert_eq!(written[1].1, "[1]");
    assert_eq!(written[2].1, r#"{"until":"2030-01-02T00:00:00Z"}"#);
    assert!(
        written[3].1.contains(r#""state":"sleeping""#),
        "{written:?}"
    );
}

#[test]
fn a_command_is_queued_with_a_pointer_that_must_be_free() {
    let (id, at) = (parsed("c"), parsed("2030-01-01T00:00:00Z"));
    let command = NotedCommand::new(Command::Pause, None);
    let sent = Sent {
        id: &id,
        command: &command,
        at,
        place: 5,
        pointer: 9,
    };
    let item = edited(|edit| edit.put_command(&sent));
    assert_eq!(item.when, [Guard::At("/n/commands/c".into(), 9)]);
    let text = r#"{"message":"pause","sent_at":"2030-01-01T00:00:00Z","place":5}"#;
    let expected = [("/n/tasks/a/commands/c", text), ("/n/commands/c", r#""a""#)];
    assert_eq!(writes(&item), expected);
    assert_eq!(item.touches, ["ta", "cc"]);
}

#[test]
fn a_transition_settles_its_commands_and_an_end_all_of_them() {
    let queue = [
        command(Some("c"), 1),
        command(Some("d"), 2),
        command(None, 4),
    ];
    let reason = "why".to_owned();
    let outcomes = [(queue[1].order, Outcome::Rejected { reason })];
    let keys_of = |item: &Item| -> Vec<String> {
        let all = writes(item).into_iter();
        all.map(|(key, value)| format!("{key}{}", if value.starts_with('-') { value } else { "" }))
            .collect()
    };
    let item = edited(|edit| edit.settle(&queue, &outcomes, None));
    assert_eq!(
        keys_of(&item),
        ["/n/outcomes/a/d", "/n/tasks/a/commands/d-"]
    );
    let item = edited(|edit| edit.settle(&queue, &outcomes, Some(StateKind::Killed)));
    let slot = format!("/n/outcomes/a/slot-{}", queue[2].order);
    assert_eq!(
        keys_of(&item),
        ["/n/outcomes/a/c", "/n/outcomes/a/d", &slot]
    );
    let ended = &writes(&item)[0].1;
    assert!(
        ended.contains("the task has ended: it is killed"),
        "{ended}"
    );
    assert!(writes(&item)[1].1.contains("why"));
}

#[test]
fn history_is_cut_off_in_steps() {
    let at = parsed("2030-01-01T00:00:00Z");
    let cuts = |version| {
        let fence = windlass_statemachine::Fence(2);
        let what = [ChangeKind::Dropped { fence }];
        let item = edited(|edit| edit.put_history(version, &what, at));
        let cut = |op: &Op| match op {
            Op::DeleteRange(from, to) => {
                Some((from.clone(), String::from_utf8_lossy(to).into_owned()))
            }
            _ => None,
        };
        item.then.iter().find_map(cut)
    };
    assert_eq!((cuts(HISTORY - 16), cuts(HISTORY + 1)), (None, None));
    let upto = "/n/history/a/000000000016~".to_owned();
    assert_eq!(cuts(HISTORY + 16), Some(("/n/history/a/".to_owned(), upto)));
}

/// A task with these commands; none stands for the single slot.
fn with_commands(names: &[Option<&str>], others: &[&str]) -> Snapshot {
    Snapshot {
        queue: names.iter().map(|name| command(*name, 1)).collect(),
        others: others.iter().map(|key| key.as_bytes().to_vec()).collect(),
        ..Snapshot::default()
    }
}

#[test]
fn the_parts_of_a_live_task_are_its_owner_its_props_and_its_commands() {
    let (owner, props) = ("/n/tasks/a/owner", "/n/tasks/a/props");
    let (slot, queue) = ("/n/tasks/a/commands", "/n/tasks/a/commands/");
    for (names, keys) in [
        (&[][..], &[owner, props][..]),
        (&[None], &[owner, props, slot]),
        (&[Some("c"), Some("d")], &[owner, props, queue]),
        (&[None, Some("c")], &[owner, props, slot, queue]),
    ] {
        let found = with_commands(names, &[]);
        let item = edited(|edit| {
            edit.delete_parts(&found);
            Ok(())
        });
        let deleted: Vec<&str> = writes(&item).iter().map(|(key, _)| *key).collect();
        assert_eq!(deleted, keys, "{names:?}");
    }
}

#[test]
fn props_are_put_apart_and_deleted_where_they_are() {
    let now = parsed::<Timestamp>("2030-01-01T00:00:00Z");
    let mut task = Task::new(parsed("a"), parsed("k"));
    task.props = Json::parse("props", "[1]").unwrap_or_else(|e| panic!("{e}"));
    let item = edited_in(Layout::Compact, |edit| edit.put_task(&task, 0, now));
    assert_eq!(writes(&item)[1], ("/n/meta/props/a", "[1]"));
    let stored = |key: &str, value: &str, at| Some(KeyValue::new(key, value, at));
    let (beside, apart) = ("/n/tasks/a/props", "/n/meta/props/a");
    for (old, new, props, keys) in [
        (Some(3), None, "[3]", &[beside][..]),
        (None, Some(4), "[4]", &[apart]),
        // A client of Metafora wrote them again.
        (Some(5), Some(4), "[5]", &[beside, apart]),
        // Those of an earlier task, which a client of Metafora has deleted.
        (None, Some(2), "null", &[apart]),
        (Some(3), Some(2), "[3]", &[beside, apart]),
        (None, None, "null", &[beside]),
    ] {
        let found = Snapshot {
            task: stored("/n/tasks/a", "", 3),
            props: old.and_then(|at| stored(beside, &format!("[{at}]"), at)),
            props_apart: new.and_then(|at| stored(apart, &format!("[{at}]"), at)),
            ..Snapshot::default()
        };
        let task = found.whole_task(&parsed("a"));
        assert_eq!(
            task.map(|task| task.props.to_string()),
            Ok(props.to_owned())
        );
        let item = edited(|edit| {
            edit.delete_parts(&found);
            Ok(())
        });
        let deleted: Vec<&str> = writes(&item).iter().map(|(key, _)| *key).collect();
        assert_eq!(deleted[1..], *keys, "{props}");
    }
}

#[test]
fn a_task_inside_the_queue_of_another_is_left() {
    let range = |others: &[&str]| {
        let found = with_commands(&[Some("c")], others);
        let item = edited(|edit| {
            edit.delete_parts(&found);
            Ok(())
        });
        item.then.last().cloned()
    };
    let own = "/n/tasks/a/commands/c".to_owned();
    let after = format!("{own}\0").into_bytes();
    let inside = range(&["/n/tasks/a/commands/c/d", "/n/tasks/a0/x"]);
    assert_eq!(inside, Some(Op::DeleteRange(own, after)));
    let queue = "/n/tasks/a/commands/".to_owned();
    let end = end_of(&queue);
    assert_eq!(range(&["/n/tasks/a0/x"]), Some(Op::DeleteRange(queue, end)));
}

#[test]
fn an_edit_compares_what_was_found() {
    let found = Snapshot {
        task: Some(KeyValue::new("/n/tasks/a", "", 4)),
        ..Snapshot::default()
    };
    let item = edited(|edit| {
        edit.when(TaskKey::Finished, 7);
        edit.when_there(TaskKey::Owner);
        edit.when_as_found(&found, &[TaskKey::Task, TaskKey::Props]);
        edit.when_no_command_since(9);
        edit.when_waits(&command(Some("c"), 3));
        edit.when_waits(&command(None, 5));
        Ok(())
    });
    let slot = "/n/tasks/a/commands".to_owned();
    let expected = [
        Guard::At("/n/finished/a".into(), 7),
        Guard::There("/n/tasks/a/owner".into()),
        Guard::At("/n/tasks/a".into(), 4),
        Guard::At("/n/tasks/a/props".into(), 0),
        Guard::NotAfter(slot.clone(), format!("{slot}0"), 9),
        Guard::At("/n/tasks/a/commands/c".into(), 3),
        Guard::At(slot, 5),
    ];
    assert_eq!(item.when, expected);
}

#[test]
fn an_owner_is_on_its_lease_and_names_that_of_its_node() {
    let item = edited(|edit| {
        let slots = Slots {
            token: 9,
            picks: &[],
        };
        edit.put_owner(&parsed("w"), 8, &slots)
    });
    let (key, owner) = ("/n/tasks/a/owner", r#"{"node":"w","lease":8}"#);
    assert_eq!(item.then, [Op::PutOn(key.into(), owner.into(), 9)]);
}

#[test]
fn a_task_that_cannot_be_read_has_a_mark_and_a_line_beside_its_history() {
    let at = parsed("2030-01-01T00:00:00Z");
    let item = edited(|edit| {
        edit.put_quarantined("no JSON")?;
        edit.put_line("quarantined-7", ChangeKind::Quarantined, at)
    });
    let line = r#"{"at":"2030-01-01T00:00:00Z","place":3,"what":[{"what":"quarantined"}]}"#;
    let expected = [
        ("/n/parked/a", r#"{"quarantined":"no JSON"}"#),
        ("/n/history/a/quarantined-7", line),
    ];
    assert_eq!(writes(&item), expected);
}

/// The keys that the end of a task deletes in addition to its envelope, owner and props.
fn deleted_at_the_end(queue: &[Stored], room: usize) -> Vec<String> {
    let task = Task::new(parsed::<TaskId>("a"), parsed("k"));
    let envelope = Envelope::new(&task, Timestamp::UNIX_EPOCH, 0);
    let mut state = TaskState::new(Timestamp::UNIX_EPOCH);
    state.status = TaskStatus::Killed;
    let item = edited(|edit| edit.end(queue, room, &[TaskKey::Props], &envelope, &state));
    let mut written = writes(&item);
    let index = ("/n/meta/ended/8000000000000000/a", r#""killed""#);
    assert_eq!(written.pop(), Some(index));
    assert_eq!(written.pop().map(|(key, _)| key), Some("/n/finished/a"));
    assert!(
        written.iter().all(|(_, value)| *value == "-"),
        "{written:?}"
    );
    let mut keys = written.into_iter().map(|(key, _)| key.to_owned());
    let first: Vec<String> = keys.by_ref().take(3).collect();
    assert_eq!(
        first,
        ["/n/tasks/a", "/n/tasks/a/owner", "/n/tasks/a/props"]
    );
    keys.collect()
}

#[test]
fn an_end_deletes_few_commands_by_their_names_and_many_by_their_range() {
    let queue = |count: u32| -> Vec<Stored> {
        let names = (1..=count).map(|n| format!("c{n}"));
        names.map(|name| command(Some(&name), 1)).collect()
    };
    let range = ["/n/tasks/a/commands/"];
    assert_eq!(deleted_at_the_end(&[], 100), [""; 0]);
    let two = ["/n/tasks/a/commands/c1", "/n/tasks/a/commands/c2"];
    assert_eq!(deleted_at_the_end(&queue(2), 2), two);
    assert_eq!(deleted_at_the_end(&queue(2), 1), range);
    assert_eq!(deleted_at_the_end(&queue(8), 100).len(), 8);
    assert_eq!(deleted_at_the_end(&queue(9), 100), range);
    // The range does not include the slot.
    let mut with_slot = queue(9);
    with_slot.push(command(None, 1));
    let slot_and_range = ["/n/tasks/a/commands", "/n/tasks/a/commands/"];
    assert_eq!(deleted_at_the_end(&with_slot, 100), slot_and_range);
    assert_eq!(
        deleted_at_the_end(&with_slot[9..], 100),
        ["/n/tasks/a/commands"]
    );
}
