//! Submits: new tasks, and ids that exist already.

use std::time::Duration;

use serde_json::json;
use windlass_statemachine::{
    Command, Fence, Json, Message, Retry, StateKind, TaskState, TaskStatus,
};

use super::{
    Harness,
    kit::{Kit, assert_matches, command_of, field, fresh, id, of_kind, same, task},
};
use crate::store::{ChangeKind, Error, IfExists, Reason, Submit, Submitted, Transaction};

/// A task without a start time is runnable and unclaimed, and its history has one line.
pub async fn a_new_task_is_runnable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    let record = kit.get("a").await;
    assert_eq!(record.task, task("a"));
    let state = record.state.unwrap();
    assert_eq!(state, TaskState::new(state.since));
    assert_eq!((record.node, record.fence), (None, Fence(0)));
    assert_eq!(record.commands, 0);
    assert!(record.order > 0, "orders begin after 0, the first page's");
    let state = StateKind::Runnable;
    assert_eq!(kit.events("a").await, [ChangeKind::Submitted { state }]);
}

/// A task with a start in the future sleeps until then.
pub async fn a_future_start_sleeps(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let until = kit.in_an_hour();
    let mut sleeper = task("a");
    sleeper.start_at = Some(until);
    kit.submit_task(sleeper).await;
    assert_eq!(kit.state("a").await.status, TaskStatus::Sleeping { until });
    let node = kit.node("n").await;
    assert!(kit.try_claim(&node, "a").await.unwrap().is_none());
}

/// A task that is submitted paused is paused, and no node claims it before it is resumed. Then it runs, and its record
/// does not show the pause.
pub async fn a_paused_task_is_paused_from_its_submit_on(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut paused = task("a");
    paused.paused = true;
    kit.submit_task(paused).await;
    let record = kit.get("a").await;
    assert_eq!(record.task, task("a"));
    assert_eq!(record.state.unwrap().status, TaskStatus::Paused);
    let state = StateKind::Paused;
    assert_eq!(kit.events("a").await, [ChangeKind::Submitted { state }]);
    let node = kit.node("n").await;
    assert!(kit.try_claim(&node, "a").await.unwrap().is_none());
    kit.send("a", "resume", Command::Run).await;
    let claimed = kit.try_claim(&node, "a").await.unwrap();
    assert_eq!(claimed.unwrap().state.code(), StateKind::Paused);
}

/// A task with a start in the past is runnable.
pub async fn a_past_start_is_runnable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut late = task("a");
    late.start_at = Some("2001-01-01T00:00:00Z".parse().unwrap());
    kit.submit_task(late).await;
    assert_eq!(kit.state("a").await.code(), StateKind::Runnable);
}

/// The id of a live task is refused, whether or not the task is claimed.
pub async fn a_live_id_is_refused(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("unclaimed").await;
    kit.claimed(&node, "claimed").await;
    for name in ["unclaimed", "claimed"] {
        for if_exists in [IfExists::Refuse, IfExists::ReplaceFinished] {
            let task = task(name);
            let error = kit
                .try_submit(Submit { task, if_exists })
                .await
                .unwrap_err();
            let is_right = matches!(
                &error,
                Error::AlreadyExists { what: "task", name: taken, .. } if taken == name
            );
            assert!(is_right, "{error:?}");
        }
    }
}

/// The id of an ended task is refused until the task is replaced or deleted.
pub async fn an_ended_id_is_refused(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for (name, message) in [
        ("done", Message::complete()),
        ("killed", Message::kill()),
        ("failed", Message::error("x")),
    ] {
        kit.ended(&node, name, &message).await;
        let error = kit.try_submit(fresh(task(name))).await.unwrap_err();
        assert_matches!(error, Error::AlreadyFinished { task, .. } if task.as_str() == name);
    }
}

/// With `Same`, an existing task with the same kind and props is accepted, live or ended.
pub async fn the_same_task_exists(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut first = task("a");
    first.props = json!({"n": 1}).into();
    let submit = same(first);
    let new = kit.try_submit(submit.clone()).await.unwrap();
    assert_eq!(new, Submitted::New);
    let live = kit.try_submit(submit.clone()).await.unwrap();
    assert_eq!(live, Submitted::Existing(StateKind::Runnable));
    let node = kit.node("n").await;
    let mut claimed = kit.claim(&node, "a").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    let ended = kit.try_submit(submit).await.unwrap();
    assert_eq!(ended, Submitted::Existing(StateKind::Completed));
}

