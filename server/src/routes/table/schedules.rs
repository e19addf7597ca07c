//! The requests about schedules.

use axum::routing::{get, post};

use super::{ParamType, Request, answer, body, limit, may, param, read};
use crate::{
    auth::Role::{Operate, Read},
    routes::schedules,
};

pub(super) const REQUESTS: &[Request] = &[
    Request {
        path: "/v1/schedules",
        route: || get(schedules::list).post(schedules::create),
        methods: &[
            read("Lists schedules in the order of their creation, page by page.")
                .parameters(&[limit(10_000, "100"), param("cursor", ParamType::Text, "The next of the page before.")])
                .answers(&[answer(200, "schedules", "A page.", "/v1/schedules")]),
            may(Operate, "POST", "Creates a schedule.")
                .bodies(&[body("new-schedule")])
                .answers(&[answer(201, "schedule-record", "The schedule is created.", "/v1/schedules").to(
                    r#"{"id":"weekly","spec":{"run":{"kind":"report"},"cron":["0 6 * * MON"],"zone":"Europe/Berlin"}}"#,
                )]),
        ],
    },
    Request {
        path: "/v1/schedules/{id}",
        route: || get(schedules::get).patch(schedules::update).delete(schedules::delete),
        methods: &[
            read("Returns a schedule with its next times, its last run, and why it submits no run.")
                .answers(&[answer(200, "schedule-record", "The schedule.", "/v1/schedules/nightly")]),
            may(
                Operate,
                "PATCH",
                "Changes the given fields of the spec of a schedule; null removes one. Starts an ended schedule again.",
            )
            .bodies(&[body("schedule-fields")])
            .answers(&[answer(200, "schedule-record", "The schedule was changed.", "/v1/schedules/nightly")
                .to(r#"{"cron":["0 4 * * *"],"zone":null}"#)]),
            may(Operate, "DELETE", "Deletes a schedule. Its runs continue.")
                .parameters(&[param("kill_runs", ParamType::Flag, "Kills the live runs, too.").or("false")])
                .answers(&[answer(200, "schedule-action", "The schedule is deleted.", "/v1/schedules/nightly")]),
        ],
    },
    Request {
        path: "/v1/schedules/{id}/times",
        route: || get(schedules::times),
        methods: &[read("Returns the next times of a schedule.")
            .parameters(&[limit(10_000, "10")])
            .answers(&[answer(200, "schedule-times", "The times.", "/v1/schedules/nightly/times?limit=2")])],
    },
    Request {
        path: "/v1/schedules/{id}/pause",
        route: || post(schedules::pause),
        methods: &[may(Operate, "POST", "Pauses a schedule.")
            .bodies(&[body("schedule-pause").or_none()])
            .answers(&[answer(200, "schedule-action", "The pause was sent.", "/v1/schedules/nightly/pause")
                .to(r#"{"note":"the disk is replaced"}"#)])],
    },
    Request {
        path: "/v1/schedules/{id}/resume",
        route: || post(schedules::resume),
        methods: &[may(
            Operate,
            "POST",
            "Resumes a schedule. The times that have passed are skipped, or with catch_up may run.",
        )
        .bodies(&[body("schedule-resume").or_none()])
        .answers(&[answer(200, "schedule-action", "The resume was sent.", "/v1/schedules/hourly/resume")
            .to(r#"{"catch_up":true}"#)])],
    },
    Request {
        path: "/v1/schedules/{id}/trigger",
        route: || post(schedules::trigger),
        methods: &[may(Operate, "POST", "Submits a run now, for the present or for any other time.")
            .bodies(&[body("schedule-trigger").or_none()])
            .answers(&[answer(200, "schedule-action", "The run was submitted.", "/v1/schedules/nightly/trigger")
                .to(r#"{"for":"2030-03-01T01:30:00Z","priority":100}"#)])],
    },
    Request {
        path: "/v1/schedules/{id}/backfill",
        route: || post(schedules::backfill),
        methods: &[may(Operate, "POST", "Submits runs for times that have passed.")
            .bodies(&[body("schedule-backfill")])
            .answers(&[answer(200, "schedule-action", "The runs were submitted.", "/v1/schedules/nightly/backfill")
                .to(r#"{"from":"3d ago","dry_run":true}"#)])],
    },
    Request {
        path: "/v1/schedules/{id}/skip",
        route: || post(schedules::skip),
        methods: &[may(Operate, "POST", "Skips one time to come; the next one by default.")
            .bodies(&[body("schedule-skip").or_none()])
            .answers(&[answer(200, "schedule-action", "The time is skipped.", "/v1/schedules/nightly/skip")
                .to(r#"{"time":"2030-01-03T01:30:00Z"}"#)])],
    },
    Request {
        path: "/v1/schedule-times",
        route: || post(schedules::preview),
        methods: &[may(
            Read,
            "POST",
            "Returns the times that a new or changed schedule would have, and changes nothing.",
        )
        .bodies(&[body("schedule-preview")])
        .answers(&[answer(200, "schedule-times", "The times.", "/v1/schedule-times")
            .to(r#"{"spec":{"cron":["0 9 * * MON-FRI"],"zone":"Europe/Berlin"},"limit":2}"#)])],
    },
];
