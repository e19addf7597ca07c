//! The requests about many tasks.

use axum::routing::{get, post};

use super::{LINES, Param, ParamType, Request, answer, body, limit, may, param, read};
use crate::{
    auth::Role::Operate,
    body::ALLOW_MISSING,
    routes::{bulk, tasks, transactions},
};

/// The parameters of a list.
const LIST: &[Param] = &[
    param(
        "state",
        ParamType::Texts,
        "The states, also several with commas: runnable, fault, sleeping, paused, completed, failed, killed; and running and queued, the runnable tasks that a node runs, and those that wait for one.",
    ),
    param(
        "kind",
        ParamType::Text,
        "The kind; inbox/* for every kind that begins with inbox/.",
    ),
    param(
        "label",
        ParamType::Texts,
        "A label that the tasks have: team, or team=a.",
    ),
    param("prefix", ParamType::Text, "The beginning of the ids."),
    param("id", ParamType::Texts, "An id."),
    param(
        "node",
        ParamType::Text,
        "The node that has claimed the tasks.",
    ),
    param(
        "claimed",
        ParamType::Flag,
        "Only tasks that a node has claimed.",
    ),
    param("error", ParamType::Text, "A text in one of the errors."),
    param(
        "fingerprint",
        ParamType::Text,
        "The fingerprint of the last error.",
    ),
    param(
        "limit_key",
        ParamType::Text,
        "The key of a limit of the tasks.",
    ),
    param(
        "quarantined",
        ParamType::Flag,
        "Only tasks whose record cannot be read.",
    ),
    param(
        "submitted_from",
        ParamType::Past,
        "The first time of the submit.",
    ),
    param(
        "submitted_until",
        ParamType::Past,
        "The first time after the submit.",
    ),
    param("ended_from", ParamType::Past, "The first time of the end."),
    param(
        "ended_until",
        ParamType::Past,
        "The first time after the end.",
    ),
    param(
        "props_at",
        ParamType::Texts,
        "A value at a JSON pointer of the props: /to/country=\"de\".",
    ),
    param(
        "waits",
        ParamType::One(&[
            "no_node",
            "data_version",
            "labels",
            "not_claiming",
            "fault",
            "full",
            "tasks",
            "limit",
            "lost",
            "copied",
        ]),
        "Why the tasks are not run.",
    ),
    param(
        "order",
        ParamType::One(&["submitted", "due", "late", "ended", "id"]),
        "The order: submitted and id (the newest first), due (only sleeping tasks, the earliest first), late (only tasks that wait for a node after their time has come, the latest first), ended (only ended tasks, the last first). A filter for other tasks is refused.",
    ),
    param("reversed", ParamType::Flag, "Reverses the order.").or("false"),
    param(
        "props",
        ParamType::Flag,
        "Whether the tasks have their props.",
    )
    .or("true"),
    limit(10_000, "100"),
    param("cursor", ParamType::Text, "The next of the page before."),
];

pub(super) const REQUESTS: &[Request] = &[
    Request {
        path: "/v1/tasks",
        route: || get(tasks::list).post(tasks::submit),
        methods: &[
            read(
                "Lists tasks, page by page; with the header Accept: application/x-ndjson every task, a line each.",
            )
            .parameters(LIST)
            .answers(&[
                answer(200, "task-page", "A page.", "/v1/tasks?kind=mail&limit=1&props=false"),
                answer(200, "record", "Every task, a line each.", "/v1/tasks?kind=mail").of(LINES),
            ]),
            may(
                Operate,
                "POST",
                "Submits a task, an array of tasks, or lines of tasks (application/x-ndjson).",
            )
            .parameters(&[param(
                ALLOW_MISSING,
                ParamType::Flag,
                "Whether the tasks of after and after_ok need not exist, for each task of the request.",
            )
            .or("false")])
            .bodies(&[body("task-or-tasks"), body("task").of(LINES)])
            .answers(&[
                answer(201, "submitted-task", "The task is new.", "/v1/tasks")
                    .to(r#"{"id":"a","kind":"mail","props":{"to":"ann","n":1.50},"start_at":"in 5m"}"#),
                answer(
                    200,
                    "submitted-task-or-results",
                    "The task exists already; or the result of each task of an array.",
                    "/v1/tasks",
                )
                .to(r#"[{"id":"b","kind":"mail"},{"id":"c","kind":7}]"#),
                answer(200, "submitted-line", "The result of each line.", "/v1/tasks")
                    .with_body(LINES, "{\"id\":\"d\",\"kind\":\"mail\"}\n{\"kind\":7}\n")
                    .of(LINES),
            ]),
        ],
    },
    Request {
        path: "/v1/transactions",
        route: || post(transactions::apply),
        methods: &[may(
            Operate,
            "POST",
            "Applies several operations in one atomic step, or with dry_run checks them.",
        )
        .bodies(&[body("transaction")])
        .answers(&[answer(200, "transaction-applied", "The operations were applied.", "/v1/transactions").to(
            r#"{"id":"deploy-7","lines":[{"op":"require","task":"mail-1","state":"runnable"},{"op":"delete","task":"mail-1"},{"op":"submit","id":"e","kind":"mail"}]}"#,
        )])],
    },
    Request {
        path: "/v1/bulk",
        route: || post(bulk::bulk),
        methods: &[may(
            Operate,
            "POST",
            "Counts the tasks that an action would change, with a key; with the count and the key it starts a task of the kind \
             bulk that changes them.",
        )
        .bodies(&[body("bulk")])
        .answers(&[
            answer(200, "bulk-counted", "The count, and the key for ten minutes.", "/v1/bulk")
                .to(r#"{"filter":{"kind":"mail","state":["failed"]},"action":"retry"}"#),
            answer(201, "bulk-started", "The operation has begun.", "/v1/bulk").to(
                r#"{"filter":{"kind":"mail","state":["failed"]},"action":"retry","tasks":0,"key":"KEY"}"#,
            ),
        ])],
    },
];
