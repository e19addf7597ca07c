//! What the forms of the pages do, and the proof that they show.

use std::time::Duration;

use serde_json::json;
use windlass::{Command, Message, NewTask, Runner, TaskContext};
use windlass_server::axum::http::{StatusCode, header};

use super::checked;
use crate::kit::{Kit, request};

/// Runs until it is told to stop, and echoes signals.
async fn patient(task: TaskContext) -> Message {
    let commands = task.commands();
    loop {
        tokio::select! {
            biased;
            Some(command) = commands.next() => if let Command::Signal(signal) = command {
                let payload = signal.payload::<windlass::Json>().unwrap();
                task.answer(&signal, &payload).await.unwrap();
            },
            stop = task.stop_requested() => return stop.message(),
        }
    }
}

async fn running(kit: &Kit) -> Runner {
    Runner::builder(&kit.store)
        .node("n1")
        .handler("mail", patient)
        .handler("good", async |_: TaskContext| Message::complete())
        .handler("bad", async |_: TaskContext| {
            Message::fail("no route to host 10.0.0.7".to_owned())
        })
        .start()
        .await
        .unwrap()
}

/// Waits until a page says something.
pub(super) async fn until(kit: &Kit, path: &str, text: &str) -> String {
    let end = tokio::time::Instant::now() + crate::kit::BOUND;
    loop {
        let page = kit.page(path).await;
        if page.contains(text) {
            return page;
        }
        assert!(tokio::time::Instant::now() < end, "no '{text}' in {page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_pause_leads_to_its_proof_and_a_resume_to_a_run() {
    let kit = Kit::new().await;
    kit.submit("a", "mail").await;
    let runner = running(&kit).await;
    until(&kit, "/tasks/a", ">n1</bdi>").await;
    let next = kit.form("/tasks/a/commands/pause", "").await;
    assert!(next.starts_with("/tasks/a?sent="), "{next}");
    let page = until(&kit, &next, ">stopped</span> after ").await;
    let proof = page
        .split("id=\"proof\"")
        .nth(1)
        .unwrap()
        .split("</p>")
        .next()
        .unwrap();
    assert!(proof.contains("(delivered after "), "{proof}");
    let ms = proof
        .split("after ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    assert!(
        ms.parse::<u64>().is_ok() && proof.contains("), fence "),
        "{proof}"
    );
    assert!(
        page.contains("windlass resume a") && page.contains("Resume</button>"),
        "{page}"
    );
    assert!(page.contains("token admin"), "who has sent it");
    let next = kit.form("/tasks/a/commands/run", "").await;
    let page = until(&kit, &next, "paused → runnable").await;
    assert!(
        page.contains(" (claimed after "),
        "a parked task is claimed for a command: {page}"
    );
    runner.shutdown().await;
}

#[tokio::test]
async fn a_command_that_waits_says_so() {
    let kit = Kit::new().await;
    kit.submit("a", "mail").await;
    let next = kit.form("/tasks/a/commands/kill", "").await;
    let page = kit.page(&next).await;
    assert!(
        page.contains("waits for a node that claims the task"),
        "{page}"
    );
    // `windlass worker` has no handler of this kind.
    assert!(
        page.contains("no live node handles its kind") && !page.contains("windlass worker"),
        "{page}"
    );
}

#[tokio::test]
async fn a_signal_shows_its_reply() {
    let kit = Kit::new().await;
    kit.submit("a", "mail").await;
    let runner = running(&kit).await;
    for (typed, reply) in [
        ("%7B%22n%22%3A1.00%7D", "{&quot;n&quot;:1.00}"),
        ("yes+please", "&quot;yes please&quot;"),
    ] {
        let next = kit
            .form("/tasks/a/signal", &format!("name=approve&payload={typed}"))
            .await;
        until(&kit, &next, reply).await;
    }
    // Regression: what lacked a brace was sent as a text.
    for typed in ["%7B%22n%22%3A1", "%5B1", "%22x"] {
        let fields = format!("name=approve&payload={typed}");
        let mut refused = request(&kit.admin, "POST /tasks/a/signal", fields);
        let form = "application/x-www-form-urlencoded".parse().unwrap();
        refused.headers_mut().insert("content-type", form);
        let refused = kit.send(refused).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains("is not JSON"), "{}", refused.text);
    }
    let nameless = request(&kit.admin, "POST /tasks/a/signal", "payload=1");
    assert_ne!(kit.send(nameless).await.status, StatusCode::SEE_OTHER);
    runner.shutdown().await;
}

#[tokio::test]
async fn a_failed_task_is_grouped_and_retried_with_other_values() {
    let kit = Kit::new().await;
    for n in 0..3 {
        let task = NewTask::new("bad")
            .id(format!("b{n}"))
            .props(&json!({"n": n}));
        kit.client.submit(task).await.unwrap();
    }
    let runner = running(&kit).await;
    for n in 0..3 {
        until(
            &kit,
            &format!("/tasks/b{n}"),
            "> Retry</button>".trim_start_matches("> "),
        )
        .await;
    }
    let page = kit.page("/failures").await;
    assert!(page.contains("3 failed tasks in 1 group"), "{page}");
    assert!(
        page.contains("no route to host 10.0.0.7") && page.contains(">3</a>"),
        "{page}"
    );
    let on = "The newest failed on <a href=\"/tasks?node=n1\"><bdi class=\"name\">n1</bdi></a> (3)";
    assert!(page.contains(on), "{page}");
    let task = kit.page("/tasks/b0").await;
    assert!(task.contains(" on <a href=\"/tasks?node=n1\">"), "{task}");
    let link = page
        .split('"')
        .find(|part| part.starts_with("/tasks?state=failed&amp;fingerprint="))
        .unwrap();
    let of_group = kit.page(&link.replace("&amp;", "&")).await;
    assert!(
        (0..3).all(|n| of_group.contains(&format!("/tasks/b{n}\""))),
        "{of_group}"
    );
    // A retry of a task that did not run would fail again.
    let next = NewTask::new("bad").id("next").after_ok(["b0"]);
    kit.client.submit(next).await.unwrap();
    until(&kit, "/tasks/next", "windlass retry --with-dependents b0").await;
    // Regression: the page named the direct predecessor, which would fail again too.
    let last = NewTask::new("bad").id("last").after_ok(["next"]);
    kit.client.submit(last).await.unwrap();
    until(&kit, "/tasks/last", "windlass retry --with-dependents b0").await;
    runner.shutdown().await;
    let next = kit
        .form("/tasks/b1/retry", "props=%7B%22n%22%3A2.50%7D&data=")
        .await;
    assert_eq!(next, "/tasks/b1?sent=retry");
    let page = kit.page(&next).await;
    assert!(
        page.contains("started again") && page.contains("incarnation 1") && page.contains("2.50"),
        "{page}"
    );
    let mut wrong = request(
        &kit.admin,
        "POST /tasks/b2/retry",
        "props=%7B%0D%0A%3Cb%3E&back=hidden&data=",
    );
    let kind = "application/x-www-form-urlencoded".parse().unwrap();
    wrong.headers_mut().insert(header::CONTENT_TYPE, kind);
    let refused = kit.send(wrong).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    // What was typed is not lost.
    let sent = refused.text.split_once("What you sent").unwrap().1;
    assert!(
        sent.contains("<bdi>props</bdi>") && sent.contains("{\n&lt;b&gt;"),
        "{sent}"
    );
    assert!(!sent.contains("back") && !sent.contains("data"), "{sent}");
    assert!(checked(&refused).contains("is not JSON"));
    // Regression: the address of the page of a refused form led to a page that said 405.
    for (path, to) in [
        ("/tasks/b2/retry", "/tasks/b2"),
        ("/tasks/a%2Fb/commands/pause", "/tasks/a%2Fb"),
        ("/tasks/b2/signal", "/tasks/b2"),
        ("/tasks/b2/answer", "/tasks/b2"),
        ("/schedules/s/pause", "/schedules/s"),
        ("/nodes/n1/freeze", "/nodes"),
        ("/zone", "/"),
    ] {
        let answer = kit.get(path).await;
        assert_eq!(
            answer.status,
            StatusCode::SEE_OTHER,
            "{path}: {}",
            answer.text
        );
        assert_eq!(answer.headers[header::LOCATION], to, "{path}");
    }
}

#[tokio::test]
async fn a_node_is_frozen_and_unfrozen_and_answers() {
    let kit = Kit::new().await;
    assert!(kit.page("/nodes").await.contains("No node is live"));
    let runner = running(&kit).await;
    until(&kit, "/nodes", "Freeze").await;
    let next = kit.form("/nodes/n1/freeze", "").await;
    let page = until(&kit, &next, "answered").await;
    assert!(
        page.contains("frozen") && page.contains("Unfreeze"),
        "{page}"
    );
    kit.submit("a", "mail").await;
    let page = kit.page("/tasks/a").await;
    assert!(
        page.contains("frozen or draining") && page.contains("windlass node unfreeze"),
        "{page}"
    );
    kit.form("/nodes/n1/unfreeze", "").await;
    until(&kit, "/nodes", "claims tasks").await;
    runner.shutdown().await;
}

#[tokio::test]
async fn a_schedule_is_triggered_skipped_paused_and_backfilled_after_a_dry_run() {
    let kit = Kit::new().await;
    let body = r#"{"id":"nightly","spec":{"run":{"kind":"mail"},"cron":["30 2 * * *"],"zone":"Europe/Berlin","since":"2020-01-01T00:00:00Z"}}"#;
    let made = kit.call("POST /v1/schedules", body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let page = kit.page("/schedules").await;
    assert!(
        page.contains("every day at 02:30 (Europe/Berlin)"),
        "{page}"
    );
    let page = kit.page("/schedules/nightly").await;
    assert_eq!(page.matches("[Europe/Berlin]").count(), 5, "{page}");
    assert!(page.contains("no live node runs schedules"), "{page}");
    let next = kit.form("/schedules/nightly/trigger", "").await;
    let page = kit.page(&next).await;
    assert!(
        page.contains("1 run</bdi>") && page.contains("/tasks/nightly%40"),
        "{page}"
    );
    // Whole days without a change of the clocks, whatever the time is now.
    let range = "from=2021-03-01T00%3A00%3A00Z&to=2021-03-03T00%3A00%3A00Z";
    let page = kit.page(&format!("/schedules/nightly?{range}")).await;
    assert!(
        page.contains("<h2>Backfill: 2 runs") && page.contains("Submit 2 runs"),
        "{page}"
    );
    let before = kit
        .client
        .list(
            &windlass::store::Filter::default(),
            windlass::store::Page::new(100),
        )
        .await
        .unwrap()
        .len();
    let next = kit.form("/schedules/nightly/backfill", range).await;
    let page = kit.page(&next).await;
    assert!(page.contains("runs</bdi>"), "{page}");
    let after = kit
        .client
        .list(
            &windlass::store::Filter::default(),
            windlass::store::Page::new(100),
        )
        .await
        .unwrap()
        .len();
    assert_eq!(
        after,
        before + 2,
        "the dry run submitted none, the form two"
    );
    for (action, says) in [("skip", "skip"), ("pause", "pause")] {
        let next = kit
            .form(&format!("/schedules/nightly/{action}"), "note=disk")
            .await;
        assert!(kit.page(&next).await.contains(says));
    }
}

#[tokio::test]
async fn a_completed_task_is_run_again_after_a_question_only() {
    let kit = Kit::new().await;
    kit.submit("g", "good").await;
    let runner = running(&kit).await;
    let page = until(&kit, "/tasks/g", ">completed</span>").await;
    assert!(
        page.contains("Runs 1 task again that has completed"),
        "{page}"
    );
    assert!(!page.contains("<button>Retry</button>"), "{page}");
    runner.shutdown().await;
}
