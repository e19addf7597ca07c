//! Tests of the turns of keys.

use std::collections::HashSet;

use super::*;

fn of_key(key: &str, n: u64) -> TaskView {
    TaskView {
        fair_key: Some(key.into()),
        ..view(&format!("{key}{n}"), Some(0), 0, n)
    }
}

/// Takes the first ready task, and claims it.
fn claim(index: &mut DueIndex) -> Option<String> {
    let view = index.take(|_, _| true)?;
    index.claims(&view);
    Some(view.id.to_string())
}

fn claim_many(index: &mut DueIndex, many: usize) -> Vec<String> {
    std::iter::from_fn(|| claim(index)).take(many).collect()
}

/// Returns how many of the ids begin with a text.
fn count(ids: &[String], of: &str) -> usize {
    ids.iter().filter(|id| id.starts_with(of)).count()
}

fn add(index: &mut DueIndex, views: impl IntoIterator<Item = TaskView>) {
    let now = at(index, 1);
    for view in views {
        index.upsert(view, now);
    }
}

#[test]
fn keys_take_turns_within_a_priority() {
    let mut index = DueIndex::default();
    add(&mut index, (0..100).map(|n| of_key("a", n)));
    add(&mut index, (100..103).map(|n| of_key("b", n)));
    add(&mut index, (200..203).map(|n| of_key("c", n)));
    let first = claim_many(&mut index, 9);
    assert_eq!(
        (count(&first, "b"), count(&first, "c")),
        (3, 3),
        "{first:?}"
    );
    let rest = claim_many(&mut index, 200);
    let expected: Vec<String> = (3..100).map(|n| format!("a{n}")).collect();
    assert_eq!(rest, expected, "due time and submit order within a key");
}

#[test]
fn tasks_without_limits_count_as_one_key() {
    let mut index = DueIndex::default();
    let plain = |n: u64| view(&format!("p{n}"), Some(0), 0, n);
    add(&mut index, (0..50).map(|n| of_key("a", n)));
    add(&mut index, (50..100).map(plain));
    let first = claim_many(&mut index, 20);
    assert_eq!(count(&first, "p"), 10, "{first:?}");
    // Tasks without a key wait no longer than a key does when they come later.
    let mut index = DueIndex::default();
    add(&mut index, (0..50).map(|n| of_key("a", n)));
    claim_many(&mut index, 20);
    add(&mut index, (50..100).map(plain));
    let next = claim_many(&mut index, 20);
    assert_eq!(count(&next, "p"), 10, "{next:?}");
}

#[test]
fn an_idle_key_earns_no_credit() {
    let mut index = DueIndex::default();
    add(&mut index, [of_key("b", 0)]);
    add(&mut index, (1..200).map(|n| of_key("a", n)));
    claim_many(&mut index, 100);
    add(&mut index, (200..300).map(|n| of_key("b", n)));
    let next = claim_many(&mut index, 20);
    assert_eq!(count(&next, "b"), 10, "{next:?}");
}

#[test]
fn a_key_whose_tasks_come_one_by_one_takes_no_more_than_its_turns() {
    let mut index = DueIndex::default();
    add(&mut index, (1000..1100).map(|n| of_key("a", n)));
    let mut claimed = Vec::new();
    for n in 0..20 {
        // Each is older than the tasks of the other key.
        add(&mut index, [of_key("b", n)]);
        claimed.extend(claim(&mut index));
    }
    assert_eq!(count(&claimed, "a"), 10, "{claimed:?}");
    // The same, with tasks without a key.
    let mut index = DueIndex::default();
    add(
        &mut index,
        (1000..1100).map(|n| view(&format!("p{n}"), Some(0), 0, n)),
    );
    let mut claimed = Vec::new();
    for n in 0..20 {
        add(&mut index, [of_key("b", n)]);
        claimed.extend(claim(&mut index));
    }
    assert_eq!(count(&claimed, "p"), 10, "{claimed:?}");
}

