//! `windlass stats`: counts tasks by kind and state, shows what holds tasks back, and the limits in use.

use jiff::Timestamp;
use windlass::{
    Bound,
    client::{self, KindStats, WaitReason},
    store::{LimitUse, TaskCount},
    wire::StatsForm,
};

use crate::{
    commands::why,
    exit::{Exit, Failure},
    filters::{KindFilter, kind_filter},
    global::Global,
    hint::Hint,
    output::Output,
    text::one_line,
    view::{age, color, due, human, text},
};

/// What to count.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The second table shows what a node can claim: AVAILABLE tasks are due and unclaimed, FUTURE ones sleep until later, \
WAITING ones wait for other tasks. The third shows why tasks are not run, and what to do.

Examples:
  windlass stats
  windlass stats --kind report
  windlass stats --kind 'inbox/*'
  windlass stats -o json | jq '.counts[] | select(.state == \"failed\")'
  windlass stats -o json | jq '.kinds[] | {kind, available, oldest_due_age_seconds}'")]
pub(crate) struct Args {
    /// Show only this kind; 'inbox/*' for every kind that begins with inbox/
    #[arg(long, value_name = "KIND", value_parser = kind_filter)]
    kind: Option<KindFilter>,
}

/// Prints the counts.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let (out, hint) = (global.out(), global.hint());
    let mut stats = client.stats().await?;
    if let Some(filter) = &args.kind {
        stats.counts.retain(|count| filter.selects(&count.kind));
        stats.kinds.retain(|of| filter.selects(&of.kind));
    }
    let tasks: u64 = stats.counts.iter().map(|c| c.tasks).sum();
    let claimed: u64 = stats.counts.iter().map(|c| c.claimed).sum();
    if out.is_json() {
        let remedy = |of: &KindStats, reason: &WaitReason| remedy(of, reason, &hint);
        out.json(&StatsForm::new(&stats, remedy))?;
        return Ok(Exit::Ok);
    }
    if stats.counts.is_empty() {
        out.note(match &args.kind {
            Some(filter) => format!("there are no tasks of the kind {filter}"),
            None => "there are no tasks".to_owned(),
        });
    }
    show_states(&out, &stats.counts, (tasks, claimed))?;
    show_kinds(&out, &stats)?;
    show_held_back(&out, &stats.kinds, &hint)?;
    if !stats.limits.is_empty() {
        out.line("")?;
        show_limits(&out, &stats.limits, stats.at)?;
    }
    Ok(Exit::Ok)
}

/// Returns the command that shows or resolves what holds tasks back.
fn remedy(of: &KindStats, reason: &WaitReason, hint: &Hint) -> String {
    hint.command(&why::remedy(&of.kind, reason))
}

fn show_states(
    out: &Output,
    counts: &[TaskCount],
    (tasks, claimed): (u64, u64),
) -> Result<(), Failure> {
    let row = |c: &TaskCount| {
        let state = match c.state {
            Some(code) => text(code).fg(color(code)),
            None => text("quarantined").fg(comfy_table::Color::Red),
        };
        vec![text(&c.kind), state, text(c.tasks), text(c.claimed)]
    };
    let mut rows: Vec<_> = counts.iter().map(row).collect();
    if !rows.is_empty() {
        rows.push(vec![text("all"), text(""), text(tasks), text(claimed)]);
    }
    out.narrow_table(&["KIND", "STATE", "TASKS", "CLAIMED"], &["CLAIMED"], rows)
}

/// Shows the kinds that have live tasks.
fn show_kinds(out: &Output, stats: &client::Stats) -> Result<(), Failure> {
    let is_live = |of: &&KindStats| {
        of.available + of.future + of.waiting + of.awaiting_signal + of.paused + of.claimed > 0
    };
    let row = |of: &KindStats| {
        let mut oldest = of
            .oldest_due
            .map_or_else(String::new, |due| age(due.min(stats.at), stats.at));
        if of.oldest_at_least && !oldest.is_empty() {
            oldest.push('+');
        }
        vec![
            text(&of.kind),
            text(of.available),
            text(of.future),
            // For other tasks, or for a signal.
            text(of.waiting + of.awaiting_signal),
            text(of.paused),
            text(of.claimed),
            text(oldest),
        ]
    };
    let rows: Vec<_> = stats.kinds.iter().filter(is_live).map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let header = [
        "KIND",
        "AVAILABLE",
        "FUTURE",
        "WAITING",
        "PAUSED",
        "CLAIMED",
        "DUE FOR",
    ];
    out.narrow_table(&header, &["PAUSED", "CLAIMED", "WAITING", "FUTURE"], rows)
}

/// Shows why tasks are not run, and what to do, one line each, because a table would cut the lines
/// off.
fn show_held_back(out: &Output, kinds: &[KindStats], hint: &Hint) -> Result<(), Failure> {
    for of in kinds {
        for (n, held) in of.held_back.iter().enumerate() {
            if n == 0 {
                out.line(format!("\n{} not run:", one_line(of.kind.as_str())))?;
            }
            let more = if held.at_least { "+" } else { "" };
            let why = one_line(&held.reason.to_string());
            out.line(format!("  {}{more}: {why}", held.tasks))?;
            out.line(format!("     try: {}", remedy(of, &held.reason, hint)))?;
        }
    }
    Ok(())
}

fn show_limits(out: &Output, limits: &[LimitUse], now: Timestamp) -> Result<(), Failure> {
    let rows = limits.iter().map(|limit| {
        let allows = match limit.limit.as_ref().map(|limit| limit.bound()) {
            Some(Bound::AtOnce(most)) => format!("{most} at once"),
            Some(Bound::Starts { most, within }) => format!("{most} in {}", human(within)),
            None => "unknown".to_owned(),
        };
        let next = limit.next.map_or_else(String::new, |next| due(next, now));
        vec![
            text(&limit.key),
            text(allows),
            text(limit.taken),
            text(limit.waiting),
            text(next),
        ]
    });
    let header = ["LIMIT", "ALLOWS", "TAKEN", "WAITING", "NEXT"];
    out.narrow_table(&header, &["NEXT", "ALLOWS"], rows.collect())
}
