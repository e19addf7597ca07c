//! [`Kinds`]: the kinds for which a node has handlers.

use std::{collections::BTreeMap, sync::Arc};

use windlass_statemachine::Kind;

use super::config::KindConfig;
use crate::hash::HashMap;
use crate::{
    handler::{Shared, StatefulHandler},
    store::DataVersions,
};

/// The handler of a kind, and its settings.
pub(super) struct KindEntry {
    pub(super) handler: Arc<dyn StatefulHandler>,
    pub(super) config: KindConfig,
}

impl KindEntry {
    pub(super) fn new(config: KindConfig, handler: impl StatefulHandler) -> Self {
        Self {
            config: config.of_handler(&handler),
            handler: Arc::new(handler),
        }
    }
}

/// The handlers of a node.
pub(super) struct Kinds {
    pub(super) named: HashMap<Kind, Arc<KindEntry>>,
    /// Runs every kind that has no handler of its own.
    pub(super) default: Option<Arc<KindEntry>>,
    /// The values that they share.
    pub(super) shared: Shared,
}

impl Kinds {
    /// Returns the handler of a kind, if this node has one.
    pub(super) fn entry(&self, kind: &Kind) -> Option<&Arc<KindEntry>> {
        self.named.get(kind).or(self.default.as_ref())
    }

    /// Returns the data versions that the handlers read.
    pub(super) fn data_versions(&self) -> DataVersions {
        let mut versions = DataVersions::default();
        if let Some(default) = &self.default {
            versions.set_others(default.config.writes_version());
        }
        for (kind, entry) in &self.named {
            let version = entry.config.writes_version();
            if version != versions.newest(kind) {
                versions.set(kind.clone(), version);
            }
        }
        versions
    }

    /// Returns the slots of each kind with a limit, except the exempt kinds.
    pub(super) fn slots_of(&self) -> BTreeMap<Kind, u32> {
        let counted = self
            .named
            .iter()
            .filter(|(_, entry)| !entry.config.is_apart);
        let limited = counted.filter_map(|(kind, e)| e.config.slots.map(|n| (kind.clone(), n)));
        limited.collect()
    }

    /// Returns the kinds that this node runs, in order; `None` for every kind.
    pub(super) fn listed(&self) -> Option<Vec<Kind>> {
        if self.default.is_some() {
            return None;
        }
        let mut listed: Vec<Kind> = self.named.keys().cloned().collect();
        listed.sort();
        Some(listed)
    }
}
