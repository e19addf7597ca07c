//! Raises the fences: above those of tasks from another store, or of a history that a restore has lost.

use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp};
use windlass_statemachine::{Fence, Invalid};

use crate::store::{
    Error,
    etcd::{
        client::{Fault, kv},
        read::Reader,
        schema::{Format, Restored, end_of, json::parse, revision},
    },
};

const TRIES: usize = 5;

/// Ensures that every later claim has a greater fence than this one, and than those of a history that a restore has
/// lost, if a node has left a note about it. Deletes that note.
pub(crate) async fn raise_fences(reader: &Reader, fence: Fence) -> Result<(), Error> {
    const OPERATION: &str = "raise the fences";
    let failed = |fault: Fault| fault.into_error(OPERATION);
    let (key, note) = (reader.keys.fences(), reader.keys.restored());
    // Decided before this, because the first write of this key decides the layout.
    let layout = reader.layout().await.map_err(failed)?;
    for _ in 0..TRIES {
        let read = Txn::new().and_then([TxnOp::get(&*key, None), TxnOp::get(&*note, None)]);
        let read = reader.link.txn(read).await.map_err(failed)?;
        let now = read.header().map_or(0, |header| header.revision());
        let mut got = read.op_responses().into_iter();
        let (stored, noted) = (kv(got.next()), kv(got.next()));
        let unreadable = |what: &str, reason| Error::Corrupt {
            what: what.to_owned(),
            reason,
        };
        let format = stored
            .as_ref()
            .map(|kv| Format::read(kv.value()))
            .transpose();
        let format = format.map_err(|reason| unreadable(&key, reason))?;
        let lost = noted.as_ref().map(parse::<Restored>).transpose();
        let lost = lost.map_err(|reason| unreadable(&note, reason))?;
        let fence = fence.max(Fence(lost.as_ref().map_or(0, |lost| lost.fence)));
        let mut format = format.unwrap_or(Format {
            layout,
            ..Format::default()
        });
        if format.marks.raise(now + 1, fence) && lost.is_none() {
            reader.fences.set(format.marks);
            return Ok(());
        }
        let nodes = reader.keys.nodes();
        let as_read = |key: &str, found| {
            Compare::mod_revision(key, CompareOp::Equal, revision(Option::as_ref(found)))
        };
        // A node reads the marks when it joins.
        let no_node = Compare::create_revision(&*nodes, CompareOp::Equal, 0);
        let no_node = no_node.with_range(end_of(&nodes));
        let any = GetOptions::new().with_range(end_of(&nodes)).with_limit(1);
        let put = TxnOp::put(&*key, format.write()?, None);
        let txn = Txn::new()
            .when([as_read(&key, &stored), as_read(&note, &noted), no_node])
            .and_then([put, TxnOp::delete(&*note, None)])
            .or_else([TxnOp::get(&*nodes, Some(any))]);
        let done = reader.link.write(txn).await.map_err(failed)?;
        if done.succeeded() {
            reader.fences.set(format.marks);
            return Ok(());
        }
        if kv(done.op_responses().into_iter().next()).is_some() {
            let reason = "has nodes that live, and they would go on with lesser fences than those of the tasks \
                          that come; stop them first";
            return Err(Invalid::new("namespace", reason).into());
        }
    }
    Err(Error::unavailable(OPERATION, "they change too often"))
}
