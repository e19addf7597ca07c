//! What holds tasks back, the numbers for autoscalers, graphs, lists of lines, and the examination.

use serde_json::{Value, json};
use windlass::{Limit, Message, NewTask, Runner, TaskContext, store::Store};
use windlass_server::{Mask, Masks, Role, Server, axum::body::Body};

use crate::kit::{Kit, request};

/// Runs until it is stopped.
async fn hold(task: TaskContext) -> Message {
    task.stop_requested().await.message()
}

#[tokio::test]
async fn what_holds_tasks_back_comes_with_the_request_that_shows_it() {
    let kit = Kit::new().await;
    kit.submit("a", "box/in").await;
    kit.submit("b", "box/in").await;
    kit.client
        .submit(NewTask::new("box/in").id("c").after(["a"]))
        .await
        .unwrap();
    kit.client
        .submit(NewTask::new("mail").id("p").paused())
        .await
        .unwrap();
    let why = kit.get("/v1/why").await.json();
    let reasons = why["waiting"].as_array().unwrap();
    let short = |one: &Value| {
        (
            one["kind"].clone(),
            one["reason"].clone(),
            one["tasks"].clone(),
        )
    };
    assert_eq!(
        short(&reasons[0]),
        (json!("box/in"), json!("no_node"), json!(2)),
        "{why}"
    );
    let of = |reason: &str| reasons.iter().find(|one| one["reason"] == reason).unwrap();
    assert_eq!(of("tasks")["tasks"], 1);
    assert_eq!(
        of("paused")["remedy"],
        "GET /v1/tasks?kind=mail&state=paused"
    );
    // The requests are ones.
    for (reason, ids) in [
        ("no_node", json!(["b", "a"])),
        ("tasks", json!(["c"])),
        ("paused", json!(["p"])),
    ] {
        let path = of(reason)["remedy"].as_str().unwrap();
        let page = kit.call(path, "").await.json();
        let tasks = page["tasks"].as_array().unwrap().iter();
        let found: Vec<Value> = tasks.map(|task| task["id"].clone()).collect();
        assert_eq!(json!(found), ids, "{path}");
    }
    let stats = kit.get("/v1/stats").await.json();
    assert_eq!(
        (&stats["tasks"], &stats["kinds"][0]["available"]),
        (&json!(4), &json!(2))
    );
    let one = kit.get("/v1/tasks/c/why").await.json();
    assert_eq!(
        (&one["reason"], &one["text"]),
        (&json!("tasks"), &json!("it waits for 1 task: a"))
    );
    let paused = kit.get("/v1/tasks/p/why").await.json();
    assert_eq!(paused["reason"], Value::Null);
}

#[tokio::test]
async fn an_autoscaler_learns_how_many_tasks_could_run() {
    let kit = Kit::new().await;
    let none = kit.get("/v1/scale?kind=hold").await.json();
    assert_eq!((&none["wanted"], &none["slots"]), (&json!(0), &json!(0)));
    for n in 0..5 {
        let limit = Limit::at_once("disk", 2).unwrap();
        let task = NewTask::new("hold").id(format!("t{n}")).limit(limit);
        kit.client.submit(task).await.unwrap();
    }
    let runner = Runner::builder(&kit.store)
        .slots(8)
        .handler("hold", hold)
        .start()
        .await
        .unwrap();
    // Two have a slot of the limit, and three wait for one.
    let limited = async {
        loop {
            let server = Server::builder(&kit.store).build();
            let fresh = Kit::of_server(&kit, server);
            let scale = fresh.get("/v1/scale?kind=hold").await.json();
            if scale["limited"] == 3 {
                return scale;
            }
            tokio::task::yield_now().await;
        }
    };
    let scale = tokio::time::timeout(crate::kit::BOUND, limited)
        .await
        .unwrap();
    let number = |name: &str| scale[name].as_u64().unwrap();
    assert_eq!(
        ["wanted", "available", "claimed", "slots"].map(number),
        [2, 3, 2, 8],
        "{scale}"
    );
    assert!(scale["oldest_due_age_seconds"].is_u64());
    assert_eq!(kit.get("/v1/scale").await.field(), "kind");
    runner.shutdown().await;
}

#[tokio::test]
async fn a_token_with_a_scope_counts_its_own_kinds_only() {
    let kit = Kit::new().await;
    kit.submit("mine", "mail").await;
    let mail = kit.token("mail", Role::Read, &["mail"]).await;
    let own = kit.call_as(&mail, "GET /v1/scale?kind=mail", "").await;
    assert_eq!(own.json()["available"], 1);
    for line in ["GET /v1/scale?kind=pay", "GET /v1/why", "GET /v1/stats"] {
        assert_eq!(
            kit.call_as(&mail, line, "").await.problem(403),
            "forbidden",
            "{line}"
        );
    }
    let labels = windlass_server::Scope::new([], [("team".to_owned(), "a".to_owned())]).unwrap();
    let new = windlass_server::NewToken::new("labels", Role::Read).scope(labels);
    let labels = kit.tokens.make(new, None).await.unwrap().1;
    let refused = kit.call_as(&labels, "GET /v1/scale?kind=mail", "").await;
    assert_eq!(refused.problem(403), "forbidden");
    let why = kit
        .call_as(&mail, "GET /v1/tasks/mine/why", "")
        .await
        .json();
    assert_eq!(
        (&why["reason"], &why["text"]),
        (&json!("no_node"), &Value::Null)
    );
}

