//! Masked values: in no answer of any request, and in no way to guess them.

mod limits;
mod rules;

use futures::StreamExt;
use serde_json::{Value, json};
use windlass::{Command, Json, Limit, Message, NewTask, Runner, TaskContext};
use windlass_server::{Mask, Masks};

use crate::kit::{BOUND, Kit, request};

/// Is in every value of the fixture that is masked.
const SECRET: &str = "S3CRET";
const PLACEHOLDER: &str = r#"{"$windlass":"masked"}"#;

/// The tasks of the fixture, by id.
const TASKS: [&str; 6] = ["done", "failed", "live", "limited", "every-day", "waiter"];
/// The commands of the fixture.
const COMMANDS: [&str; 2] = ["ask", "wish"];

fn secret() -> Value {
    json!({"key": SECRET, "ok": 1})
}

/// Completes, fails, or replies to signals: with secrets.
async fn safe(task: TaskContext) -> Message {
    match task.id().as_str() {
        "failed" => Message::fail(format!("cannot log in with {SECRET}")),
        "live" => {
            let commands = task.commands();
            loop {
                tokio::select! {
                    biased;
                    Some(command) = commands.next() => {
                        if let Command::Signal(signal) = command {
                            return Message::pause().answer(&signal, &secret()).with_data(&secret());
                        }
                    }
                    stop = task.stop_requested() => return stop.message(),
                    () = std::future::ready(()) => return Message::pause(),
                }
            }
        }
        _ => {
            task.log(format!("password is {SECRET}"));
            task.checkpoint(&SECRET).await.unwrap();
            task.checkpoint(&secret()).await.unwrap();
            Message::complete_with(secret())
        }
    }
}

fn new(id: &str) -> NewTask {
    let props = json!({"password": SECRET, "list": [SECRET, 2], "user": "ann", "n": 1.50});
    NewTask::new("safe").id(id).props(&props)
}

/// Makes tasks that have secrets wherever a task can have a value.
async fn fixture() -> (Kit, Runner) {
    let kit = Kit::new().await;
    let client = &kit.client;
    let logins = Limit::starts("login={prop:password}", 9, BOUND).unwrap();
    client.submit(new("done").limit(logins)).await.unwrap();
    for id in ["failed", "live"] {
        client.submit(new(id)).await.unwrap();
    }
    let limited = Limit::at_once("user={prop:password}", 1).unwrap();
    client
        .submit(new("limited").limit(limited).paused())
        .await
        .unwrap();
    let run = json!({"kind": "safe", "props": {"password": SECRET, "user": "ann"}});
    let spec = json!({"run": run, "cron": ["0 0 1 1 *"]});
    let every = NewTask::new("schedule").id("every-day").props(&spec);
    client.submit(every.paused()).await.unwrap();
    let runner = Runner::builder(&kit.store)
        .handler("safe", safe)
        .node("n1")
        .start()
        .await
        .unwrap();
    for id in ["done", "failed"] {
        client.wait(id).await.unwrap();
    }
    client
        .submit(NewTask::new("safe").id("waiter").after(["done"]))
        .await
        .unwrap();
    let ask = Command::signal("say", &secret()).unwrap();
    client.command_with_id("live", "ask", ask).await.unwrap();
    client.wait_outcome("ask").await.unwrap();
    let wish = Command::Complete {
        result: Some(Json::from(secret())),
    };
    client
        .command_with_id("limited", "wish", wish)
        .await
        .unwrap();
    client.wait_outcome("wish").await.unwrap();
    (kit, runner)
}

fn mask() -> Mask {
    let pointers = [
        "/props/password",
        "/props/list/*",
        "/data",
        "/result/key",
        "/payload",
        "/reply/key",
    ];
    Mask::new("safe", pointers).unwrap().errors(true).log(true)
}

async fn set(kit: &Kit, mask: &Mask) {
    Masks::new(&kit.store).set(mask, None).await.unwrap();
    until_known(kit, |masks| {
        masks
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["kind"] == mask.kind)
    })
    .await;
}

/// Waits until the server applies the masks: it reads them again before it lists them to nobody else.
async fn until_known(kit: &Kit, is: impl Fn(&Value) -> bool) {
    // A change by a request waits until the server itself applies every mask.
    let body = r#"{"kind":"zzz","pointers":["/props"]}"#;
    assert_eq!(kit.call("POST /v1/masks", body).await.status, 204);
    assert_eq!(kit.call("DELETE /v1/masks/zzz", "").await.status, 204);
    let masks = kit.get("/v1/masks").await.json();
    assert!(is(&masks["masks"]), "{masks}");
}