/// Props are compared as values: the order of the names, spaces and escapes do not matter. Numbers
/// are compared digit by digit.
pub async fn props_are_compared_as_values(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut first = task("a");
    let text = r#"{"big":18446744073709551617,"list":[1,{"x":null,"y":"\u00e9"}],"pi":3.10}"#;
    first.props = Json::parse("props", text).unwrap();
    kit.submit_task(first.clone()).await;
    let submit = async |text: &str| {
        let mut again = first.clone();
        again.props = Json::parse("props", text).unwrap();
        kit.try_submit(same(again)).await
    };
    let node = kit.node("n").await;
    for code in [StateKind::Runnable, StateKind::Completed] {
        for same in [
            "{ \"pi\": 3.10, \"list\": [1, {\"y\": \"é\", \"x\": null}],\n\"big\": 18446744073709551617 }",
            r#"{"list":[1,{"y":"\u00E9","x":null}],"p\u0069":3.10,"big":18446744073709551617}"#,
        ] {
            let answer = submit(same).await.unwrap();
            assert_eq!(answer, Submitted::Existing(code), "{same}");
        }
        for other in [
            r#"{"big":18446744073709551616,"list":[1,{"x":null,"y":"é"}],"pi":3.10}"#,
            r#"{"big":18446744073709551617,"list":[{"x":null,"y":"é"},1],"pi":3.10}"#,
            r#"{"big":18446744073709551617,"list":[1,{"x":null,"y":"é"}]}"#,
            "null",
        ] {
            let refused = submit(other).await.unwrap_err();
            assert!(
                matches!(
                    (&refused, code),
                    (Error::AlreadyExists { .. }, StateKind::Runnable)
                        | (Error::AlreadyFinished { .. }, StateKind::Completed)
                ),
                "{other}: {refused:?}"
            );
        }
        if code == StateKind::Runnable {
            let mut claimed = kit.claim(&node, "a").await;
            kit.commit(&mut claimed, &Message::complete()).await;
        }
    }
    let kept = kit.get("a").await.task.props;
    assert_eq!(kept.as_str(), text, "as it was submitted first");
}

