//! Named values: kept beside the tasks, and changed only by who knows the present version.

use windlass_statemachine::Author;

use super::{Harness, kit::Kit};
use crate::store::{AuditAction, Error, Expected, NamedValue, SetValue};

async fn set(kit: &Kit, change: &SetValue) -> bool {
    let done = kit.registry().set_value(change).await;
    done.unwrap_or_else(|e| panic!("{change:?} failed: {e}"))
}

async fn values(kit: &Kit, folder: &str) -> Vec<NamedValue> {
    let found = kit.registry().values(folder).await;
    found.unwrap_or_else(|e| panic!("the values of {folder:?} cannot be read: {e}"))
}

async fn texts(kit: &Kit, folder: &str) -> Vec<(String, String)> {
    let values = values(kit, folder).await.into_iter();
    values.map(|value| (value.name, value.text)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    expected.iter().map(owned).collect()
}

async fn version(kit: &Kit, name: &str) -> u64 {
    let found = values(kit, name).await;
    found.first().expect("a value").version
}

/// Values are listed by the beginning of their names, in the order of the names.
pub async fn values_are_listed_by_folder(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    assert_eq!(texts(&kit, "").await, []);
    for (name, text) in [
        ("b/2", "two"),
        ("a", ""),
        ("b/10", "ten"),
        ("b_1", "{\"é\":1}"),
    ] {
        assert!(set(&kit, &SetValue::new(name, text)).await);
    }
    let all = [
        ("a", ""),
        ("b/10", "ten"),
        ("b/2", "two"),
        ("b_1", "{\"é\":1}"),
    ];
    assert_eq!(texts(&kit, "").await, pairs(&all));
    assert_eq!(texts(&kit, "b/").await, pairs(&all[1..3]));
    assert_eq!(texts(&kit, "c").await, []);
    assert!(set(&kit, &SetValue::delete("b/10")).await);
    assert!(set(&kit, &SetValue::new("b/2", "zwei")).await);
    assert_eq!(texts(&kit, "b/").await, pairs(&[("b/2", "zwei")]));
}

/// Values are there when the store is opened again.
pub async fn values_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    for name in ["kept", "deleted"] {
        assert!(set(&kit, &SetValue::new(name, "text")).await);
    }
    assert!(set(&kit, &SetValue::delete("deleted")).await);
    let before = values(&kit, "").await;
    let kit = kit.reopened(harness).await;
    assert_eq!(values(&kit, "").await, before);
    assert_eq!(texts(&kit, "").await, pairs(&[("kept", "text")]));
}

/// A write with an expectation that does not hold changes nothing.
pub async fn an_expectation_that_does_not_hold_changes_nothing(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let absent = SetValue::new("a", "one").expect(Expected::Absent);
    assert!(!set(&kit, &absent.clone().expect(Expected::Version(1))).await);
    assert!(!set(&kit, &SetValue::delete("a").expect(Expected::Version(1))).await);
    assert_eq!(texts(&kit, "").await, []);
    assert!(set(&kit, &SetValue::delete("a").expect(Expected::Absent)).await);
    assert!(set(&kit, &absent).await);
    assert!(!set(&kit, &absent).await);
    assert!(!set(&kit, &SetValue::delete("a").expect(Expected::Absent)).await);
    let present = version(&kit, "a").await;
    let other = Expected::Version(present + 1);
    assert!(!set(&kit, &SetValue::new("a", "two").expect(other)).await);
    assert!(!set(&kit, &SetValue::delete("a").expect(other)).await);
    assert_eq!(texts(&kit, "").await, pairs(&[("a", "one")]));
    let expected = Expected::Version(present);
    assert!(set(&kit, &SetValue::new("a", "two").expect(expected)).await);
    assert!(!set(&kit, &SetValue::delete("a").expect(expected)).await);
    assert_eq!(texts(&kit, "").await, pairs(&[("a", "two")]));
    let expected = Expected::Version(version(&kit, "a").await);
    assert!(set(&kit, &SetValue::delete("a").expect(expected)).await);
    assert_eq!(texts(&kit, "").await, []);
}

/// Of concurrent writes that expect the same version, one is done.
pub async fn of_concurrent_writes_one_is_expected(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut expected = Expected::Absent;
    for round in 0..5 {
        let change = |n| SetValue::new("a", format!("{round}.{n}")).expect(expected);
        let changes: Vec<_> = (0..8).map(change).collect();
        let calls = changes.iter().map(|change| set(&kit, change));
        let done = futures::future::join_all(calls).await;
        assert_eq!(done.iter().filter(|done| **done).count(), 1, "{done:?}");
        let winner = done.iter().position(|done| *done).expect("a winner");
        assert_eq!(
            texts(&kit, "").await,
            pairs(&[("a", &format!("{round}.{winner}"))])
        );
        expected = Expected::Version(version(&kit, "a").await);
    }
}

/// A name never has the same version twice, even if it had no value in between.
pub async fn a_version_is_never_used_again(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut versions = Vec::new();
    for n in 0..6 {
        assert!(set(&kit, &SetValue::new("a", "same")).await);
        versions.push(version(&kit, "a").await);
        if n % 2 == 1 {
            assert!(set(&kit, &SetValue::delete("a")).await);
        }
    }
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), 6);
}

/// Each write is a line in the history of the namespace, with its author; a write that changes nothing is none.
pub async fn the_history_of_the_namespace_has_their_writes(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let ann: Author = "ann".parse().expect("an author");
    let name = || "a".to_owned();
    assert!(set(&kit, &SetValue::new("a", "1").by(Some(ann.clone()))).await);
    assert!(!set(&kit, &SetValue::new("a", "2").expect(Expected::Absent)).await);
    assert!(set(&kit, &SetValue::delete("a")).await);
    assert!(set(&kit, &SetValue::delete("a")).await);
    let lines = kit.registry().audit(10).await.expect("the history");
    let lines: Vec<_> = lines.into_iter().map(|line| (line.by, line.what)).collect();
    let expected = [
        (Some(ann), AuditAction::ValueSet { name: name() }),
        (None, AuditAction::ValueDeleted { name: name() }),
    ];
    assert_eq!(lines, expected);
}

/// A name or a text that no store keeps is refused, with the field.
pub async fn names_and_sizes_are_checked(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let long = "n".repeat(201);
    let names = ["", "a b", "é", "a\n", "*", &long].map(|name| (SetValue::new(name, ""), "name"));
    let text = (SetValue::new("a", "x".repeat(64 * 1024 + 1)), "text");
    for (change, field) in names.into_iter().chain([text]) {
        let refused = kit.registry().set_value(&change).await;
        let named = matches!(&refused, Err(Error::Invalid(why)) if why.field() == field);
        assert!(named, "{:?}: {refused:?}", change.name);
    }
    assert!(set(&kit, &SetValue::new(&long[1..], "x".repeat(64 * 1024))).await);
    assert_eq!(values(&kit, "").await.len(), 1);
}
