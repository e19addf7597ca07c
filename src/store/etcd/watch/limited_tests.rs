//! The lines of a mirror, without a server: applies keys and checks the events.

use etcd_client::EventType::{Delete, Put};
use jiff::Timestamp;
use tokio::time::Instant;
use windlass_statemachine::Limit;

use super::mirror::Mirror;
use crate::store::{
    Event,
    etcd::{
        node::{Full, Refused},
        schema::{Fences, KeyValue, Keys},
    },
};

/// A mirror, and the last revision that it has seen.
struct World {
    mirror: Mirror,
    revision: i64,
}

impl World {
    fn new() -> Self {
        let mut mirror = Mirror::new(Keys::new("n"), Fences::default(), 7, None);
        mirror.set_time(Timestamp::from_second(1000).unwrap_or_default());
        Self {
            mirror,
            revision: 0,
        }
    }

    fn key(&mut self, event: etcd_client::EventType, key: &str, value: &str) {
        self.revision += 1;
        let kv = KeyValue::new(&format!("/n/tasks/{key}"), value, self.revision);
        self.mirror.task_key(event, &kv, Instant::now());
        self.mirror.tasks_are_at(self.revision);
        self.mirror.marks_are_at(self.revision);
    }

    fn submit(&mut self, id: &str, limits: &str) {
        let terms = format!(r#"{{"kind":"k","terms":{{"limits":[{limits}]}}}}"#);
        self.key(Put, id, &terms);
    }

    fn claimed(&mut self, id: &str, slots: &str) {
        let owner = format!(r#"{{"node":"m","lease":9,"slots":[{slots}]}}"#);
        self.key(Put, &format!("{id}/owner"), &owner);
    }

    fn released(&mut self, id: &str) {
        self.key(Delete, &format!("{id}/owner"), "");
    }

    fn ended(&mut self, id: &str) {
        self.key(Delete, id, "");
        self.released(id);
    }

    fn refused(&mut self, id: &str, limit: &str, revision: i64) {
        let limit: Limit = serde_json::from_str(limit).unwrap_or_else(|e| panic!("{e}"));
        self.mirror.refused(Refused {
            task: id.parse().unwrap_or_else(|e| panic!("{e}")),
            full: Some(Full { limit, revision }),
        });
    }

    /// The reported tasks: `a` claimable, `a-` held back, `a@1010` asleep until then, `a*` claimed.
    fn reported(&mut self) -> Vec<String> {
        let events = self.mirror.take(Instant::now()).into_iter();
        let short = events.filter_map(|event| match event {
            Event::Task(view) => {
                let how = match (view.claimed_by, view.due, view.sleeping) {
                    (Some(_), ..) => "*".to_owned(),
                    (_, None, _) => "-".to_owned(),
                    (_, Some(due), true) => format!("@{}", due.as_second()),
                    _ => String::new(),
                };
                let commanded = if view.commanded { "!" } else { "" };
                Some(format!("{}{how}{commanded}", view.id))
            }
            _ => None,
        });
        let mut short: Vec<String> = short.collect();
        short.sort();
        short
    }
}

const TWO: &str = r#"{"key":"k","at_once":2}"#;
const ONE: &str = r#"{"key":"one","at_once":1}"#;

fn slot(n: u32) -> String {
    format!(r#"{{"key":"k","slot":{n}}}"#)
}

#[tokio::test(start_paused = true)]
async fn a_line_reports_one_task_for_each_free_slot_in_order() {
    let mut world = World::new();
    for id in ["a", "b", "c", "d"] {
        world.submit(id, TWO);
    }
    world.submit("other", ONE);
    world.submit("free", "");
    assert_eq!(world.reported(), ["a", "b", "c-", "d-", "free", "other"]);
    world.claimed("b", &slot(0));
    world.claimed("a", &slot(1));
    assert_eq!(world.reported(), ["a*", "b*"]);
    world.released("b");
    assert_eq!(world.reported(), ["b-", "c"], "those that wait go first");
    world.claimed("c", &slot(0));
    world.ended("a");
    assert_eq!(world.reported(), ["b", "c*"]);
    world.claimed("b", &slot(1));
    world.ended("b");
    assert_eq!(world.reported(), ["d"]);
}

#[tokio::test(start_paused = true)]
async fn the_claims_of_older_nodes_and_those_beyond_the_limit_take_no_slot() {
    let mut world = World::new();
    world.submit("a", ONE);
    world.submit("b", ONE);
    assert_eq!(world.reported(), ["a", "b-"]);
    world.claimed("a", "");
    assert_eq!(world.reported(), ["a*", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_command_is_reported_with_a_task_that_is_held_back_and_a_signal_is_not() {
    let mut world = World::new();
    for id in ["a", "b", "c"] {
        world.submit(id, ONE);
    }
    assert_eq!(world.reported(), ["a", "b-", "c-"]);
    world.key(Put, "b/commands/x", r#"{"message":"pause"}"#);
    let signal = r#"{"message":"signal","name":"s"}"#;
    world.key(Put, "c/commands/y", signal);
    assert_eq!(world.reported(), ["b-!", "c-"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_waits_for_the_limit_that_is_full_and_the_next_of_the_other_line_is_reported() {
    let mut world = World::new();
    let both = format!("{ONE},{TWO}");
    world.claimed("x", &format!("{},{}", slot(0), slot(1)));
    for id in ["a", "b"] {
        world.submit(id, &both);
    }
    world.submit("c", ONE);
    assert_eq!(world.reported(), ["a-", "b-", "c"]);
    world.claimed("c", r#"{"key":"one","slot":0}"#);
    world.released("x");
    // The line of `k` has slots, and the claims find the limit `one` full now.
    assert_eq!(world.reported(), ["a", "b", "c*"]);
    for id in ["a", "b"] {
        world.refused(id, ONE, 0);
    }
    assert_eq!(world.reported(), ["a-", "b-"]);
    world.ended("c");
    assert_eq!(world.reported(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_of_a_line_for_starts_sleeps_until_a_slot_is_free() {
    let mut world = World::new();
    let rate = r#"{"key":"r","starts":1,"within":"10s"}"#;
    for id in ["a", "b", "c"] {
        world.submit(id, rate);
    }
    assert_eq!(world.reported(), ["a", "b-", "c-"]);
    let start = r#"{"began":"1970-01-01T00:16:40Z","within_ms":10000}"#;
    world.claimed("a", &format!(r#"{{"key":"r","slot":0,"start":{start}}}"#));
    assert_eq!(world.reported(), ["a*", "b@1010"]);
    world.ended("a");
    assert_eq!(world.reported(), Vec::<String>::new());
    let later = Timestamp::from_second(1011).unwrap_or_default();
    world.mirror.set_time(later);
    let start = r#"{"began":"1970-01-01T00:16:51Z","within_ms":10000}"#;
    world.claimed("b", &format!(r#"{{"key":"r","slot":0,"start":{start}}}"#));
    assert_eq!(world.reported(), ["b*", "c@1021"]);
}

#[tokio::test(start_paused = true)]
async fn starts_from_before_the_watch_are_listed() {
    let mut world = World::new();
    let start = r#"{"began":"1970-01-01T00:16:40Z","within_ms":10000}"#;
    let record = format!(r#"{{"task":"old","start":{start}}}"#);
    let kv = KeyValue::new("/n/meta/slots/r/10000/r/0", &record, 1);
    world.mirror.start_key(&kv);
    world.submit("a", r#"{"key":"r","starts":1,"within":"10s"}"#);
    assert_eq!(world.reported(), ["a@1010"]);
}

/// The slot was taken at a revision that the mirror has not seen when the refusal arrives: the task is held
/// back until the slot is free.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_knows_more_than_the_mirror_waits_for_it() {
    let mut world = World::new();
    world.submit("a", ONE);
    assert_eq!(world.reported(), ["a"]);
    world.refused("a", ONE, 2);
    assert_eq!(world.reported(), Vec::<String>::new());
    world.claimed("x", r#"{"key":"one","slot":0}"#);
    assert_eq!(world.reported(), ["a-"]);
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(world.reported(), Vec::<String>::new());
    world.released("x");
    assert_eq!(world.reported(), ["a"]);
}

/// The slot is free again before the refusal arrives: the task is reported again, and not lost.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_knows_less_than_the_mirror_is_tried_again() {
    let mut world = World::new();
    world.submit("a", ONE);
    assert_eq!(world.reported(), ["a"]);
    world.claimed("x", r#"{"key":"one","slot":0}"#);
    world.released("x");
    world.reported();
    world.refused("a", ONE, 2);
    assert_eq!(world.reported(), ["a-"]);
    let next = world.mirror.next().unwrap_or_else(|| panic!("no turn"));
    tokio::time::advance(next - Instant::now()).await;
    assert_eq!(world.reported(), ["a"]);
}

/// Another task of the batch took the slot, and its write failed: no key will change.
#[tokio::test(start_paused = true)]
async fn a_claim_that_lost_its_slot_to_none_is_reported_again() {
    let mut world = World::new();
    world.submit("a", ONE);
    assert_eq!(world.reported(), ["a"]);
    world.mirror.refused(Refused {
        task: "a".parse().unwrap_or_else(|e| panic!("{e}")),
        full: None,
    });
    assert_eq!(world.reported(), ["a-"]);
    let next = world.mirror.next().unwrap_or_else(|| panic!("no turn"));
    tokio::time::advance(next - Instant::now()).await;
    assert_eq!(world.reported(), ["a"]);
}

/// No node claims the reported task: the line does not wait for it for ever.
#[tokio::test(start_paused = true)]
async fn a_task_that_no_node_claims_does_not_block_its_line() {
    let mut world = World::new();
    world.submit("a", ONE);
    world.submit("b", ONE);
    assert_eq!(world.reported(), ["a", "b-"]);
    let turn = world.mirror.next().unwrap_or_else(|| panic!("no turn"));
    tokio::time::advance(turn - Instant::now()).await;
    world
        .mirror
        .set_time(Timestamp::from_second(1006).unwrap_or_default());
    assert_eq!(world.reported(), ["b"]);
}

/// A node's clock was ahead, and is set right while the node runs; no key changes.
#[tokio::test(start_paused = true)]
async fn a_time_that_a_wrong_clock_has_reported_is_revised() {
    let mut world = World::new();
    let rate = r#"{"key":"r","starts":1,"within":"10s"}"#;
    let time = |second| Timestamp::from_second(second).unwrap_or_default();
    world.mirror.set_time(time(4600));
    let start = r#"{"began":"1970-01-01T01:16:40Z","within_ms":10000}"#;
    for id in ["a", "b"] {
        world.submit(id, rate);
    }
    world.claimed("a", &format!(r#"{{"key":"r","slot":0,"start":{start}}}"#));
    assert_eq!(world.reported(), ["a*", "b@4610"]);
    world.mirror.set_time(time(1000));
    let turn = world.mirror.next().unwrap_or_else(|| panic!("no turn"));
    tokio::time::advance(turn - Instant::now()).await;
    assert_eq!(world.reported(), ["b"]);
    // The start of the right clock counts, though it is the earlier one.
    world.submit("c", rate);
    let start = r#"{"began":"1970-01-01T00:16:40Z","within_ms":10000}"#;
    world.claimed("b", &format!(r#"{{"key":"r","slot":0,"start":{start}}}"#));
    assert_eq!(world.reported(), ["b*", "c@1010"]);
    // A repeated claim names its first start, and does not take the slot back.
    let later = r#"{"began":"1970-01-01T00:16:50Z","within_ms":10000}"#;
    world.mirror.set_time(time(1010));
    world.claimed("c", &format!(r#"{{"key":"r","slot":0,"start":{later}}}"#));
    world.claimed("b", &format!(r#"{{"key":"r","slot":0,"start":{start}}}"#));
    world.submit("d", rate);
    assert_eq!(world.reported(), ["b*", "c*", "d@1020"]);
}

/// Both limits are never free at once. After some turns the mirror keeps a slot.
#[tokio::test(start_paused = true)]
async fn a_slot_is_kept_for_a_task_that_finds_another_limit_full_again_and_again() {
    let mut world = World::new();
    let (x, y) = (r#"{"key":"one","slot":0}"#, r#"{"key":"k","slot":0}"#);
    let k = r#"{"key":"k","at_once":1}"#;
    world.claimed("x", x);
    world.claimed("y", y);
    world.submit("both", &format!("{ONE},{k}"));
    assert_eq!(world.reported(), ["both-"]);
    for turn in 0..3 {
        let (holder, slot, full) = if turn % 2 == 0 {
            ("x", x, k)
        } else {
            ("y", y, ONE)
        };
        assert_eq!(world.mirror.reserver(), None, "turn {turn}");
        world.released(holder);
        assert_eq!(world.reported(), ["both"], "turn {turn}");
        world.refused("both", full, 0);
        assert_eq!(world.reported(), ["both-"]);
        if turn < 2 {
            world.claimed(holder, slot);
        }
        world.reported();
    }
    let reserver = world.mirror.reserver().unwrap_or_else(|| panic!("none"));
    assert_eq!(reserver.limits.len(), 2);
    world.submit("new", ONE);
    assert_eq!(world.reported(), ["new-"], "the slot is kept");
    world.released("y");
    assert_eq!(world.reported(), ["both"]);
    world.claimed("both", &format!("{x},{y}"));
    assert_eq!(world.reported(), ["both*"]);
    assert_eq!(world.mirror.reserver(), None);
    world.ended("both");
    assert_eq!(world.reported(), ["new"]);
}
