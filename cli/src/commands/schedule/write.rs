//! `windlass schedule create` and `update`.

use std::collections::BTreeSet;

use serde_json::Map;
use windlass::{Client, Kind, TaskId, schedule};

use super::{
    field::kept,
    spec::{CreateArgs, UpdateArgs, read},
};
use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    waiting::note_unhandled,
};

/// Creates a schedule.
pub(super) async fn create(args: CreateArgs, global: &Global) -> Result<Exit, Failure> {
    let mut spec = Map::new();
    args.times.apply(&mut spec)?;
    args.run.apply(&mut spec)?;
    let schedule = read(spec)?;
    let client = windlass::Client::new(&global.open().await?);
    client
        .schedules()
        .create(&args.id, schedule)
        .await
        .map_err(Failure::of_schedule)?;
    written(&client, &global.out(), &args.id, "created").await
}

/// Changes the given fields of a schedule.
pub(super) async fn update(
    args: UpdateArgs,
    client: &Client,
    out: &Output,
) -> Result<Exit, Failure> {
    let id = &args.fields.id;
    if !args.has_options() {
        let text = format!(
            "could not update schedule '{id}': no option is given; give at least one, such as --cron or --zone"
        );
        return Err(Failure::Usage(text));
    }
    let record = client
        .schedules()
        .get(id)
        .await
        .map_err(Failure::of_schedule)?;
    let action = match record.state {
        Some(code) if code.is_terminal() => "updated, and started again",
        _ => "updated",
    };
    let before = args.fields.times.present(record)?;
    let mut spec = before.clone();
    args.clear.apply(&mut spec);
    args.fields.times.apply(&mut spec)?;
    args.fields.run.apply(&mut spec)?;
    let notes = kept(&before, &spec);
    client
        .schedules()
        .update(id, read(spec)?)
        .await
        .map_err(Failure::of_schedule)?;
    for note in notes {
        out.note(format!("note: '{id}': {note}"));
    }
    written(client, out, id, action).await
}

/// Prints a schedule that was written, with its next time.
async fn written(
    client: &Client,
    out: &Output,
    id: &TaskId,
    action: &str,
) -> Result<Exit, Failure> {
    let record = client
        .schedules()
        .get(id)
        .await
        .map_err(Failure::of_schedule)?;
    if out.is_json() {
        out.json(&super::show::view(&record))?;
        return Ok(Exit::Ok);
    }
    let next = match record.next {
        Some(time) => format!("; next at {}", super::show::local(&time.local)),
        None => String::new(),
    };
    out.line(format!("{id}: {action}{next}"))?;
    let kinds = BTreeSet::from([Kind::new(schedule::KIND)?]);
    note_unhandled(client, out, &kinds, ("note", "its runs are submitted")).await;
    Ok(Exit::Ok)
}
