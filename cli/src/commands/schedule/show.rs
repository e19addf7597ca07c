//! `windlass schedule get`, `list` and `preview`.

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use serde_json::json;
use windlass::{
    Client, TaskId,
    schedule::{LastRun, Schedule, ScheduleRecord, Time},
    store::{Error, Page},
    wire::{ScheduleForm, TimeForm},
};

use super::{
    field::{ClearArgs, notes_of},
    held::{ahead_text, commands_text, held_text},
    last::{code, left_out_text, run_text, without_run_text},
    spec_args::{TimeArgs, read},
    texts::{self, TIMES, has_reboot, local, time_texts, work},
};
use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    parse::number,
    text::one_line,
    view::{age, color, human, text},
};

/// How many future times of a schedule are shown.
pub(super) const UPCOMING: usize = 5;

/// How many last runs are read at the same time.
const READ_AT_ONCE: usize = 32;

/// How many schedules.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// List at most this many
    #[arg(long, value_name = "N", default_value = "100", value_parser = super::count)]
    limit: usize,
}

/// Which times.
#[derive(Debug, clap::Args)]
pub(super) struct PreviewArgs {
    /// The schedule, changed by the options; without ID, the options alone give the times
    #[arg(value_name = "ID")]
    id: Option<TaskId>,

    /// Print this many times: 1 to 10000
    #[arg(short = 'n', long = "next", value_name = "N", default_value = "10", value_parser = previewed)]
    times: usize,

    #[command(flatten)]
    spec: TimeArgs,

    #[command(flatten)]
    clear: ClearArgs,
}

impl PreviewArgs {
    /// Returns a schedule with the options that were given; `None` if there are none.
    fn changed(
        &self,
        id: &TaskId,
        record: ScheduleRecord,
        out: &Output,
    ) -> Result<Option<Schedule>, Failure> {
        if self.spec == TimeArgs::default() && self.clear == ClearArgs::default() {
            return Ok(None);
        }
        let before = self.spec.present(&record)?;
        let mut spec = before.clone();
        self.clear.apply(&mut spec);
        self.spec.apply(&mut spec)?;
        for note in notes_of(&before, &spec) {
            out.note(format!("note: '{id}': {note}"));
        }
        read(spec).map(Some)
    }
}

/// The most times of one preview: all of them are in memory.
const MOST_PREVIEWED: usize = 10_000;

/// Reads how many times a preview prints.
fn previewed(text: &str) -> Result<usize, String> {
    number(text, 1..=MOST_PREVIEWED)
}

fn text_of(at: Timestamp) -> String {
    at.to_string()
}

/// Returns the times of a spec, in short.
fn times(record: &ScheduleRecord) -> String {
    let spec = match &record.spec {
        Ok(spec) => json!(spec),
        Err(wrong) => return one_line(&wrong.to_string()),
    };
    let fields = spec.as_object().into_iter();
    let texts = fields.flat_map(|spec| TIMES.map(|field| time_texts(spec, field)));
    let all = texts.flatten().collect::<Vec<_>>();
    let zone = spec["zone"].as_str().map(|zone| format!(" {zone}"));
    format!("{}{}", all.join(", "), zone.unwrap_or_default())
}