/// Another kind or other props make another task, which `Same` refuses.
pub async fn another_task_is_not_the_same(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    let mut props = task("a");
    props.props = json!({"n": 1}).into();
    let kind = of_kind("a", "other");
    let if_exists = IfExists::Same;
    for task in [&props, &kind] {
        let task = task.clone();
        let error = kit
            .try_submit(Submit { task, if_exists })
            .await
            .unwrap_err();
        let Error::AlreadyExists { difference, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(difference.is_some(), "{error:?}");
    }
    let node = kit.node("n").await;
    let mut claimed = kit.claim(&node, "a").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    for task in [props, kind] {
        let error = kit
            .try_submit(Submit { task, if_exists })
            .await
            .unwrap_err();
        let Error::AlreadyFinished { difference, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(difference.is_some(), "{error:?}");
    }
}

/// A transaction and the effects of a message say too how a task differs that `Same` refuses, live or ended.
pub async fn a_refusal_says_how_the_task_differs(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("live").await;
    kit.ended(&node, "over", &Message::complete()).await;
    let submit = |name: &str| {
        let mut task = task(name);
        task.props = json!({"n": 1}).into();
        Submit {
            task,
            if_exists: IfExists::Same,
        }
    };
    let both = Transaction::new()
        .submit(submit("live"))
        .submit(submit("over"));
    let refused = kit.refusals(&both).await;
    let [live, over] = [(); 2].map(|()| Some("its props are others".to_owned()));
    let live = Reason::Exists { difference: live };
    let over = Reason::Finished { difference: over };
    let reasons = refused.into_iter().map(|(_, _, reason)| reason);
    assert_eq!(reasons.collect::<Vec<_>>(), [live.clone(), over]);
    let claimed = kit.claimed(&node, "own").await;
    let message = Message::complete().and_submit(submit("live"));
    let refused = kit.refused_effects(&claimed, &message).await;
    assert_eq!(refused[0].1, live);
}

/// A task that replaces an ended one takes over nothing from it, except that its fences continue to
/// grow.
pub async fn a_replacement_has_nothing_of_the_old(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut old = kit.claimed(&node, "a").await;
    let order = kit.send("a", "c", Command::Checkpoint).await;
    kit.checkpoint(&mut old, 1).await;
    kit.commit(&mut old, &Message::complete_with(1)).await;
    let before = kit.get("a").await;

    let mut new = task("a");
    new.props = json!([2]).into();
    let submit = Submit {
        task: new.clone(),
        if_exists: IfExists::ReplaceFinished,
    };
    assert_eq!(kit.try_submit(submit).await.unwrap(), Submitted::New);
    let record = kit.get("a").await;
    assert_eq!(record.task, new);
    assert!(record.order > before.order, "it is the newest submit");
    let state = record.state.unwrap();
    assert_eq!(state, TaskState::new(state.since));
    assert_eq!(kit.registry().commands(&id("a")).await.unwrap(), []);
    let gone = kit.registry().command(&command_of("c")).await;
    assert!(
        matches!(gone, Err(Error::NotFound { .. })),
        "{gone:?} {order}"
    );
    let state = StateKind::Runnable;
    assert_eq!(kit.events("a").await, [ChangeKind::Submitted { state }]);

    let claimed = kit.claim(&node, "a").await;
    assert!(claimed.claim.fence > before.fence);
    assert_eq!(
        (claimed.state.data.clone(), claimed.state.claims),
        (None, 1)
    );
    assert!(!claimed.abandoned);
}

/// Two items of one call with one id are applied one after the other.
pub async fn two_items_with_one_id(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let items = vec![fresh(task("a")), fresh(task("b")), fresh(task("a"))];
    let answers = kit.registry().submit(items).await;
    assert_matches!(answers[..], [
                Ok(Submitted::New),
                Ok(Submitted::New),
                Err(Error::AlreadyExists { name, .. })
            ] if name == "a");
}

/// Of two items of one call with one id, the second follows its own rule for an existing id, like a
/// later call.
pub async fn one_id_twice_follows_each_rule(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for name in ["over-1", "over-2"] {
        kit.ended(&node, name, &Message::complete()).await;
    }
    let with_props = |name: &str, n: u64, if_exists| {
        let mut task = task(name);
        task.props = json!({ "n": n }).into();
        Submit { task, if_exists }
    };
    let (refuse, same) = (IfExists::Refuse, IfExists::Same);
    let replace = IfExists::ReplaceFinished;
    let answers = kit.registry().submit(vec![
        with_props("a", 1, same),
        with_props("a", 1, same),
        with_props("a", 2, same),
        with_props("over-1", 1, refuse),
        with_props("over-1", 1, replace),
        with_props("over-2", 1, replace),
        with_props("over-2", 2, replace),
    ]);
    let answers = answers.await;
    assert_matches!(
        answers[..],
        [
            Ok(Submitted::New),
            Ok(Submitted::Existing(StateKind::Runnable)),
            Err(Error::AlreadyExists { .. }),
            Err(Error::AlreadyFinished { .. }),
            Ok(Submitted::New),
            Ok(Submitted::New),
            Err(Error::AlreadyExists { .. }),
        ]
    );
    for name in ["a", "over-1", "over-2"] {
        let record = kit.get(name).await;
        assert_eq!(record.task.props.as_str(), r#"{"n":1}"#, "{name}");
        assert_eq!(record.state.unwrap().code(), StateKind::Runnable, "{name}");
    }
}

/// A refused item does not affect the others, and its error names the field.
pub async fn a_bad_item_does_not_touch_the_others(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut large = task("large");
    large.props = Json::new("props", &"x".repeat(kit.registry().limits().max_bytes)).unwrap();
    let mut labels = task("labels");
    labels.labels.insert("a=b".into(), "c".into());
    let items = vec![
        fresh(task("a")),
        fresh(large),
        fresh(labels),
        fresh(task("b")),
    ];
    let answers = kit.registry().submit(items).await;
    assert_eq!(answers.len(), 4);
    assert!(answers[0].is_ok() && answers[3].is_ok(), "{answers:?}");
    assert_eq!(field(answers[1].as_ref().unwrap_err()), "props");
    assert_eq!(field(answers[2].as_ref().unwrap_err()), "labels");
    assert_eq!(kit.list(Default::default()).await, ["a", "b"]);
}

/// Numbers are stored digit by digit, however large.
pub async fn large_integers_survive(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let text = r#"{"i":9007199254740993,"u":18446744073709551615,"big":123456789012345678901234567890,"f":1.10}"#;
    let mut numbers = task("a");
    numbers.props = Json::parse("props", text).unwrap();
    kit.submit_task(numbers).await;
    assert_eq!(kit.get("a").await.task.props.as_str(), text);
    let node = kit.node("n").await;
    assert_eq!(kit.claim(&node, "a").await.task.props.as_str(), text);
}

/// Every field of a task is stored, for ids of any script and of the greatest length.
pub async fn every_field_survives(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let longest = "x".repeat(256);
    for name in ["häuser 木", "a%b", "a_b", "a'b\"c", "...", longest.as_str()] {
        let mut full = of_kind(name, "кind");
        full.props = json!({"text": "é\u{0}\n木", "null": null}).into();
        full.start_at = Some(kit.in_an_hour());
        full.priority = i32::MIN;
        full.labels = [
            ("team".to_owned(), "ä b".to_owned()),
            ("x".into(), String::new()),
        ]
        .into();
        full.meta = [("traceparent".to_owned(), "00-é".to_owned())].into();
        full.retry = Some(Retry::Exponential {
            base: Duration::from_millis(1500),
            factor: 1.5,
            cap: Duration::from_secs(60),
            attempts: 3,
        });
        kit.submit_task(full.clone()).await;
        assert_eq!(kit.get(name).await.task, full);
    }
}

/// An acknowledged task is there when the store is opened again.
pub async fn submits_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut durable = task("a");
    durable.props = json!({"n": 1}).into();
    kit.submit_task(durable.clone()).await;
    let order = kit.get("a").await.order;
    let kit = kit.reopened(harness).await;
    let record = kit.get("a").await;
    assert_eq!((record.task, record.order), (durable, order));
    kit.submit("b").await;
    assert!(kit.get("b").await.order > order);
}
