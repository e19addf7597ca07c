//! The requests about tokens.

use axum::routing::{delete, get, post};

use super::{ParamType, Request, answer, body, may, param};
use crate::{auth::Role::Admin, routes::tokens};

pub(super) const REQUESTS: &[Request] = &[
    Request {
        path: "/v1/tokens",
        route: || get(tokens::list).post(tokens::make),
        methods: &[
            may(Admin, "GET", "Lists the tokens, without their secrets.")
                .answers(&[answer(200, "tokens", "The tokens.", "/v1/tokens")]),
            may(
                Admin,
                "POST",
                "Makes a token, and returns its secret, which nothing shows again.",
            )
            .bodies(&[body("new-token")])
            .answers(&[
                answer(201, "token", "The token.", "/v1/tokens").to(r#"{"name":"build","role":"operate","kinds":["build/*"],"labels":{"team":"a"},"expires_in":"90d"}"#),
            ]),
        ],
    },
    Request {
        path: "/v1/tokens/{name}",
        route: || delete(tokens::revoke),
        methods: &[may(Admin, "DELETE", "Revokes a token.")
            .answers(&[answer(204, "", "The token is revoked.", "/v1/tokens/ci").empty()])],
    },
    Request {
        path: "/v1/tokens/{name}/rotate",
        route: || post(tokens::rotate),
        methods: &[may(Admin, "POST", "Gives a token another secret.")
            .parameters(&[param("overlap", ParamType::Length, "How long the one before stays valid.").or("0s")])
            .answers(&[answer(200, "token", "The token.", "/v1/tokens/ci/rotate?overlap=1d")])],
    },
];
