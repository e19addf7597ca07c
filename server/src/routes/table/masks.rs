//! The requests about masks.

use axum::routing::{delete, get};

use super::{Request, answer, body, may};
use crate::{auth::Role::Admin, routes::masks};

pub(super) const REQUESTS: &[Request] = &[
    Request {
        path: "/v1/masks",
        route: || get(masks::list).post(masks::set),
        methods: &[
            may(Admin, "GET", "Lists the masks.").answers(&[answer(
                200,
                "masks",
                "The masks.",
                "/v1/masks",
            )]),
            may(
                Admin,
                "POST",
                "Sets the mask of a kind, in place of the one before.",
            )
            .bodies(&[body("new-mask")])
            .answers(&[answer(204, "", "The mask is set.", "/v1/masks")
                .empty()
                .to(r#"{"kind":"exec","pointers":["/props/env/*","/props/args"],"errors":true}"#)]),
        ],
    },
    Request {
        path: "/v1/masks/{kind}",
        route: || delete(masks::remove),
        methods: &[
            may(Admin, "DELETE", "Removes the mask of a kind.").answers(&[answer(
                204,
                "",
                "The mask is removed.",
                "/v1/masks/exec",
            )
            .empty()]),
        ],
    },
];
