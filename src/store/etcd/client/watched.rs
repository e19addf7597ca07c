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
/// sends again what the watch has received already, or what precedes it in the same message.
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
        is_new.then_some((at, once(events)))
    })
}

/// Returns the events of one revision without their repetition: a revision has one event for each key.
fn once(events: &[WatchedKey]) -> &[WatchedKey] {
    let (first, mut rest) = match events {
        [first, rest @ ..] => (first, rest.iter()),
        [] => return events,
    };
    match rest.position(|event| event.kv.key() == first.kv.key()) {
        Some(at) => &events[..=at],
        None => events,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the events that are news, for revisions with one or two keys.
    fn revisions(seen: i64, events: &[(i64, &str)]) -> Vec<(i64, usize)> {
        let watched = |(revision, key): &(i64, &str)| WatchedKey {
            put: true,
            kv: KeyValue::new(key, "v", *revision),
        };
        let events: Vec<WatchedKey> = events.iter().map(watched).collect();
        let news = news(seen, &events);
        news.map(|(revision, events)| (revision, events.len()))
            .collect()
    }

    /// An etcd 3.5.1 whose member was restored from a snapshot reported a deletion twice.
    #[test]
    fn what_a_restored_member_sends_again_is_not_reported_again() {
        let four = [(4, "a"), (4, "b")];
        let all = [&four[..], &[(5, "a"), (7, "a")]].concat();
        assert_eq!(revisions(0, &all), [(4, 2), (5, 1), (7, 1)]);
        assert_eq!(revisions(5, &all), [(7, 1)]);
        assert_eq!(revisions(7, &all), []);
        let repeated = [&all[..3], &all[..3], &[(6, "b")]].concat();
        assert_eq!(revisions(3, &repeated), [(4, 2), (5, 1), (6, 1)]);
    }

    /// One revision was held back, and then sent again as the only one: its two readings became one.
    #[test]
    fn a_revision_that_is_sent_twice_in_a_row_is_reported_once() {
        let twice = [(4, "a"), (4, "b"), (4, "a"), (4, "b"), (5, "b"), (5, "b")];
        assert_eq!(revisions(3, &twice), [(4, 2), (5, 1)]);
    }
}
