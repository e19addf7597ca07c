//! Reads the [`Format`] of the namespace, and decides it for a new one.

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use tracing::info;
use windlass_statemachine::Invalid;

use super::Reader;
use crate::store::{
    Error,
    etcd::{
        client::Fault,
        schema::{Format, KeyValue, Layout, end_of},
    },
};

/// How often a process reads again when others write at the same time.
const TRIES: usize = 8;
/// A used namespace has a key below one of these folders.
const USED: [&str; 5] = ["tasks/", "state/", "parked/", "finished/", "nodes/"];

impl Reader {
    /// Reads the offsets between revisions and fences, and the layout of the keys. Every process does so when it
    /// connects, and every node when it joins: the offsets do not change while a node is live. An unused
    /// namespace has neither.
    pub(crate) async fn load_format(&self) -> Result<(), Fault> {
        self.load_mark().await?;
        match self.link.get_key(&self.keys.fences()).await? {
            Some(kv) => self.set_format(&kv),
            None => Ok(()),
        }
    }

    /// Applies the format in this key.
    pub(crate) fn set_format(&self, kv: &KeyValue) -> Result<(), Fault> {
        let unreadable = |reason| {
            let what = self.keys.fences();
            Fault::Refused(Error::Unusable(format!("{what} cannot be read: {reason}")))
        };
        let format = Format::read(kv.value()).map_err(unreadable)?;
        self.fences.set(format.marks);
        let layout = self.keys.keep_layout(format.layout);
        if self.metafora_nodes && !layout.is_shared() {
            let reason = format!(
                "has metafora-nodes=true, but '{}' was made without it, and nodes of Metafora cannot read the \
                 props of its tasks; copy it to a namespace that is made with metafora-nodes=true",
                self.keys.root().trim_matches('/')
            );
            return Err(Fault::Refused(Invalid::new("store", reason).into()));
        }
        Ok(())
    }

    /// Returns the layout of the keys. The first node or client that writes to a namespace decides it for all:
    /// `Compact` in an unused namespace, unless nodes of Metafora will work in it, and `Shared` if Metafora has
    /// used it. Every write of props or history of a task comes after this decision.
    pub(crate) async fn layout(&self) -> Result<Layout, Fault> {
        let key = self.keys.fences();
        for _ in 0..TRIES {
            if let Some(layout) = self.keys.layout() {
                return Ok(layout);
            }
            if !self.metafora_nodes && self.put_format(Layout::Compact).await? {
                info!(
                    namespace = self.keys.root(),
                    "made the layout of a new namespace"
                );
            } else {
                self.put_format(Layout::Shared).await?;
            }
            if let Some(kv) = self.link.get_key(&key).await? {
                self.set_format(&kv)?;
            }
        }
        Err(Fault::NotNow(format!("{key} is deleted again and again")))
    }

    /// Like [`layout`](Self::layout). Errors name the operation.
    pub(crate) async fn decided(&self, operation: &'static str) -> Result<(), Error> {
        let layout = self.layout().await;
        layout
            .map(drop)
            .map_err(|fault| fault.into_error(operation))
    }

    /// Writes the format of a namespace that has none; the layout `Compact` only if the namespace is unused. Returns
    /// whether it was written.
    async fn put_format(&self, layout: Layout) -> Result<bool, Fault> {
        let key = self.keys.fences();
        let format = Format {
            layout,
            ..Format::default()
        };
        let text = format.write().map_err(Fault::Refused)?;
        let is_none = |key: &str| Compare::create_revision(key, CompareOp::Equal, 0);
        let mut when = vec![is_none(&key)];
        if !layout.is_shared() {
            when.extend(USED.map(|folder| {
                let from = format!("{}{folder}", self.keys.root());
                is_none(&from).with_range(end_of(&from))
            }));
        }
        let txn = Txn::new()
            .when(when)
            .and_then([TxnOp::put(&*key, text, None)]);
        let done = self.link.write(txn).await?;
        Ok(done.succeeded())
    }
}