#[tokio::test]
async fn the_graph_of_a_task_has_what_it_waits_for_and_on_request_its_waiters() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    kit.submit("theirs", "pay").await;
    for (id, after) in [
        ("b", vec!["a", "theirs"]),
        ("c", vec!["b", "gone"]),
        ("d", vec!["a"]),
    ] {
        kit.client
            .submit(NewTask::new("k").id(id).after(after))
            .await
            .unwrap();
    }
    let ids = |graph: &Value| {
        let tasks = graph["tasks"].as_array().unwrap().iter();
        let mut ids: Vec<String> = tasks
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids.join(" ")
    };
    let up = kit.get("/v1/tasks/c/graph").await.json();
    assert_eq!(
        (ids(&up), &up["is_cut"]),
        ("a b c gone theirs".to_owned(), &json!(false))
    );
    assert_eq!(up["edges"].as_array().unwrap().len(), 4, "{up}");
    let both = kit.get("/v1/tasks/b/graph?waiters=true").await.json();
    assert_eq!(ids(&both), "a b c theirs");
    let cut = kit.get("/v1/tasks/b/graph?limit=2").await.json();
    assert_eq!(cut["is_cut"], true);
    let token = kit.token("k", Role::Read, &["k"]).await;
    let own = kit
        .call_as(&token, "GET /v1/tasks/b/graph", "")
        .await
        .json();
    let tasks = own["tasks"].as_array().unwrap();
    let state = |id: &str| &tasks.iter().find(|one| one["id"] == id).unwrap()["state"];
    assert_eq!(
        (state("a"), state("theirs")),
        (&json!("runnable"), &json!("unknown"))
    );
    let missing = kit.call_as(&token, "GET /v1/tasks/theirs/graph", "").await;
    assert_eq!(missing.problem(404), "not_found");
}

#[tokio::test]
async fn every_task_of_a_list_comes_as_a_line_on_request() {
    let kit = Kit::new().await;
    for n in 0..1000 {
        let kind = if n % 2 == 0 { "mail" } else { "pay" };
        kit.submit(&format!("t{n:04}"), kind).await;
    }
    let lines = async |token: &str, path: &str| {
        let mut asked = request(token, &format!("GET {path}"), Body::empty());
        let lines = "application/x-ndjson".parse().unwrap();
        asked.headers_mut().insert("accept", lines);
        let answer = kit.send(asked).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.headers["content-type"]),
            (200, &"application/x-ndjson".parse().unwrap())
        );
        let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        let ids = answer
            .text
            .lines()
            .map(|line| read(line)["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    let all = lines(&kit.admin, "/v1/tasks?order=id&reversed").await;
    assert_eq!(all.len(), 1000);
    assert!(all.is_sorted());
    assert_eq!(lines(&kit.admin, "/v1/tasks?limit=450").await.len(), 450);
    let token = kit.token("mail", Role::Read, &["mail"]).await;
    let own = lines(&token, "/v1/tasks?order=id&reversed").await;
    assert_eq!((own.len(), own[1].as_str()), (500, "t0002"));
}

#[tokio::test]
async fn the_store_is_examined_and_not_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("w.db").display());
    let kit = Kit::with(Store::open(&url).await.unwrap()).await;
    let found = kit.get("/v1/doctor").await.json();
    let findings = found["findings"].as_array().unwrap();
    assert!(
        findings.iter().any(|one| one["check"] == "machines"),
        "{found}"
    );
    let worst = found["verdict"].as_str().unwrap();
    assert!(
        ["ok", "unknown", "warning", "error"].contains(&worst),
        "{found}"
    );
    let memory = Kit::new().await;
    assert_eq!(memory.get("/v1/doctor").await.problem(501), "unsupported");
}

#[tokio::test]
async fn the_activity_is_counted_from_the_first_request_and_shows_nothing_but_numbers() {
    let kit = Kit::new().await;
    let mask = Mask::new("pay", ["/props/card"]).unwrap().errors(true);
    Masks::new(&kit.store).set(&mask, None).await.unwrap();
    let first = kit.get("/v1/activity").await.json();
    assert_eq!(first["windows"][3]["started"], 0);
    let runner = Runner::builder(&kit.store)
        .handler("pay", async |_: TaskContext| Message::fail("S3CRET"))
        .start()
        .await
        .unwrap();
    let props = windlass::Json::parse("props", r#"{"card":"S3CRET"}"#).unwrap();
    kit.client
        .submit(NewTask::new("pay").id("S3CRET-id").props(&props))
        .await
        .unwrap();
    let counted = async {
        loop {
            let answer = kit.get("/v1/activity").await;
            let hour = &answer.json()["windows"][3];
            if hour["kinds"][0]["kind"] == "pay" && hour["failed"] == 1 {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    let answer = tokio::time::timeout(crate::kit::BOUND, counted)
        .await
        .unwrap();
    let hour = &answer.json()["windows"][3];
    assert_eq!(answer.json()["since"], first["since"]);
    assert_eq!(
        (&hour["started"], &hour["kinds"][0]["failed_attempts"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(hour["lateness"]["measured"], 1);
    // Neither a masked value nor the text of an error nor an id is in it.
    assert!(!answer.text.contains("S3CRET"), "{}", answer.text);
    for scope in [&["pay"][..], &["mail"]] {
        let token = kit
            .token(&format!("of-{}", scope[0]), Role::Read, scope)
            .await;
        let refused = kit.call_as(&token, "GET /v1/activity", "").await;
        assert_eq!(refused.problem(403), "forbidden");
    }
    assert_eq!(
        kit.get("/v1/activity?kind=pay").await.problem(400),
        "invalid"
    );
    runner.shutdown().await;
}
