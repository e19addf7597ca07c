//! The limits that tasks use at present.

use std::slice::from_ref;

use windlass_statemachine::{Limit, Message};

use super::{
    Harness,
    kit::Kit,
    limits::{HOUR, at_once, limited, starts},
};

/// The list has the limits of which a claim has a slot or for which a task waits, and no others.
pub async fn the_limits_in_use_are_listed(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let listed = async || {
        let listed = kit.registry().limits_in_use().await.expect("a list");
        let short = listed.into_iter().map(|limit| {
            let number = limit.limit.map(|limit| limit.bound());
            let numbers = (limit.taken, limit.waiting);
            (limit.key, number, numbers, limit.next.is_some())
        });
        short.collect::<Vec<_>>()
    };
    let (two, rate) = (at_once("b", 2), starts("c", 1, HOUR));
    kit.limited(&["idle"], &[at_once("a", 5)]).await;
    kit.limited(&["x", "y", "z"], from_ref(&two)).await;
    kit.limited(&["r", "s"], from_ref(&rate)).await;
    kit.submit("plain").await;
    assert_eq!(listed().await, [], "no claim has a slot");
    kit.claim(&node, "plain").await;
    let mut x = kit.admitted(&node, "x").await;
    let b = ("b".to_owned(), Some(two.bound()));
    assert_eq!(listed().await, [(b.0.clone(), b.1, (1, 0), false)]);
    let mut y = kit.admitted(&node, "y").await;
    kit.refused(&node, "z").await;
    let mut r = kit.admitted(&node, "r").await;
    kit.refused(&node, "s").await;
    let c = ("c".to_owned(), Some(rate.bound()));
    let both = [
        (b.0.clone(), b.1, (2, 1), false),
        (c.0.clone(), c.1, (1, 1), true),
    ];
    assert_eq!(listed().await, both);
    kit.commit(&mut r, &Message::complete()).await;
    kit.delete("s").await;
    kit.delete("z").await;
    kit.commit(&mut x, &Message::complete()).await;
    kit.commit(&mut y, &Message::complete()).await;
    // The start counts until its period is over, whatever its task has done since.
    let counted = listed().await;
    assert_eq!(counted.len(), 1, "{counted:?}");
    assert_eq!((&*counted[0].0, counted[0].2), ("c", (1, 0)));
}

/// Where a record or a list names a limit, it has the template of its key: a program that hides the props then hides the
/// values in the key.
pub async fn a_limit_keeps_its_template_wherever_it_is_shown(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let template = "of-{prop:pw}";
    for name in ["x", "a"] {
        let mut task = limited(name, &[starts(template, 1, HOUR)]);
        task.props = serde_json::json!({ "pw": "hunter2" }).into();
        task.fill_limit_keys().expect("a prop");
        kit.submit_task(task).await;
    }
    let template_of = |limit: &Limit| {
        assert_eq!(limit.key(), "of-hunter2");
        limit.template().map(str::to_owned)
    };
    let expected = Some(template.to_owned());
    let used = async || {
        let used = kit.registry().limits_in_use().await.expect("a list");
        let limits = used.into_iter().map(|used| used.limit.expect("a limit"));
        limits.map(|limit| template_of(&limit)).collect::<Vec<_>>()
    };
    let mut running = kit.admitted(&node, "x").await;
    assert_eq!(
        used().await,
        std::slice::from_ref(&expected),
        "of a claimed task"
    );
    kit.refused(&node, "a").await;
    let by = kit.get("a").await.limited_by.expect("a limit");
    assert_eq!(template_of(&by.limit), expected);
    let page = crate::store::Page::default();
    let listed = kit.registry().list(&Default::default(), page).await;
    for record in listed.expect("a list") {
        let by = record.limited_by.map(|by| template_of(&by.limit));
        assert!(
            by.is_none_or(|of| of == expected),
            "{record:?}",
            record = record.task.id
        );
    }
    kit.commit(&mut running, &Message::complete()).await;
    assert_eq!(used().await, [expected], "of a task in the line");
}