/// Returns the requests with these methods, as lines with each parameter of their paths filled in, and their bodies.
async fn requests(kit: &Kit, is_read: bool) -> Vec<(String, String)> {
    let index = kit.get("/v1").await.json();
    let mut lines = Vec::new();
    for one in index["requests"].as_array().unwrap() {
        let (method, path) = (
            one["method"].as_str().unwrap(),
            one["path"].as_str().unwrap(),
        );
        if (method == "GET") != is_read {
            continue;
        }
        let paths: Vec<String> = match () {
            () if path.contains("/commands/{id}") => {
                COMMANDS.iter().map(|id| path.replace("{id}", id)).collect()
            }
            () if path.contains("{id}") => {
                TASKS.iter().map(|id| path.replace("{id}", id)).collect()
            }
            () => vec![path.to_owned()],
        };
        for filled in paths {
            let filled = filled.replace("{name}", "say").replace("{kind}", "none");
            let filled = filled.replace("{node}", "n1").replace("{order}", "1");
            assert!(
                !filled.contains('{'),
                "{path}: give its parameter a value here"
            );
            lines.extend(
                bodies(path)
                    .iter()
                    .map(|(query, body)| (format!("{method} {filled}{query}"), (*body).to_owned())),
            );
        }
    }
    lines
}

