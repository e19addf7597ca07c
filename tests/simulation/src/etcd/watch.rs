//! What a watch reports.

use etcd_client::proto::{PbEvent, PbKeyValue};

use super::{Model, keys::concerns};

/// What has happened since a revision.
#[derive(Debug, Clone, PartialEq)]
pub enum Events {
    /// The changes, in their order.
    Changes(Vec<PbEvent>),
    /// The revision was compacted: a watch is cancelled, and names the first revision that it can begin with.
    Compacted(i64),
}

/// How etcd writes that an event is a deletion.
pub(crate) const DELETE: i32 = 1;

impl Model {
    /// Returns the changes of a range from a revision on.
    pub fn events(&self, key: &[u8], end: &[u8], from: i64) -> Events {
        if from < self.compacted {
            return Events::Compacted(self.compacted);
        }
        let begin = self.log.partition_point(|event| revision(event) < from);
        let later = self.log.range(begin..).filter(|event| {
            let of = event.kv.as_ref().map_or(&[][..], |kv| &kv.key);
            concerns(key, end, of)
        });
        let events = later.cloned();
        Events::Changes(events.collect())
    }
}

/// Returns the change of a key by a revision.
pub(super) fn event(key: &[u8], main: i64, kv: Option<&PbKeyValue>) -> PbEvent {
    match kv {
        Some(kv) => PbEvent {
            kv: Some(kv.clone()),
            ..Default::default()
        },
        None => PbEvent {
            r#type: DELETE,
            kv: Some(PbKeyValue {
                key: key.to_vec(),
                mod_revision: main,
                ..Default::default()
            }),
            ..Default::default()
        },
    }
}

/// Returns the revision of a change.
pub(super) fn revision(event: &PbEvent) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}
