//! When `windlass worker --until-idle` ends.

use std::time::Duration;

use tokio::time::sleep;
use windlass::{
    Client, Kind, StateKind,
    store::{Error, Filter, Page},
};

use crate::waiting::patiently;

/// The states of tasks that a node still runs.
pub(super) const LIVE: [StateKind; 3] =
    [StateKind::Runnable, StateKind::Fault, StateKind::Sleeping];

/// Waits until no bulk operation can run, and then until no task matches one of the filters. A node does not end because its
/// store is unavailable.
pub(super) async fn idle(client: &Client, filters: &[Filter]) -> Result<(), Error> {
    let operations = Filter::new()
        .states(LIVE)
        .kind(Kind::new(windlass_server::bulk::KIND)?);
    patiently(Duration::MAX, || client.wait_none(&operations)).await?;
    loop {
        for filter in filters {
            patiently(Duration::MAX, || client.wait_none(filter)).await?;
        }
        // A task of one kind may have submitted some of another meanwhile.
        let mut left = false;
        for filter in filters {
            let one = patiently(Duration::MAX, || client.list(filter, Page::new(1))).await?;
            left |= !one.is_empty();
            left |= patiently(Duration::MAX, || commanded(client, filter)).await?;
        }
        if !left {
            return Ok(());
        }
        sleep(LOOK_APART).await;
    }
}

/// How long it takes at least until a node has carried out a command.
const LOOK_APART: Duration = Duration::from_millis(50);

/// Returns whether a command waits for a paused task: it may be about to run.
async fn commanded(client: &Client, filter: &Filter) -> Result<bool, Error> {
    let mut paused = filter.clone();
    paused.states = vec![StateKind::Paused];
    let mut pages = client.every(&paused);
    while let Some(records) = pages.next().await? {
        if records.iter().any(|record| record.commands > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}
