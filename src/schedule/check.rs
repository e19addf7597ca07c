//! Checks the fields of a schedule, each on its own.

use windlass_statemachine::{Invalid, Kind, Task, TaskId, task::MAX_LABEL_BYTES, text::check_line};

use super::{
    cron::interval_of, data::FOLLOWED, interval::Interval, overlap::Overlap, run::RESERVED,
    spec::Schedule, times::Times,
};
use jiff::Timestamp;

/// The longest description of a schedule, in bytes.
const MOST_DESCRIPTION: usize = 1024;

/// Checks the description.
pub(crate) fn description(spec: &Schedule) -> Result<(), Invalid> {
    let Some(text) = &spec.description else {
        return Ok(());
    };
    let Err(is) = check_line(text, MOST_DESCRIPTION) else {
        return Ok(());
    };
    let reason = format!(
        "{is}; give 1 to {MOST_DESCRIPTION} bytes of printable text in one line, or leave it out"
    );
    Err(Invalid::new("description", reason))
}

/// Checks the intervals, those of `@every` too, and returns them with their anchors.
pub(crate) fn intervals(spec: &Schedule) -> Result<Vec<(Interval, Option<Timestamp>)>, Invalid> {
    let mut intervals = Vec::new();
    for every in &spec.every {
        intervals.push((every.interval.check()?, every.anchor));
    }
    for text in &spec.cron {
        let Some(interval) = interval_of(text) else {
            continue;
        };
        let wrong = |reason: String| Invalid::new("cron", format!("'{text}': {reason}"));
        let interval: Interval = interval.parse().map_err(wrong)?;
        let checked = interval.check().map_err(|e| wrong(e.reason().to_owned()))?;
        intervals.push((checked, None));
    }
    Ok(intervals)
}

/// Checks an id: it has to be valid as the id of a task and as a label of the runs.
pub(crate) fn id(id: &str) -> Result<(), Invalid> {
    TaskId::new(id)?;
    if id.len() <= MAX_LABEL_BYTES && !id.contains(',') {
        return Ok(());
    }
    let reason = format!(
        "'{id}' is a label of each run, and labels have at most {MAX_LABEL_BYTES} bytes without ','; give a \
         shorter id without ','"
    );
    Err(Invalid::new("id", reason))
}

/// Checks the props of a task that is submitted, if it is a schedule: a worker could not run it with others.
///
/// # Errors
///
/// [`Invalid`] (field `props`) that names the field of the schedule.
pub(crate) fn check_props(task: &Task) -> Result<(), Invalid> {
    if task.kind.as_str() != Kind::SCHEDULE {
        return Ok(());
    }
    let spec = Schedule::from_json(&task.props);
    let checked = spec.and_then(|spec| {
        spec.check_size()?;
        Times::new(task.id.as_str(), &spec)
    });
    checked.map(drop).map_err(|wrong| {
        let of = match wrong.field() {
            "schedule" => String::new(),
            field => format!("{field}: "),
        };
        let reason = format!(
            "are those of a schedule, and wrong: {of}{}; write them like {{\"run\":{{\"kind\":\"report\"}},\"cron\":[\"@daily\"]}}",
            wrong.reason()
        );
        Invalid::new("props", reason)
    })
}

/// Checks the task of the runs.
pub(crate) fn run(spec: &Schedule) -> Result<(), Invalid> {
    let run = &spec.run;
    if let Some(wrong) = &run.wrong {
        return Err(wrong.clone());
    }
    let kind = run.form.kind.as_deref().unwrap_or_default();
    Kind::new(kind).map_err(|e| Invalid::new("run.kind", e.reason()))?;
    if let Some(label) = RESERVED
        .iter()
        .find(|name| run.form.labels.contains_key(**name))
    {
        let reason =
            format!("'{label}' is a label that every run gets automatically; use another name");
        return Err(Invalid::new("run.labels", reason));
    }
    let id = TaskId::new("run")?;
    run.task(id, Default::default())?.check(usize::MAX)
}

/// Checks the start, the end, the count, the overlap policy and the policy for missed times.
pub(crate) fn bounds(spec: &Schedule) -> Result<(), Invalid> {
    if let (Some(start), Some(end)) = (spec.start, spec.end)
        && end < start
    {
        let reason = format!("{end} is before the start, {start}; give a later end");
        return Err(Invalid::new("end", reason));
    }
    if spec.count == Some(0) {
        let reason = "0 submits no run; give 1 or more, or leave it out";
        return Err(Invalid::new("count", reason));
    }
    // A schedule cannot count more live runs than it follows.
    if let Overlap::Allow(most) = spec.overlap
        && most != u32::MAX
        && !(1..=FOLLOWED).contains(&(most as usize))
    {
        let reason = format!("'allow' takes 1 to {FOLLOWED} runs, not {most}");
        return Err(Invalid::new("overlap", reason));
    }
    spec.missed.within.check("missed.within").map(drop)
}
