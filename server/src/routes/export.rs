//! Lists of any length: a task a line, in constant memory.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use futures::stream;
use windlass::store::{Cursor, Query, TaskRecord};

use super::write_record;
use crate::{access::Reader, app::App, problem::Problem};

/// The type of lines.
pub(super) const LINES: &str = "application/x-ndjson";
/// How many tasks are read at first, and at once, and about how many bytes of them.
const FIRST: u32 = 5;
const STEP: u32 = 200;
const STEP_BYTES: usize = 1 << 20;

/// Returns whether a request asks for lines.
pub(super) fn asks_for_lines(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT);
    accept.is_some_and(|accept| accept.as_bytes().starts_with(LINES.as_bytes()))
}

/// Answers with every task of a list, a line each: those of the caller's scope. When the list cannot go on, the last line
/// is a problem document.
pub(super) fn lines(
    (app, by): (Arc<App>, Reader),
    query: Query,
    limit: Option<u32>,
    cursor: Option<Cursor>,
) -> Response {
    let lines = Lines {
        app,
        by,
        query,
        left: limit,
        fitting: FIRST,
        cursor,
        is_over: false,
    };
    let parts = stream::unfold(lines, |mut lines| async move {
        let part = lines.next().await?;
        Some((Ok::<_, Infallible>(part), lines))
    });
    let kind = [(header::CONTENT_TYPE, LINES)];
    (kind, Body::from_stream(parts)).into_response()
}

struct Lines {
    app: Arc<App>,
    by: Reader,
    query: Query,
    /// How many tasks are left; `None` for all.
    left: Option<u32>,
    /// How many tasks are read next: those that have room if they are like the largest one before.
    fitting: u32,
    cursor: Option<Cursor>,
    is_over: bool,
}

impl Lines {
    /// Returns the next lines; `None` after the last.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_over {
            match self.read().await {
                Ok(lines) if lines.is_empty() => {}
                Ok(lines) => return Some(lines.into()),
                Err(problem) => {
                    self.is_over = true;
                    let mut line = problem.json();
                    line.push(b'\n');
                    return Some(line.into());
                }
            }
        }
        None
    }

    async fn read(&mut self) -> Result<Vec<u8>, Problem> {
        // The token may have been revoked since the request began.
        let caller = self.app.keyring.now(self.by.caller());
        caller.map_err(crate::guard::refusal)?;
        let step = self.left.unwrap_or(STEP).min(STEP);
        let query = self
            .query
            .clone()
            .limit(step.min(self.fitting))
            .max_bytes(STEP_BYTES);
        let hiding = self.by.hiding().await?;
        // A mask may have been set since the last step.
        hiding.check_filter(&query.filter, &self.by.scope.kinds)?;
        let page = self.by.client().page(&query, self.cursor.as_ref()).await?;
        let mut lines = Vec::new();
        let seen = page.tasks.iter();
        let seen = seen.filter(|record| self.by.scope.has_record(record));
        for record in seen.filter(|record| hiding.may_find(&query.filter, record)) {
            write_record(&mut lines, &hiding.record(record, self.app.client.now()))?;
            lines.push(b'\n');
            self.left = self.left.map(|left| left.saturating_sub(1));
        }
        let largest = page.tasks.iter().map(TaskRecord::bytes).max();
        let fitting = STEP_BYTES / largest.unwrap_or(1).max(1);
        self.fitting = u32::try_from(fitting).unwrap_or(STEP).clamp(1, STEP);
        self.cursor = page.next;
        self.is_over =
            self.cursor.is_none() || self.left == Some(0) || self.app.stop.is_cancelled();
        Ok(lines)
    }
}
