//! Schedules.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass::{store::Store, testing::ManualClock};
use windlass_server::{Role, Server};

use crate::kit::{Kit, request};

const NIGHTLY: &str = r#"{"id":"nightly","spec":{"run":{"kind":"mail","props":{"n":12345678901234567890.10}},"cron":["30 2 * * *"],
    "zone":"Europe/Berlin","description":"mails"}}"#;

/// A namespace at noon of the first day of 2030.
async fn at_noon() -> Kit {
    let clock = ManualClock::new("2030-01-01T12:00:00Z".parse().unwrap());
    let store = Store::open_with_clock("memory:", Arc::new(clock)).await;
    Kit::with(store.unwrap()).await
}

async fn with_nightly() -> Kit {
    let kit = at_noon().await;
    let created = kit.call("POST /v1/schedules", NIGHTLY).await;
    assert_eq!(created.status, 201, "{}", created.text);
    kit
}

fn nominals(times: &Value) -> Vec<String> {
    let times = times.as_array().unwrap().iter();
    times
        .map(|time| time["nominal"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_schedule_is_created_read_and_listed() {
    let kit = with_nightly().await;
    let read = kit.get("/v1/schedules/nightly").await.json();
    assert_eq!(
        nominals(&read["upcoming"])[..2],
        ["2030-01-02T01:30:00Z", "2030-01-03T01:30:00Z"]
    );
    assert_eq!(
        (&read["state"], &read["spec"]["description"]),
        (&json!("sleeping"), &json!("mails"))
    );
    assert!(
        read["waits"]
            .as_str()
            .unwrap()
            .contains("no live node runs schedules"),
        "{read}"
    );
    let history = kit.client.history("nightly", 1).await.unwrap();
    assert_eq!(history[0].by.as_ref().unwrap().as_str(), "token admin");
    let paused = NIGHTLY
        .replace("\"nightly\"", "\"other\"")
        .replace("},\"cron\"", "},\"count\":3,\"cron\"");
    let paused = paused.replacen('{', r#"{"paused":true,"#, 1);
    let created = kit.call("POST /v1/schedules", paused).await.json();
    assert_eq!(
        (&created["state"], &created["next"]),
        (&json!("paused"), &Value::Null)
    );
    let page = kit.get("/v1/schedules?limit=1").await.json();
    assert_eq!(page["schedules"][0]["id"], "nightly");
    let next = page["next"].as_str().unwrap();
    let page = kit
        .get(&format!("/v1/schedules?cursor={next}"))
        .await
        .json();
    assert_eq!(
        (&page["schedules"][0]["id"], &page["next"]),
        (&json!("other"), &Value::Null)
    );
    let again = kit.call("POST /v1/schedules", NIGHTLY).await;
    assert_eq!(again.problem(409), "exists");
    assert!(
        again.text.contains("PATCH /v1/schedules/ID"),
        "{}",
        again.text
    );
    kit.submit("task", "k").await;
    assert_eq!(
        kit.get("/v1/schedules/task").await.problem(409),
        "not_a_schedule"
    );
    assert_eq!(
        kit.get("/v1/schedules/none").await.problem(404),
        "not_found"
    );
}

#[tokio::test]
async fn wrong_schedules_are_refused_with_the_field() {
    let kit = with_nightly().await;
    for (line, body, field) in [
        ("POST /v1/schedules", "{}", "body"),
        ("POST /v1/schedules", r#"{"id":"a","spec":{}}"#, "spec"),
        (
            "POST /v1/schedules",
            r#"{"id":"a","spec":{"run":{"kind":"k"},"cron":["x"]}}"#,
            "spec.cron",
        ),
        (
            "POST /v1/schedules",
            r#"{"id":"a","spec":{"run":{"kind":"k","id":"b"},"cron":["@daily"]}}"#,
            "spec.id",
        ),
        ("PATCH /v1/schedules/nightly", "{}", "body"),
        ("PATCH /v1/schedules/nightly", r#"{"crn":[]}"#, "spec"),
        (
            "POST /v1/schedules/nightly/skip",
            r#"{"time":"2030-01-02T00:00:00Z"}"#,
            "time",
        ),
        ("POST /v1/schedules/nightly/backfill", "", "body"),
        (
            "POST /v1/schedules/nightly/backfill",
            r#"{"from":"soon"}"#,
            "from",
        ),
        (
            "POST /v1/schedules/nightly/pause",
            r#"{"notes":"x"}"#,
            "body",
        ),
        (
            "POST /v1/schedule-times",
            r#"{"spec":{"cron":["@daily"]},"limit":0}"#,
            "limit",
        ),
        ("GET /v1/schedules/nightly/times?limit=10001", "", "limit"),
    ] {
        let refused = kit.call(line, body).await;
        assert_eq!(refused.field(), field, "{line} {body}: {}", refused.text);
    }
    let mut keyed = request(&kit.admin, "POST /v1/schedules/nightly/trigger", "");
    keyed
        .headers_mut()
        .insert("idempotency-key", "k".parse().unwrap());
    assert_eq!(kit.send(keyed).await.field(), "Idempotency-Key");
    let unchanged = kit.get("/v1/schedules/nightly").await.json();
    assert_eq!(unchanged["spec"]["cron"], json!(["30 2 * * *"]));
}

#[tokio::test]
async fn an_update_changes_the_fields_that_it_has_and_no_digit_of_the_others() {
    let kit = with_nightly().await;
    let changed = r#"{"cron":["0 4 * * *"],"description":null}"#;
    let updated = kit.call("PATCH /v1/schedules/nightly", changed).await;
    assert_eq!(updated.status, 200, "{}", updated.text);
    let spec = &updated.json()["spec"];
    assert_eq!(
        (&spec["cron"], &spec["description"]),
        (&json!(["0 4 * * *"]), &Value::Null)
    );
    assert_eq!(spec["zone"], "Europe/Berlin");
    assert!(
        updated.text.contains("12345678901234567890.10"),
        "{}",
        updated.text
    );
    let times = kit.get("/v1/schedules/nightly/times?limit=1").await.json();
    assert_eq!(nominals(&times["times"]), ["2030-01-02T03:00:00Z"]);
    let body = r#"{"id":"nightly","spec":{"zone":null},"limit":1}"#;
    let as_utc = kit.call("POST /v1/schedule-times", body).await.json();
    assert_eq!(nominals(&as_utc["times"]), ["2030-01-02T04:00:00Z"]);
    let own = r#"{"spec":{"every":[{"interval":"6h"}]},"limit":2}"#;
    let own = kit.call("POST /v1/schedule-times", own).await.json();
    assert_eq!(
        nominals(&own["times"]),
        ["2030-01-01T18:00:00Z", "2030-01-02T00:00:00Z"]
    );
}

#[tokio::test]
async fn a_schedule_is_steered() {
    let kit = with_nightly().await;
    let act = async |what: &str, body: &str| {
        let line = format!("POST /v1/schedules/nightly/{what}");
        let done = kit.call(&line, body.to_owned()).await;
        assert_eq!(done.status, 200, "{line}: {}", done.text);
        done.json()
    };
    assert_eq!(
        act("skip", "").await["action"],
        "skips 2030-01-02T01:30:00Z"
    );
    let run = act("trigger", r#"{"for":"2029-12-31T01:30:00Z","priority":7}"#).await;
    assert_eq!(run["runs"], json!(["nightly@2029-12-31T01:30:00Z"]));
    let priority = kit
        .client
        .get("nightly@2029-12-31T01:30:00Z")
        .await
        .unwrap()
        .task
        .priority;
    assert_eq!(priority, 7);
    let again = r#"{"for":"2029-12-31T01:30:00Z"}"#;
    let again = kit.call("POST /v1/schedules/nightly/trigger", again).await;
    assert_eq!(again.problem(409), "exists");
    assert!(
        again.text.contains("/retry runs it again"),
        "{}",
        again.text
    );
    let dry = act("backfill", r#"{"from":"3d ago","dry_run":true}"#).await;
    assert_eq!(
        dry["runs"],
        json!([
            "nightly@2029-12-30T01:30:00Z",
            "nightly@2030-01-01T01:30:00Z"
        ])
    );
    let done = act(
        "backfill",
        r#"{"from":"2029-12-30T00:00:00Z","to":"2029-12-30T12:00:00Z"}"#,
    )
    .await;
    assert_eq!(done["runs"], json!(["nightly@2029-12-30T01:30:00Z"]));
    act("pause", r#"{"note":"the disk"}"#).await;
    act("resume", "").await;
    let read = kit.get("/v1/schedules/nightly").await.json();
    assert!(
        read["waits"]
            .as_str()
            .unwrap()
            .contains("2 commands wait for a node"),
        "{read}"
    );
    assert_eq!(read["last_run"]["id"], "nightly@2029-12-31T01:30:00Z");
    let deleted = kit
        .call("DELETE /v1/schedules/nightly?kill_runs=true", "")
        .await
        .json();
    assert_eq!(deleted["runs"].as_array().unwrap().len(), 2);
    assert_eq!(
        kit.get("/v1/schedules/nightly").await.problem(404),
        "not_found"
    );
}

/// A schedule starts tasks of any kind, and so no token with a scope changes one. It sees those of its kind.
#[tokio::test]
async fn a_scope_reads_schedules_and_changes_none() {
    let kit = with_nightly().await;
    kit.client.schedules().trigger("nightly").await.unwrap();
    let mail = kit.token("mail", Role::Operate, &["mail"]).await;
    let schedules = kit.token("schedules", Role::Operate, &["schedule"]).await;
    for (line, body) in [
        ("POST /v1/schedules", NIGHTLY),
        ("PATCH /v1/schedules/nightly", r#"{"zone":null}"#),
        ("DELETE /v1/schedules/nightly", ""),
        ("POST /v1/schedules/nightly/trigger", ""),
        ("POST /v1/schedules/none/pause", ""),
    ] {
        for token in [&mail, &schedules] {
            let refused = kit.call_as(token, line, body).await;
            assert_eq!(refused.problem(403), "forbidden", "{line}");
        }
    }
    for path in ["", "/times"] {
        let line = format!("GET /v1/schedules/nightly{path}");
        assert_eq!(
            kit.call_as(&mail, &line, "").await.problem(404),
            "not_found"
        );
        assert_eq!(kit.call_as(&schedules, &line, "").await.status, 200);
    }
    let body = r#"{"id":"nightly","spec":{"zone":null}}"#;
    let preview = kit.call_as(&mail, "POST /v1/schedule-times", body).await;
    assert_eq!(preview.problem(404), "not_found");
    let none = kit.call_as(&mail, "GET /v1/schedules", "").await.json();
    assert_eq!(none["schedules"], json!([]));
    let own = kit
        .call_as(&schedules, "GET /v1/schedules", "")
        .await
        .json();
    assert_eq!(own["schedules"][0]["id"], "nightly");
    assert_eq!(
        own["schedules"][0]["last_run"],
        Value::Null,
        "the run is of another kind"
    );
    let all = kit.get("/v1/schedules").await.json();
    assert!(all["schedules"][0]["last_run"]["id"].is_string());
}

#[tokio::test]
async fn the_props_of_runs_are_checked_like_those_of_tasks() {
    let store = Store::open("memory:").await.unwrap();
    let check = |kind: &windlass::Kind, props: &windlass::Json| match kind.as_str() == "mail"
        && props.at("/to").is_none()
    {
        true => Err(windlass::Invalid::new("props", "to is missing")),
        false => Ok(()),
    };
    let server = Server::builder(&store).check(check).build();
    let kit = Kit::of(store, server).await;
    let spec = r#"{"run":{"kind":"mail"},"cron":["@daily"]}"#;
    let refused = kit
        .call(
            "POST /v1/schedules",
            format!(r#"{{"id":"a","spec":{spec}}}"#),
        )
        .await;
    assert!(refused.text.contains("to is missing"), "{}", refused.text);
    assert_eq!(refused.status, 400);
    let task = format!(r#"{{"id":"a","kind":"schedule","props":{spec}}}"#);
    let refused = kit.call("POST /v1/tasks", task).await;
    assert_eq!(refused.field(), "props");
    let good =
        r#"{"id":"a","spec":{"run":{"kind":"mail","props":{"to":"ann"}},"cron":["@daily"]}}"#;
    assert_eq!(kit.call("POST /v1/schedules", good).await.status, 201);
    let worse = r#"{"run":{"kind":"mail"}}"#;
    let refused = kit.call("PATCH /v1/schedules/a", worse).await;
    assert!(refused.text.contains("to is missing"), "{}", refused.text);
}
