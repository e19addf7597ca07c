//! Changes of the fields of a schedule.

use axum::response::Response;
use serde::Deserialize;
use windlass::{Json, Kind, schedule::ScheduleRecord, store::Error};

use super::{Fields, fields, merged, shown, step::Step};
use crate::{
    mask::{Document, Hiding, refuse_placeholder},
    params::Formed,
    problem::Problem,
};

/// The fields of a schedule that change; `null` removes one.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub(in crate::routes) struct FieldsForm(
    #[cfg_attr(
        feature = "schema",
        schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")
    )]
    Json,
);

impl Formed for FieldsForm {
    const LIKE: &str = r#"{"cron":["0 4 * * *"],"every":null}"#;
}

/// Changes the given fields of a schedule.
pub(in crate::routes) async fn update(step: Step<FieldsForm>) -> Result<Response, Problem> {
    let changes = fields("spec", &step.form.0)?;
    if changes.is_empty() {
        let what = format!("has no field; give at least one: {}", FieldsForm::LIKE);
        return Err(Problem::invalid("body", what));
    }
    refuse_placeholder("spec", &step.form.0)?;
    let hiding = step.by.by.hiding().await?;
    let schedules = step.schedules();
    let updated = schedules.update_with(&step.id, |record| {
        let spec = keeps_masked(record, &changes, &hiding)
            .and_then(|()| merged(record, &changes))
            .and_then(|spec| step.by.check(&spec, &hiding).map(|()| spec));
        spec.map_err(Failed::Refused)
    });
    match updated.await {
        Ok(()) => shown(&step.by.by, &step.id).await,
        Err(Failed::Refused(problem)) => Err(problem),
        Err(Failed::Store(error)) => Err(step.by.problem(error).await),
    }
}

/// Why an update failed.
enum Failed {
    Store(Error),
    Refused(Problem),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Refuses a change of the runs of a schedule without their props, if some of them are masked: it would remove values that its
/// author cannot see.
fn keeps_masked(record: &ScheduleRecord, changes: &Fields, hiding: &Hiding) -> Result<(), Problem> {
    let Some(run) = changes.get("run") else {
        return Ok(());
    };
    let run = Json::parse("run", run.get())?;
    let stored = &record.stored;
    let Some(props) = stored.at("/run/props") else {
        return Ok(());
    };
    let kind = stored.at("/run/kind");
    let kind = kind.and_then(|kind| kind.get::<Kind>("kind").ok());
    let is_masked = hiding.document(kind.as_ref(), Document::Props, &props) != props;
    match is_masked && run.as_str().starts_with('{') && run.at("/props").is_none() {
        false => Ok(()),
        true => {
            let what = "has values that are masked, and a change of 'run' without 'props' would remove them; give the whole \
                        props, or null to remove them";
            Err(Problem::masked("run.props", what))
        }
    }
}
