//! The mirror, without a server: applies keys and checks the events.

use etcd_client::EventType::{Delete, Put};
use tokio::time::Instant;

use super::mirror::{Changed, Mirror};
use crate::store::{
    Event,
    etcd::{
        client::{WatchedKey, news},
        schema::{Fences, KeyValue, Keys},
    },
};

const LEASE: u64 = 7;

fn mirror() -> Mirror {
    Mirror::new(Keys::new("n"), Fences::default(), LEASE, None)
}

fn task(revision: i64) -> KeyValue {
    KeyValue::new("/n/tasks/a", r#"{"kind":"k"}"#, revision)
}

fn owner(lease: u64, revision: i64) -> KeyValue {
    let value = format!(r#"{{"node":"m","lease":{lease}}}"#);
    KeyValue::new("/n/tasks/a/owner", &value, revision)
}

fn parked(value: &str, revision: i64) -> KeyValue {
    KeyValue::new("/n/parked/a", value, revision)
}

/// The reported events, in short: `owner`, `due` or `waits`, `commanded`, `gone`, `commands`.
fn reported(mirror: &mut Mirror) -> Vec<String> {
    let events = mirror.take(Instant::now()).into_iter();
    let short = events.map(|event| match event {
        Event::Task(view) => {
            let owner = view.claimed_by.map(|lease| format!("owner {lease} "));
            let due = if view.due.is_some() { "due" } else { "waits" };
            let commanded = if view.commanded { " commanded" } else { "" };
            format!("{}{due}{commanded}", owner.unwrap_or_default())
        }
        Event::Gone { .. } => "gone".to_owned(),
        Event::Commands { commands, .. } => format!("{} commands", commands.len()),
        other => format!("{other:?}"),
    });
    short.collect()
}

#[tokio::test(start_paused = true)]
async fn a_changed_task_is_reported_once_as_it_is() {
    let (mut mirror, now) = (mirror(), Instant::now());
    mirror.task_key(Put, &task(1), now);
    mirror.task_key(Put, &owner(9, 2), now);
    assert_eq!(reported(&mut mirror), ["owner 9 due"]);
    assert!(reported(&mut mirror).is_empty());
    // Until its mark has arrived, a released task is not reported as claimable.
    mirror.task_key(Delete, &owner(9, 3), now);
    assert!(reported(&mut mirror).is_empty());
    mirror.parked_key(Put, &parked("{}", 3), false);
    assert_eq!(reported(&mut mirror), ["waits"]);
    mirror.task_key(Delete, &task(4), now);
    assert_eq!(reported(&mut mirror), ["gone"]);
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_comes_before_its_task_is_kept_for_it() {
    let (mut mirror, now) = (mirror(), Instant::now());
    mirror.parked_key(Put, &parked("{}", 5), false);
    assert!(reported(&mut mirror).is_empty());
    mirror.task_key(Put, &task(5), now);
    assert_eq!(reported(&mut mirror), ["waits"]);
    // A mark that is older than the tasks that have arrived belongs to a task that this node skips.
    let other = KeyValue::new("/n/parked/b", "{}", 6);
    mirror.parked_key(Put, &other, false);
    mirror.tasks_are_at(6);
    mirror.task_key(Put, &KeyValue::new("/n/tasks/b", r#"{"kind":"k"}"#, 7), now);
    assert_eq!(reported(&mut mirror), ["due"]);
}

#[tokio::test(start_paused = true)]
async fn commands_are_reported_to_the_lease_that_owns_the_task() {
    let (mut mirror, now) = (mirror(), Instant::now());
    let command = |revision| {
        let text = r#"{"message":"pause"}"#;
        KeyValue::new("/n/tasks/a/commands/c", text, revision)
    };
    mirror.task_key(Put, &task(1), now);
    let news = mirror.task_key(Put, &command(2), now);
    assert!(news.owned.is_none());
    assert_eq!(reported(&mut mirror), ["due commanded"]);
    mirror.task_key(Put, &owner(LEASE, 3), now);
    let expected = [&*format!("owner {LEASE} due commanded"), "1 commands"];
    assert_eq!(reported(&mut mirror), expected);
    assert!(mirror.task_key(Put, &command(4), now).owned.is_some());
    mirror.task_key(Delete, &command(5), now);
    assert_eq!(reported(&mut mirror), [format!("owner {LEASE} due")]);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_used_again_is_reported_as_gone_and_as_another_task() {
    let (mut mirror, now) = (mirror(), Instant::now());
    mirror.task_key(Put, &task(1), now);
    assert_eq!(reported(&mut mirror), ["due"]);
    mirror.task_key(Delete, &task(2), now);
    mirror.task_key(Put, &task(3), now);
    assert_eq!(reported(&mut mirror), ["gone", "due"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_new_until_it_is_claimed_or_deleted() {
    let id = || "a".parse().unwrap_or_else(|e| panic!("{e}"));
    let submitted = |more: &str, written: i64| KeyValue {
        written,
        ..KeyValue::new(
            "/n/tasks/a",
            &format!(r#"{{"kind":"k","submitted_at":"2030-01-01T00:00:00Z"{more}}}"#),
            3,
        )
    };
    let now = Instant::now();
    let change = |mirror: &mut Mirror, event, kv: &KeyValue| mirror.task_key(event, kv, now).change;
    let new = submitted("", 3);
    let mut known = mirror();
    assert_eq!(
        change(&mut known, Put, &new),
        Some(Changed::Submitted(id()))
    );
    assert_eq!(change(&mut known, Put, &new), None, "it is reported twice");
    for (event, kv) in [(Put, owner(9, 4)), (Delete, new)] {
        let taken = Some(Changed::Taken(id()));
        assert_eq!(change(&mut known, event, &kv), taken);
    }
    let limits = r#","terms":{"limits":[{"key":"c","at_most":1}]}"#;
    let later = r#","start_at":"2030-01-02T00:00:00Z""#;
    for (kv, what) in [
        (submitted("", 4), "it was changed since"),
        (submitted(r#","order":7"#, 3), "it was retried or copied"),
        (submitted(later, 3), "it starts later"),
        (submitted(limits, 3), "it needs a slot of a limit"),
        (task(3), "Metafora's client submitted it"),
    ] {
        assert_eq!(change(&mut mirror(), Put, &kv), None, "{what}");
    }
    let mut parked_first = mirror();
    parked_first.parked_key(Put, &parked("{}", 3), false);
    let kv = submitted("", 3);
    assert_eq!(change(&mut parked_first, Put, &kv), None, "it waits");
}

#[tokio::test(start_paused = true)]
async fn a_mark_is_stale_once_a_node_of_metafora_has_the_task() {
    let (mut mirror, now) = (mirror(), Instant::now());
    mirror.task_key(Put, &task(1), now);
    mirror.parked_key(Put, &parked("{}", 2), false);
    let theirs = KeyValue::new("/n/tasks/a/owner", r#"{"node":"go"}"#, 3);
    mirror.task_key(Put, &theirs, now);
    let stale = mirror.take_stale();
    assert_eq!(stale.len(), 1);
    assert_eq!(stale[0].1, 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_can_be_claimed_again_has_the_place_of_its_mark() {
    let (mut mirror, now) = (mirror(), Instant::now());
    let due = |mirror: &mut Mirror| match mirror.take(now).pop() {
        Some(Event::Task(view)) => (view.due.map(|due| due.as_second()), view.sleeping),
        other => panic!("{other:?}"),
    };
    let ready = parked(r#"{"ready":"1970-01-01T00:01:00Z"}"#, 5);
    mirror.task_key(Put, &task(1), now);
    assert_eq!(due(&mut mirror), (Some(0), false));
    mirror.parked_key(Put, &ready, false);
    assert_eq!(due(&mut mirror), (Some(60), false));
    // The claim deletes the mark.
    mirror.parked_key(Delete, &parked("", 6), false);
    assert_eq!(due(&mut mirror), (Some(0), false));
    mirror.task_key(Delete, &task(7), now);
    assert_eq!(reported(&mut mirror), ["gone"]);
    // The key of a retried task is not reported before its mark may have arrived.
    let again = KeyValue::new("/n/tasks/a", r#"{"kind":"k","order":1}"#, 8);
    mirror.task_key(Put, &again, now);
    assert!(reported(&mut mirror).is_empty());
    let ready = parked(r#"{"ready":"1970-01-01T00:02:00Z"}"#, 8);
    mirror.parked_key(Put, &ready, false);
    assert_eq!(due(&mut mirror), (Some(120), false));
}

/// A member that was restored from a snapshot sends again that a task was submitted and claimed, which was deleted since.
#[tokio::test(start_paused = true)]
async fn events_that_are_sent_again_are_not_reported_again() {
    let (mut mirror, now) = (mirror(), Instant::now());
    let mut take = |received: i64, events: Vec<(bool, KeyValue)>| {
        let keys = events.into_iter();
        let keys: Vec<WatchedKey> = keys.map(|(put, kv)| WatchedKey { put, kv }).collect();
        for event in news(received, &keys).flat_map(|(_, events)| events) {
            mirror.task_key(event.event_type(), &event.kv, now);
        }
        reported(&mut mirror)
    };
    let claimed = || vec![(true, task(1)), (true, owner(9, 2))];
    assert_eq!(take(0, claimed()), ["owner 9 due"]);
    let deleted = vec![(false, owner(9, 3)), (false, task(3))];
    assert_eq!(take(2, deleted), ["gone"]);
    assert!(take(3, claimed()).is_empty());
    let later = [claimed(), vec![(true, task(4))]].concat();
    assert_eq!(take(3, later), ["due"]);
}
