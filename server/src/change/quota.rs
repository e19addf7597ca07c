//! The count of a caller's tasks before it adds one.

use axum::http::StatusCode;
use windlass::StateKind;

use super::Change;
use crate::{problem::Problem, quota::Held};

impl Change<'_> {
    /// Waits for the turn of the caller and counts its tasks, if it has a quota and the operations add any. The count is that
    /// of the kinds of its scope, which the store keeps.
    pub(super) async fn hold(&self, adds: u64) -> Result<Option<Held>, Problem> {
        let Some(most) = self.by.max_tasks.filter(|_| adds > 0) else {
            return Ok(None);
        };
        if !self.app.store.registry().keeps_counts() {
            let detail = "the token has a quota, and this server keeps no counts of tasks; open the store with \
                          memory-index=true in its URL";
            return Err(Problem::new(
                StatusCode::NOT_IMPLEMENTED,
                "unsupported",
                detail,
            ));
        }
        let live = async {
            let counts = self.by.client().counts().await?;
            let is_live = |state: Option<StateKind>| state.is_none_or(|state| !state.is_terminal());
            let live = counts
                .iter()
                .filter(|count| self.by.scope.has_kind(&count.kind) && is_live(count.state));
            Ok::<u64, Problem>(live.map(|count| count.tasks).sum())
        };
        let held = self.app.quotas.hold(self.by.key(), most, live).await;
        held.map(Some)
    }
}
