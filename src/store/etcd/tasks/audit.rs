//! The history of the namespace. Its lines are written together with the changes, except those of purges, which
//! delete task by task.

use crate::store::{
    AUDIT_RETENTION, AuditEntry, Error,
    etcd::{
        read::Access,
        schema::json::{parse, write},
        write::Item,
    },
    retention::PruneClock,
};

/// Adds a line in its own write.
pub(crate) async fn add(access: &Access, entry: &AuditEntry) -> Result<(), Error> {
    const OPERATION: &str = "write the history of the namespace";
    let key = access.keys().audit();
    let mut item = Item::new(key.clone());
    item.put(&key, write("history of the namespace", entry)?);
    let written = access.pipeline.write(item).await;
    written
        .map(drop)
        .map_err(|fault| fault.into_error(OPERATION))
}

/// Returns the newest lines, oldest first. A line that cannot be read is left out.
pub(crate) async fn newest(access: &Access, limit: u32) -> Result<Vec<AuditEntry>, Error> {
    const OPERATION: &str = "read the history of the namespace";
    let prefix = access.keys().all_audit();
    let mut lines = access.reader.all(&prefix, OPERATION).await?;
    // A clock that is behind gives its lines earlier names.
    lines.sort_by_key(|kv| kv.create_revision());
    let over = lines.len().saturating_sub(limit as usize);
    let lines = lines.iter().skip(over);
    Ok(lines.filter_map(|kv| parse(kv).ok()).collect())
}

/// Deletes the lines that are past their retention.
pub(crate) async fn prune(access: &Access, clock: &PruneClock) -> Result<(), Error> {
    const OPERATION: &str = "prune the history of the namespace";
    let Ok(before) = clock.now().checked_sub(AUDIT_RETENTION) else {
        return Ok(());
    };
    let prefix = access.keys().all_audit();
    let mut item = Item::new(prefix.clone());
    item.delete_range(&prefix, access.keys().audit_before(before));
    let pruned = access.pipeline.write(item).await;
    pruned
        .map(drop)
        .map_err(|fault| fault.into_error(OPERATION))
}
