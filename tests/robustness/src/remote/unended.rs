//! [`all`]: waits until tasks have ended, and shows what is stored of those that have not.

use std::{fmt::Write as _, time::Duration};

use tokio::time::timeout;
use windlass::Client;

use crate::{BoxError, settle::unsettled, world};

/// How many tasks are shown with their history.
const SHOWN: usize = 5;

/// Waits until all of these tasks have ended.
///
/// # Errors
///
/// When they have not within this time, with the state, the history and the commands of some of them, and the nodes; and
/// what the store answers.
pub async fn all(client: &Client, ids: &[String], within: Duration) -> Result<(), BoxError> {
    let ended = async {
        for id in ids {
            client.wait(id.as_str()).await?;
        }
        Ok::<_, BoxError>(())
    };
    if let Ok(ended) = timeout(within, ended).await {
        return ended;
    }
    let (mut text, mut left) = (String::new(), 0);
    for id in ids {
        let record = client.get(id.as_str()).await?;
        let Some(why) = unsettled(&record) else {
            continue;
        };
        left += 1;
        if left <= SHOWN {
            let task = world::load(client, record).await?;
            let _ = write!(text, "{id} {why}; {}", task.describe());
        }
    }
    let nodes = client.nodes().await?;
    let all = ids.len();
    Err(
        format!("{left} of {all} tasks have not ended within {within:?}:\n{text}nodes: {nodes:?}")
            .into(),
    )
}
