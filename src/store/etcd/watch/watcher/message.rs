//! Applies the messages of a stream.

use etcd_client::WatchResponse;
use tokio::time::Instant;

use super::{NODE, NodeWatch, PARKED, StreamEnd, TASKS};
use crate::store::etcd::{
    client::{WatchedKey, news},
    watch::mirror::Changed,
};

impl NodeWatch {
    /// Applies one message of the stream.
    pub(super) async fn take(&mut self, response: &WatchResponse) -> Result<(), StreamEnd> {
        if response.canceled() {
            if response.compact_revision() > 0 {
                return Err(StreamEnd::Compacted);
            }
            let reason = response.cancel_reason();
            return Err(StreamEnd::Broken(format!("the server ended it: {reason}")));
        }
        let revision = response.header().map_or(0, |header| header.revision());
        let is_late = revision > 0 && self.seen.iter().any(|seen| revision < *seen);
        if is_late && response.events().is_empty() {
            // The member is behind the others, or the etcd was restored.
            self.check_past().await?;
        }
        let Ok(which) = usize::try_from(response.watch_id() - 1) else {
            return Ok(());
        };
        if which > NODE || response.created() {
            return Ok(());
        }
        let now = Instant::now();
        let events = WatchedKey::all(response.events());
        let mut last = self.received[which];
        for event in news(last, &events).flat_map(|(_, events)| events) {
            let kv = &event.kv;
            last = kv.mod_revision();
            match which {
                TASKS => {
                    let news = self.mirror.task_key(event.event_type(), kv, now);
                    match news.change {
                        Some(Changed::Submitted(id)) => self.by.new.add(id, kv),
                        Some(Changed::Taken(id)) => self.by.new.forget(&id),
                        None => {}
                    }
                    if let Some((id, at)) = news.unowned {
                        self.by.claims.deleted(&id, self.by.reader.fences.of(at));
                    }
                    if let Some((lease, id, stored)) = news.owned
                        && (lease == self.lease.id || self.by.claims.is_worker(lease))
                    {
                        self.by.claims.learn(&id, &stored);
                        if stored.command.is_err() {
                            self.by.repairs.reject(id, stored);
                        }
                    }
                }
                PARKED => self.mirror.parked_key(event.event_type(), kv, false),
                _ => self.node_key(event.event_type(), kv).await?,
            }
        }
        self.received[which] = last;
        last = last.max(self.seen[which]);
        if response.events().is_empty() {
            // A progress report for this watch: all earlier changes have arrived.
            last = last.max(revision);
        }
        self.seen[which] = last;
        self.by.reader.link.past().saw(last);
        match which {
            TASKS => self.mirror.tasks_are_at(last),
            PARKED => self.mirror.marks_are_at(last),
            _ => {}
        }
        Ok(())
    }
}
