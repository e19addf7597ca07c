//! Limits whose keys contain values of the props: every change of the props fills the keys in again.
//!
//! Beyond the duties: `a_limit_follows_the_props`, `props_without_the_value_of_a_key_are_refused`.

use windlass_statemachine::{IfExists, Json, Message, Task};

use super::{
    Harness,
    kit::{Kit, assert_matches, id},
    limits::{at_once, limited},
};
use crate::store::{Operation, Reason, Require, Reschedule, RetryTask, Submit, Transaction};

fn props(customer: u64) -> Json {
    let props = serde_json::json!({ "c": customer });
    Json::new("props", &props).expect("JSON")
}

/// Returns a task for this customer, whose limit has the customer in its key.
fn of_customer(text: &str, customer: u64) -> Task {
    let mut task = Task {
        props: props(customer),
        ..limited(text, &[at_once("c={prop:c}", 1), at_once("all", 9)])
    };
    task.fill_limit_keys().expect("the props have the value");
    task
}

/// Returns every operation that gives a task which waits for its time other props.
fn changes(text: &str, to: Json) -> Vec<Operation> {
    let mut task = of_customer(text, 0);
    task.props = to.clone();
    let if_exists = IfExists::ReplaceWaiting;
    vec![
        Operation::Reschedule(Reschedule::new(id(text)).props(to)),
        Operation::Submit(Submit { task, if_exists }),
    ]
}

async fn keys(kit: &Kit, text: &str) -> Vec<String> {
    let limits = kit.get(text).await.task.limits;
    limits.iter().map(|one| one.key().to_owned()).collect()
}

/// A task that gets other props by a reschedule, by a submit that replaces it or by a retry has the limit of the new
/// props: it takes a slot of that one. A task with other limits keeps them.
pub async fn a_limit_follows_the_props(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.limited(&["holder"], &[at_once("c=1", 1)]).await;
    kit.admitted(&node, "holder").await;
    for (n, _) in changes("t", props(2)).into_iter().enumerate() {
        let text = format!("t{n}");
        kit.submit_task(of_customer(&text, 1)).await;
        kit.refused(&node, &text).await;
        let change = changes(&text, props(2)).swap_remove(n);
        kit.apply(&Transaction::new().with(change)).await;
        assert_eq!(keys(&kit, &text).await, ["c=2", "all"]);
        let mut claimed = kit.admitted(&node, &text).await;
        kit.commit(&mut claimed, &Message::complete()).await;
        let retry = RetryTask::new(id(&text)).props(props(1));
        let retry = Transaction::new().with(Operation::Retry(retry));
        kit.apply(&retry).await;
        assert_eq!(keys(&kit, &text).await, ["c=1", "all"]);
        kit.refused(&node, &text).await;
        kit.delete(&text).await;
    }
    let own = kit.get("holder").await.task.limits;
    assert_eq!(own, [at_once("c=1", 1)]);
}

/// Props without the value that a key names are refused, and the task stays as it is.
pub async fn props_without_the_value_of_a_key_are_refused(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit_task(of_customer("t", 1)).await;
    for change in changes("t", Json::null()) {
        // A submit alone would return its error itself.
        let guarded = Transaction::new().require(id("t"), Require::Exists);
        let refused = kit.refusals(&guarded.with(change)).await;
        assert_matches!(&refused[..], [(_, _, Reason::Invalid(wrong))] if wrong.field() == "limits.key");
    }
    assert_eq!(kit.get("t").await.task.props, props(1));
    assert_eq!(keys(&kit, "t").await, ["c=1", "all"]);
}
