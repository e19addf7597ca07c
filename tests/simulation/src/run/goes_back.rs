//! A whole etcd that goes back to an earlier state: every node that was there has to end, since its fences may be given again.

use std::time::Duration;

use super::{
    Report,
    driver::{Driver, Node, Role},
    nodes,
};
use crate::{etcd::Snapshot, locked};

/// Within which time a node ends.
const ENDS: Duration = Duration::from_secs(30);

/// How far that is.
#[derive(Debug, Default)]
pub(super) struct Back {
    snapshot: Option<Snapshot>,
    /// Since when etcd is back.
    since: Option<Duration>,
    /// The processes of the nodes that were there.
    watched: Vec<u32>,
}

impl Driver {
    /// Returns whether the etcd has gone back.
    pub(super) fn is_back(&self) -> bool {
        self.back.since.is_some()
    }

    /// Saves what is stored, or goes back to it, when it is time. Returns the report when all nodes have ended, or have not for
    /// too long.
    pub(super) fn go_back(&mut self) -> Option<Report> {
        let (saved, back) = self.shared.plan.goes_back?;
        if let Some(since) = self.back.since {
            let (now, watched) = (self.now, &self.back.watched);
            let left = self.nodes.iter().filter(|node| {
                let process = node.process.as_ref();
                process.is_some_and(|process| watched.contains(&process.pid))
            });
            let left: Vec<String> = left.map(|node| nodes::name(node.number)).collect();
            let is_late = now > since + ENDS;
            return (left.is_empty() || is_late).then(|| self.report_of_back(&left));
        }
        if self.now >= back {
            self.begin_back();
        } else if self.now >= saved && self.back.snapshot.is_none() {
            self.back.snapshot = Some(self.servers.snapshot());
        }
        None
    }

    fn begin_back(&mut self) {
        let Some(snapshot) = self.back.snapshot.take() else {
            return;
        };
        self.trace
            .say(|| "the whole etcd goes back to an earlier state".to_owned());
        let has_lease = |number| self.servers.has_lease(&nodes::registration(number));
        let is_there = |node: &&Node| node.role == Role::Node && has_lease(node.number);
        let there = self.nodes.iter().filter(is_there);
        let there = there.filter_map(|node| node.process.as_ref());
        self.back.watched = there.map(|process| process.pid).collect();
        self.back.since = Some(self.now);
        self.servers.restore(snapshot);
        self.shared.network.break_all(None);
    }

    fn report_of_back(&mut self, left: &[String]) -> Report {
        let mut wrong = Vec::new();
        for name in left {
            wrong.push(format!(
                "{name} works on {ENDS:?} after the etcd has gone back to an earlier state"
            ));
        }
        let endings = locked(&self.shared.endings);
        for pid in &self.back.watched {
            let why = endings.get(pid).map_or("nothing", String::as_str);
            if left.is_empty() && !why.contains("earlier state") {
                wrong.push(format!(
                    "process {pid} has ended after the etcd has gone back, and says: {why}"
                ));
            }
        }
        Report {
            requests: self.shared.network.requests(),
            took: self.now,
            tasks: self.shared.plan.tasks,
            failure: (!wrong.is_empty()).then(|| wrong.join("; ")),
            ..Report::default()
        }
    }
}
