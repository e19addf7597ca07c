//! [`Stopping`]: reports what a run waits for after a signal, and that the store accepts no writes.

use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::{
    sync::{mpsc::UnboundedReceiver, watch},
    time::{Instant, sleep, timeout},
};
use windlass::{
    Client, NodeName,
    runner::Unstored,
    store::{Filter, Page},
};

use super::screen::{Screen, Sign};
use crate::{exec::Props, view::human};

/// The interval at which running commands are named again.
const EVERY: Duration = Duration::from_secs(5);
/// The wait between the signal and the first report.
const MOMENT: Duration = Duration::from_millis(100);
/// The time limit for listing them.
const LOOK: Duration = Duration::from_millis(500);
/// How often results that the store has not accepted are checked.
const LOOK_AT_RESULTS: Duration = Duration::from_millis(250);
/// How many of them are named.
const NAMED: usize = 3;
/// How many of them are counted.
const COUNTED: u32 = 1000;

/// The reports of a run while its node works and stops.
pub(super) struct Stopping {
    pub(super) client: Client,
    pub(super) screen: Screen,
    pub(super) node: NodeName,
    /// The longest time between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    /// How long the node's lease lasts without a renewal.
    pub(super) lease: Duration,
    /// The results that the store has not accepted.
    pub(super) unstored: watch::Receiver<Unstored>,
}

/// A command that runs.
struct Waited {
    id: String,
    grace: Duration,
}

impl Stopping {
    /// Reports until it is dropped. `signals` names each signal that the run received.
    pub(super) async fn speak(
        &self,
        mut signals: UnboundedReceiver<&'static str>,
        renewals: impl Stream<Item = std::time::Instant>,
    ) {
        tokio::select! {
            signal = signals.recv() => {
                if let Some(signal) = signal {
                    self.stop(signal, signals).await;
                }
            }
            () = self.watch_lease(renewals) => {}
            () = self.watch_results() => {}
        }
        std::future::pending::<()>().await;
    }

    /// Reports when the node does not renew its lease in time, and when it does again.
    async fn watch_lease(&self, renewals: impl Stream<Item = std::time::Instant>) {
        let mut renewals = std::pin::pin!(renewals);
        let late = self.lease / 2;
        loop {
            match timeout(late, renewals.next()).await {
                Ok(Some(until)) if until > std::time::Instant::now() => {
                    self.screen.store_works(Sign::Lease);
                }
                // The lease is lost.
                Ok(Some(_)) | Err(_) => self.screen.store_fails(Sign::Lease, None),
                Ok(None) => return,
            }
        }
    }

    /// Reports when the node cannot store the results of commands, and when it can again.
    async fn watch_results(&self) {
        loop {
            {
                let unstored = self.unstored.borrow();
                match unstored.tasks.is_empty() {
                    true => self.screen.store_works(Sign::Result),
                    false => self
                        .screen
                        .store_fails(Sign::Result, Some(&unstored.reason)),
                }
            }
            sleep(LOOK_AT_RESULTS).await;
        }
    }

    /// Reports the results that the node has given up.
    pub(super) fn conclude(&self) {
        let unstored = self.unstored.borrow();
        if unstored.given_up {
            (self.screen).results_given_up(unstored.tasks.len(), &unstored.reason);
        }
    }

    /// Reports what the run waits for, until everything has ended.
    async fn stop(&self, signal: &str, mut signals: UnboundedReceiver<&'static str>) {
        self.screen.clear();
        let begun = Instant::now();
        // Commands that end on SIGTERM have ended by then.
        sleep(MOMENT).await;
        let first = self.commands().await;
        match first.as_deref() {
            Some([]) => self.screen.note(format_args!("{signal}: stopping")),
            commands => self.screen.note(format_args!(
                "{signal}: stopping; {}; ctrl-c again kills the commands at once",
                self.waits(commands, begun)
            )),
        }
        loop {
            tokio::select! {
                signal = signals.recv() => {
                    let Some(signal) = signal else { return };
                    return self.screen.note(format_args!("{signal}: killing the commands"));
                }
                () = sleep(EVERY) => {
                    let commands = self.commands().await;
                    if commands.as_ref().is_some_and(Vec::is_empty) {
                        self.wait_for_store(begun);
                    } else if commands.as_ref().is_none_or(|commands| !commands.is_empty()) {
                        let waits = self.waits(commands.as_deref(), begun);
                        self.screen.note(format_args!("still {waits}"));
                    }
                }
            }
        }
    }

    /// Reports that the commands have ended and the store does not accept their results.
    fn wait_for_store(&self, begun: Instant) {
        let unstored = self.unstored.borrow();
        let ends = match unstored.tasks.len() {
            0 => return,
            1 => "the end of 1 command".to_owned(),
            n => format!("the ends of {n} commands"),
        };
        let why = match self.screen.is_full() {
            true => "is full",
            false => "accepts no writes",
        };
        let left = match self.grace.saturating_sub(begun.elapsed()) {
            Duration::ZERO => "soon".to_owned(),
            left => format!("in {}", human(left)),
        };
        self.screen.note(format_args!(
            "still waiting to store {ends}: the store {why}; what is not stored {left} is given up"
        ));
    }

    /// Names the running commands, and when they are killed.
    fn waits(&self, commands: Option<&[Waited]>, begun: Instant) -> String {
        let left = |grace: Duration| human(grace.saturating_sub(begun.elapsed()));
        let Some(commands) = commands else {
            let left = left(self.grace);
            return format!(
                "waiting for the commands to end, for at most {left}, then they are killed"
            );
        };
        let longest = commands.iter().map(|c| c.grace).max().unwrap_or_default();
        format!(
            "waiting for {} to end: {}; what still runs in {} is killed",
            count(commands.len()),
            names(commands),
            left(longest)
        )
    }

    /// Returns the commands of this node that have not ended; `None` when the store does not
    /// respond.
    async fn commands(&self) -> Option<Vec<Waited>> {
        let filter = Filter::new().node(self.node.clone());
        let page = Page::new(COUNTED);
        let listed = timeout(LOOK, self.client.list(&filter, page)).await;
        let records = listed.ok()?.ok()?;
        let ended = &self.unstored.borrow().tasks;
        let runs = (records.into_iter())
            .filter(|record| record.task.kind.is_command() && !ended.contains(&record.task.id));
        let commands = runs.map(|record| {
            let props = Props::parse(&record.task.props);
            Waited {
                id: record.task.id.to_string(),
                grace: props.map_or(self.grace, |props| props.grace.min(self.grace)),
            }
        });
        Some(commands.collect())
    }
}

fn count(commands: usize) -> String {
    match commands {
        1 => "1 command".to_owned(),
        n => format!("{n} commands"),
    }
}

fn names(commands: &[Waited]) -> String {
    let mut names: Vec<&str> = commands.iter().map(|c| c.id.as_str()).take(NAMED).collect();
    let more = format!("{} more", commands.len().saturating_sub(NAMED));
    if commands.len() > NAMED {
        names.push(&more);
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_commands_are_named() {
        let commands = |n: usize| -> Vec<Waited> {
            let one = |n| Waited {
                id: format!("t{n}"),
                grace: Duration::ZERO,
            };
            (0..n).map(one).collect()
        };
        assert_eq!(names(&commands(1)), "t0");
        assert_eq!(names(&commands(3)), "t0, t1, t2");
        assert_eq!(names(&commands(5)), "t0, t1, t2, 2 more");
        assert_eq!(
            (count(1), count(2)),
            ("1 command".into(), "2 commands".into())
        );
    }
}
