//! The requests about one task.

use axum::routing::{get, post};

use super::{ParamType, Request, answer, body, limit, may, param, read, wait};
use crate::{
    auth::Role::Operate,
    routes::{commands, graph, task, why},
};

pub(super) const REQUESTS: &[Request] = &[
    Request {
        path: "/v1/tasks/{id}",
        route: || get(task::get).delete(task::delete).patch(task::patch),
        methods: &[
            read("Returns a task.")
                .parameters(&[
                    wait("Answers when the task has ended, at the latest after this time."),
                    param("for", ParamType::One(&["ended"]), "What to wait for.").or("ended"),
                ])
                .answers(&[answer(200, "record", "The task.", "/v1/tasks/mail-1")]),
            may(Operate, "DELETE", "Deletes a task.")
                .parameters(&[param("force", ParamType::Flag, "Also one that a node has claimed.").or("false")])
                .answers(&[answer(204, "", "The task is deleted.", "/v1/tasks/mail-1").empty()]),
            may(
                Operate,
                "PATCH",
                "Changes props and data of a live task that no node has claimed, by a JSON Patch (RFC 6902) of /props and /data.",
            )
            .bodies(&[body("json-patch").of("application/json-patch+json")])
            .answers(&[answer(200, "task-changed", "The task was changed.", "/v1/tasks/mail-1").with_body(
                "application/json-patch+json",
                r#"[{"op":"test","path":"/props/to","value":"ann"},{"op":"replace","path":"/props/to","value":"bob"}]"#,
            )]),
        ],
    },
    Request {
        path: "/v1/tasks/{id}/commands",
        route: || get(commands::of_task).post(commands::send),
        methods: &[
            read("Returns the commands of a task, with their outcomes.")
                .answers(&[answer(200, "commands", "The commands.", "/v1/tasks/mail-1/commands")]),
            may(Operate, "POST", "Sends a command: run, sleep, pause, release, checkpoint, complete, kill.")
                .parameters(&[wait("Answers when the command has an outcome, at the latest after this time.")])
                .bodies(&[body("command-to-send")])
                .answers(&[
                    answer(202, "sent", "The command was sent, and has no outcome yet.", "/v1/tasks/mail-1/commands")
                        .to(r#"{"id":"c2","command":"sleep","until":"in 1h"}"#),
                    answer(200, "sent", "The command has an outcome.", "/v1/tasks/report-3/commands?wait=30s")
                        .to(r#"{"id":"c3","command":"kill"}"#),
                ]),
        ],
    },
    Request {
        path: "/v1/tasks/{id}/signals/{name}",
        route: || post(commands::signal),
        methods: &[may(Operate, "POST", "Sends a signal; the body is its payload: any JSON.")
            .parameters(&[
                wait("Answers with the reply, at the latest after this time."),
                param("id", ParamType::Text, "The id of the signal, which is sent once; a UUID by default."),
            ])
            .bodies(&[body("any").or_none()])
            .answers(&[
                answer(202, "sent", "The signal was sent, and has no reply yet; with one within the wait the status is 200.", "/v1/tasks/mail-1/signals/approve?id=s1")
                    .to(r#"{"by":"ann"}"#),
            ])],
    },
    Request {
        path: "/v1/tasks/{id}/retry",
        route: || post(task::retry),
        methods: &[may(
            Operate,
            "POST",
            "Starts an ended task again, with other props or data if the body has them.",
        )
        .bodies(&[body("retry").or_none()])
        .answers(&[answer(200, "task-changed", "The task starts again.", "/v1/tasks/report-1/retry")
            .to(r#"{"props":{"month":2}}"#)])],
    },
    Request {
        path: "/v1/tasks/{id}/reschedule",
        route: || post(task::reschedule),
        methods: &[may(
            Operate,
            "POST",
            "Changes a task that no node has claimed: its time, priority, limits, kind, props, data.",
        )
        .bodies(&[body("reschedule")])
        .answers(&[answer(200, "task-changed", "The task was changed.", "/v1/tasks/mail-1/reschedule")
            .to(r#"{"due":"in 5m","priority":3}"#)])],
    },
    Request {
        path: "/v1/tasks/{id}/why",
        route: || get(why::of_task),
        methods: &[read("Returns why a task is not run.")
            .answers(&[answer(200, "task-why", "The reason.", "/v1/tasks/mail-1/why")])],
    },
    Request {
        path: "/v1/tasks/{id}/graph",
        route: || get(graph::of_task),
        methods: &[read("Returns the tasks that a task waits for, directly or indirectly.")
            .parameters(&[
                param(
                    "waiters",
                    ParamType::Flag,
                    "Also the live tasks that wait for it. Reads the first 20,000 sleeping tasks.",
                )
                .or("false"),
                limit(10_000, "1000"),
            ])
            .answers(&[answer(200, "graph", "The graph.", "/v1/tasks/mail-2/graph?waiters=true")])],
    },
    Request {
        path: "/v1/tasks/{id}/history",
        route: || get(task::history),
        methods: &[read("Returns the history of a task, oldest first.")
            .parameters(&[limit(100_000, "1000")])
            .answers(&[answer(200, "history", "The last changes.", "/v1/tasks/report-1/history?limit=2")])],
    },
    Request {
        path: "/v1/tasks/{id}/log",
        route: || get(task::log),
        methods: &[read("Returns the lines that the handler of a task has logged.")
            .parameters(&[param("after", ParamType::Text, "The next of the answer before: only lines after it.")])
            .answers(&[answer(200, "log", "The lines.", "/v1/tasks/report-1/log")])],
    },
];
