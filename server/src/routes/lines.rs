//! Submits of lines: a million tasks in constant memory.

use std::{collections::VecDeque, sync::Arc};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{FutureExt, StreamExt, stream};
use serde::Serialize;
use windlass::client::SameRequest;

use super::submits::{Outcome, read, submit_each};
use crate::{access::Operator, app::App, change::Change, paced, problem::Problem};

/// How many lines are submitted at once, at most, and after how many bytes no more are read for it.
const AT_ONCE: usize = 500;
const BYTES: usize = 4 << 20;

/// Submits each line of a body. The answer has a line for each, with its number. Lines are read and answered in turns, so
/// that the sender waits when the store is slower. `allow_missing` is the parameter of the request.
pub(super) fn submit(app: Arc<App>, by: Operator, allow_missing: bool, body: Body) -> Response {
    let lines = Lines {
        app,
        by,
        allow_missing,
        body: body.into_data_stream(),
        begun: Vec::new(),
        whole: VecDeque::new(),
        number: 0,
        is_over: false,
    };
    let answers = stream::unfold(lines, |mut lines| async move {
        let answer = lines.next().await?;
        Some((Ok::<_, std::convert::Infallible>(answer), lines))
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::from_stream(answers)).into_response()
}

struct Lines {
    app: Arc<App>,
    by: Operator,
    /// Whether the tasks that the lines wait for need not exist.
    allow_missing: bool,
    body: BodyDataStream,
    /// The line that has begun.
    begun: Vec<u8>,
    /// The lines that are read and not submitted.
    whole: VecDeque<Vec<u8>>,
    /// The number of the last line that was submitted.
    number: u64,
    is_over: bool,
}

/// The answer to a line.
#[derive(Serialize)]
struct Answer {
    /// The number of the line, from 1.
    line: u64,
    #[serde(flatten)]
    outcome: Outcome,
}

impl Lines {
    /// Returns the answers to the next lines; `None` after the last.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Err(problem) = self.fill().await {
                return Some(self.end(&problem));
            }
            if self.whole.is_empty() {
                return None;
            }
            let answers = self.answer().await;
            if !answers.is_empty() {
                return Some(answers.into());
            }
        }
    }

    /// Reads until there is a line, and then what has arrived, up to as many lines as are submitted at once.
    async fn fill(&mut self) -> Result<(), Problem> {
        while self.whole.len() < AT_ONCE && !self.has_many_bytes() && !self.is_over {
            let next = match self.whole.is_empty() {
                true => self.body.next().await,
                false => match self.body.next().now_or_never() {
                    Some(next) => next,
                    None => break,
                },
            };
            match next {
                Some(Ok(bytes)) => self.take(&bytes)?,
                Some(Err(error)) if paced::is_slow(&error) => {
                    let detail =
                        "the body has paused for 30 s; send the lines that have no answer again";
                    return Err(paced::slow(detail));
                }
                Some(Err(error)) => {
                    return Err(Problem::invalid("body", format!("broke off: {error}")));
                }
                None => {
                    self.is_over = true;
                    let last = std::mem::take(&mut self.begun);
                    self.whole.push_back(last);
                }
            }
        }
        Ok(())
    }

    fn has_many_bytes(&self) -> bool {
        let whole = self.whole.iter().map(Vec::len).sum::<usize>();
        !self.whole.is_empty() && whole + self.begun.len() >= BYTES
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let mut parts = bytes.split(|b| *b == b'\n');
        if let Some(first) = parts.next() {
            self.begun.extend_from_slice(first);
        }
        for part in parts {
            let line = std::mem::replace(&mut self.begun, part.to_vec());
            self.whole.push_back(line);
        }
        let most = self.app.settings.body_bytes;
        if self.begun.len() > most {
            let detail = format!("a line has more than {most} bytes");
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                detail,
            ));
        }
        Ok(())
    }

    /// Submits the lines that were read. Blank lines have no answer.
    async fn answer(&mut self) -> Vec<u8> {
        let some = self.whole.len().min(AT_ONCE);
        let (mut numbers, mut submits) = (Vec::new(), Vec::new());
        for line in self.whole.drain(..some) {
            self.number += 1;
            if !line.iter().all(u8::is_ascii_whitespace) {
                numbers.push(self.number);
                submits.push(read(&self.app, (None, self.allow_missing), &line));
            }
        }
        if let Some(ended) = self.ended() {
            let outcome = |line| Answer {
                line,
                outcome: Outcome::problem(&ended),
            };
            return written(numbers.into_iter().map(outcome));
        }
        let change = Change::new(&self.app, &self.by);
        let outcomes = submit_each(change, submits, SameRequest::Earlier, None).await;
        let answers = numbers.into_iter().zip(outcomes);
        written(answers.map(|(line, outcome)| Answer { line, outcome }))
    }

    /// Returns why the caller may not go on: its token may have been revoked since the request began.
    fn ended(&self) -> Option<Problem> {
        let refused = self.app.keyring.now(self.by.caller()).err()?;
        Some(crate::guard::refusal(refused))
    }

    /// Ends the answer with a problem, for the line after the last one that was submitted.
    fn end(&mut self, problem: &Problem) -> Bytes {
        self.is_over = true;
        self.whole.clear();
        self.begun.clear();
        let answer = Answer {
            line: self.number + 1,
            outcome: Outcome::problem(problem),
        };
        written([answer].into_iter()).into()
    }
}

fn written(answers: impl Iterator<Item = Answer>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for answer in answers {
        // Numbers, texts and JSON can always be written.
        if serde_json::to_writer(&mut bytes, &answer).is_ok() {
            bytes.push(b'\n');
        }
    }
    bytes
}
