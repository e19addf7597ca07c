//! `windlass why`: which tasks are not run, why, and what to do.

use std::collections::HashSet;

use windlass::{
    Client, Kind, StateKind, Task, TaskId, WaitOutcome, Waited,
    client::{Cause, NotRun, Stats, WaitReason},
    statemachine::waits::Waits,
    store::{Error, Filter, Query, TaskRecord},
    wire::{TaskWhyForm, WaitingForm, WhyForm},
};

use crate::{
    commands::{run::BATCH, steer::sleep_line},
    exit::{Exit, Failure},
    filters::{KindFilter, kind_filter},
    global::Global,
    hint::{Hint, option, quoted},
    text::one_line,
};

/// Which tasks to explain.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Tasks that sleep until a later time wait for nothing else, and are not among them: windlass list --state sleeping. Tasks
that have failed are shown by windlass list --state failed.

Examples:
  windlass why
  windlass why --kind 'inbox/*'
  windlass why mail-1
  windlass why -o json | jq '.waiting[] | select(.reason == \"limit\")'")]
pub(crate) struct Args {
    /// Explain this task alone
    #[arg(value_name = "ID", conflicts_with = "kind")]
    id: Option<TaskId>,

    /// Explain only this kind; 'inbox/*' for every kind that begins with inbox/
    #[arg(long, value_name = "KIND", value_parser = kind_filter)]
    kind: Option<KindFilter>,
}

/// Prints the reasons, that with the most tasks first.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let (out, hint) = (global.out(), global.hint());
    if let Some(id) = &args.id {
        return one(id, global, &client).await;
    }
    let mut stats = client.stats().await?;
    if let Some(filter) = &args.kind {
        stats.kinds.retain(|of| filter.selects(&of.kind));
    }
    let form = WhyForm::new(&stats, client.write_error().await, |one| {
        resolve(one, &hint)
    });
    let form = form.with_pausers(client.pausers(&stats).await?);
    // A row has no kind.
    let form = match args.kind {
        None => form.with_refused(&stats.refused_rows, hint.command("doctor")),
        Some(_) => form,
    };
    if out.is_json() {
        out.json(&form)?;
        return Ok(Exit::Ok);
    }
    if let Some(error) = &form.no_writes {
        no_writes(error, global)?;
    } else if form.waiting.is_empty() && form.refused_rows.is_none() {
        match &args.kind {
            Some(filter) if stats.kinds.is_empty() => {
                out.note(format!("there are no tasks of the kind {filter}"));
            }
            _ => match unclaimed(&stats) {
                None => out.note("every task that is due runs, or will be claimed"),
                Some(text) => out.line(text)?,
            },
        }
    }
    // Lines, because a table would cut them off.
    if let Some(rows) = &form.refused_rows {
        out.line(one_line(&rows.text))?;
        out.line(format!("   try: {}", rows.remedy))?;
    }
    for one in &form.waiting {
        let more = if one.at_least { "+" } else { "" };
        let kind = one_line(one.kind.as_str());
        let text = one_line(&one.text);
        out.line(format!("{}{more} {kind}: {text}", one.tasks))?;
        out.line(format!("   try: {}", one.remedy))?;
    }
    let of_runs = |one: &&WaitingForm<'_>| {
        one.kind.as_str() == Kind::RUN_LINE && ["no_node", "labels"].contains(&one.reason)
    };
    if form.waiting.iter().any(|one| of_runs(&one)) {
        out.note(format!(
            "the tasks of the kind {} are lines of `windlass run`: the same run again, in the same folder, continues them; \
             `{}` names one, whose reason has the batch",
            Kind::RUN_LINE,
            hint.command(&format!("list --kind {} --waits no_node", Kind::RUN_LINE))
        ));
    }
    let of_nodes = |reason: &str| ["no_node", "lost"].contains(&reason);
    if form.waiting.iter().any(|one| of_nodes(one.reason)) && client.nodes().await?.is_empty() {
        out.note(format!(
            "no node lives: if one should, its log and `{}` say why",
            hint.command("doctor")
        ));
    }
    Ok(Exit::Ok)
}

/// Says that the store takes no writes.
fn no_writes(error: &str, global: &Global) -> Result<(), Failure> {
    let (out, text) = (global.out(), one_line(error));
    out.line(format!(
        "the store takes no writes, so no task makes progress: {text}"
    ))?;
    out.line(format!("   try: {}", global.hint().command("doctor")))
}

