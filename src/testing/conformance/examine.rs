//! Examinations of a store.

use std::{collections::BTreeSet, time::Duration};

use windlass_statemachine::{Message, Unique};

use super::{
    Capability, Harness,
    capability::need,
    kit::{Kit, fresh, id, task, with_data},
    wait::eventually,
};
use crate::store::{
    SetValue, Transaction,
    examine::{Examination, Finding, Verdict},
};

async fn examine(kit: &Kit) -> Vec<Finding> {
    let findings = kit
        .store
        .doctor()
        .unwrap()
        .examine(&Examination::default())
        .await;
    let findings = findings.expect("findings");
    need(
        Capability::Examine,
        (!findings.is_empty()).then_some(findings),
    )
}

/// Returns the findings of an examination that are not [`Verdict::Ok`].
async fn wrong(kit: &Kit) -> Vec<Finding> {
    let mut findings = examine(kit).await;
    findings.retain(|finding| finding.verdict != Verdict::Ok);
    findings
}

/// Makes tasks in several states and what a store keeps beside them, all in order.
async fn busy(kit: &Kit) {
    let node = kit.node("holder").await;
    kit.claimed(&node, "examined-held").await;
    let mut paused = kit.claimed(&node, "examined-paused").await;
    kit.commit(&mut paused, &with_data(Message::pause(), 1))
        .await;
    kit.ended(&node, "examined-over", &Message::complete())
        .await;
    kit.submit("examined-bad").await;
    kit.send("examined-bad", "c", windlass_statemachine::Command::Pause)
        .await;
    let mut unique = task("examined-unique");
    unique.unique = Unique::new("examined", Duration::from_secs(3600)).ok();
    let transaction = Transaction::new()
        .with_id("examined".parse().unwrap())
        .submit(fresh(unique))
        .submit(fresh(task("examined-gone")));
    kit.apply(&transaction).await;
    kit.delete("examined-gone").await;
    // Such as the tokens and the masks of a server.
    let value = SetValue::new("server/token/examined", "{}");
    assert!(kit.registry().set_value(&value).await.unwrap());
}

/// A store in order has only the findings of an empty one, such as those about the disk or the
/// server's version.
pub async fn a_store_in_order_has_nothing_wrong(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let checks = |findings: &[Finding]| -> BTreeSet<&'static str> {
        findings.iter().map(|finding| finding.check).collect()
    };
    let about_empty = checks(&wrong(&kit).await);
    busy(&kit).await;
    // On a busy machine an examination may be slow, which is a finding too.
    eventually("nothing wrong", async || {
        let found = checks(&wrong(&kit).await);
        found.is_subset(&about_empty).then_some(())
    })
    .await;
    let named = wrong(&kit).await.into_iter().map(|finding| finding.found);
    let named: Vec<String> = named
        .filter(|found| found.contains("examined-held"))
        .collect();
    assert_eq!(named, [""; 0]);
}

async fn assert_reports_bad(kit: &Kit, before: &[Finding]) {
    let found = wrong(kit).await;
    let is_new = |finding: &&Finding| !before.contains(finding);
    let names_it = |finding: &Finding| finding.found.contains("examined-bad");
    assert!(
        found.iter().filter(is_new).any(names_it),
        "nothing reports the damaged task: {found:#?}"
    );
    assert!(
        !found
            .iter()
            .any(|finding| finding.found.contains("examined-paused")),
        "a task in order is reported: {found:#?}"
    );
}

/// A state that cannot be read is a finding that names its task.
pub async fn an_unreadable_state_is_reported(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    busy(&kit).await;
    let node = kit.node("n").await;
    let mut bad = kit.claim(&node, "examined-bad").await;
    kit.commit(&mut bad, &Message::release()).await;
    let before = wrong(&kit).await;
    let damaged = harness.corrupt_state(&kit.store, &id("examined-bad")).await;
    need(Capability::CorruptState, damaged.then_some(()));
    assert_reports_bad(&kit, &before).await;
}

/// An envelope that cannot be read is a finding that names its task.
pub async fn an_unreadable_envelope_is_reported(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    busy(&kit).await;
    let before = wrong(&kit).await;
    let damaged = harness
        .corrupt_envelope(&kit.store, &id("examined-bad"))
        .await;
    need(Capability::CorruptEnvelope, damaged.then_some(()));
    assert_reports_bad(&kit, &before).await;
}
