//! `windlass schedule pause`, `resume` and `delete`: of one schedule or of many.

use std::time::Duration;

use futures::{StreamExt, stream};
use windlass::{
    Client, StateKind, TaskId,
    schedule::{LiveRuns, ScheduleRecord},
};

use super::{
    done, runs,
    select::{Choice, SelectArgs},
};
use crate::{
    exit::{Exit, Failure},
    output::Output,
};

/// Examples of `pause`.
pub(super) const PAUSE: &str = "\
Examples:
  windlass schedule pause backup --note 'the disk is replaced'
  windlass schedule pause 'backup-*' --dry-run
  windlass schedule pause --label team=billing --yes
  windlass schedule pause --all";

/// Examples of `resume`.
pub(super) const RESUME: &str = "\
Examples:
  windlass schedule resume backup --catch-up
  windlass schedule resume --all --dry-run";

/// Examples of `delete`.
pub(super) const DELETE: &str = "\
Examples:
  windlass schedule delete backup --kill-runs
  windlass schedule delete --label crontab=web-1:/etc/jobs --dry-run
  windlass schedule delete 'cron-*' --yes";

/// How many schedules are changed at the same time.
const AT_ONCE: usize = 16;

#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    select: SelectArgs,
    /// The reason, shown by `windlass schedule get`
    #[arg(long, value_name = "TEXT", value_parser = crate::parse::note)]
    note: Option<windlass::Note>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    select: SelectArgs,
    /// Treat the times that have passed as missed times, which may run
    #[arg(long)]
    catch_up: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct DeleteArgs {
    #[command(flatten)]
    select: SelectArgs,
    /// Kill the live runs too
    #[arg(long)]
    kill_runs: bool,
}

/// Returns whether a pause changes a schedule.
fn is_going_on(record: &ScheduleRecord) -> bool {
    let is_live = record.state.is_some_and(|code| !code.is_terminal());
    is_live && (record.state != Some(StateKind::Paused) || record.commands > 0)
}

/// Returns whether a resume changes a schedule.
fn is_held(record: &ScheduleRecord) -> bool {
    let is_live = record.state.is_some_and(|code| !code.is_terminal());
    is_live
        && (record.state == Some(StateKind::Paused)
            || record.commands > 0
            || record.ahead.is_some())
}

/// Pauses schedules.
pub(super) async fn pause(args: PauseArgs, client: &Client, out: &Output) -> Result<Exit, Failure> {
    let ids = match args
        .select
        .choose(client, out, "pause", is_going_on)
        .await?
    {
        Choice::Act(ids) => ids,
        Choice::Done(exit) => return Ok(exit),
    };
    let note = args.note.map(String::from);
    each(out, ids, async |id: &TaskId| {
        client
            .schedules()
            .pause(id, note.clone())
            .await
            .map_err(Failure::of_schedule)?;
        Ok(Did::from(match becomes_paused(client, id).await? {
            true => "paused",
            false => "pause sent; it waits for a node",
        }))
    })
    .await
}

/// Resumes schedules.
pub(super) async fn resume(
    args: ResumeArgs,
    client: &Client,
    out: &Output,
) -> Result<Exit, Failure> {
    let ids = match args.select.choose(client, out, "resume", is_held).await? {
        Choice::Act(ids) => ids,
        Choice::Done(exit) => return Ok(exit),
    };
    let catch_up = args.catch_up;
    each(out, ids, async |id: &TaskId| {
        client
            .schedules()
            .resume(id, catch_up)
            .await
            .map_err(Failure::of_schedule)?;
        Ok(Did::from(
            match client.is_handled(windlass::schedule::KIND).await? {
                true => "resumed",
                false => "resume sent; it waits for a node",
            },
        ))
    })
    .await
}

/// Deletes schedules.
pub(super) async fn delete(
    args: DeleteArgs,
    client: &Client,
    out: &Output,
) -> Result<Exit, Failure> {
    let ids = match args.select.choose(client, out, "delete", |_| true).await? {
        Choice::Act(ids) => ids,
        Choice::Done(exit) => return Ok(exit),
    };
    let live = match args.kill_runs {
        true => LiveRuns::Kill,
        false => LiveRuns::Keep,
    };
    each(out, ids, async |id: &TaskId| {
        let killed = client
            .schedules()
            .delete(id, live)
            .await
            .map_err(Failure::of_schedule)?;
        Ok(Did {
            action: "deleted",
            killed: Some(killed),
        })
    })
    .await
}

/// The result of an action on a schedule.
struct Did {
    action: &'static str,
    /// The runs that a delete has sent a kill to.
    killed: Option<Vec<TaskId>>,
}

impl From<&'static str> for Did {
    fn from(action: &'static str) -> Self {
        Self {
            action,
            killed: None,
        }
    }
}

impl Did {
    fn print(self, id: &TaskId, out: &Output) -> Result<(), Failure> {
        let Some(killed) = self.killed else {
            return done(out, id, self.action).map(drop);
        };
        if out.is_json() || killed.is_empty() {
            return runs(out, id, self.action, &killed).map(drop);
        }
        done(out, id, self.action)?;
        runs(out, id, "sent a kill to", &killed).map(drop)
    }
}

/// Acts on each schedule, several at a time, and prints the results in their order. An error of one of many is
/// printed, and the others continue.
async fn each(
    out: &Output,
    ids: Vec<TaskId>,
    act: impl AsyncFn(&TaskId) -> Result<Did, Failure>,
) -> Result<Exit, Failure> {
    let is_one = ids.len() == 1;
    let (act, mut exits) = (&act, Vec::new());
    let all = ids.iter().map(|id| async move { (id, act(id).await) });
    let mut all = stream::iter(all).buffered(AT_ONCE);
    while let Some((id, outcome)) = all.next().await {
        match outcome {
            Ok(did) => {
                did.print(id, out)?;
                exits.push(Exit::Ok);
            }
            Err(failure) if is_one => return Err(failure),
            Err(failure) => {
                let exit = failure.exit();
                out.complain(failure.about(id.as_str()));
                exits.push(exit);
            }
        }
    }
    Ok(match exits.first() {
        Some(first) if exits.iter().all(|exit| exit == first) => *first,
        Some(_) => Exit::No,
        None => Exit::Ok,
    })
}

/// Returns whether a schedule is paused, after a moment in which a node may apply the command.
async fn becomes_paused(client: &Client, id: &TaskId) -> Result<bool, Failure> {
    for _ in 0..20 {
        let record = client.get(id).await?;
        // A command that waits may end the pause.
        if record.commands > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        if record
            .state
            .is_ok_and(|state| state.code() == StateKind::Paused)
        {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(false)
}