/// Returns the queries and bodies with which a request is tried.
fn bodies(path: &str) -> &'static [(&'static str, &'static str)] {
    match path {
        "/v1/tasks" => &[
            ("", r#"{"id":"done","kind":"safe"}"#),
            (
                "?limit=1000",
                r#"[{"id":"live","kind":"safe","if_exists":"same"},{"id":"failed","kind":"safe"}]"#,
            ),
            (
                "?order=id&reversed=true",
                r#"{"id":"limited","kind":"safe","if_exists":"replace-waiting"}"#,
            ),
            ("?state=failed", "[]"),
        ],
        "/v1/tasks/{id}" => &[
            ("?wait=1ms", ""),
            (
                "",
                r#"[{"op":"copy","from":"/props/password","path":"/props/user"}]"#,
            ),
        ],
        "/v1/schedules" => &[(
            "",
            r#"{"id":"new","spec":{"run":{"kind":"safe"},"cron":["0 0 1 1 *"]}}"#,
        )],
        "/v1/schedules/{id}" => &[("", r#"{"description":"x"}"#)],
        "/v1/schedules/{id}/backfill" => &[("", r#"{"from":"1d","dry_run":true}"#)],
        "/v1/tasks/{id}/commands" => &[("", r#"{"command":"pause"}"#)],
        "/v1/tasks/{id}/signals/{name}" => &[("?wait=2s", "1")],
        "/v1/tasks/{id}/reschedule" => &[("", r#"{"kind":"open"}"#), ("", r#"{"priority":1}"#)],
        "/v1/commands/{id}" => &[("?wait=1ms", "")],
        "/v1/transactions" => &[
            ("", r#"{"lines":[{"op":"require","task":"live","data":1}]}"#),
            (
                "",
                r#"{"lines":[{"op":"submit","id":"done","kind":"safe"},{"op":"retry","task":"live"}]}"#,
            ),
            (
                "",
                r#"{"dry_run":true,"lines":[{"op":"reschedule","task":"limited","kind":"open"}]}"#,
            ),
        ],
        "/v1/changes" => &[("?after=0", "")],
        "/v1/purge" => &[("", r#"{"states":["completed"],"older_than":"1000d"}"#)],
        "/v1/nodes/{node}/commands" => &[("", r#"{"command":"balance"}"#)],
        "/v1/tokens" => &[("", r#"{"name":"other","role":"read"}"#)],
        "/v1/masks" => &[("", r#"{"kind":"other","pointers":["/props"]}"#)],
        _ => &[("", "")],
    }
}

/// Sends each request, and returns the lines of those whose answers have the secret.
async fn tell(kit: &Kit, requests: &[(String, String)]) -> Vec<String> {
    let mut read = Vec::new();
    let variants = requests.iter().flat_map(|(line, body)| {
        let lines = line
            .starts_with("GET /v1/tasks?")
            .then(|| format!("{line} as lines"));
        [Some(line.clone()), lines]
            .into_iter()
            .flatten()
            .map(move |line| (line, body))
    });
    for (line, body) in variants {
        let path = line.trim_end_matches(" as lines");
        let mut request = request(&kit.admin, path, body.clone());
        if path != line {
            let lines = "application/x-ndjson".parse().unwrap();
            request.headers_mut().insert("accept", lines);
        }
        if line.starts_with("PATCH /v1/tasks") {
            let patch = "application/json-patch+json".parse().unwrap();
            request.headers_mut().insert("content-type", patch);
        }
        let response = kit.open(request).await;
        let head = format!("{:?}", response.headers());
        let is_stream = head.contains("text/event-stream");
        let mut frames = response.into_body().into_data_stream();
        let mut text = head;
        // A stream has no end: what it has at once is enough, and more than nothing.
        let mut patience = BOUND;
        while let Ok(Some(frame)) = tokio::time::timeout(patience, frames.next()).await {
            text.push_str(std::str::from_utf8(&frame.unwrap()).unwrap());
            if is_stream {
                patience = std::time::Duration::from_millis(300);
            }
        }
        if text.contains(SECRET) {
            read.push(line);
        }
    }
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_of_any_request_has_a_masked_value() {
    let (kit, runner) = fixture().await;
    let reads = requests(&kit, true).await;
    let open = tell(&kit, &reads).await;
    for line in [
        "GET /v1/tasks?limit=1000",
        "GET /v1/tasks/done?wait=1ms",
        "GET /v1/tasks/failed?wait=1ms",
        "GET /v1/tasks/limited?wait=1ms",
        "GET /v1/tasks/every-day?wait=1ms",
        "GET /v1/tasks/done/log",
        "GET /v1/tasks/live/commands",
        "GET /v1/commands/ask?wait=1ms",
        "GET /v1/commands/wish?wait=1ms",
        "GET /v1/limits",
        "GET /v1/schedules",
        "GET /v1/schedules/every-day",
        "GET /v1/tasks?limit=1000 as lines",
        "GET /v1/stats",
    ] {
        assert!(
            open.iter().any(|read| read == line),
            "{line} has a secret without a mask: {open:?}"
        );
    }
    set(&kit, &mask()).await;
    assert_eq!(tell(&kit, &reads).await, [""; 0]);
    let writes = requests(&kit, false).await;
    assert!(writes.len() > 30, "{writes:?}");
    assert_eq!(tell(&kit, &writes).await, [""; 0]);
    let reads = requests(&kit, true).await;
    assert_eq!(tell(&kit, &reads).await, [""; 0], "after the changes");
    runner.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_masked_is_shown_as_it_is() {
    let (kit, runner) = fixture().await;
    set(&kit, &mask()).await;
    let done = kit.get("/v1/tasks/done").await;
    assert!(done.text.contains("1.5"), "{}", done.text);
    let done = done.json();
    let hidden: Value = serde_json::from_str(PLACEHOLDER).unwrap();
    assert_eq!(
        done["props"],
        json!({"password": hidden, "list": [hidden, hidden], "user": "ann", "n": 1.50})
    );
    assert_eq!(done["data"], hidden);
    let earlier = &done["earlier_data"][1];
    assert_eq!(
        (&earlier["data"], &earlier["bytes"]),
        (&hidden, &Value::Null)
    );
    assert_eq!(done["result"], json!({"key": hidden, "ok": 1}));
    let failed = kit.get("/v1/tasks/failed").await.json();
    assert_eq!(
        (&failed["errors"][0]["error"], &failed["fingerprint"]),
        (&json!("[masked]"), &json!(null))
    );
    assert_eq!(failed["errors_total"], 1);
    let limited = kit.get("/v1/tasks/limited").await.json();
    assert_eq!(limited["limits"][0]["key"], "user={prop:password}");
    let schedule = kit.get("/v1/tasks/every-day").await.json();
    assert_eq!(
        schedule["props"]["run"]["props"],
        json!({"password": hidden, "user": "ann"})
    );
    // Regression: an absent text was the placeholder of a value, and the pages of schedules could not be shown.
    let schedule = kit.get("/v1/schedules/every-day").await.json();
    assert_eq!(
        (&schedule["wrong"], &schedule["last_run"]),
        (&Value::Null, &Value::Null)
    );
    for page in [
        "/",
        "/tasks",
        "/tasks/done",
        "/tasks/failed",
        "/tasks/every-day",
        "/schedules",
        "/schedules/every-day",
        "/nodes",
        "/failures",
        "/people",
        "/limits",
        "/bulk",
        "/bulk?action=pause&kind=safe",
        "/search?q=safe",
    ] {
        kit.page(page).await;
    }
    let log = kit.get("/v1/tasks/done/log").await.json();
    assert_eq!(log["lines"][0]["text"], "[masked]");
    let ask = kit.get("/v1/commands/ask").await.json();
    assert_eq!(ask["command"]["payload"], hidden, "{ask}");
    assert_eq!(
        ask["outcome"]["reply"],
        json!({"key": hidden, "ok": 1}),
        "{ask}"
    );
    let other = kit
        .call(
            "POST /v1/tasks",
            r#"{"id":"o","kind":"open","props":{"password":1}}"#,
        )
        .await;
    assert_eq!(other.status, 201);
    assert_eq!(
        kit.get("/v1/tasks/o").await.json()["props"],
        json!({"password": 1})
    );
    let removed = kit.call("DELETE /v1/masks/safe", "").await;
    assert_eq!(removed.status, 204);
    assert!(
        kit.get("/v1/tasks/done").await.text.contains(SECRET),
        "without the mask it is shown"
    );
    assert_eq!(
        kit.call("DELETE /v1/masks/safe", "").await.problem(404),
        "not_found"
    );
    runner.shutdown().await;
}
