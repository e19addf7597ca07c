//! `windlass time`: prints the time with which the store compares due times.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    exit::{Exit, Failure},
    global::Global,
};

/// Nothing to choose.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Start times, deadlines and schedules are compared with this time. Each node uses the clock of its own machine, also on
etcd, which has no clock of its own: keep the clocks in step (docs/operate/running.md).

Examples:
  windlass time")]
pub(crate) struct Args {}

/// The time.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Now {
    /// The time.
    now: Timestamp,
}

/// Prints the time.
pub(crate) async fn execute(_: Args, global: &Global) -> Result<Exit, Failure> {
    let now = global.reading().await?.now();
    let out = global.out();
    match out.is_json() {
        true => out.json(&Now { now })?,
        false => out.line(now)?,
    }
    Ok(Exit::Ok)
}
