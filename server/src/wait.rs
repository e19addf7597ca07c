//! How a request waits for what comes later.

use std::{future::Future, time::Duration};

use tokio::time::timeout;

use crate::{
    access::Access,
    app::App,
    guard,
    params::{Params, within},
    problem::Problem,
};

/// Waits for something at most this long. Returns `None` when the time is over, when no place for a wait is free, or when the
/// server stops: then the answer says how things are. Without a place it says too when to ask again.
///
/// # Errors
///
/// The refusal of a caller whose token ends during the wait.
pub(crate) async fn wait_for<T, const ROLE: u8>(
    app: &App,
    by: &Access<ROLE>,
    longest: Duration,
    what: impl Future<Output = T>,
) -> Result<Option<T>, Problem> {
    let Ok(_place) = by.begin_wait(&app.waits) else {
        return Ok(None);
    };
    tokio::select! {
        done = timeout(longest, what) => Ok(done.ok()),
        refused = app.keyring.ends(by.caller()) => Err(guard::refusal(refused)),
        () = app.stop.cancelled() => Ok(None),
    }
}

/// Takes the parameter `wait`: a length of time, at most the longest wait of the server.
pub(crate) fn wait_of(params: &mut Params, app: &App) -> Result<Option<Duration>, Problem> {
    let most = app.settings.longest_wait;
    let wait = params.time("wait")?;
    wait.map(|wait| within("wait", wait, most)).transpose()
}
