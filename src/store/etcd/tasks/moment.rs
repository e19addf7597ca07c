//! One moment of a namespace, for an export: every read is at one revision.

use async_trait::async_trait;
use tracing::debug;
use windlass_statemachine::TaskId;

use super::{Exports, Queries, hold::Hold};
use crate::store::{
    Error, Exported, Moment, PastTasks,
    etcd::{
        client::Fault,
        schema::{
            end_of,
            registrations::{self, record},
        },
    },
};

const OPERATION: &str = "export the store";

/// The state of a revision.
struct Past {
    exports: Exports,
    _hold: Option<Hold>,
}

impl Queries {
    /// Returns the present state, which stays as it is while it is read.
    pub(crate) async fn moment(&self) -> Result<Moment, Error> {
        let failed = |fault: Fault| fault.into_error(OPERATION);
        let hold = match Hold::take(&self.reader).await {
            Ok(hold) => Some(hold),
            // A user who only reads, or a full quota: an export is then all the more wanted. A compaction makes it fail.
            Err(fault) => {
                debug!(
                    ?fault,
                    "could not hold back the compaction of etcd for an export"
                );
                None
            }
        };
        let nodes = self.reader.keys.nodes();
        let revision = match &hold {
            Some(hold) => hold.revision,
            None => self.reader.link.get_all(&nodes).await.map_err(failed)?.1,
        };
        let exports = Exports::at(&self.reader, revision);
        let found = exports.ids().await?;
        let mut registered = Vec::new();
        let mut take = |kv| registered.extend(registrations::read(&self.reader.keys, &kv));
        (self.reader.link)
            .scan(revision, &nodes, &end_of(&nodes), &mut take)
            .await
            .map_err(|fault| exports.failed(fault, OPERATION))?;
        let mut moment = Moment::new(
            found.tasks,
            Past {
                exports,
                _hold: hold,
            },
        );
        moment.claimed = found.claimed;
        let of = registered.into_iter().map(|(_, (lease, reported))| {
            let claims = u64::from(reported.status.running);
            record(lease, reported, 0, claims)
        });
        moment.nodes = of.collect();
        Ok(moment)
    }
}

#[async_trait]
impl PastTasks for Past {
    async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        self.exports.export(ids).await
    }
}
