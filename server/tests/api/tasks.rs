//! Tasks: submitted, read, listed, changed and deleted.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::{Client, Message, NewTask, Runner, TaskContext};
use windlass_server::{Role, axum::http::header};

use crate::kit::{Kit, request};

#[tokio::test]
async fn a_task_is_submitted_and_read_as_the_command_line_shows_it() {
    let kit = Kit::new().await;
    let body =
        r#"{"id":"a","kind":"mail","props":{"n":12345678901234567890.10},"labels":{"team":"x"}}"#;
    let made = kit.call("POST /v1/tasks", body).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.json(), json!({"id":"a","submitted":"new"}));
    let read = kit.get("/v1/tasks/a").await;
    assert_eq!(read.status, 200);
    assert!(
        read.text.contains("12345678901234567890.10"),
        "digit by digit: {}",
        read.text
    );
    let record = kit.client.get("a").await.unwrap();
    let form =
        serde_json::to_string(&windlass::wire::RecordForm::at(&record, kit.client.now())).unwrap();
    assert_eq!(read.text, form);
    assert_eq!(record.task.labels["team"], "x");
    let history = kit.client.history("a", 10).await.unwrap();
    assert_eq!(history[0].by.as_ref().unwrap().as_str(), "token admin");
}

#[tokio::test]
async fn bad_tasks_are_refused_with_the_field() {
    let kit = Kit::new().await;
    for (body, field) in [
        ("", "kind"),
        (r#"{"kind":""}"#, "kind"),
        (r#"{"kind":"k","priorty":1}"#, "priorty"),
        (r#"{"kind":"k","priority":"high"}"#, "priority"),
        (r#"{"kind":"k","start_at":"in a while"}"#, "start_at"),
        (r#"{"kind":"k","op":"delete"}"#, "op"),
        (r#"{"kind":"k","kind":"l"}"#, "body"),
        ("[", "body"),
        ("7", "body"),
    ] {
        let refused = kit.call("POST /v1/tasks", body).await;
        assert_eq!(refused.field(), field, "{body}: {}", refused.text);
    }
    let empty = kit.get("/v1/tasks").await.json();
    assert_eq!(empty["tasks"], json!([]));
    let refused = kit.get("/v1/tasks?stat=paused").await;
    assert_eq!(refused.field(), "stat");
    let known = "is not a parameter of this request; it has state, kind, label, ";
    assert!(refused.text.contains(known), "{}", refused.text);
    let none = kit.get("/v1/time?zone=UTC").await;
    assert!(none.text.contains("request; it has none"), "{}", none.text);
    let twice = kit.get("/v1/tasks?limit=1&limit=2").await;
    assert_eq!(twice.field(), "limit");
    let zero = kit.get("/v1/tasks?limit=0").await;
    assert_eq!(zero.field(), "limit");
    let wait = kit.get("/v1/tasks/a?wait=soon").await;
    assert_eq!(wait.field(), "wait");
    let long = kit.get("/v1/tasks/a?wait=10m").await;
    assert_eq!(long.field(), "wait");
    assert!(
        long.text.contains("longer than 5m, the most"),
        "{}",
        long.text
    );
    assert_eq!(kit.get("/v1/tasks/a").await.problem(404), "not_found");
    assert_eq!(kit.get("/v1/nothing").await.problem(404), "no_route");
    assert_eq!(
        kit.call("PUT /v1/tasks", "").await.problem(405),
        "no_method"
    );
}

#[tokio::test]
async fn of_an_array_each_task_succeeds_or_fails_on_its_own() {
    let kit = Kit::new().await;
    kit.submit("taken", "k").await;
    let body = r#"[{"id":"a","kind":"k"},{"id":"b"},{"id":"taken","kind":"k"},
        {"id":"taken","kind":"k","if_exists":"same"},{"id":"c","kind":"k"}]"#;
    let answer = kit.call("POST /v1/tasks", body).await;
    assert_eq!(answer.status, 200);
    let results = answer.json();
    let codes = results.as_array().unwrap().iter().map(|one| {
        let word = one["submitted"].as_str().or(one["code"].as_str());
        word.unwrap().to_owned()
    });
    let codes: Vec<_> = codes.collect();
    assert_eq!(codes, ["new", "invalid", "exists", "existing", "new"]);
    assert_eq!(results[1]["field"], "kind");
}

#[tokio::test]
async fn lines_are_submitted_in_turns_and_each_has_an_answer() {
    let kit = Kit::new().await;
    let mut lines = String::new();
    for n in 0..2000 {
        lines.push_str(&format!("{{\"id\":\"t{n:04}\",\"kind\":\"k\"}}\n"));
        if n == 700 {
            lines.push_str("\n{\"kind\":7}\n");
        }
    }
    // Without a line break at the end, and in pieces that end anywhere.
    let lines = lines.trim_end().as_bytes().to_vec();
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
        lines.chunks(1009).map(|piece| Ok(piece.to_vec())).collect();
    let body = windlass_server::axum::body::Body::from_stream(futures::stream::iter(pieces));
    let mut request = request(&kit.admin, "POST /v1/tasks", body);
    let kind = "application/x-ndjson".parse().unwrap();
    request.headers_mut().insert(header::CONTENT_TYPE, kind);
    let answer = kit.send(request).await;
    assert_eq!(answer.status, 200);
    let answers: Vec<Value> = answer
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 2001);
    let numbers: Vec<u64> = answers
        .iter()
        .map(|one| one["line"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> = (1..=2002).filter(|line| *line != 702).collect();
    assert_eq!(numbers, expected);
    let wrong: Vec<_> = answers
        .iter()
        .filter(|one| one["code"] == "invalid")
        .collect();
    assert_eq!(wrong.len(), 1);
    assert_eq!(
        (&wrong[0]["line"], &wrong[0]["field"]),
        (&json!(703), &json!("kind"))
    );
    let counts = kit.get("/v1/counts").await.json();
    assert_eq!(
        counts,
        json!({"counts":[{"kind":"k","state":"runnable","tasks":2000,"claimed":0}]})
    );
}

#[tokio::test]
async fn pages_follow_each_other_by_cursor() {
    let kit = Kit::new().await;
    for n in 0..7 {
        kit.submit(&format!("t{n}"), "k").await;
    }
    kit.submit("other", "l").await;
    let mut path = "/v1/tasks?kind=k&limit=3&props=false".to_owned();
    let mut ids = Vec::new();
    loop {
        let page = kit.get(&path).await.json();
        for task in page["tasks"].as_array().unwrap() {
            ids.push(task["id"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/v1/tasks?kind=k&limit=3&props=false&cursor={next}");
    }
    assert_eq!(ids, ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]);
    let oldest = kit
        .get("/v1/tasks?order=submitted&reversed&limit=1")
        .await
        .json();
    assert_eq!(oldest["tasks"][0]["id"], "t0");
    let other = kit.get("/v1/tasks?cursor=nonsense").await;
    assert_eq!(other.field(), "cursor");
}

#[tokio::test]
async fn a_request_waits_until_the_task_has_ended() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    let waiting = kit.get("/v1/tasks/a?wait=50ms&for=ended").await.json();
    assert_eq!(waiting["state"], "runnable");
    let wait = kit.get("/v1/tasks/a?wait=1m&for=ended");
    let run = async {
        let handler = |_: TaskContext| async { Message::complete_with("done") };
        let runner = Runner::builder(&kit.store).handler("k", handler).start();
        runner.await.unwrap()
    };
    let (ended, runner) = tokio::join!(wait, run);
    assert_eq!(ended.json()["state"], "completed");
    assert_eq!(ended.json()["result"], "done");
    runner.shutdown().await;
}

#[tokio::test]
async fn tasks_are_rescheduled_deleted_and_retried() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    let moved = kit
        .call(
            "POST /v1/tasks/a/reschedule",
            r#"{"due":"in 1h","priority":7}"#,
        )
        .await;
    assert_eq!(moved.json()["done"], json!({"rescheduled":"sleeping"}));
    assert_eq!(kit.get("/v1/tasks/a").await.json()["priority"], 7);
    let live = kit.call("POST /v1/tasks/a/retry", "").await;
    assert_eq!(live.problem(409), "state");
    let text = "state: is sleeping; retry starts only tasks that have ended or are quarantined; resume it to run it now";
    assert_eq!(
        (&live.json()["field"], &live.json()["detail"]),
        (&json!("state"), &json!(text))
    );
    // With a key the retry is a transaction.
    let mut keyed = request(&kit.admin, "POST /v1/tasks/a/retry", "");
    let key = "once".parse().unwrap();
    keyed.headers_mut().insert("idempotency-key", key);
    let keyed = kit.send(keyed).await;
    assert_eq!(
        (keyed.problem(409), keyed.json()),
        ("state".to_owned(), live.json())
    );
    let scoped = kit.token("k", Role::Operate, &["k"]).await;
    let scoped = kit.call_as(&scoped, "POST /v1/tasks/a/retry", "").await;
    assert_eq!(scoped.json(), live.json());
    let retry = r#"{"lines":[{"op":"retry","task":"a"}]}"#;
    let refused = kit.call("POST /v1/transactions", retry).await;
    assert_eq!(refused.problem(409), "refused");
    let named = kit.call("POST /v1/tasks/a/retry", r#"{"task":"b"}"#).await;
    assert_eq!(named.field(), "task");
    let gone = kit.call("DELETE /v1/tasks/a", "").await;
    assert_eq!((gone.status.as_u16(), gone.text.as_str()), (204, ""));
    assert_eq!(
        kit.call("DELETE /v1/tasks/a", "").await.problem(404),
        "not_found"
    );
    let audit = kit.get("/v1/audit").await.json();
    let last = audit["lines"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["what"], &last["by"]),
        (&json!("deleted"), &json!("token admin"))
    );
}

#[tokio::test]
async fn the_page_before_has_the_same_tasks_as_on_the_way_there() {
    let kit = Kit::new().await;
    let tasks = (0..130).map(|n| NewTask::new("k").id(format!("t{n:03}")));
    for submitted in kit.client.submit_many(tasks).await {
        submitted.unwrap();
    }
    // A server reads a page in steps of 25 tasks.
    for (list, limit) in [("", 60), ("&order=id&reversed", 50), ("&label=none", 60)] {
        let read = async |cursor: Option<&str>| {
            let cursor = cursor.map(|cursor| format!("&cursor={cursor}"));
            let path = format!(
                "/v1/tasks?limit={limit}{list}{}",
                cursor.unwrap_or_default()
            );
            kit.get(&path).await.json()
        };
        let mut there = vec![read(None).await];
        while let Some(next) = there.last().unwrap()["next"].as_str() {
            there.push(read(Some(next)).await);
        }
        let pages = if list == "&label=none" { 1 } else { 3 };
        assert_eq!(there.len(), pages, "{list}");
        let mut back = there.pop().unwrap();
        while let Some(page) = there.pop() {
            back = read(back["previous"].as_str()).await;
            assert_eq!(back["tasks"], page["tasks"], "{list}");
            assert_eq!(back["previous"].is_null(), there.is_empty(), "{list}");
            let on = read(back["next"].as_str()).await;
            assert_ne!(on["tasks"], back["tasks"], "{list}");
        }
        assert!(back["previous"].is_null(), "{list}");
    }
}

#[tokio::test]
async fn a_page_with_large_props_ends_early_and_goes_on() {
    let kit = Kit::new().await;
    let props = "x".repeat(900_000);
    for n in 0..40 {
        let task = NewTask::new("k").id(format!("t{n:03}")).props(&props);
        kit.client.submit(task).await.unwrap();
    }
    let first = kit.get("/v1/tasks?limit=10000").await.json();
    let (tasks, next) = (
        first["tasks"].as_array().unwrap().len(),
        first["next"].as_str().unwrap(),
    );
    assert_eq!(
        tasks, 5,
        "the page ends with the task with which it is large"
    );
    let rest = kit
        .get(&format!("/v1/tasks?limit=10000&cursor={next}"))
        .await
        .json();
    assert_eq!(rest["tasks"].as_array().unwrap().len(), 5);
    let bare = kit.get("/v1/tasks?limit=10000&props=false").await.json();
    assert_eq!(bare["tasks"].as_array().unwrap().len(), 40);
    assert_eq!(kit.get("/v1/tasks?props=no").await.field(), "props");
}

#[tokio::test]
async fn the_log_of_a_handler_is_read_from_a_position_on() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    let handler = |task: TaskContext| async move {
        task.log("one");
        task.log("two");
        Message::complete()
    };
    let runner = Runner::builder(&kit.store)
        .handler("k", handler)
        .start()
        .await
        .unwrap();
    let done = tokio::time::timeout(Duration::from_secs(30), kit.client.wait("a"));
    done.await.expect("an end in time").unwrap();
    let log = kit.get("/v1/tasks/a/log").await.json();
    let texts: Vec<_> = log["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["text"].clone())
        .collect();
    assert_eq!(texts, ["one", "two"]);
    let next = log["next"].as_str().unwrap();
    let rest = kit
        .get(&format!("/v1/tasks/a/log?after={next}"))
        .await
        .json();
    assert_eq!(rest["lines"], json!([]));
    assert_eq!(kit.get("/v1/tasks/a/log?after=x").await.field(), "after");
    runner.shutdown().await;
}

#[tokio::test]
async fn props_are_checked_by_the_program_that_serves() {
    let store = windlass::Store::open("memory:").await.unwrap();
    let server = windlass_server::Server::builder(&store)
        .check(
            |kind, props| match kind.as_str() == "exec" && *props == windlass::Json::null() {
                true => Err(windlass::Invalid::new("props", "are missing")),
                false => Ok(()),
            },
        )
        .build();
    let kit = Kit::of(store, server).await;
    let refused = kit.call("POST /v1/tasks", r#"{"kind":"exec"}"#).await;
    assert_eq!(refused.field(), "props");
    let many = kit
        .call("POST /v1/tasks", r#"[{"kind":"exec"},{"kind":"k"}]"#)
        .await
        .json();
    assert_eq!(
        (&many[0]["field"], &many[1]["submitted"]),
        (&json!("props"), &json!("new"))
    );
    let lines = r#"{"lines":[{"op":"submit","id":"b","kind":"exec"}]}"#;
    assert_eq!(
        kit.call("POST /v1/transactions", lines).await.problem(400),
        "invalid"
    );
    let _: &Client = &kit.client;
    let _ = NewTask::new("k");
}
