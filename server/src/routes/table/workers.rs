//! The requests of remote workers.

use axum::routing::post;

use super::{Request, answer, body, may};
use crate::{auth::Role::Work, routes::workers};

pub(super) const REQUESTS: &[Request] = &[
    Request {
        path: "/v1/workers",
        route: || post(workers::register),
        methods: &[may(
            Work,
            "POST",
            "Registers a worker. The same name and secret again return the same lease while it is live. Unknown fields of the body are ignored.",
        )
        .bodies(&[body("worker-registration")])
        .answers(&[answer(200, "worker-registered", "The worker is registered.", "/v1/workers").to(
            r#"{"protocol":[1],"name":"py-1","secret":"0f1e2d3c4b5a6978","kinds":{"thumbnail":{"slots":4}},"ttl_ms":45000,"sdk":"my-client/1.0"}"#,
        )])],
    },
    Request {
        path: "/v1/workers/{name}/exchange",
        route: || post(workers::exchange),
        methods: &[may(
            Work,
            "POST",
            "Renews the lease of a worker, takes the claims that it has, and returns runs to start and to stop, at the latest after wait_ms. Unknown fields of the body are ignored.",
        )
        .bodies(&[body("worker-exchange")])
        .answers(&[answer(
            200,
            "worker-exchanged",
            "The lease is renewed.",
            "/v1/workers/py-1/exchange",
        )
        .to(r#"{"secret":"0f1e2d3c4b5a6978","seq":1,"settled":0,"held":[],"wait_ms":10000}"#)])],
    },
    Request {
        path: "/v1/workers/{name}/report",
        route: || post(workers::report),
        methods: &[may(
            Work,
            "POST",
            "Takes what the handlers of a worker did, and returns the result of each report. Unknown fields of the body are ignored.",
        )
        .bodies(&[body("worker-report")])
        .answers(&[answer(
            200,
            "worker-reported",
            "The results, in the order of the items.",
            "/v1/workers/py-1/report",
        )
        .to(
            r#"{"secret":"0f1e2d3c4b5a6978","seq":2,"settled":1,"items":[{"id":"thumb-1","fence":12,"run":1,"n":1,"return":{"message":"complete"}}]}"#,
        )])],
    },
    Request {
        path: "/v1/workers/{name}/waited",
        route: || post(workers::waited),
        methods: &[may(
            Work,
            "POST",
            "Returns results of the tasks that a run has waited for: at most 100, and about 1 MiB. Changes nothing. Unknown fields of the body are ignored.",
        )
        .bodies(&[body("worker-waited")])
        .answers(&[answer(
            200,
            "worker-waited-results",
            "The tasks, in the order of the wait.",
            "/v1/workers/py-1/waited",
        )
        .to(r#"{"secret":"0f1e2d3c4b5a6978","id":"thumb-1","fence":12,"run":1,"from":0}"#)])],
    },
    Request {
        path: "/v1/workers/{name}/leave",
        route: || post(workers::leave),
        methods: &[may(
            Work,
            "POST",
            "Ends the lease of a worker, and releases its claims. Unknown fields of the body are ignored.",
        )
        .bodies(&[body("worker-leave")])
        .answers(&[answer(
            204,
            "",
            "The worker has left; also when it had left before.",
            "/v1/workers/py-1/leave",
        )
        .empty()
        .to(r#"{"secret":"0f1e2d3c4b5a6978"}"#)])],
    },
];
