//! Reads the [`Format`] of the namespace, and decides it for a new one.

use std::sync::OnceLock;

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use tracing::info;
use windlass_statemachine::Invalid;

use super::Reader;
use crate::store::{
    Error,
    etcd::{
        client::Fault,
        schema::{Format, KeyValue, PropsPlace, end_of, json},
    },
};

/// How often a process reads what others write at the same moment.
const TRIES: usize = 8;
/// What a namespace that is used has below one of these.
const USED: [&str; 5] = ["tasks/", "state/", "parked/", "finished/", "nodes/"];

/// Where this namespace keeps props, as far as this process knows.
#[derive(Debug)]
pub(crate) struct PropsSetting {
    known: OnceLock<PropsPlace>,
    /// Nodes of Metafora work in this namespace, and read props beside the task alone.
    metafora_nodes: bool,
}

impl PropsSetting {
    pub(crate) fn new(metafora_nodes: bool) -> Self {
        Self {
            known: OnceLock::new(),
            metafora_nodes,
        }
    }

    /// Returns where props are, if it is decided.
    pub(crate) fn known(&self) -> Option<PropsPlace> {
        self.known.get().copied()
    }
}

impl Reader {
    /// Reads what is added to revisions to make fences, and where props are. Every process does so when it
    /// connects, and every node when it joins: marks do not change while a node lives. A namespace that nobody
    /// has used has neither.
    pub(crate) async fn load_format(&self) -> Result<(), Fault> {
        match self.link.get_key(&self.keys.fences()).await? {
            Some(kv) => self.set_format(&kv),
            None => Ok(()),
        }
    }

    fn set_format(&self, kv: &KeyValue) -> Result<(), Fault> {
        let unreadable = |reason| {
            let what = self.keys.fences();
            Fault::Refused(Error::Unusable(format!("{what} cannot be read: {reason}")))
        };
        let format: Format = json::parse(kv).map_err(unreadable)?;
        self.fences.set(format.marks);
        let place = *self.props.known.get_or_init(|| format.props);
        if self.props.metafora_nodes && place == PropsPlace::Apart {
            let reason = format!(
                "has metafora-nodes=true, but '{}' was made without it, and nodes of Metafora cannot read the \
                 props of its tasks; copy it to a namespace that is made with metafora-nodes=true (windlass copy)",
                self.keys.root().trim_matches('/')
            );
            return Err(Fault::Refused(Invalid::new("store", reason).into()));
        }
        Ok(())
    }

    /// Returns where the props of new tasks are put. The first node or client that writes to a namespace decides
    /// it for all: apart in an unused one, unless nodes of Metafora are to work in it, and beside the task in
    /// one that Metafora or an earlier version has used.
    pub(crate) async fn props_place(&self) -> Result<PropsPlace, Fault> {
        let key = self.keys.fences();
        for _ in 0..TRIES {
            if let Some(place) = self.props.known() {
                return Ok(place);
            }
            if !self.props.metafora_nodes && self.put_format(PropsPlace::Apart).await? {
                info!(
                    namespace = self.keys.root(),
                    "new namespace: props are kept apart"
                );
            } else {
                self.put_format(PropsPlace::Beside).await?;
            }
            if let Some(kv) = self.link.get_key(&key).await? {
                self.set_format(&kv)?;
            }
        }
        Err(Fault::NotNow(format!("{key} is deleted again and again")))
    }

    /// Writes the format of a namespace that has none; with props apart only if it is unused. Returns whether it
    /// was written.
    async fn put_format(&self, props: PropsPlace) -> Result<bool, Fault> {
        let key = self.keys.fences();
        let format = Format {
            props,
            ..Format::default()
        };
        let text = json::write("format", &format).map_err(Fault::Refused)?;
        let is_none = |key: &str| Compare::create_revision(key, CompareOp::Equal, 0);
        let mut when = vec![is_none(&key)];
        if props == PropsPlace::Apart {
            when.extend(USED.map(|folder| {
                let from = format!("{}{folder}", self.keys.root());
                is_none(&from).with_range(end_of(&from))
            }));
        }
        let txn = Txn::new()
            .when(when)
            .and_then([TxnOp::put(&*key, text, None)]);
        let done = self.link.txn(txn).await?;
        Ok(done.succeeded())
    }
}
