//! Defects of the state machine, and of the handlers that it starts.

use super::{Defect, found, lacks};
use crate::planted::within;

const RUNNING: &str = "statemachine/src/machine/running.rs";
const SETTLE: &str = "statemachine/src/machine/settle.rs";
const RETURNED: &str = "statemachine/src/machine/returned.rs";

pub(super) const DEFECTS: &[Defect] = &[
    found(
        "returned-beside-a-checkpoint",
        "A handler that returned while its checkpoint was being written still counted as running",
        &[within(
            RUNNING,
            "Some(write) => ⟨self.phase = Phase::Ended { write, cause }⟩,",
            "{ drop(write); self.settle(cause, env, out) }",
        )],
    ),
    found(
        "kill-behind-a-failing-attempt",
        "A kill that waited behind a failing attempt could end in `failed`",
        &[within(SETTLE, "let killed = ⟨self.has_kill()⟩;", "false")],
    ),
    found(
        "complete-behind-earlier-commands",
        "A `complete` command that made its handler complete was reported as rejected",
        &[within(
            RETURNED,
            "⟨self.settle_before_complete(draft, env)⟩;",
            "()",
        )],
    ),
    found(
        "release-in-place-of-a-pause",
        "A handler that gave way to a pause by returning `release` lost the pause",
        &[within(
            RETURNED,
            "if ⟨message.kind() == ActionKind::Release && self.is_asked_to_make_room()⟩ {",
            "false",
        )],
    ),
    found(
        "complete-after-the-deadline-before-a-kill",
        "A task whose deadline had passed completed by a `complete` that was sent before a kill",
        &[within(
            SETTLE,
            "let late = ⟨late.filter(|_| queued.command != Command::Kill && !draft.is_terminal())⟩;",
            "late.filter(|_| false)",
        )],
    ),
    found(
        "return-after-the-deadline-beside-a-kill",
        "What a handler returned after its deadline counted when a kill waited",
        &[within(
            SETTLE,
            "self.settle_signals(&message, &mut draft);\n                if ⟨missed.is_some()⟩ {",
            "missed.is_some() && !killed",
        )],
    ),
    found(
        "kill-keeps-data-without-effects",
        "A kill or a missed `end_by` kept the data of a message and dropped its effects",
        &[within(
            SETTLE,
            "if ⟨missed.is_some() || self.is_killed_before(&message)⟩ {",
            "missed.is_some()",
        )],
    ),
    found(
        "end-by-keeps-data-without-effects",
        "A kill or a missed `end_by` kept the data of a message and dropped its effects",
        &[within(
            SETTLE,
            "if ⟨missed.is_some() || self.is_killed_before(&message)⟩ {",
            "self.is_killed_before(&message)",
        )],
    ),
    found(
        "overridden-by-an-error",
        "A command that an error of the handler overrode, in a write that the coordinator had not got",
        &[within(
            RETURNED,
            "draft.settle(front, ⟨Outcome::Overridden { by }⟩);",
            "Outcome::Overridden { by: ActionKind::Error }",
        )],
    ),
    found(
        "unanswered-before-answered",
        "Signals without a reply used up the room of the last write of a task",
        &[within(
            "statemachine/src/machine/signals.rs",
            "let at = ⟨first.or_else(|| self.open.iter().position(decided))⟩?;",
            "self.open.iter().position(decided).or(first)",
        )],
    ),
    found(
        "run-that-counts-as-not-started",
        "A handler that a remote worker had aborted counted as not started, so that its task could miss",
        &[within(
            "statemachine/src/machine/deadline.rs",
            "if ⟨self.has_run && deadlines.start_by.is_some()⟩ {",
            "false",
        )],
    ),
    found(
        "lost-attempt-forgotten",
        "An attempt whose node was lost was forgotten when the next claim was released",
        &[within(
            "statemachine/src/state.rs",
            "if let Some(node) = ⟨abandoned⟩ {",
            "None",
        )],
    ),
    found(
        "failed-attempt-not-counted",
        "A message of a remote worker that cannot be read was refused, and no failed attempt was stored",
        &[within(
            "statemachine/src/machine/policy.rs",
            "draft.state.attempts = ⟨draft.state.attempts.saturating_add(1)⟩;",
            "draft.state.attempts",
        )],
    ),
    found(
        "waiting-checkpoint-counts-as-stored",
        "The number of a remote worker's checkpoint that waited behind another write was stored with the next",
        &[within(
            RUNNING,
            "⟨side.next.push_back(asked)⟩;",
            "out.push(Effect::CheckpointDone { ticket, result: Ok(()) })",
        )],
    ),
    found(
        "attempts-within-one-claim",
        "Retries and sleeps within one claim did not count for a limit on starts",
        &[
            within(SETTLE, "if ⟨self.config.claim_per_attempt⟩ {", "false"),
            within(
                "statemachine/src/machine/mod.rs",
                "if ⟨self.config.claim_per_attempt⟩ {",
                "false",
            ),
        ],
    ),
    lacks(
        "signals-behind-the-start",
        "A handler that ended at once could return before the signals that woke its task were delivered to it",
        &[within(
            "src/runner/engine/effects.rs",
            "effects.extract_if(at.., |e| ⟨matches!(e, Effect::Signal(_))⟩);",
            "false",
        )],
        "a second thread: a handler begins when the turn of the engine has ended",
    ),
    lacks(
        "handler-after-the-lease",
        "A process that was stopped (SIGSTOP) between a claim and the start of its handler",
        &[within(
            "src/runner/spawn.rs",
            "if ⟨context.lease_left().is_zero()⟩ {",
            "false",
        )],
        "a pause in the middle of a turn: a process stands still when none of its tasks can run",
    ),
];
