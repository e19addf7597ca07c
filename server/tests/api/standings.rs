//! Tasks as people say them: running, queued, late, paused by whom; and failures since a time.

use serde_json::json;
use std::sync::Arc;

use tokio::sync::Notify;
use windlass::{Message, NewTask, Runner, TaskContext, jiff::SignedDuration};

use crate::kit::{BOUND, Kit};

/// Starts a node whose tasks of the kind `stay` run until they are asked to stop, and waits until one of them runs.
async fn running(kit: &Kit) -> Runner {
    let began = Arc::new(Notify::new());
    let begins = began.clone();
    let stay = move |task: TaskContext| {
        let begins = begins.clone();
        async move {
            begins.notify_one();
            task.stop_requested().await.message()
        }
    };
    let runner = Runner::builder(&kit.store)
        .handler("stay", stay)
        .handler("bad", async |_: TaskContext| {
            Message::fail("no disk".to_owned())
        })
        .start()
        .await
        .unwrap();
    tokio::time::timeout(BOUND, began.notified()).await.unwrap();
    runner
}

#[tokio::test]
async fn lists_show_and_select_running_and_queued_tasks() {
    let kit = Kit::new().await;
    kit.submit("r", "stay").await;
    let runner = running(&kit).await;
    kit.submit("q", "mail").await;
    let sleeper = NewTask::new("mail")
        .id("z")
        .start_at(kit.client.now() + SignedDuration::from_hours(1));
    kit.client.submit(sleeper).await.unwrap();
    let shown = |list: serde_json::Value| {
        let tasks = list["tasks"].as_array().unwrap().clone();
        let one = |task: &serde_json::Value| {
            format!("{} {} {}", task["id"], task["state"], task["shown"]).replace('"', "")
        };
        let mut all: Vec<String> = tasks.iter().map(one).collect();
        all.sort();
        all
    };
    let list = async |query: &str| shown(kit.get(&format!("/v1/tasks?{query}")).await.json());
    assert_eq!(
        list("").await,
        [
            "q runnable queued",
            "r runnable running",
            "z sleeping sleeping"
        ]
    );
    assert_eq!(list("state=running").await, ["r runnable running"]);
    assert_eq!(
        list("state=queued,sleeping").await,
        ["q runnable queued", "z sleeping sleeping"]
    );
    let late = kit.get("/v1/tasks?order=late").await.json();
    let ids: Vec<_> = late["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["id"].clone())
        .collect();
    assert_eq!(ids, ["q"], "a task that sleeps until later is not late");
    let refused = kit.get("/v1/tasks?order=late&state=paused").await;
    assert_eq!(
        (refused.status.as_u16(), refused.field()),
        (400, "order".to_owned())
    );
    let wrong = kit.get("/v1/tasks?state=waiting").await;
    assert!(
        wrong
            .text
            .contains("'waiting' is not one of running, queued, runnable"),
        "{}",
        wrong.text
    );
    runner.shutdown().await;
}

#[tokio::test]
async fn a_note_says_who_paused_a_task_and_why() {
    let kit = Kit::new().await;
    kit.submit("a", "stay").await;
    let runner = running(&kit).await;
    let body = r#"{"command":"pause","note":"the <b>database</b> moves"}"#;
    let sent = kit.call("POST /v1/tasks/a/commands?wait=30s", body).await;
    assert_eq!(sent.status, 200, "{}", sent.text);
    let note = "the <b>database</b> moves";
    let task = kit.get("/v1/tasks/a").await.json();
    let order = sent.json()["order"].clone();
    assert_eq!(
        task["paused_by"],
        json!({"command": order, "by": "token admin", "note": note})
    );
    let commands = kit.get("/v1/tasks/a/commands").await.json();
    assert_eq!(commands["commands"][0]["note"], note);
    let history = kit.get("/v1/tasks/a/history").await.json();
    let changes = history["changes"].as_array().unwrap();
    let sent = changes
        .iter()
        .find(|change| change["what"] == "commanded")
        .unwrap();
    assert_eq!(sent["note"], note);
    for path in ["/tasks", "/tasks/a"] {
        let page = kit.page(path).await;
        let says = "paused by token admin: the &lt;b&gt;database&lt;/b&gt; moves";
        assert!(page.contains(says), "{path}: {page}");
    }
    // Regression: blank notes, and characters that turn the text around them, passed.
    for note in [
        "a\nb",
        "",
        "  ",
        "\u{200d}\u{3164}",
        "a\u{61c}b",
        "a\u{e0041}",
    ] {
        let body = json!({"command": "kill", "note": note}).to_string();
        let refused = kit.call("POST /v1/tasks/a/commands", body).await;
        assert_eq!(refused.field(), "note", "{note:?}");
    }
    let refused = kit
        .call(
            "POST /v1/tasks/a/commands",
            r#"{"command":"kill","note":7}"#,
        )
        .await;
    assert_eq!(refused.field(), "note");

    let next = kit.form("/tasks/a/commands/run", "note=it+moved").await;
    assert!(next.starts_with("/tasks/a?sent="), "{next}");
    let commands = kit.get("/v1/tasks/a/commands").await.json();
    assert_eq!(commands["commands"][1]["note"], "it moved");
    // A note of 300 characters and 600 bytes: the page says so, and shows what was typed.
    let long = "é".repeat(300);
    for (typed, says) in [
        (long.as_str(), "note: has 600 bytes"),
        ("+++", "note: has only spaces"),
    ] {
        let page = kit
            .refused_form("/tasks/a/commands/pause", &format!("note={typed}"))
            .await;
        assert!(page.contains(says), "{page}");
        assert!(typed == "+++" || page.contains(typed), "{page}");
    }
    let page = kit.page("/tasks/a").await;
    let field = page.split("name=\"note\"").nth(1).unwrap();
    assert!(
        !field.split('>').next().unwrap().contains("maxlength"),
        "{page}"
    );
    runner.shutdown().await;
}

#[tokio::test]
async fn a_bulk_operation_gives_each_command_its_note() {
    let kit = Kit::new().await;
    for id in ["a", "b"] {
        kit.submit(id, "mail").await;
    }
    // Regression: a note of a retry or a deletion was accepted, and dropped.
    for action in ["retry", "delete"] {
        for key in [json!({}), json!({"key": "1-2-3", "tasks": 2})] {
            let mut body = json!({"filter": {"kind": "mail"}, "action": action, "note": "a flood"});
            for (name, value) in key.as_object().unwrap() {
                body[name] = value.clone();
            }
            let refused = kit.call("POST /v1/bulk", body.to_string()).await;
            assert_eq!(refused.problem(400), "invalid", "{}", refused.text);
            assert_eq!(refused.field(), "note");
            let says = format!("is kept with a command, and '{action}' sends none");
            assert!(refused.text.contains(&says), "{}", refused.text);
        }
    }
    let dry = kit
        .call(
            "POST /v1/bulk",
            r#"{"filter":{"state":["queued"]},"action":"pause"}"#,
        )
        .await
        .json();
    assert_eq!(dry["tasks"], 2, "{dry}");
    let start = json!({"filter": {"state": ["queued"]}, "action": "pause", "tasks": 2, "key": dry["key"], "note": "a flood"});
    let started = kit.call("POST /v1/bulk", start.to_string()).await;
    assert_eq!(started.status, 201, "{}", started.text);
    let runner = crate::bulk::node(&kit.store).await;
    let id = started.json()["id"].as_str().unwrap().to_owned();
    assert!(kit.client.wait(id.as_str()).await.unwrap().is_completed());
    for id in ["a", "b"] {
        let commands = kit.client.commands(id).await.unwrap();
        assert_eq!(commands[0].note.as_ref().unwrap().as_str(), "a flood");
    }
    runner.shutdown().await;
}

#[tokio::test]
async fn failures_since_a_time_are_counted() {
    let kit = Kit::new().await;
    kit.submit("r", "stay").await;
    let runner = running(&kit).await;
    for id in ["a", "b"] {
        kit.submit(id, "bad").await;
        kit.client.wait(id).await.unwrap();
    }
    let tasks = async |since: &str| {
        let path = format!("/v1/failures?since={since}");
        kit.get(&path).await.json()["failures"][0]["tasks"].clone()
    };
    assert_eq!(tasks("1h").await, 2);
    let last = kit.client.get("b").await.unwrap().state.unwrap().since;
    assert_eq!(tasks(&last.to_string()).await, 1);
    // Regression: requests did not know the words of the command line.
    for since in ["yesterday", "today", "2%20hours%20ago", "2026-01-01%209:30"] {
        assert_eq!(tasks(since).await, 2, "{since}");
        let path = format!("/v1/tasks?state=failed&ended_from={since}&ended_until=tomorrow");
        let listed = kit.get(&path).await;
        assert_eq!(listed.status, 200, "{}", listed.text);
        assert_eq!(listed.json()["tasks"].as_array().unwrap().len(), 2);
        assert!(
            kit.page(&format!("/tasks?ended_from={since}"))
                .await
                .contains("/tasks/a")
        );
    }
    let wrong = kit.get("/v1/failures?since=lately").await;
    assert_eq!(wrong.field(), "since");
    assert!(
        wrong.text.contains("'yesterday 14:00', '2 hours ago'"),
        "{}",
        wrong.text
    );
    // Nothing has happened since a time in the future.
    for (path, field) in [
        ("/v1/failures?since=2099-01-01T00:00:00Z", "since"),
        ("/v1/failures?since=in%202h", "since"),
        ("/v1/tasks?ended_from=tomorrow", "ended_from"),
        ("/v1/tasks?submitted_from=tomorrow", "submitted_from"),
    ] {
        let wrong = kit.get(path).await;
        assert_eq!(wrong.field(), field);
        assert!(wrong.text.contains("is in the future"), "{}", wrong.text);
    }
    let page = kit.page("/failures?since=1h").await;
    assert!(page.contains("2 failed tasks in 1 group since "), "{page}");
    // Regression: the retry of a group took tasks that had failed before.
    let page = kit.page(&format!("/failures?since={last}")).await;
    let retry = page
        .split("href=\"")
        .find(|link| link.starts_with("/bulk?"));
    let retry = retry.unwrap_or_else(|| panic!("{page}"));
    let retry = retry.split('"').next().unwrap().replace("&amp;", "&");
    assert!(retry.contains("ended_from="), "{retry}");
    let page = kit.page(&retry).await;
    assert!(page.contains("Retry 1 task?"), "{page}");
    runner.shutdown().await;
}
