//! The checks of a request that need no keys.

use std::collections::BTreeSet;

use etcd_client::proto::{
    PbDeleteRequest, PbPutRequest, PbRangeRequest, PbTxnOpRequest, PbTxnRequest, PbTxnRequestOp,
};

use super::{Refusal, keys::concerns};

/// The most operations of a transaction, by default (`--max-txn-ops`).
const MOST: usize = 128;

pub(super) fn range(request: &PbRangeRequest) -> Result<(), Refusal> {
    let revisions = [
        request.min_mod_revision,
        request.max_mod_revision,
        request.min_create_revision,
        request.max_create_revision,
    ];
    if request.key.is_empty() {
        return Err(Refusal::EmptyKey);
    }
    if request.sort_order != 0 || request.sort_target != 0 {
        return Err(Refusal::NotModelled("the order of a range"));
    }
    if revisions.iter().any(|revision| *revision != 0) {
        return Err(Refusal::NotModelled("the revisions of a range"));
    }
    Ok(())
}

pub(super) fn put(request: &PbPutRequest) -> Result<(), Refusal> {
    if request.key.is_empty() {
        return Err(Refusal::EmptyKey);
    }
    if request.ignore_value || request.ignore_lease {
        return Err(Refusal::NotModelled(
            "a put that keeps the value or the lease",
        ));
    }
    if request.prev_kv {
        return Err(Refusal::NotModelled("a put that returns what it replaces"));
    }
    Ok(())
}

pub(super) fn delete(request: &PbDeleteRequest) -> Result<(), Refusal> {
    if request.key.is_empty() {
        return Err(Refusal::EmptyKey);
    }
    if request.prev_kv {
        return Err(Refusal::NotModelled(
            "a deletion that returns what it deletes",
        ));
    }
    Ok(())
}

/// Checks a transaction with its nested ones.
pub(super) fn txn(request: &PbTxnRequest) -> Result<(), Refusal> {
    operations(request, MOST)?;
    written(&request.success)?;
    written(&request.failure)?;
    Ok(())
}

/// Checks the number of the operations, and each alone.
fn operations(request: &PbTxnRequest, most: usize) -> Result<(), Refusal> {
    let lists = [
        request.compare.len(),
        request.success.len(),
        request.failure.len(),
    ];
    let longest = lists.into_iter().max().unwrap_or_default();
    let left = most
        .checked_sub(longest)
        .ok_or(Refusal::TooManyOperations)?;
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Refusal::EmptyKey);
    }
    for operation in request.success.iter().chain(&request.failure) {
        match &operation.request {
            Some(PbTxnOpRequest::RequestRange(one)) => range(one)?,
            Some(PbTxnOpRequest::RequestPut(one)) => put(one)?,
            Some(PbTxnOpRequest::RequestDeleteRange(one)) => delete(one)?,
            Some(PbTxnOpRequest::RequestTxn(one)) => operations(one, left)?,
            None => return Err(Refusal::NotModelled("an operation without a request")),
        }
    }
    Ok(())
}

/// The keys that a list of operations puts, and the ranges that it deletes, with those of nested transactions.
type Written<'r> = (BTreeSet<&'r [u8]>, Vec<(&'r [u8], &'r [u8])>);

/// Refuses a list that would write a key twice. Two deletions of one key are no such writes.
fn written(operations: &[PbTxnRequestOp]) -> Result<Written<'_>, Refusal> {
    let requests = || operations.iter().filter_map(|one| one.request.as_ref());
    let own = requests().filter_map(|request| match request {
        PbTxnOpRequest::RequestDeleteRange(one) => Some((&one.key[..], &one.range_end[..])),
        _ => None,
    });
    let mut deleted: Vec<(&[u8], &[u8])> = own.collect();
    let mut puts = BTreeSet::new();
    let is_deleted = |deleted: &[(&[u8], &[u8])], key: &[u8]| {
        deleted.iter().any(|(from, end)| concerns(from, end, key))
    };
    for request in requests() {
        let PbTxnOpRequest::RequestTxn(nested) = request else {
            continue;
        };
        let (then, then_deleted) = written(&nested.success)?;
        let (otherwise, otherwise_deleted) = written(&nested.failure)?;
        // One of the two branches is carried out, so both may put a key.
        for key in then.union(&otherwise) {
            if puts.contains(key) || is_deleted(&deleted, key) {
                return Err(Refusal::DuplicateKey);
            }
        }
        puts.extend(then);
        puts.extend(otherwise);
        deleted.extend(then_deleted);
        deleted.extend(otherwise_deleted);
    }
    for request in requests() {
        let PbTxnOpRequest::RequestPut(one) = request else {
            continue;
        };
        if is_deleted(&deleted, &one.key) || !puts.insert(&one.key[..]) {
            return Err(Refusal::DuplicateKey);
        }
    }
    Ok((puts, deleted))
}

/// Returns whether a transaction may add or change keys. Deletions make room, so a full member takes them.
pub(super) fn writes(request: &PbTxnRequest) -> bool {
    let all = request.success.iter().chain(&request.failure);
    all.filter_map(|one| one.request.as_ref())
        .any(|one| match one {
            PbTxnOpRequest::RequestPut(_) => true,
            PbTxnOpRequest::RequestTxn(nested) => writes(nested),
            _ => false,
        })
}