/// Explains one task.
async fn one(id: &TaskId, global: &Global, client: &Client) -> Result<Exit, Failure> {
    let (out, hint) = (global.out(), global.hint());
    let record = client.get(id).await?;
    let nodes = client.nodes().await?;
    let records = std::slice::from_ref(&record);
    let reason = client.wait_reasons(records, &nodes).await?.pop().flatten();
    let mut form = TaskWhyForm::new(&record, reason.as_ref(), client.now(), (true, true));
    form.no_writes = client.write_error().await.map(|error| error.to_string());
    if out.is_json() {
        out.json(&form)?;
        return Ok(Exit::Ok);
    }
    if let Some(error) = &form.no_writes {
        no_writes(error, global)?;
    }
    out.line(one_line(form.text.as_deref().unwrap_or_default()))?;
    match &reason {
        Some(WaitReason::Tasks(_)) => out.line(format!("   try: {}", hint.on_task("graph", id)))?,
        Some(WaitReason::Signal(Some(signal))) => {
            let name = quoted(signal.name());
            // Options come first: the id or the name may begin with a dash.
            let dashes = signal.name().starts_with('-') && !id.as_str().starts_with('-');
            let words = if dashes {
                "signal --payload JSON --"
            } else {
                "signal --payload JSON"
            };
            out.line(format!("   try: {} {name}", hint.on_task(words, id)))?;
        }
        Some(reason) if is_of_worker(&record.task.kind, reason) => {
            let mut words = remedy(&record.task.kind, reason);
            if record.task.kind.as_str() == Kind::RUN_LINE {
                out.line(format!("   try: {}", repeat(&record.task, &hint)))?;
                if let Some(batch) = record.task.labels.get(BATCH) {
                    words.push_str(&format!(" --until-idle --select {BATCH}={}", quoted(batch)));
                }
                out.line(format!("    or: {}", hint.command(&words)))?;
            } else {
                out.line(format!("   try: {}", hint.command(&words)))?;
            }
        }
        Some(reason) if !lists(reason) => {
            let words = remedy(&record.task.kind, reason);
            out.line(format!("   try: {}", hint.command(&words)))?;
        }
        None if record.state.is_err() || is_state(&record, StateKind::Failed) => {
            if let Some(error) = record
                .state
                .as_ref()
                .ok()
                .and_then(|state| state.errors.last())
            {
                out.line(format!("   error: {}", one_line(&error.error)))?;
            }
            let again = again(&record, client, &hint).await?;
            out.line(format!("   try: {again}"))?;
        }
        None if is_state(&record, StateKind::Paused) && record.commands == 0 => {
            out.line(format!("   try: {}", hint.on_task("resume", id)))?;
            let skipped = record.skipped(client.now());
            if let Some(line) = skipped.and_then(|skipped| sleep_line(&hint, id, skipped)) {
                out.line(format!("    or: {line}, to let it sleep again"))?;
            }
        }
        _ => {}
    }
    Ok(Exit::Ok)
}

/// Returns the run that continues the tasks of its earlier one. Its input is not stored.
fn repeat(task: &Task, hint: &Hint) -> String {
    let batch = task.labels.get(BATCH);
    let batch = batch.map_or_else(String::new, |name| format!(" {}", option("--batch", name)));
    let run = hint.command(&format!("run{batch}"));
    let cwd = task
        .props
        .at("/cwd")
        .and_then(|cwd| cwd.get::<String>("cwd").ok());
    let cwd = cwd.map_or_else(String::new, |cwd| format!(" in {}", one_line(&cwd)));
    format!("{run} … again{cwd}, with the same input and options")
}

/// How many of the latest failed tasks are read to find one that failed because of another.
const LATEST: u32 = 500;

/// Returns the command that starts a failed task again. One that did not run, because others have to complete first, would fail
/// again: the command names the first failed tasks before it, and runs those that failed because of them too.
async fn again(record: &TaskRecord, client: &Client, hint: &Hint) -> Result<String, Failure> {
    let id = &record.task.id;
    let mut first = Vec::new();
    let mut open = unmet_of(record);
    let is_first = open.is_empty();
    let mut seen = HashSet::from([id.clone()]);
    while let Some(waited) = open.pop() {
        let is_failed = matches!(waited.outcome, WaitOutcome::Failed | WaitOutcome::Killed);
        // A circle has no first task.
        if !is_failed || waited.task == *id {
            return Ok(hint.on_task("graph", id));
        }
        if !seen.insert(waited.task.clone()) {
            continue;
        }
        match client.get(&waited.task).await {
            Ok(before) => match (ended_badly(&before), unmet_of(&before)) {
                // It was retried since.
                (false, _) => {}
                (true, unmet) if unmet.is_empty() => first.push(waited.task),
                (true, unmet) => open.extend(unmet),
            },
            // A retry reads what it can of a quarantined task.
            Err(Error::Corrupt { .. }) => first.push(waited.task),
            Err(Error::NotFound { .. }) => return Ok(hint.on_task("graph", id)),
            Err(error) => return Err(error.into()),
        }
    }
    if first.is_empty() {
        // Nothing before it has failed, or not any more.
        first.push(id.clone());
    }
    let others = !is_first || has_dependents(client, id).await?;
    let words = match others {
        true => "retry --with-dependents",
        false => "retry",
    };
    first.sort();
    Ok(hint.on_tasks(words, &first))
}

