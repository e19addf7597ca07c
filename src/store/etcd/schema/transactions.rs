//! The record of an applied transaction, with which a repeat returns the same results.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    json::{parse, write},
    kv::KeyValue,
    numbers::number,
};
use crate::store::{Applied, Done, Error};

/// `/NS/meta/transactions/ID`.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    at: Timestamp,
    done: Vec<Kept>,
    /// The fingerprint of the guards and operations.
    fingerprint: String,
}

/// The result of one operation, before it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Kept {
    /// A command was sent: its order is this place in the revision that wrote the record.
    Place {
        /// The place.
        place: u32,
    },
    Done(Done),
}

impl From<Done> for Kept {
    fn from(done: Done) -> Self {
        Self::Done(done)
    }
}

/// Returns the results of a transaction that was applied at this revision.
pub(crate) fn applied(done: &[Kept], revision: i64) -> Applied {
    let done = done.iter().map(|kept| match kept {
        Kept::Place { place } => Done::Sent(number(revision, *place)),
        Kept::Done(done) => done.clone(),
    });
    done.collect::<Vec<_>>().into()
}

pub(crate) fn write_record(
    done: &[Kept],
    at: Timestamp,
    fingerprint: String,
) -> Result<String, Error> {
    let done = done.to_vec();
    let record = Record {
        at,
        done,
        fingerprint,
    };
    write("transaction", &record)
}

/// Returns the results of an applied transaction, and its fingerprint.
pub(crate) fn read_record(kv: &KeyValue) -> Result<(Applied, String), Error> {
    let record: Record = parse(kv).map_err(|reason| Error::Corrupt {
        what: String::from_utf8_lossy(kv.key()).into_owned(),
        reason,
    })?;
    let done = applied(&record.done, kv.mod_revision());
    Ok((done, record.fingerprint))
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::StateKind;

    use super::*;
    use crate::store::Submitted;

    #[test]
    fn a_record_names_the_places_of_its_commands_before_their_orders_are_known() {
        let done = [
            Kept::Done(Done::Submitted(Submitted::Existing(StateKind::Paused))),
            Kept::Place { place: 3 },
            Kept::Done(Done::Sent(7)),
            Kept::Done(Done::Deleted),
        ];
        let text = write_record(&done, Timestamp::UNIX_EPOCH, "f".into())
            .unwrap_or_else(|e| panic!("{e}"));
        let expected = r#"{"at":"1970-01-01T00:00:00Z","done":[{"submitted":{"existing":"paused"}},{"place":3},{"sent":7},"deleted"],"fingerprint":"f"}"#;
        assert_eq!(text, expected);
        let kv = KeyValue::new("/n/meta/transactions/x", &text, 9);
        let (read, fingerprint) = read_record(&kv).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(fingerprint, "f");
        assert_eq!(read, applied(&done, 9));
        assert_eq!(read.done()[1..3], [Done::Sent(number(9, 3)), Done::Sent(7)]);
        let damaged = KeyValue::new("/n/meta/transactions/x", "{", 9);
        let refused = read_record(&damaged).map_err(|e| e.to_string());
        assert!(refused.is_err_and(|e| e.contains("/n/meta/transactions/x")));
    }
}
