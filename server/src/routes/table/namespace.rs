//! The requests about the namespace as a whole.

use axum::routing::{get, post};

use super::{EVENTS, FILE, ParamType, Request, answer, body, index, limit, may, param, read, wait};
use crate::{
    auth::Role::{Admin, Read},
    routes::{backup, changes, commands, failures, namespace, nodes, why},
};

pub(super) const REQUESTS: &[Request] = &[
    Request {
        path: "/v1",
        route: || get(index::index),
        methods: &[read("Lists these requests.")
            .answers(&[answer(200, "index", "The requests.", "/v1")])],
    },
    Request {
        path: "/v1/openapi.json",
        route: || get(index::document),
        methods: &[read("Returns the OpenAPI 3.1 document of these requests.").answers(&[
            answer(200, "openapi", "The document.", "/v1/openapi.json"),
        ])],
    },
    Request {
        path: "/v1/commands/{id}",
        route: || get(commands::get),
        methods: &[read("Returns a command with its outcome.")
            .parameters(&[wait("Answers when the command has an outcome, at the latest after this time.")])
            .answers(&[answer(200, "command", "The command.", "/v1/commands/c1")])],
    },
    Request {
        path: "/v1/changes",
        route: || get(changes::follow),
        methods: &[read("Follows the changes as server-sent events: change; reset, when changes in between are no longer kept; end, with the reason and other servers.")
            .parameters(&[param(
                "after",
                ParamType::Text,
                "The number of the change after which the stream begins, as the header Last-Event-ID has it; now by default.",
            )])
            .answers(&[answer(200, "change", "The events.", "/v1/changes?after=0").of(EVENTS)])],
    },
    Request {
        path: "/v1/counts",
        route: || get(namespace::counts),
        methods: &[read("Returns how many tasks there are by kind and state.")
            .answers(&[answer(200, "counts", "The counts.", "/v1/counts")])],
    },
    Request {
        path: "/v1/stats",
        route: || get(why::stats),
        methods: &[read("Returns how many tasks can run by kind, what holds the others back, and the limits in use.")
            .answers(&[answer(200, "stats", "The numbers.", "/v1/stats")])],
    },
    Request {
        path: "/v1/failures",
        route: || get(failures::list),
        methods: &[read(
            "Returns the failed tasks in groups by the fingerprint of their last error, those with the most tasks first.",
        )
        .parameters(&[
            param("kind", ParamType::Text, "Only tasks of this kind."),
            param("since", ParamType::Past, "Counts only tasks that failed at this time or later, at most the last 10,000."),
            param("limit", ParamType::Number(1, 500), "The most groups.").or("50"),
        ])
        .answers(&[answer(200, "failures", "The groups.", "/v1/failures")])],
    },
    Request {
        path: "/v1/why",
        route: || get(why::why),
        methods: &[read(
            "Returns what holds tasks back, by reason, with the request that shows or resolves it. At most a second old.",
        )
        .answers(&[answer(200, "why", "The reasons.", "/v1/why")])],
    },
    Request {
        path: "/v1/activity",
        route: || get(why::activity),
        methods: &[read(
            "Returns how many tasks start, complete and fail a second, how late they start, and which kinds fail: in the last 10 s, minute, 10 minutes and hour. Counted since the first request.",
        )
        .answers(&[answer(200, "activity", "The numbers.", "/v1/activity")])],
    },
    Request {
        path: "/v1/scale",
        route: || get(why::scale),
        methods: &[read("Returns how many tasks of a kind could run at once, for an autoscaler. At most a second old.")
            .parameters(&[param("kind", ParamType::Text, "The kind.").required()])
            .answers(&[answer(200, "scale", "The numbers.", "/v1/scale?kind=mail")])],
    },
    Request {
        path: "/v1/limits",
        route: || get(namespace::limits),
        methods: &[read("Returns the limits that tasks use at present.")
            .answers(&[answer(200, "limits", "The limits.", "/v1/limits")])],
    },
    Request {
        path: "/v1/nodes",
        route: || get(nodes::list),
        methods: &[read("Returns the live nodes.")
            .answers(&[answer(200, "nodes", "The nodes.", "/v1/nodes")])],
    },
    Request {
        path: "/v1/nodes/{node}/commands",
        route: || post(nodes::send),
        methods: &[may(
            Admin,
            "POST",
            "Sends a command to a node: freeze, unfreeze, balance, drain, stop-task.",
        )
        .bodies(&[body("node-command")])
        .answers(&[answer(
            202,
            "node-command-sent",
            "The command was sent.",
            "/v1/nodes/worker-1/commands",
        )
        .to(r#"{"command":"freeze"}"#)])],
    },
    Request {
        path: "/v1/node-commands/{order}",
        route: || get(nodes::answer),
        methods: &[may(Admin, "GET", "Returns a node's answer to a command.").answers(&[answer(
            200,
            "node-answer",
            "The answer; null while there is none.",
            "/v1/node-commands/ORDER",
        )])],
    },
    Request {
        path: "/v1/audit",
        route: || get(namespace::audit),
        methods: &[read("Returns the history of the namespace, oldest first.")
            .parameters(&[limit(100_000, "1000")])
            .answers(&[answer(200, "audit-lines", "The last lines.", "/v1/audit?limit=2")])],
    },
    Request {
        path: "/v1/doctor",
        route: || get(namespace::doctor),
        methods: &[may(
            Admin,
            "GET",
            "Examines the store, and repairs nothing.",
        )
        .parameters(&[param(
            "full",
            ParamType::Flag,
            "Also checks the file of a SQLite store in full, which takes as long as reading it.",
        )
        .or("false")])
        .answers(&[answer(200, "doctor", "The findings.", "/v1/doctor")])],
    },
    Request {
        path: "/v1/purge",
        route: || post(namespace::purge),
        methods: &[may(Admin, "POST", "Deletes ended tasks by their age.")
            .bodies(&[body("purge")])
            .answers(&[answer(200, "purged-tasks", "The number of deleted tasks.", "/v1/purge")
                .to(r#"{"states":["completed"],"older_than":"30d","limit":1000}"#)])],
    },
    Request {
        path: "/v1/backup",
        route: || get(backup::download),
        methods: &[
            may(Admin, "GET", "Returns a backup of a store on SQLite: a file.").answers(&[answer(
                200,
                "",
                "The file.",
                "/v1/backup",
            )
            .of(FILE)]),
        ],
    },
    Request {
        path: "/v1/servers",
        route: || get(namespace::servers),
        methods: &[read("Returns the servers of the namespace that say where they can be reached.")
            .answers(&[answer(200, "servers", "The servers.", "/v1/servers")])],
    },
    Request {
        path: "/v1/time",
        route: || get(namespace::time),
        methods: &[may(Read, "GET", "Returns the time by the clock of the server.")
            .answers(&[answer(200, "server-time", "The time.", "/v1/time")])],
    },
];
