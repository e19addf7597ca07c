//! Results of the tasks that a run of a worker has waited for: those in the scope of its token, without what is masked.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use windlass::{
    store::TaskRecord,
    workers::protocol::{ReadWaited, WaitedResult, WaitedResults},
};

use super::{check_worker, json};
use crate::{
    access::{Worker, name},
    app::App,
    mask::{Document, HIDDEN, Hiding},
    params::{Form, Formed},
    problem::Problem,
};

/// How many bytes an answer has, but for its last result.
const ANSWER_BYTES: usize = 1 << 20;

impl Formed for ReadWaited {
    const LIKE: &str = r#"{"secret":"…","id":"report","fence":12,"run":7,"from":0}"#;
    const HAS_SECRET: bool = true;
}

/// Returns results of the tasks that a run has waited for. A task outside of the scope of the caller does not exist for it.
pub(in crate::routes) async fn waited(
    State(app): State<Arc<App>>,
    by: Worker,
    Path(worker): Path<String>,
    Form(request): Form<ReadWaited>,
) -> Result<Response, Problem> {
    let worker = name(&worker)?;
    check_worker(&app, &by, &worker).await?;
    let room = by.room(&app, ANSWER_BYTES).await?;
    let read = app.workers.waited(&worker, &request).await?;
    let hiding = by.hiding().await?;
    let tasks = read.tasks.into_iter().map(|(waited, record)| {
        let record = record.filter(|record: &TaskRecord| by.scope.has_record(record));
        shown(&hiding, WaitedResult::new(waited, record))
    });
    let answer = WaitedResults::new(tasks.collect(), read.next);
    Ok(room.keep(json(&answer)?))
}

/// Hides what the masks of the kind hide.
fn shown(hiding: &Hiding, mut form: WaitedResult) -> WaitedResult {
    let Some(kind) = form.kind.as_ref().filter(|_| !hiding.is_nothing()) else {
        return form;
    };
    let result = form
        .result
        .as_ref()
        .map(|result| hiding.document(Some(kind), Document::Result, result));
    let hides_error = form.error.is_some() && hiding.hides_errors_of(kind);
    let hides_reason = form.quarantined.is_some() && hiding.of(Some(kind)).is_any();
    form.masked = result != form.result || hides_error || hides_reason;
    form.result = result;
    if hides_error {
        form.error = Some(HIDDEN.to_owned());
    }
    if hides_reason {
        form.quarantined = Some(HIDDEN.to_owned());
    }
    form
}