#[test]
fn keys_that_come_again_and_again_do_not_starve_the_others() {
    let mut index = DueIndex::default();
    add(&mut index, (1000..1005).map(|n| of_key("a", n)));
    let mut claimed = Vec::new();
    for n in 0..100 {
        add(&mut index, [of_key(&format!("new{n}-"), n)]);
        claimed.extend(claim(&mut index));
        assert!(index.ready.fair_share.len() <= 16, "few idle keys are kept");
    }
    assert_eq!(count(&claimed, "a"), 5, "{claimed:?}");
}

#[test]
fn one_key_shares_its_turns_among_kinds() {
    let mut index = DueIndex::default();
    let of_kind = |kind: &str, view: TaskView| TaskView {
        kind: kind.parse().unwrap(),
        ..view
    };
    add(&mut index, (0..50).map(|n| of_kind("one", of_key("a", n))));
    add(
        &mut index,
        (50..100).map(|n| of_kind("two", of_key("a", n))),
    );
    add(
        &mut index,
        (100..150).map(|n| of_kind("two", of_key("b", n))),
    );
    let first = claim_many(&mut index, 20);
    assert_eq!(count(&first, "b"), 10, "{first:?}");
}

#[test]
fn a_key_whose_kind_had_no_room_does_not_take_all_turns_later() {
    let mut index = DueIndex::default();
    let of_kind = |view: TaskView| TaskView {
        kind: "other".parse().unwrap(),
        ..view
    };
    add(&mut index, (0..200).map(|n| of_key("a", n)));
    add(&mut index, (200..300).map(|n| of_kind(of_key("b", n))));
    for _ in 0..100 {
        let view = index.take(|kind, _| kind.as_str() != "other").unwrap();
        index.claims(&view);
    }
    let next = claim_many(&mut index, 20);
    assert!((9..=12).contains(&count(&next, "b")), "{next:?}");
}

#[test]
fn commands_and_priorities_go_before_turns() {
    let mut index = DueIndex::default();
    let urgent = |n| TaskView {
        priority: 5,
        ..of_key("a", n)
    };
    add(&mut index, (0..5).map(urgent));
    add(&mut index, [of_key("b", 50)]);
    let commanded = TaskView {
        commanded: true,
        ..of_key("a", 60)
    };
    add(&mut index, [commanded]);
    let order = claim_many(&mut index, 10);
    assert_eq!(order, ["a60", "a0", "a1", "a2", "a3", "a4", "b50"]);
}

#[test]
fn a_task_that_is_taken_and_put_off_takes_no_turn() {
    let mut index = DueIndex::default();
    add(&mut index, (0..20).map(|n| of_key("a", n)));
    add(&mut index, (20..40).map(|n| of_key("b", n)));
    let (now, later) = (at(&index, 1), after(&index, 100));
    for _ in 0..8 {
        let view = index.take(|_, _| true).unwrap();
        assert!(view.id.as_str().starts_with('a'), "the turn stays");
        assert_eq!(view.fair_key.as_deref(), Some("a"));
        index.put_off(view, later, now);
    }
    let next = claim_many(&mut index, 10);
    assert_eq!(count(&next, "b"), 5, "{next:?}");
}

#[test]
fn nothing_is_kept_when_no_task_waits() {
    let mut index = DueIndex::default();
    for n in 0..1000 {
        let views = [of_key(&format!("k{n}-"), n), of_key("a", n + 1000)];
        let views = views.map(|view| TaskView {
            priority: n as i32 % 50,
            ..view
        });
        add(&mut index, views);
        let claims = if n % 3 == 0 { 1 } else { 2 };
        claim_many(&mut index, claims);
        if n % 3 == 0 {
            for id in [format!("k{n}-{n}"), format!("a{}", n + 1000)] {
                index.remove(&id.parse().unwrap());
            }
        }
        assert_eq!((index.len(), index.ready.fair_share.len()), (0, 0), "{n}");
        assert!(index.ready.fair_share.is_empty());
    }
}

