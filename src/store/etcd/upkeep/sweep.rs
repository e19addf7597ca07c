//! Deletes the expired keys of a folder.

use crate::store::etcd::{
    client::Fault,
    read::Access,
    schema::{KeyValue, end_of},
    write::Item,
};

/// How many keys one write deletes at most.
const AT_ONCE: usize = 60;

/// Deletes the keys that begin with `from` and are expired, unless a write has changed them in the
/// meantime.
pub(super) async fn sweep(
    access: &Access,
    from: &str,
    is_over: impl Fn(&KeyValue) -> bool,
) -> Result<(), Fault> {
    let mut over: Vec<(String, i64)> = Vec::new();
    let mut take = |kv: KeyValue| {
        if is_over(&kv)
            && let Ok(key) = std::str::from_utf8(kv.key())
        {
            over.push((key.to_owned(), kv.mod_revision()));
        }
    };
    let (link, end) = (access.link(), end_of(from));
    link.scan(0, from, &end, &mut take).await?;
    for chunk in over.chunks(access.capacity().things(AT_ONCE).max(1)) {
        let mut item = Item::new(from);
        for (key, revision) in chunk {
            item.delete_at(key, *revision);
        }
        access.pipeline.write(item).await?;
    }
    Ok(())
}
