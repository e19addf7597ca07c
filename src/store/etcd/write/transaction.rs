//! The content of a transaction's write in addition to the changes of its operations. Pure.

use jiff::Timestamp;
use windlass_statemachine::TransactionId;

use super::{edit::Edit, item::Item};
use crate::store::{
    Error, Guard, Require,
    etcd::schema::{
        Keys, Snapshot, TaskKey,
        transactions::{Kept, write_record},
    },
};

/// Makes the part of a write that puts the record of a transaction, attached to this lease, if it
/// does not exist.
pub(crate) fn record(
    keys: &Keys,
    (id, fingerprint): (&TransactionId, String),
    kept: &[Kept],
    now: Timestamp,
    lease: i64,
) -> Result<Item, Error> {
    let mut item = Item::new(format!("x{id}"));
    let key = keys.transaction(id);
    item.when_at(&key, 0);
    item.put_on(&key, write_record(kept, now, fingerprint)?, lease);
    Ok(item)
}

/// Makes the part of a write that compares that a guard still holds. It touches the task, because a
/// batch compares before all of its writes, so that no write of the task may be in the same batch.
pub(crate) fn guard(keys: &Keys, guard: &Guard, found: &Snapshot) -> Item {
    let mut item = Item::of(&guard.task);
    let mut edit = Edit::new(keys, &guard.task, &mut item);
    when_exists_as_found(&mut edit, found);
    if found.exists() {
        let more: &[TaskKey] = match guard.require {
            Require::State(_) | Require::Version(_) | Require::Data(_) => {
                &[TaskKey::TaskState, TaskKey::Parked]
            }
            Require::Fence(_) => &[TaskKey::TaskState, TaskKey::Owner],
            Require::Unclaimed => &[TaskKey::Owner],
            Require::Exists | Require::Absent | Require::Order(_) | Require::Kind(_) => &[],
        };
        edit.when_as_found(found, more);
    }
    item
}

/// Compares that the task exists unchanged, or that its id is still free.
pub(crate) fn when_exists_as_found(edit: &mut Edit<'_>, found: &Snapshot) {
    edit.when_as_found(found, &[TaskKey::Task]);
    if found.task.is_none() {
        edit.when_as_found(found, &[TaskKey::Finished]);
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{Fence, StateKind};

    use super::*;
    use crate::store::{
        Done,
        etcd::{
            schema::KeyValue,
            write::item::{self, Op},
        },
    };

    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> T {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn a_record_is_put_once_on_its_lease() {
        let (keys, id) = (Keys::new("n"), parsed("one"));
        let kept = [Kept::from(Done::Deleted)];
        let record = record(&keys, (&id, "f".into()), &kept, Timestamp::UNIX_EPOCH, 9);
        let record = record.unwrap_or_else(|e| panic!("{e}"));
        let key = "/n/meta/transactions/one".to_owned();
        assert_eq!(record.when, [item::Guard::At(key.clone(), 0)]);
        let text = r#"{"at":"1970-01-01T00:00:00Z","done":["deleted"],"fingerprint":"f"}"#;
        assert_eq!(record.then, [Op::PutOn(key, text.into(), 9)]);
        assert_eq!(
            (record.touches, record.lease),
            (vec!["xone".to_owned()], Some(9))
        );
    }

    /// Returns the keys that a guard compares, with their revisions.
    fn compared(require: Require, found: &Snapshot) -> Vec<(String, i64)> {
        let of = Guard {
            task: parsed("a"),
            require,
        };
        let item = guard(&Keys::new("n"), &of, found);
        assert_eq!((item.touches, item.then), (vec!["ta".to_owned()], vec![]));
        let at = |guard: &item::Guard| match guard {
            item::Guard::At(key, revision) => {
                Some((key.strip_prefix("/n/")?.to_owned(), *revision))
            }
            _ => None,
        };
        item.when.iter().filter_map(at).collect()
    }

    #[test]
    fn a_guard_compares_what_it_depends_on_and_no_more() {
        let kv = |revision| Some(KeyValue::new("k", "", revision));
        let live = Snapshot {
            task: kv(1),
            state: kv(2),
            owner: kv(3),
            ..Snapshot::default()
        };
        let ended = Snapshot {
            finished: kv(4),
            state: kv(5),
            ..Snapshot::default()
        };
        let state = || Require::State(StateKind::Paused);
        let kind = || Require::Kind(parsed("k"));
        let fence = || Require::Fence(Fence(3));
        for (require, found, keys) in [
            (Require::Exists, &live, &[("tasks/a", 1)][..]),
            (kind(), &live, &[("tasks/a", 1)]),
            (
                Require::Unclaimed,
                &live,
                &[("tasks/a", 1), ("tasks/a/owner", 3)],
            ),
            (
                fence(),
                &live,
                &[("tasks/a", 1), ("state/a", 2), ("tasks/a/owner", 3)],
            ),
            (
                state(),
                &live,
                &[("tasks/a", 1), ("state/a", 2), ("parked/a", 0)],
            ),
            (
                Require::Version(7),
                &live,
                &[("tasks/a", 1), ("state/a", 2), ("parked/a", 0)],
            ),
            (Require::Order(1), &live, &[("tasks/a", 1)]),
            (
                Require::Exists,
                &ended,
                &[("tasks/a", 0), ("finished/a", 4)],
            ),
            (
                state(),
                &ended,
                &[
                    ("tasks/a", 0),
                    ("finished/a", 4),
                    ("state/a", 5),
                    ("parked/a", 0),
                ],
            ),
            (
                Require::Absent,
                &Snapshot::default(),
                &[("tasks/a", 0), ("finished/a", 0)],
            ),
        ] {
            let keys: Vec<_> = keys
                .iter()
                .map(|(key, at)| ((*key).to_owned(), *at))
                .collect();
            assert_eq!(compared(require.clone(), found), keys, "{require:?}");
        }
    }
}
