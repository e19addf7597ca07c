//! `windlass failures`: shows failed tasks in groups by their error.

use jiff::Timestamp;
use windlass::{NodeName, store::Filter, wire::FailuresForm};

use crate::{
    exit::{Exit, Failure},
    filters::{KindFilter, kind_filter},
    global::Global,
    hint::option,
    parse,
    text::one_line,
    view::{age, text},
};

/// Which failed tasks to show.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Errors that differ only in numbers, ids and paths are one group. SQLite, and etcd with memory-index=true, keep the number of \
each group; other stores read the last 10,000 failed tasks.

Examples:
  windlass failures
  windlass failures --since yesterday
  windlass failures --kind report -o json | jq '.failures[] | {tasks, error}'
  windlass list --state failed --fingerprint 4f2a90c41b7e
  windlass retry --state failed --fingerprint 4f2a90c41b7e")]
pub(crate) struct Args {
    /// Show only this kind; 'inbox/*' for every kind that begins with inbox/
    #[arg(long, value_name = "KIND", value_parser = kind_filter)]
    kind: Option<KindFilter>,

    /// Count only tasks that failed at this time (2026-11-28, yesterday, '2 hours ago', RFC 3339; days are those of this
    /// machine's time zone) or later; at most the last 10,000
    #[arg(long, value_name = "TIME", value_parser = parse::since)]
    since: Option<Timestamp>,

    /// Show at most the N groups with the most tasks
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse::from_one::<u32>)]
    limit: u32,
}

/// Prints the groups.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let (out, hint) = (global.out(), global.hint());
    // A group has a row for each of its kinds, and the kind selects among them.
    let most = (args.limit as usize).saturating_mul(4).max(1000);
    let mut all = match args.since {
        None => client.store().registry().failures(most).await?,
        Some(since) => {
            // Only so many tasks are read: of these kinds alone.
            let mut filter = Filter::new();
            if let Some(kind) = &args.kind {
                kind.narrow(&mut filter);
            }
            client.failed_since(since, &filter, |_| true).await?
        }
    };
    if let Some(filter) = &args.kind {
        all.groups.retain(|group| filter.selects(&group.kind));
    }
    let found = client
        .failures_of(all, args.limit as usize, |_| false)
        .await?;
    if out.is_json() {
        out.json(&FailuresForm::from(&found))?;
        return Ok(Exit::Ok);
    }
    if found.groups.is_empty() {
        out.note(match args.since {
            None => "no task has failed".to_owned(),
            Some(since) => format!("no task has failed since {since}"),
        });
        return Ok(Exit::Ok);
    }
    let now = client.now();
    let rows = found.groups.iter().map(|group| {
        let mut kinds: Vec<&str> = group.kinds.iter().map(|(kind, _)| kind.as_str()).collect();
        if kinds.len() > 3 {
            kinds.truncate(3);
            kinds.push("…");
        }
        let error = group.error.as_deref().unwrap_or_default();
        vec![
            text(group.tasks),
            text(group.fingerprint.as_deref().unwrap_or("-")),
            text(kinds.join(", ")),
            text(age(group.first, now)),
            text(age(group.last, now)),
            text(&group.sample),
            text(names(&group.nodes)),
            text(one_line(error.lines().next().unwrap_or_default())),
        ]
    });
    let header = [
        "TASKS",
        "FINGERPRINT",
        "KINDS",
        "FIRST",
        "LAST",
        "SAMPLE",
        "NODES",
        "ERROR",
    ];
    out.narrow_table(
        &header,
        &["NODES", "FIRST", "SAMPLE", "KINDS"],
        rows.collect(),
    )?;
    if let Some(print) = found
        .groups
        .first()
        .and_then(|group| group.fingerprint.as_deref())
    {
        let since = args.since.map(|since| format!(" --ended-from {since}"));
        let words = format!(
            "retry --state failed {}{}",
            option("--fingerprint", print),
            since.unwrap_or_default()
        );
        out.note(format!("retry a group: {}", hint.command(&words)));
    }
    if !found.is_complete {
        out.note("there are more failed tasks; --limit shows more groups");
    }
    Ok(Exit::Ok)
}

/// Returns the names of nodes, the one with the most tasks first.
fn names(nodes: &[(NodeName, u64)]) -> String {
    let mut names: Vec<&str> = nodes.iter().map(|(node, _)| node.as_str()).collect();
    if names.len() > 3 {
        names.truncate(3);
        names.push("…");
    }
    match names.is_empty() {
        true => "-".to_owned(),
        false => names.join(", "),
    }
}
