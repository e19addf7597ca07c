//! Defects of the store on etcd: claims, submits, retries, deletions, transactions, limits and damaged records.

use super::{Defect, found, lacks};
use crate::planted::within;

const CLAIMABLE: &str = "src/store/etcd/node/claim/claimable.rs";
const TRANSACTION: &str = "src/store/etcd/tasks/transaction.rs";
const LOST: &str = "src/store/etcd/tasks/lost.rs";

const DAMAGED: &str = "records that cannot be read";

pub(super) const DEFECTS: &[Defect] = &[
    found(
        "own-claim-found-as-anothers",
        "A claim whose answer was lost appeared in the list after a broken watch",
        &[within(
            CLAIMABLE,
            "Some(kv) if ⟨records::lease_of(kv) == lease.id⟩ => {",
            "false",
        )],
    ),
    found(
        "submit-without-an-answer-runs-twice",
        "On etcd a submit or a retry whose answer was lost ran its task twice",
        &[within(
            LOST,
            "let is_new = ⟨self.is_of_a_submit(found)⟩;",
            "false",
        )],
    ),
    lacks(
        "retry-without-an-answer-runs-twice",
        "On etcd a submit or a retry whose answer was lost ran its task twice",
        &[within(
            LOST,
            "(⟨of(&is) >= of(tried)⟩).then_some(Done::Retried)",
            "false",
        )],
        "a checker that compares the retries of a task with those that were asked for",
    ),
    found(
        "late-claim-over-newer-state",
        "A first claim that was lost while it was being made removed the state of the next owner",
        &[within(
            CLAIMABLE,
            "⟨edit.when_as_found(\n            &task.found,\n            &[TaskKey::Task, TaskKey::TaskState, TaskKey::Parked],\n        )⟩;",
            "edit.when_as_found(&task.found, &[TaskKey::Task])",
        )],
    ),
    found(
        "loss-counted-twice",
        "A claim that its node made again, after its answer was lost, had a second line in the history",
        &[within(
            CLAIMABLE,
            "abandoned: ⟨task.lost_by.is_some()⟩,",
            "task.abandoned",
        )],
    ),
    found(
        "lost-attempt-without-the-policy",
        "An attempt whose node was lost was forgotten when the next claim was released",
        &[within(
            CLAIMABLE,
            "let abandoned = ⟨lost_by.is_some() || (ours && hold.abandoned)⟩;",
            "false",
        )],
    ),
    lacks(
        "quarantined-between-read-and-claim",
        "On etcd a task that another node quarantined between the read and the write of a claim was claimed",
        &[within(
            CLAIMABLE,
            "⟨edit.when_as_found(\n            &task.found,\n            &[TaskKey::Task, TaskKey::TaskState, TaskKey::Parked],\n        )⟩;",
            "edit.when_as_found(&task.found, &[TaskKey::Task, TaskKey::TaskState])",
        )],
        DAMAGED,
    ),
    lacks(
        "quarantined-twice",
        "Two nodes of etcd that read a damaged record at the same time both quarantined it",
        &[within(
            "src/store/etcd/node/repair.rs",
            "⟨edit.when_as_found(\n                found,\n                &[\n                    TaskKey::Owner,\n                    TaskKey::Task,\n                    TaskKey::TaskState,\n                    TaskKey::Parked,\n                ],\n            )⟩;",
            "edit.when_as_found(found, &[TaskKey::Owner, TaskKey::Task, TaskKey::TaskState])",
        )],
        DAMAGED,
    ),
    lacks(
        "ended-task-among-the-live-ones",
        "A task with a terminal state among the live ones (a node of Metafora died before it deleted it",
        &[within(
            CLAIMABLE,
            "if ⟨!ours⟩ {\n                Box::pin(self.repairs.unschedule(id)).await?;",
            "false",
        )],
        "nodes of Metafora",
    ),
    found(
        "waiting-task-submitted-as-runnable",
        "The history of a task that was submitted to wait said `runnable` on etcd once it had ended",
        &[within(
            "src/store/etcd/node/claims.rs",
            "Some(until) => ⟨envelope.waits_until(until)⟩,",
            "{ let _ = until; envelope }",
        )],
    ),
    found(
        "applied-transaction-refused",
        "A request was answered 409 although its transaction was applied",
        &[
            within(
                TRANSACTION,
                "Before::read(&self.edits, &transaction, ⟨Some(&id)⟩, verb).await?,",
                "None",
            ),
            within(
                TRANSACTION,
                "if let Some(record) = ⟨access.reader.key(&key, verb).await?⟩ {",
                "None",
            ),
        ],
    ),
    lacks(
        "id-of-another-transaction",
        "The id of an applied transaction was accepted for other operations",
        &[within(
            TRANSACTION,
            "⟨transaction.check_repeats(&fingerprint)?⟩;",
            "drop(fingerprint)",
        )],
        "a client that uses the id of a transaction for another one",
    ),
    found(
        "delete-forgets-commands-before-it-succeeds",
        "A failed delete on etcd of a task with more than 60 commands had forgotten some of them",
        &[within(
            TRANSACTION,
            "match ⟨tries.write(part.item).await?⟩ {",
            "{ if let Some(left) = &part.left { let left = Leftover { read_at: left.read_at, pointers: left.pointers.clone() }; clearing.drop_pointers(id, left).await; } tries.write(part.item).await? }",
        )],
    ),
    found(
        "delete-of-a-lost-claim-without-force",
        "`delete` without `--force` took a task whose worker had just been killed",
        &[within(
            "src/store/rules/delete.rs",
            "match (⟨held.is_claimed || held.is_lost⟩) && !delete.force {",
            "held.is_claimed",
        )],
    ),
    found(
        "command-id-after-the-time-of-its-sleep",
        "A command id that was sent again after the time of its sleep was rejected as invalid",
        &[within(
            "src/store/rules/steps.rs",
            "match ⟨facts.commands.get(&send.id)⟩ {",
            "{ command::check(&send.command, 0, bounds.max_bytes, bounds.now)?; facts.commands.get(&send.id) }",
        )],
    ),
    lacks(
        "no-slot-is-kept-for-two-limits",
        "A task with two limits never ran while tasks with one of the limits came",
        &[within(
            "src/store/rules/limits/reserve.rs",
            "let own = ⟨reserver.and_then(|reserver| reserver.limit_of(pool))⟩;",
            "None",
        )],
        "traffic that lasts: the lines of limits empty when it ends",
    ),
    found(
        "start-of-a-clock-that-was-ahead",
        "A start by a clock that was a day ahead kept a limit on starts full for that day on SQLite",
        &[within(
            "src/store/rules/limits.rs",
            "match ⟨is_ahead(at, within, now)⟩ {",
            "false",
        )],
    ),
    found(
        "unique-key-of-a-clock-that-was-ahead",
        "A unique key of 2 s was held for a day after a submit by a clock that was a day ahead",
        &[within(
            "src/store/rules/unique.rs",
            "⟨(SignedDuration::ZERO..=longest).contains(&until.duration_since(now))⟩ && until > now",
            "true",
        )],
    ),
    lacks(
        "restored-etcd-goes-on",
        "A node of an etcd that was restored to an earlier state ran no task, was listed as working",
        &[within(
            "src/store/etcd/client/past.rs",
            "if ⟨(1..before).contains(&revision)⟩ {",
            "false",
        )],
        "more runs in which the whole etcd goes back, which are one in twenty: seed 102 is the first that finds it",
    ),
];