/// Returns whether a retry would start the task again.
fn ended_badly(record: &TaskRecord) -> bool {
    record
        .state
        .as_ref()
        .is_ok_and(|state| matches!(state.code(), StateKind::Failed | StateKind::Killed))
}

/// Returns the tasks because of which a failed task did not run.
fn unmet_of(record: &TaskRecord) -> Vec<Waited> {
    let state = record.state.as_ref().ok();
    let state = state.filter(|state| state.code() == StateKind::Failed);
    let waits = state.and_then(|state| state.waits.as_deref());
    waits.map(Waits::all_unmet).unwrap_or_default()
}

/// Returns whether one of the latest failed tasks failed because of this one.
async fn has_dependents(client: &Client, id: &TaskId) -> Result<bool, Failure> {
    let filter = Filter::new().states([StateKind::Failed]);
    let query = Query::new(filter).limit(LATEST);
    let page = client.page(&query, None).await?;
    let mut unmet = page.tasks.iter().flat_map(unmet_of);
    Ok(unmet.any(|waited| waited.task == *id))
}

fn is_state(record: &TaskRecord, state: StateKind) -> bool {
    record.state.as_ref().is_ok_and(|of| of.code() == state)
}

/// Returns the command that shows or resolves why tasks are not run.
pub(crate) fn resolve(one: &NotRun<'_>, hint: &Hint) -> String {
    let kind = option("--kind", one.of.kind.as_str());
    let words = match one.cause {
        Cause::Reason(reason) => remedy(&one.of.kind, reason),
        // A resume of every schedule would start those that somebody has paused on purpose.
        Cause::Paused if one.of.kind.as_str() == Kind::SCHEDULE => "schedule list".to_owned(),
        // A resume runs them all at once, also those that slept or waited: the dry run counts these.
        Cause::Paused => format!("resume {kind} --state paused --dry-run"),
        Cause::Quarantined => format!("retry {kind} --quarantined"),
        cause => format!("list {kind} --state {}", cause.as_str()),
    };
    hint.command(&words)
}

/// Returns whether the command for a reason lists the tasks that were counted.
fn lists(reason: &WaitReason) -> bool {
    !matches!(
        reason,
        WaitReason::NotClaiming(_)
            | WaitReason::Copied(_)
            | WaitReason::Full(_)
            | WaitReason::Limit(_)
    )
}

/// Returns whether a worker of this program would run tasks of the kind that wait for this reason.
fn is_of_worker(kind: &Kind, reason: &WaitReason) -> bool {
    let is_of_nodes = matches!(
        reason,
        WaitReason::NoNode | WaitReason::DataVersion { .. } | WaitReason::Labels(_)
    );
    is_of_nodes && (kind.is_command() || kind.is_built_in())
}

/// Returns the words of the command that shows or resolves what holds tasks of a kind back.
pub(crate) fn remedy(kind: &Kind, reason: &WaitReason) -> String {
    match reason {
        // A node without --select takes tasks with any labels.
        reason if is_of_worker(kind, reason) => match kind.as_str() {
            Kind::RUN_LINE => "worker --take-runs".to_owned(),
            _ => "worker".to_owned(),
        },
        WaitReason::NotClaiming(nodes) => {
            let node = nodes.first().map_or("NODE", |node| node.as_str());
            let dashes = if node.starts_with('-') { "-- " } else { "" };
            format!("node unfreeze {dashes}{}", quoted(node))
        }
        WaitReason::Copied(_) => "doctor".to_owned(),
        // What has the slots.
        WaitReason::Full(nodes) => {
            let node = nodes.first().map_or("NODE", |node| node.as_str());
            format!("list --claimed --node {}", quoted(node))
        }
        WaitReason::Limit(by) => {
            format!("list --claimed {}", option("--limit-key", by.limit.key()))
        }
        // The tasks that were counted.
        reason => {
            let kind = option("--kind", kind.as_str());
            format!("list {kind} --waits {}", reason.kind())
        }
    }
}

/// From how long on tasks are remarked on that no node claims although one has room.
const LATE: i64 = 10;

/// Says of which kind tasks are due for long although a node has room; `None` if there are none. The store keeps no
/// record of what a node decides by itself.
fn unclaimed(stats: &Stats) -> Option<String> {
    let late = stats.kinds.iter().filter_map(|of| {
        let due = of.oldest_due.filter(|_| of.available > 0)?;
        Some((stats.at.duration_since(due).as_secs(), of))
    });
    let (age, of) = late.max_by_key(|(age, _)| *age)?;
    (age >= LATE).then(|| {
        format!(
            "{} {}: no node has claimed the first for {age} s although one has room: the balancer of a node may delay claims, \
             and after `windlass node stop-task` a node does not claim that task for 30 s",
            of.available,
            one_line(of.kind.as_str())
        )
    })
}
