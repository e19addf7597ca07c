//! Defects of the store on etcd: transitions, leases and the connection to the members.

use super::{Defect, found, lacks};
use crate::planted::within;

const COMMIT: &str = "src/store/etcd/node/commit.rs";
const SECOND_WRITER: &str = "two writers of one claim: servers that act for the same remote worker";

pub(super) const DEFECTS: &[Defect] = &[
    lacks(
        "late-write-over-newer-state",
        "A commit with the version of the stored state counted as applied, whatever it wrote",
        &[within(
            COMMIT,
            "⟨edit.when(TaskKey::TaskState, held.state_revision)⟩;\n        if ends {",
            "()",
        )],
        "a message that is late while later ones of its process pass: the lines of a process to all members \
         are in the same condition",
    ),
    lacks(
        "commit-known-by-its-version",
        "A commit with the version of the stored state counted as applied, whatever it wrote",
        &[within(
            "src/store/rules/commit.rs",
            "if ⟨stored.commit.is_some() && stored.commit == self.id⟩ {",
            "stored.version == self.follows.saturating_add(1)",
        )],
        SECOND_WRITER,
    ),
    found(
        "outcome-of-the-last-command",
        "got the outcome of the last one when the node died before the coordinator had that write: a `run`",
        &[within(
            "src/store/etcd/write/edit.rs",
            "let reported = ⟨outcomes.iter().find(|(order, _)| *order == stored.order)⟩;",
            "outcomes.last().filter(|_| outcomes.iter().any(|(order, _)| *order == stored.order))",
        )],
    ),
    found(
        "rejection-of-the-last-command",
        "got the outcome of the last one when that one was rejected and the node died",
        &[within(
            "src/store/etcd/write/edit.rs",
            "let reported = ⟨outcomes.iter().find(|(order, _)| *order == stored.order)⟩;",
            "outcomes.iter().find(|(order, _)| *order == stored.order).and_then(|own| \
             outcomes.last().filter(|(_, last)| matches!(last, Outcome::Rejected { .. })).or(Some(own)))",
        )],
    ),
    found(
        "command-of-an-ended-task-without-outcome",
        "Commands for a finished task that a store handed out again got no outcome",
        &[within(
            COMMIT,
            "edit.settle(&held.queue, &write.outcomes, ⟨ends.then(|| state.code())⟩)?;",
            "None",
        )],
    ),
    found(
        "repeated-id-applied-twice",
        "A failed delete on etcd of a task with more than 60 commands had forgotten some of them",
        &[within(
            "src/store/etcd/write/edit.rs",
            "⟨self.item.when_at(&key, sent.pointer)⟩;",
            "()",
        )],
    ),
    found(
        "time-before-the-decision",
        "A change on SQLite had the time at which its transaction began, although its job joined later",
        &[within(
            COMMIT,
            "let (state, now, ends) = (&write.state, ⟨by.access.now()⟩, self.ends());",
            "by.access.now() - jiff::SignedDuration::from_millis(300)",
        )],
    ),
    found(
        "all-commands-in-one-write",
        "From about sixty waiting commands on, a task on etcd was claimed and released forever",
        &[within(
            COMMIT,
            "if ⟨self.ends() && waits > by.access.capacity().settled_at_once()⟩ {",
            "false",
        )],
    ),
    found(
        "renewal-waits-for-the-status",
        "A node lost its lease when the leader died: the renewal had succeeded, but waited for the write",
        &[within(
            "src/store/etcd/node/lease.rs",
            "⟨self.report_status(lease, &node, status)⟩;",
            "{ let change = |registration: &mut Registration| registration.status = status.clone(); \
             self.change(lease, &node, change).await? }",
        )],
    ),
    found(
        "silent-member-is-not-left",
        "With several members each call went to any of them, also to a dead or silent one",
        &[within(
            "src/store/etcd/client/link.rs",
            "⟨Box::pin(self.leave(turn)).await⟩;\n                    Err(Fault::Unknown(no_answer(limit)))",
            "()",
        )],
    ),
    found(
        "closed-connection-is-no-etcd",
        "A connection that was closed without a message (a path that is cut, a load balancer without members)",
        &[within(
            "src/store/etcd/client/fault.rs",
            "if ⟨is_another_server(&whole)⟩ {",
            "is_another_server(&whole) || whole.contains(\"transport error\")",
        )],
    ),
];
