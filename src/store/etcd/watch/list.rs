//! The initial list of a watch: all tasks at one revision, and the nodes.

use std::collections::HashMap;

use etcd_client::EventType;
use tokio::time::Instant;
use windlass_statemachine::{Fence, Kind, TaskId};

use super::mirror::Mirror;
use crate::store::etcd::{
    client::Fault,
    node::Claims,
    read::Reader,
    schema::{KeyValue, Layout, Part, end_of},
};

/// The result of a list.
pub(crate) struct Listed {
    pub(crate) mirror: Mirror,
    /// Claims of this process that have ended, with the orders of their tasks and their fences.
    pub(crate) missing: HashMap<TaskId, (u64, Fence)>,
    /// Marks that are older than the state of their task, with the revisions of both.
    pub(crate) outdated: Vec<(TaskId, i64, i64)>,
    /// The keys of nodes, in the order of their first revisions.
    pub(crate) nodes: Vec<KeyValue>,
    /// The revisions at which tasks, marks and nodes were read.
    pub(crate) seen: [i64; 3],
}

/// Lists what the watch of a lease then follows.
pub(crate) async fn list(
    reader: &Reader,
    claims: &Claims,
    lease: u64,
    kinds: &Option<Vec<Kind>>,
) -> Result<Listed, Fault> {
    let (keys, fences) = (reader.keys.clone(), reader.fences.clone());
    let mut mirror = Mirror::new(keys.clone(), fences.clone(), lease, kinds.clone());
    // A claim whose owner's key is not listed has ended: its task was deleted, and another one may
    // have the id. No history has the event.
    let mut missing = claims.of_watch(lease);
    let mut take = |kv: KeyValue| {
        if !missing.is_empty()
            && let Some((id, Part::Owner)) = keys.split(kv.key())
            && let Some((_, fence)) = missing.get(id)
            && fences.revision(*fence) == kv.mod_revision()
        {
            missing.remove(id);
        }
        mirror.task_key(EventType::Put, &kv, Instant::now());
    };
    let (tasks, parked) = (keys.tasks(), keys.all_parked());
    let at = (reader.link)
        .scan(0, &tasks, &end_of(&tasks), &mut take)
        .await?;
    let mut take = |kv: KeyValue| mirror.parked_key(EventType::Put, &kv, true);
    (reader.link)
        .scan(at, &parked, &end_of(&parked), &mut take)
        .await?;
    let mut outdated = Vec::new();
    // Nodes of Metafora leave such marks, and the layout `Compact` never has any.
    if mirror.has_marks() && keys.layout().is_none_or(Layout::is_shared) {
        let mut take = |kv: KeyValue| outdated.extend(mirror.outdated_by(&kv));
        let states = keys.all_states();
        reader.link.scan_keys(at, &states, &mut take).await?;
    }
    mirror.tasks_are_at(at);
    let starts = keys.all_starts();
    let mut take = |kv: KeyValue| mirror.start_key(&kv);
    (reader.link)
        .scan(at, &starts, &end_of(&starts), &mut take)
        .await?;
    let (mut nodes, node_at) = reader.link.get_all(&keys.nodes()).await?;
    // Node commands are reported in order. A command that is older than the last reported one was
    // reported before.
    nodes.sort_by_key(KeyValue::create_revision);
    Ok(Listed {
        mirror,
        missing,
        outdated,
        nodes,
        seen: [at, at, node_at],
    })
}
