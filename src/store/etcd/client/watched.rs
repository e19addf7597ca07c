//! [`WatchedKey`]: an event of a watch, and which events are [`news`].

use etcd_client::{Event, EventType};

use crate::store::etcd::schema::KeyValue;

/// A key that an event of a watch has written or deleted.
pub(crate) struct WatchedKey {
    pub(crate) put: bool,
    pub(crate) kv: KeyValue,
}

impl WatchedKey {
    /// Returns the keys of events.
    pub(crate) fn all(events: &[Event]) -> Vec<Self> {
        let watched = |event: &Event| {
            Some(Self {
                put: event.event_type() == EventType::Put,
                kv: event.kv()?.clone().into(),
            })
        };
        events.iter().filter_map(watched).collect()
    }

    /// Returns whether the key was written or deleted.
    pub(crate) fn event_type(&self) -> EventType {
        match self.put {
            true => EventType::Put,
            false => EventType::Delete,
        }
    }
}

/// Returns the events after the last one that was received, by revision. A member that was restored from a snapshot
/// sends again what the watch has received already.
pub(crate) fn news(
    received: i64,
    events: &[WatchedKey],
) -> impl Iterator<Item = (i64, &[WatchedKey])> {
    let mut seen = received;
    let revision = |event: &WatchedKey| event.kv.mod_revision();
    let of_one = events.chunk_by(move |a, b| revision(a) == revision(b));
    of_one.filter_map(move |events| {
        let at = revision(events.first()?);
        let is_new = at > seen;
        seen = seen.max(at);
        is_new.then_some((at, events))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(revision: i64) -> WatchedKey {
        WatchedKey {
            put: true,
            kv: KeyValue::new("k", "v", revision),
        }
    }

    fn revisions(seen: i64, events: &[i64]) -> Vec<(i64, usize)> {
        let events: Vec<WatchedKey> = events.iter().copied().map(watched).collect();
        let news = news(seen, &events);
        news.map(|(revision, events)| (revision, events.len()))
            .collect()
    }

    /// An etcd 3.5.1 whose member was restored from a snapshot reported a deletion twice.
    #[test]
    fn what_a_restored_member_sends_again_is_not_reported_again() {
        assert_eq!(revisions(0, &[4, 4, 5, 7]), [(4, 2), (5, 1), (7, 1)]);
        assert_eq!(revisions(5, &[4, 4, 5, 7]), [(7, 1)]);
        assert_eq!(
            revisions(3, &[4, 4, 5, 4, 4, 5, 6]),
            [(4, 2), (5, 1), (6, 1)]
        );
        assert_eq!(revisions(7, &[4, 5, 7]), []);
    }
}