#[test]
fn every_task_comes_out_once_whatever_happens_before() {
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut index = DueIndex::default();
        let mut there = HashSet::new();
        for step in 0..300 {
            let n = random.u64(0..60);
            let id = format!("t{n}");
            match random.u32(0..6) {
                0..=2 => {
                    let key = random.u32(0..4);
                    let view = TaskView {
                        fair_key: (key > 0).then(|| format!("k{key}").into()),
                        kind: format!("kind{}", n % 3).parse().unwrap(),
                        commanded: random.u32(0..10) == 0,
                        ..view(&id, Some(random.i64(0..3)), random.i32(0..2), n)
                    };
                    add(&mut index, [view]);
                    there.insert(id);
                }
                3 => {
                    let removed = index.remove(&id.parse().unwrap());
                    assert_eq!(removed.is_some(), there.remove(&id), "{seed} {step}");
                }
                4 => {
                    // Like a task that is deferred for a moment.
                    if let Some(view) = index.take(|_, _| true) {
                        add(&mut index, [view]);
                    }
                }
                _ => {
                    if let Some(id) = claim(&mut index) {
                        assert!(there.remove(&id), "{seed} {step}");
                    }
                }
            }
            assert_eq!((index.len(), index.ready_len()), (there.len(), there.len()));
        }
        let rest: HashSet<String> = claim_many(&mut index, 100).into_iter().collect();
        assert_eq!(rest, there, "{seed}");
        assert_eq!(index.ready.fair_share.len(), 0, "{seed}");
    }
}

fn of_kind(kind: &str, n: u64) -> TaskView {
    TaskView {
        kind: kind.parse().unwrap(),
        ..view(&format!("{kind}{n}"), Some(0), 0, n)
    }
}

/// Regression: all tasks of the first kind went before those of another kind that were submitted
/// after them.
#[test]
fn a_flood_of_one_kind_does_not_starve_another() {
    let mut index = DueIndex::default();
    add(&mut index, (0..100).map(|n| of_kind("a", n)));
    add(&mut index, (100..103).map(|n| of_kind("b", n)));
    add(&mut index, (200..203).map(|n| of_kind("c", n)));
    let first = claim_many(&mut index, 9);
    let counts = ["a", "b", "c"].map(|kind| count(&first, kind));
    assert_eq!(counts, [3, 3, 3], "{first:?}");
    let rest = claim_many(&mut index, 200);
    let expected: Vec<String> = (3..100).map(|n| format!("a{n}")).collect();
    assert_eq!(rest, expected, "submit order within a kind");
}

#[test]
fn a_kind_whose_tasks_come_one_by_one_takes_no_more_than_its_turns() {
    let mut index = DueIndex::default();
    add(&mut index, (0..100).map(|n| of_kind("a", n)));
    let (mut claimed, mut next) = (Vec::new(), 100);
    for _ in 0..40 {
        // The kind always has one task, and none between its claim and the next submit.
        if claimed.last().is_none_or(|id: &String| id.starts_with('b')) {
            add(&mut index, [of_kind("b", next)]);
            next += 1;
        }
        claimed.extend(claim(&mut index));
    }
    let of_a = count(&claimed, "a");
    assert!((19..=21).contains(&of_a), "{of_a}: {claimed:?}");
}

#[test]
fn a_kind_that_was_idle_or_had_no_room_does_not_take_all_turns_later() {
    let mut index = DueIndex::default();
    add(&mut index, (0..100).map(|n| of_kind("a", n)));
    add(&mut index, (100..150).map(|n| of_kind("b", n)));
    for _ in 0..50 {
        let view = index.take(|kind, _| kind.as_str() == "a").unwrap();
        index.claims(&view);
    }
    add(&mut index, (200..250).map(|n| of_kind("c", n)));
    let next = claim_many(&mut index, 30);
    let counts = ["a", "b", "c"].map(|kind| count(&next, kind));
    assert!(
        counts.iter().all(|count| (9..=11).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn priorities_and_commands_go_before_the_turns_of_kinds() {
    let mut index = DueIndex::default();
    add(&mut index, (0..10).map(|n| of_kind("a", n)));
    let urgent = |n| TaskView {
        priority: 1,
        ..of_kind("b", n)
    };
    add(&mut index, (10..15).map(urgent));
    let commanded = TaskView {
        commanded: true,
        ..of_kind("b", 20)
    };
    add(&mut index, [commanded]);
    let first = claim_many(&mut index, 6);
    assert_eq!(first, ["b20", "b10", "b11", "b12", "b13", "b14"]);
}
