//! The fingerprint of a transaction, by which a store recognises a repeated transaction.

use std::{collections::BTreeMap, hash::Hasher};

use fnv::FnvHasher;
use serde::Serialize;
use windlass_statemachine::{Invalid, Json, Operation, plain, wire::TIMES};

use super::transaction::Transaction;
use crate::store::Error;

/// The prefix of fingerprints in this form. Another prefix belongs to another version, and cannot be
/// compared.
const FORM: &str = "3-";

impl Transaction {
    /// Returns a short text that identifies the guards and operations, computed from their
    /// [wire form](windlass_statemachine::wire::Line), and of the [request](Self::of_request) if it has one. For a time it only
    /// matters that it is set. [Compared](Self::compared) guards, the ids of commands
    /// and the `meta` of tasks are ignored, because a program that repeats a transaction may compute times, ids and
    /// `meta` again.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::store::Transaction;
    ///
    /// let delete = |id: &str| Transaction::new().delete(id.parse().unwrap());
    /// assert_eq!(delete("a").fingerprint(), delete("a").fingerprint());
    /// assert_ne!(delete("a").fingerprint(), delete("b").fingerprint());
    /// ```
    pub fn fingerprint(&self) -> String {
        let mut hash = FnvHasher::default();
        self.own_guards()
            .for_each(|guard| add(&mut hash, guard, &[]));
        for operation in self.operations() {
            add(
                &mut hash,
                operation,
                match operation {
                    Operation::Send(_) => &["id"],
                    // Text of the request that submits the task, such as a trace.
                    Operation::Submit(_) => &["meta"],
                    _ => &[],
                },
            );
        }
        if !self.request().is_empty() {
            hash.write(self.request().as_bytes());
            hash.write(&[0xff]);
        }
        format!("{FORM}{:016x}", hash.finish())
    }

    /// Checks that this transaction is the one that was applied with its id. `applied` is the fingerprint of
    /// the applied one.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `transaction id`).
    pub fn check_repeats(&self, applied: &str) -> Result<(), Error> {
        if !applied.starts_with(FORM) || applied == self.fingerprint() {
            return Ok(());
        }
        let id = self.id().map_or("", |id| id.as_str());
        let reason = format!(
            "'{id}' was applied with other operations or guards; give each transaction an id of its own"
        );
        Err(Invalid::new("transaction id", reason).into())
    }
}

/// Adds the canonical text of a line and a line break, without the values of its times and without the fields in
/// `without`.
fn add(hash: &mut FnvHasher, line: &impl Serialize, without: &[&str]) {
    // Each line is an object, which always has a JSON form.
    let text = serde_json::to_string(line).unwrap_or_default();
    let mut fields = plain::object::<plain::Fields<Json>>(&text)
        .map_or_else(|_| BTreeMap::new(), |plain::Fields(fields)| fields);
    fields.retain(|name, _| !without.contains(&name.as_str()));
    for (name, value) in &mut fields {
        if TIMES.contains(&name.as_str()) {
            *value = Json::null();
        }
    }
    let text = Json::new("transaction", &fields).map(|json| json.canonical());
    hash.write(text.unwrap_or_default().as_bytes());
    hash.write(&[0xff]);
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
mod tests;