/// Returns the next times of a schedule that is live and not paused.
async fn upcoming(client: &Client, record: &ScheduleRecord) -> Result<Vec<Time>, Failure> {
    if record.next.is_none() {
        return Ok(Vec::new());
    }
    match client.schedules().preview(&record.id, UPCOMING).await {
        Ok(times) => Ok(times),
        // It has ended, or was deleted, since it was read.
        Err(Error::ScheduleEnded(_) | Error::NotFound { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns what a schedule is for.
fn description(record: &ScheduleRecord) -> Option<String> {
    let spec = json!(record.spec.as_ref().ok()?);
    spec["description"].as_str().map(str::to_owned)
}

/// Prints a schedule.
pub(super) async fn get(id: &TaskId, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let out = global.out();
    let record = client
        .schedules()
        .get(id)
        .await
        .map_err(Failure::of_schedule)?;
    let last_run = client.schedules().last_run(&record).await?;
    let held = client.schedules().held(&record).await?;
    let waits = held.iter().map(|held| held_text(&record, held));
    let waits: Vec<String> = waits.collect();
    let waits = (!waits.is_empty()).then(|| waits.join("; "));
    let upcoming = upcoming(&client, &record).await?;
    if out.is_json() {
        let view = ScheduleForm::from(&record)
            .with_late(record.late(client.now()))
            .with_last_run(last_run.as_ref())
            .with_upcoming(&upcoming);
        out.json(&view.with_waits(waits))?;
        return Ok(Exit::Ok);
    }
    let counts = record.counts;
    let counts = [
        ("fired", counts.fired),
        ("late", counts.late),
        ("skipped", counts.skipped),
        ("missed", counts.missed),
        ("overlapped", counts.overlapped),
        ("refused", counts.refused),
        ("requested", counts.requested),
    ];
    let counts: Vec<_> = counts
        .iter()
        .map(|(name, n)| format!("{n} {name}"))
        .collect();
    let spec = record.spec.as_ref().ok();
    let state = record.state.map_or("quarantined", |code| code.as_str());
    let next = record.next.as_ref();
    let passed = record.late(client.now()).map(|late| {
        format!(
            "; passed {} ago, and no worker has submitted its run",
            human(late)
        )
    });
    let passed = passed.unwrap_or_default();
    let delay = next.filter(|time| time.due != time.nominal);
    let live: Vec<_> = record.runs.iter().map(|at| format!("{id}@{at}")).collect();
    let refused = record.refused.as_ref();
    let refused = refused.map(|time| format!("{}: {}", time.nominal, time.reason));
    let skipped: Vec<_> = record.skipped.iter().map(ToString::to_string).collect();
    let lines = [
        ("id", Some(record.id.to_string())),
        ("state", Some(state.to_owned())),
        ("description", description(&record)),
        ("note", record.note.clone()),
        ("waits", waits),
        ("times", Some(times(&record))),
        (
            "next",
            next.map(|time| format!("{}{passed}", local(&time.local))),
        ),
    ];
    let then = texts::upcoming(&upcoming).into_iter().skip(1);
    let then = then.map(|text| ("then", Some(text)));
    let more = [
        ("due", delay.map(|time| time.due.to_string())),
        ("start by", next.and_then(|time| time.start_by).map(text_of)),
        ("end by", next.and_then(|time| time.end_by).map(text_of)),
        ("last", record.last.map(|at| at.to_string())),
        ("counts", Some(counts.join(", "))),
        ("last run", last_run.as_ref().map(run_text)),
    ];
    let left_out = record.left_out.iter();
    let left_out = left_out.map(|entry| ("no run", Some(left_out_text(entry))));
    let rest = [
        ("refused", refused),
        ("runs", (!live.is_empty()).then(|| live.join(", "))),
        ("skips", (!skipped.is_empty()).then(|| skipped.join(", "))),
        ("spec", spec.map(|spec| json!(spec).to_string())),
    ];
    let lines = lines.into_iter().chain(then).chain(more);
    for (name, value) in lines.chain(left_out).chain(rest) {
        if let Some(value) = value {
            out.line(format!("{name:<12} {}", one_line(&value)))?;
        }
    }
    Ok(Exit::Ok)
}

/// Lists schedules.
pub(super) async fn list(args: ListArgs, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let out = global.out();
    let mut records = all(&client, args.limit.saturating_add(1)).await?;
    let is_cut = records.len() > args.limit;
    records.truncate(args.limit);
    if records.is_empty() && !out.is_json() {
        out.note("there are no schedules; `windlass schedule create` makes one");
    }
    print_all(&client, &out, &records).await?;
    if is_cut {
        out.note("there are more schedules; --limit shows more");
    }
    Ok(Exit::Ok)
}

/// Returns the schedules of the store, at most `limit`.
pub(super) async fn all(client: &Client, limit: usize) -> Result<Vec<ScheduleRecord>, Failure> {
    let (mut after, mut left) = (0, limit);
    let mut records = Vec::new();
    while left > 0 {
        let limit = u32::try_from(left.min(1000)).unwrap_or(1000);
        let page = client
            .schedules()
            .list(Page::new(limit).after(after))
            .await?;
        let Some((last, _)) = page.last() else { break };
        (after, left) = (*last, left - page.len());
        records.extend(page.into_iter().map(|(_, record)| record));
    }
    Ok(records)
}

/// Prints schedules, each with its next time and its last run.
pub(super) async fn print_all(
    client: &Client,
    out: &Output,
    records: &[ScheduleRecord],
) -> Result<(), Failure> {
    let schedules = &client.schedules();
    let runs = records.iter().map(|record| schedules.last_run(record));
    let runs: Vec<Option<LastRun>> = stream::iter(runs)
        .buffered(READ_AT_ONCE)
        .try_collect()
        .await?;
    let now = client.now();
    if out.is_json() {
        let views = records.iter().zip(&runs).map(|(record, run)| {
            let form = ScheduleForm::from(record).with_late(record.late(now));
            form.with_last_run(run.as_ref())
        });
        let views: Vec<ScheduleForm<'_>> = views.collect();
        return out.json(&views);
    }
    let rows = records.iter().zip(&runs).map(|(record, run)| {
        let state = match record.state {
            Some(code) => text(code).fg(color(code)),
            None => text("quarantined").fg(comfy_table::Color::Red),
        };
        let next = record.next.as_ref().map(|time| local(&time.local));
        let next = next.unwrap_or_default();
        let next = match record.late(now) {
            Some(late) => {
                let next = format!("{} late: {next}", human(late));
                text(next).fg(comfy_table::Color::Red)
            }
            None => text(next),
        };
        let runs = record.spec.as_ref().map(|spec| work(&json!(spec)));
        let note = record.note.clone().or_else(|| ahead_text(record));
        let note = note.or_else(|| commands_text(record));
        let note = note.or_else(|| description(record));
        let ago = |at| format!("{} ago", age(at, now));
        let last = match run {
            Some(run) => {
                let (code, color) = code(run);
                // A backfilled run has a nominal time that passed long before the run.
                text(format!("{code}, {}", ago(run.since.unwrap_or(run.nominal)))).fg(color)
            }
            // Its task was deleted.
            None => text(record.last_run.map(ago).unwrap_or_default()),
        };
        vec![
            text(&record.id),
            state,
            text(times(record)),
            next,
            text(runs.unwrap_or_default()),
            last,
            text(record.counts.fired),
            text(without_run_text(&record.counts)),
            text(note.as_deref().map(one_line).unwrap_or_default()),
        ]
    });
    let header = [
        "ID", "STATE", "TIMES", "NEXT", "RUNS", "LAST RUN", "FIRED", "NO RUN", "NOTE",
    ];
    let less = ["NOTE", "RUNS", "FIRED", "NO RUN", "LAST RUN"];
    out.narrow_table(&header, &less, rows.collect())
}

/// Prints the next times.
pub(super) async fn preview(args: PreviewArgs, global: &Global) -> Result<Exit, Failure> {
    let out = global.out();
    let boots;
    let times = match &args.id {
        Some(id) => {
            let client = global.reading().await?;
            let schedules = client.schedules();
            let record = schedules.get(id).await.map_err(Failure::of_schedule)?;
            let before = record.spec.as_ref().is_ok_and(has_reboot);
            let changed = args.changed(id, record, &out)?;
            boots = changed.as_ref().map_or(before, has_reboot);
            match changed {
                None => schedules
                    .preview(id, args.times)
                    .await
                    .map_err(Failure::of_schedule)?,
                Some(spec) => schedules.preview_update(id, &spec, args.times).await?,
            }
        }
        None => {
            let (schedule, now) = (args.spec.schedule()?, jiff::Timestamp::now());
            schedule.check("preview", now)?;
            boots = has_reboot(&schedule);
            schedule.preview("preview", now, args.times)?
        }
    };
    if boots {
        out.note("note: @reboot runs at each start of the machine of a worker; no preview has these times");
    } else if times.is_empty() {
        out.note("note: the schedule has no time to come");
    }
    print(&out, &times)
}

fn print(out: &Output, times: &[Time]) -> Result<Exit, Failure> {
    if out.is_json() {
        let times: Vec<_> = times.iter().map(TimeForm::from).collect();
        out.json(&times)?;
        return Ok(Exit::Ok);
    }
    let optional = |at: Option<Timestamp>| text(at.map(text_of).unwrap_or_default());
    let rows = times.iter().map(|time| {
        vec![
            text(time.nominal),
            text(local(&time.local)),
            optional((time.due != time.nominal).then_some(time.due)),
            optional(time.start_by),
            optional(time.end_by),
        ]
    });
    let header = ["TIME", "LOCAL", "DUE", "START BY", "END BY"];
    out.narrow_table(&header, &["END BY", "START BY", "DUE"], rows.collect())?;
    Ok(Exit::Ok)
}
