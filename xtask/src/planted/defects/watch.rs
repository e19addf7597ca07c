//! Defects of what follows the changes: the watch of a node, the feed, and waits.

use super::{Defect, found, lacks, runner::SILENT};
use crate::planted::within;

const FEED: &str = "src/store/etcd/watch/feed.rs";
const LIST: &str = "src/store/etcd/watch/list.rs";

const RESTORED_MEMBER: &str =
    "a member that is restored from a snapshot, and sends a watch again what it has sent";

pub(super) const DEFECTS: &[Defect] = &[
    lacks(
        "deleted-in-compacted-history",
        "A task that was deleted in history that an etcd compacted under a broken watch kept running",
        &[
            within(
                LIST,
                "let mut missing = ⟨claims.of_watch(lease)⟩;",
                "HashMap::new()",
            ),
            within(
                "src/runner/engine/events.rs",
                "Unlisted::Before => ⟨self.lose_slot(id)⟩,",
                "()",
            ),
        ],
        SILENT,
    ),
    lacks(
        "node-commands-out-of-order",
        "Of two node commands that waited on etcd when the watch began, the older was never delivered",
        &[within(
            LIST,
            "⟨nodes.sort_by_key(KeyValue::create_revision)⟩;",
            "()",
        )],
        "ids of node commands that are not in the order of their sending: one thread draws all of them",
    ),
    lacks(
        "deleted-registration-is-ignored",
        "A node whose registration an operator had deleted kept its lease and ran its tasks on",
        &[within(
            "src/store/etcd/watch/watcher/node_keys.rs",
            "true if ⟨gone⟩ => Err(StreamEnd::Over),",
            "false",
        )],
        "a bound below the 0.7 s after which the next renewal finds out: a node looks for its registration when it watches again",
    ),
    lacks(
        "older-copy-of-the-nodes",
        "With two nodes of one etcd namespace in a process, a node with an event of a change could read the copy",
        &[within(
            "src/store/etcd/node/live_nodes.rs",
            "let copy = ⟨open.max_by_key(|copy| copy.revision)⟩?;",
            "open.min_by_key(|copy| copy.revision)",
        )],
        "two nodes in one process",
    ),
    found(
        "broken-feed-goes-on-from-now",
        "A client of the stream of changes that was reset got no position to go on from",
        &[within(FEED, ".with_start_revision(⟨self.seen + 1⟩)", "0")],
    ),
    found(
        "idle-feed-falls-behind",
        "An idle feed of changes on etcd ended with \"not kept any more\"",
        &[within(FEED, "⟨self.seen = self.seen.max(at)⟩;", "()")],
    ),
    lacks(
        "deletion-with-the-number-of-another-change",
        "On etcd a delete and another change of one transaction had the same number",
        &[within(
            FEED,
            "let free = places.filter(|seq| ⟨!taken.contains(seq)⟩);",
            "true",
        )],
        "a process that writes 4,096 items, after which the places of a revision begin again",
    ),
    lacks(
        "deletion-reported-twice",
        "The feed of an etcd 3.5.1 with three members reported the same deletion twice",
        &[within(
            "src/store/etcd/client/watched.rs",
            "let is_new = ⟨at > seen⟩;",
            "true",
        )],
        RESTORED_MEMBER,
    ),
    lacks(
        "feed-cancelled-by-the-revision-of-its-begin",
        "A feed on etcd ended as \"no longer kept\" although it had received everything",
        &[within(
            FEED,
            "if ⟨compacted > self.seen + 1⟩ {",
            "compacted > 0",
        )],
        RESTORED_MEMBER,
    ),
    lacks(
        "progress-before-the-changes",
        "An index in memory that trusted the answer of etcd 3.4.23 to a request for progress",
        &[within(FEED, "&& ⟨response.watch_id() >= 0⟩ {", "true")],
        "a member whose answer to a request for progress overtakes changes",
    ),
    found(
        "changes-after-zero-begin-now",
        "On etcd, changes after 0 (`windlass watch --after 0`) began at the present",
        &[within(
            FEED,
            "let revision = ⟨revision.max(1)⟩;",
            "revision",
        )],
    ),
    lacks(
        "wait-that-begins-in-an-outage",
        "A wait for a task ended with an error when the store was unavailable",
        &[within(
            "src/client/wait.rs",
            "Err(e) => {\n                    ⟨retries.after(e).await?⟩;",
            "return Err(e)",
        )],
        "clients that wait for tasks and commands",
    ),
];
