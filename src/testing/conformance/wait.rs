//! Waits for events and answers, with a deadline.

use std::{collections::VecDeque, time::Duration};

use futures::StreamExt;
use tokio::time::Instant;
use windlass_statemachine::QueuedCommand;

use crate::store::{Event, EventStream, QueuedNodeCommand, TaskView};

/// How long a case waits for an event that must come.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// Calls `ask` until it returns a value.
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

    /// Returns the next event; `None` when the stream has ended.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let batch = tokio::time::timeout(DEADLINE, self.stream.next()).await;
            self.ready.extend(batch.expect("an event in time")?);
        }
    }

    /// Returns the events until none comes for `quiet`, or the stream ends.
    pub(super) async fn rest(&mut self, quiet: Duration) -> Vec<Event> {
        let mut rest: Vec<Event> = self.ready.drain(..).collect();
        while let Ok(Some(batch)) = tokio::time::timeout(quiet, self.stream.next()).await {
            rest.extend(batch);
        }
        rest
    }

    /// Reads events until `matching` returns a value for one.
    pub(super) async fn until<T>(
        &mut self,
        what: &str,
        mut matching: impl FnMut(&Event) -> Option<T>,
    ) -> T {
        let started = Instant::now();
        loop {
            let Some(event) = self.next().await else {
                panic!("{what}: the watch ended before it was reported");
            };
            if let Some(found) = matching(&event) {
                return found;
            }
            assert!(started.elapsed() < DEADLINE, "{what}: not reported in time");
        }
    }

    /// Returns the tasks of the initial list of a watch.
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

    /// Reads events until a matching task is reported.
    pub(super) async fn task(
        &mut self,
        text: &str,
        what: &str,
        matches: impl Fn(&TaskView) -> bool,
    ) -> TaskView {
        self.until(what, |event| match event {
            Event::Task(view) if view.id.as_str() == text && matches(view) => Some(view.clone()),
            _ => None,
        })
        .await
    }

    /// Reads events until commands of a task are reported, and returns them.
    pub(super) async fn commands(&mut self, text: &str) -> Vec<QueuedCommand> {
        self.until("commands for the owner", |event| match event {
            Event::Commands { id, commands, .. } if id.as_str() == text => Some(commands.clone()),
            _ => None,
        })
        .await
    }

    /// Reads events until a node command is reported, and returns it.
    pub(super) async fn node_command(&mut self) -> QueuedNodeCommand {
        self.until("a node command", |event| match event {
            Event::Node(queued) => Some(queued.clone()),
            _ => None,
        })
        .await
    }

    /// Reads events until a task is reported as gone.
    pub(super) async fn gone(&mut self, text: &str) {
        self.until("the end of a task", |event| {
            matches!(event, Event::Gone { id, .. } if id.as_str() == text).then_some(())
        })
        .await;
    }
}
