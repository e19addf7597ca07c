//! Waiting for what must come, with a deadline instead of a blind sleep.

use std::{collections::VecDeque, time::Duration};

use futures::StreamExt;
use tokio::time::Instant;

use crate::store::{Event, EventStream, TaskView};

/// How long a case waits for what must come.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// Asks until there is an answer.
pub(super) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(
            started.elapsed() < DEADLINE,
            "{what}: not within {DEADLINE:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A watch that is read event by event.
pub(super) struct Watcher {
    stream: EventStream,
    ready: VecDeque<Event>,
}

impl Watcher {
    pub(super) fn new(stream: EventStream) -> Self {
        Self {
            stream,
            ready: Default::default(),
        }
    }

    /// The next event; `None` when the stream has ended.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let batch = tokio::time::timeout(DEADLINE, self.stream.next()).await;
            self.ready.extend(batch.expect("an event in time")?);
        }
    }

    /// The events until none has come for `quiet`, or the stream has ended.
    pub(super) async fn rest(&mut self, quiet: Duration) -> Vec<Event> {
        let mut rest: Vec<Event> = self.ready.drain(..).collect();
        while let Ok(Some(batch)) = tokio::time::timeout(quiet, self.stream.next()).await {
            rest.extend(batch);
        }
        rest
    }

    /// Reads on until an event is meant.
    pub(super) async fn until<T>(
        &mut self,
        what: &str,
        mut is_meant: impl FnMut(&Event) -> Option<T>,
    ) -> T {
        let started = Instant::now();
        loop {
            let Some(event) = self.next().await else {
                panic!("{what}: the watch ended before it was reported");
            };
            if let Some(found) = is_meant(&event) {
                return found;
            }
            assert!(started.elapsed() < DEADLINE, "{what}: not reported in time");
        }
    }

    /// The tasks of the list that a watch begins with.
    pub(super) async fn listed(&mut self) -> Vec<TaskView> {
        let first = self.next().await;
        assert!(
            matches!(first, Some(Event::Reset)),
            "a watch begins with a reset, not {first:?}"
        );
        let mut views = Vec::new();
        self.until("the end of the list", |event| {
            if let Event::Task(view) = event {
                views.push(view.clone());
            }
            matches!(event, Event::Listed).then_some(())
        })
        .await;
        views
    }

    /// Reads on until a task is reported as it should be.
    pub(super) async fn task(
        &mut self,
        text: &str,
        what: &str,
        is_meant: impl Fn(&TaskView) -> bool,
    ) -> TaskView {
        self.until(what, |event| match event {
            Event::Task(view) if view.id.as_str() == text && is_meant(view) => Some(view.clone()),
            _ => None,
        })
        .await
    }

    /// Reads on until a task is reported to be gone.
    pub(super) async fn gone(&mut self, text: &str) {
        self.until("the end of a task", |event| {
            matches!(event, Event::Gone { id, .. } if id.as_str() == text).then_some(())
        })
        .await;
    }
}
