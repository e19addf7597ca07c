//! Defects of a node: its engine, its claims and its lease.

use super::{Defect, found, lacks};
use crate::planted::within;

const CLAIM_PASS: &str = "src/runner/engine/claim_pass.rs";
const CONTROL: &str = "src/runner/engine/control.rs";
const EVENTS: &str = "src/runner/engine/events.rs";
const LEASE: &str = "src/runner/lease.rs";

pub(super) const SILENT: &str = "a handler that writes nothing for longer than a lease: the store \
                                 refuses the next write of these, which ends them";
const HOW_LONG: &str = "a bound on the time that a node takes to work again while faults go on";

pub(super) const DEFECTS: &[Defect] = &[
    found(
        "own-claim-taken-for-anothers",
        "A claim whose answer was lost appeared in the list after a broken watch",
        &[
            within(
                EVENTS,
                "let own = ⟨self.is_own(&view) && (fits || deferred.is_none())⟩;",
                "false",
            ),
            within(
                EVENTS,
                "if ⟨!self.claiming.is_unanswered(&view.id)⟩ {",
                "true",
            ),
        ],
    ),
    found(
        "own-claim-reported-before-its-answer",
        "A successful claim that the list reported before its answer was lost was forgotten",
        &[within(
            CLAIM_PASS,
            "Some(Reported::View(view)) if ⟨self.is_own(&view)⟩ => {",
            "false",
        )],
    ),
    found(
        "renewal-after-its-time",
        "A renewal that was answered after its time (the process had stood still)",
        &[within(
            LEASE,
            "let in_time = ⟨Instant::now() < *until⟩;",
            "true",
        )],
    ),
    lacks(
        "stop-task-while-claiming",
        "A `stop-task` that arrived while the task was being claimed was answered with \"not on this node\"",
        &[within(
            CONTROL,
            "if let Some(pending) = ⟨self.claiming.get_mut(task)⟩ {",
            "None",
        )],
        "a checker that compares the answer of a `stop-task` with the claims of the node",
    ),
    lacks(
        "drain-that-is-called-off",
        "A node that was unfrozen before its drain had ended answered the drain never, or hours later",
        &[within(CONTROL, "⟨self.answer_drains(outcome)⟩;", "()")],
        "a bound on the time of an answer: the node is empty when everything has settled, and answers then",
    ),
    lacks(
        "deleted-while-it-is-claimed",
        "A task that was deleted while the watch of its owner was broken kept running until its next write",
        &[within(
            CLAIM_PASS,
            "if ⟨latest.ends(order, fence)⟩ {",
            "false",
        )],
        SILENT,
    ),
    lacks(
        "missing-in-the-list",
        "A task that was deleted while the watch of its owner was broken kept running until its next write",
        &[within(
            EVENTS,
            "Unlisted::Before => ⟨self.lose_slot(id)⟩,",
            "()",
        )],
        SILENT,
    ),
    lacks(
        "replaced-while-it-runs",
        "A task that was deleted and submitted again while it ran kept its old handler",
        &[
            within(
                "src/runner/engine/reported.rs",
                "Self::View(view) => ⟨view.order > claimed⟩,",
                "false",
            ),
            within(
                "src/store/etcd/watch/mirror/report.rs",
                "events.extend(⟨deleted.map(gone)⟩);",
                "deleted.filter(|_| !self.tasks.contains(&id)).map(gone)",
            ),
        ],
        SILENT,
    ),
    found(
        "sleeper-forgotten-by-one-node",
        "A sleeping task that a node claimed just before its clock was set back was forgotten by that node",
        &[within(
            CLAIM_PASS,
            "⟨self.still_sleeping(view)⟩;",
            "drop(view)",
        )],
    ),
    found(
        "event-of-a-release-before-its-answer",
        "A task of a remote worker that was released while signals waited stood still for good",
        &[within(
            "src/runner/engine/effects.rs",
            "Some(Reported::View(view)) => ⟨self.view(view)⟩,",
            "drop(view)",
        )],
    ),
    lacks(
        "failed-claim-forgets-the-command",
        "One failed claim removed the mark of a command from the task: a kill then waited for a free slot",
        &[within(
            CLAIM_PASS,
            "⟨self.due.put_off(view, now.at + wait, now)⟩;",
            "self.due.put_off(TaskView { commanded: false, ..view }, now.at + wait, now)",
        )],
        "a bound on the time until a command takes effect while the slots of a node are in use",
    ),
    lacks(
        "join-answered-late",
        "A node whose join was answered late held a lease that counted as lost at once",
        &[within(LEASE, "if ⟨asked.elapsed() < ttl / 3⟩ {", "true")],
        HOW_LONG,
    ),
    lacks(
        "lost-lease-not-abandoned",
        "A node whose store stood still for longer than its lease waited for up to another lease",
        &[within(
            LEASE,
            "Err(Error::AlreadyExists { .. }) if ⟨self.abandon(&mut lost).await⟩ => {}",
            "false",
        )],
        HOW_LONG,
    ),
    lacks(
        "revoked-lease-noticed-at-the-next-renewal",
        "A node whose lease was revoked, or whose registration was deleted, let its handlers run until the next renewal",
        &[within(
            EVENTS,
            "if ⟨matches!(why, None | Some(Error::Fenced(_)))⟩ {",
            "false",
        )],
        "a longer time between renewals: the next one comes within 0.7 s, and the bound is 0.5 s",
    ),
    found(
        "runnable-task-of-a-clock-ahead",
        "A runnable task that was submitted, released or retried where the clock was ahead did not run",
        &[within(
            "src/runner/due.rs",
            "Some(due) if ⟨view.sleeping⟩ => millis(due),",
            "true",
        )],
    ),
    lacks(
        "other-kind-under-the-same-id",
        "A task that was deleted and submitted again with another kind or other labels",
        &[within(
            CLAIM_PASS,
            "let kind = self.deps.kinds.entry(&task.kind).filter(|_| ⟨fits⟩).cloned();",
            "true",
        )],
        "nodes of different kinds or labels",
    ),
];
