//! What a watch reports.

use etcd_client::proto::{PbEvent, PbKeyValue};

use super::Model;

/// What has happened since a revision.
#[derive(Debug, Clone, PartialEq)]
pub enum Events {
    /// The changes, in their order.
    Changes(Vec<PbEvent>),
    /// The revision was compacted: a watch is cancelled, and names the first revision that it can begin with.
    Compacted(i64),
}

/// How etcd writes that an event is a deletion.
const DELETE: i32 = 1;

impl Model {
    /// Returns the changes of a range from a revision on.
    pub fn events(&self, key: &[u8], end: &[u8], from: i64) -> Events {
        if from < self.compacted {
            return Events::Compacted(self.compacted);
        }
        let mut changes: Vec<_> = self.keys.since(key, end, from).collect();
        changes.sort_by_key(|(_, version)| (version.main, version.sub));
        let events = changes.into_iter().map(|(key, version)| match &version.kv {
            Some(kv) => PbEvent {
                kv: Some(kv.clone()),
                ..Default::default()
            },
            None => PbEvent {
                r#type: DELETE,
                kv: Some(PbKeyValue {
                    key: key.clone(),
                    mod_revision: version.main,
                    ..Default::default()
                }),
                ..Default::default()
            },
        });
        Events::Changes(events.collect())
    }
}
