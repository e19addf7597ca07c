//! Every request of the API, in one table: the routes and the reference are made of it.

use std::sync::Arc;

use axum::{
    response::Response,
    routing::{MethodRouter, get, post},
};
use serde::Serialize;

use super::{
    backup, changes, commands, json, masks, namespace, nodes, task, tasks, tokens, transactions,
};
use crate::{access::Reader, app::App, auth::Role, params::Params, problem::Problem};

/// A path, with the requests that it has.
pub(crate) struct Request {
    pub(crate) path: &'static str,
    pub(crate) route: fn() -> MethodRouter<Arc<App>>,
    pub(crate) methods: &'static [Method],
}

/// A request.
#[derive(Serialize)]
pub(crate) struct Method {
    pub(crate) method: &'static str,
    pub(crate) role: Role,
    pub(crate) about: &'static str,
}

const fn may(role: Role, method: &'static str, about: &'static str) -> Method {
    Method {
        method,
        role,
        about,
    }
}

use Role::{Admin, Operate, Read};

/// Every request.
pub(crate) const REQUESTS: &[Request] = &[
    Request {
        path: "/v1",
        route: || get(index),
        methods: &[may(Read, "GET", "Lists these requests.")],
    },
    Request {
        path: "/v1/tasks",
        route: || get(tasks::list).post(tasks::submit),
        methods: &[
            may(
                Read,
                "GET",
                "Lists tasks, page by page. Parameters: state, kind, label, prefix, id, node, claimed, error, \
                fingerprint, quarantined, submitted_from, submitted_until, ended_from, ended_until, props_at, waits, order, \
                reversed, props, limit, cursor.",
            ),
            may(
                Operate,
                "POST",
                "Submits a task, an array of tasks, or lines of tasks (application/x-ndjson).",
            ),
        ],
    },
    Request {
        path: "/v1/tasks/{id}",
        route: || get(task::get).delete(task::delete),
        methods: &[
            may(
                Read,
                "GET",
                "Returns a task. Parameters: wait, a length of time, to answer when the task has ended; for=ended.",
            ),
            may(
                Operate,
                "DELETE",
                "Deletes a task. Parameters: force, for one that a node has claimed.",
            ),
        ],
    },
    Request {
        path: "/v1/tasks/{id}/commands",
        route: || get(commands::of_task).post(commands::send),
        methods: &[
            may(
                Read,
                "GET",
                "Returns the commands of a task, with their outcomes.",
            ),
            may(
                Operate,
                "POST",
                "Sends a command. Parameters: wait, to answer when it has an outcome.",
            ),
        ],
    },
    Request {
        path: "/v1/tasks/{id}/signals/{name}",
        route: || post(commands::signal),
        methods: &[may(
            Operate,
            "POST",
            "Sends a signal; the body is its payload. Parameters: wait, to answer with the reply; id.",
        )],
    },
    Request {
        path: "/v1/tasks/{id}/retry",
        route: || post(task::retry),
        methods: &[may(
            Operate,
            "POST",
            "Starts an ended task again, with other props or data if the body has them.",
        )],
    },
    Request {
        path: "/v1/tasks/{id}/reschedule",
        route: || post(task::reschedule),
        methods: &[may(
            Operate,
            "POST",
            "Changes a task that no node has claimed: its time, priority, limits, kind, props, data.",
        )],
    },
    Request {
        path: "/v1/tasks/{id}/history",
        route: || get(task::history),
        methods: &[may(
            Read,
            "GET",
            "Returns the history of a task, oldest first. Parameters: limit.",
        )],
    },
    Request {
        path: "/v1/tasks/{id}/log",
        route: || get(task::log),
        methods: &[may(
            Read,
            "GET",
            "Returns the lines that the handler of a task has logged. Parameters: after.",
        )],
    },
    Request {
        path: "/v1/commands/{id}",
        route: || get(commands::get),
        methods: &[may(
            Read,
            "GET",
            "Returns a command with its outcome. Parameters: wait.",
        )],
    },
    Request {
        path: "/v1/transactions",
        route: || post(transactions::apply),
        methods: &[may(
            Operate,
            "POST",
            "Applies several operations in one atomic step, or with dry_run checks them.",
        )],
    },
    Request {
        path: "/v1/changes",
        route: || get(changes::follow),
        methods: &[may(
            Read,
            "GET",
            "Follows the changes as server-sent events. Parameters: after, or the header Last-Event-ID.",
        )],
    },
    Request {
        path: "/v1/counts",
        route: || get(namespace::counts),
        methods: &[may(
            Read,
            "GET",
            "Returns how many tasks there are by kind and state.",
        )],
    },
    Request {
        path: "/v1/limits",
        route: || get(namespace::limits),
        methods: &[may(
            Read,
            "GET",
            "Returns the limits that tasks use at present.",
        )],
    },
    Request {
        path: "/v1/nodes",
        route: || get(nodes::list),
        methods: &[may(Read, "GET", "Returns the live nodes.")],
    },
    Request {
        path: "/v1/nodes/{node}/commands",
        route: || post(nodes::send),
        methods: &[may(
            Admin,
            "POST",
            "Sends a command to a node: {\"command\":\"freeze\"}; unfreeze, balance, drain, stop-task.",
        )],
    },
    Request {
        path: "/v1/node-commands/{order}",
        route: || get(nodes::answer),
        methods: &[may(Admin, "GET", "Returns a node's answer to a command.")],
    },
    Request {
        path: "/v1/audit",
        route: || get(namespace::audit),
        methods: &[may(
            Read,
            "GET",
            "Returns the history of the namespace, oldest first. Parameters: limit.",
        )],
    },
    Request {
        path: "/v1/purge",
        route: || post(namespace::purge),
        methods: &[may(Admin, "POST", "Deletes ended tasks by their age.")],
    },
    Request {
        path: "/v1/backup",
        route: || get(backup::download),
        methods: &[may(
            Admin,
            "GET",
            "Returns a backup of a store on SQLite: a file.",
        )],
    },
    Request {
        path: "/v1/time",
        route: || get(namespace::time),
        methods: &[may(
            Read,
            "GET",
            "Returns the time by the clock of the server.",
        )],
    },
    Request {
        path: "/v1/masks",
        route: || get(masks::list).post(masks::set),
        methods: &[
            may(Admin, "GET", "Lists the masks."),
            may(
                Admin,
                "POST",
                "Sets the mask of a kind, in place of the one before.",
            ),
        ],
    },
    Request {
        path: "/v1/masks/{kind}",
        route: || axum::routing::delete(masks::remove),
        methods: &[may(Admin, "DELETE", "Removes the mask of a kind.")],
    },
    Request {
        path: "/v1/tokens",
        route: || get(tokens::list).post(tokens::make),
        methods: &[
            may(Admin, "GET", "Lists the tokens, without their secrets."),
            may(
                Admin,
                "POST",
                "Makes a token, and returns its secret, which nothing shows again.",
            ),
        ],
    },
    Request {
        path: "/v1/tokens/{name}",
        route: || axum::routing::delete(tokens::revoke),
        methods: &[may(Admin, "DELETE", "Revokes a token.")],
    },
    Request {
        path: "/v1/tokens/{name}/rotate",
        route: || post(tokens::rotate),
        methods: &[may(
            Admin,
            "POST",
            "Gives a token another secret. Parameters: overlap, how long the one before stays valid.",
        )],
    },
];

/// A request, as the index lists it.
#[derive(Serialize)]
struct Line {
    path: &'static str,
    #[serde(flatten)]
    method: &'static Method,
}

#[derive(Serialize)]
struct IndexForm {
    requests: Vec<Line>,
}

/// Lists the requests.
async fn index(_by: Reader, params: Params) -> Result<Response, Problem> {
    params.end()?;
    listed()
}

fn listed() -> Result<Response, Problem> {
    let requests = REQUESTS.iter().flat_map(|request| {
        let methods = request.methods.iter();
        methods.map(|method| Line {
            path: request.path,
            method,
        })
    });
    json(&IndexForm {
        requests: requests.collect(),
    })
}
