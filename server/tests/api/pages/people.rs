//! Tasks that wait for people: the list, the forms, and what a form sends.

use serde_json::{Value, json};
use windlass::{AwaitedSignal, Command, Json, Message, NewTask, Runner, TaskContext};
use windlass_server::{
    Mask, Masks, Role,
    axum::{
        body::Body,
        http::{Request, StatusCode, header},
    },
};

use super::{actions::until, checked};
use crate::kit::{Kit, request};

const SCRIPT: &str = "\"><script>alert(1)</script>\u{202e}";

/// Asks for a signal, and completes with its payload.
async fn asks(task: TaskContext) -> Message {
    while let Some(command) = task.commands().try_next() {
        if let Command::Signal(signal) = command {
            let payload = signal.payload::<Json>().unwrap();
            return Message::complete_with(&payload).answer(&signal, &"noted");
        }
    }
    let schema = json!({"type": "object", "required": ["approved"], "properties": {
        "approved": {"type": "boolean", "title": "Deploy it?"},
        "by": {"type": "string", "title": SCRIPT},
    }});
    let asked = AwaitedSignal::new("approve")
        .with_text(format!("Deploy {}? {SCRIPT}", task.id()).replace('\u{202e}', ""))
        .with_schema(Json::new("schema", &schema).unwrap());
    Message::wait_for_signal(asked)
}

async fn asking(kit: &Kit, ids: &[&str]) -> Runner {
    for id in ids {
        let task = NewTask::new("mail")
            .id(*id)
            .props(&json!({"secret": "swordfish"}));
        kit.client.submit(task).await.unwrap();
    }
    let runner = Runner::builder(&kit.store).node("n1").handler("mail", asks);
    let runner = runner.start().await.unwrap();
    for id in ids {
        until(kit, "/people", &format!("/tasks/{id}/answer")).await;
    }
    runner
}

/// A form of the page of the task `a`.
fn answer(token: &str, fields: &str) -> Request<Body> {
    let mut form = request(token, "POST /tasks/a/answer", fields.to_owned());
    let kind = "application/x-www-form-urlencoded".parse().unwrap();
    form.headers_mut().insert(header::CONTENT_TYPE, kind);
    form
}

/// Returns the fields of a form with what its page has hidden in it.
async fn filled(kit: &Kit, id: &str, fields: &str) -> String {
    let page = kit.page(&format!("/tasks/{id}")).await;
    let asked = page
        .split("name=\"asked\" value=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    format!("asked={}&{fields}", asked.unwrap_or_default())
}

#[tokio::test]
async fn a_task_that_asks_is_listed_and_answered() {
    let kit = Kit::new().await;
    assert!(
        kit.page("/people")
            .await
            .contains("No task waits for a signal")
    );
    let runner = asking(&kit, &["a", "b"]).await;
    let page = kit.page("/people").await;
    for part in [
        "Deploy a?",
        "Deploy b?",
        "<bdi>Deploy it?</bdi>",
        "name=\"p.approved\" required",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(
        page.contains("<bdi>windlass list --waits signal</bdi>"),
        "{page}"
    );
    assert!(!page.contains("<script>alert"), "{page}");
    let page = kit.page("/tasks/a").await;
    assert!(
        page.contains("windlass signal --payload JSON a approve")
            && page.contains("/tasks/a/answer"),
        "{page}"
    );
    assert!(
        kit.page("/").await.contains("waits=signal"),
        "the overview counts them"
    );

    let next = kit
        .form(
            "/tasks/a/answer",
            &filled(&kit, "a", "name=approve&back=task&p.approved=true&p.by=ann").await,
        )
        .await;
    assert!(next.starts_with("/tasks/a?sent="), "{next}");
    let page = until(&kit, &next, "&quot;noted&quot;").await;
    assert!(page.contains(">completed</span>"), "{page}");
    let record = kit.get("/v1/tasks/a").await.json();
    assert_eq!(record["result"], json!({"approved": true, "by": "ann"}));
    let next = kit
        .form(
            "/tasks/b/answer",
            &filled(&kit, "b", "name=approve&back=people&p.approved=false&p.by=").await,
        )
        .await;
    assert_eq!(next, "/people?sent=b");
    assert!(kit.page(&next).await.contains("Sent to "), "the proof");
    until(&kit, "/tasks/b", ">completed</span>").await;
    assert_eq!(
        kit.get("/v1/tasks/b").await.json()["result"],
        json!({"approved": false})
    );
    runner.shutdown().await;
}

#[tokio::test]
async fn a_wrong_or_late_answer_sends_nothing() {
    let kit = Kit::new().await;
    let runner = asking(&kit, &["a"]).await;
    let send = async |fields: &str| {
        let answer = kit
            .send(answer(&kit.admin, &filled(&kit, "a", fields).await))
            .await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
        checked(&answer).to_owned()
    };
    let page = send("name=approve&p.approved=").await;
    assert!(page.contains("approved: is empty; fill it in"), "{page}");
    let page = send("name=other&p.approved=true").await;
    assert!(
        page.contains("does not ask this any more (signal 'other')"),
        "{page}"
    );
    assert!(kit.client.commands("a").await.unwrap().is_empty());
    kit.client.command("a", Command::Kill).await.unwrap();
    until(&kit, "/tasks/a", ">killed</span>").await;
    let page = send("name=approve&p.approved=true").await;
    assert!(
        page.contains("any more (signal 'approve'); look at it again"),
        "{page}"
    );
    runner.shutdown().await;
}

#[tokio::test]
async fn roles_scopes_and_masks_hold_for_what_tasks_ask() {
    let kit = Kit::new().await;
    let runner = asking(&kit, &["a"]).await;
    let read = kit.token("r", Role::Read, &[]).await;
    let page = kit.page_as(&read, "/people").await;
    assert!(
        page.contains("Deploy a?") && !page.contains("/answer"),
        "{page}"
    );
    let send = async |token: &str| {
        let fields = filled(&kit, "a", "name=approve&p.approved=true").await;
        kit.send(answer(token, &fields)).await.status
    };
    assert_eq!(send(&read).await, StatusCode::FORBIDDEN);
    let other = kit.token("o", Role::Operate, &["report"]).await;
    assert!(!kit.page_as(&other, "/people").await.contains("/tasks/a"));
    assert_eq!(send(&other).await, StatusCode::NOT_FOUND);
    let scoped = kit.token("s", Role::Operate, &["mail"]).await;
    let page = kit.page_as(&scoped, "/tasks/a").await;
    assert!(
        page.contains("it waits for the signal &#39;approve&#39;")
            || page.contains("it waits for the signal 'approve'"),
        "{page}"
    );

    let mask = Mask::new("mail", ["/props/secret"]).unwrap();
    Masks::new(&kit.store).set(&mask, None).await.unwrap();
    let page = until(&kit, "/people", "[masked]").await;
    assert!(
        !page.contains("Deploy a?") && page.contains("name=\"p.value\""),
        "{page}"
    );
    let why = kit.get("/v1/tasks/a/why").await.json();
    assert!(!why.to_string().contains("Deploy a?"), "{why}");
    runner.shutdown().await;
}

#[tokio::test]
async fn the_api_has_what_a_task_waits_for() {
    let kit = Kit::new().await;
    let runner = asking(&kit, &["a"]).await;
    let listed = kit.get("/v1/tasks?waits=signal").await.json();
    let asked = &listed["tasks"][0]["awaits_signal"];
    assert_eq!(asked["name"], "approve");
    assert_eq!(asked["schema"]["required"], json!(["approved"]));
    let why = kit.get("/v1/why").await.json();
    let one = &why["waiting"][0];
    assert_eq!(
        (&one["reason"], &one["tasks"]),
        (&json!("signal"), &json!(1))
    );
    assert_eq!(one["remedy"], "GET /v1/tasks?kind=mail&waits=signal");
    let stats = kit.get("/v1/stats").await.json();
    let of = stats["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .find(|of| of["kind"] == "mail");
    let of = of.unwrap_or(&Value::Null);
    assert_eq!(
        (&of["awaiting_signal"], &of["paused"]),
        (&json!(1), &json!(0))
    );
    runner.shutdown().await;
}

/// Regression: a form of an earlier question answered the next one, because both have the same signal.
#[tokio::test]
async fn a_form_of_an_earlier_question_answers_no_other() {
    let kit = Kit::new().await;
    let twice = async |task: TaskContext| {
        let answers: u32 = task.data().ok().flatten().unwrap_or(0);
        let Some(Command::Signal(signal)) = task.commands().try_next() else {
            return Message::wait_for_signal(AwaitedSignal::new("ok").with_text("Really?"));
        };
        let next = match answers {
            0 => Message::wait_for_signal(AwaitedSignal::new("ok").with_text("Really?")),
            _ => Message::complete(),
        };
        next.with_data(&(answers + 1)).answer(&signal, &"noted")
    };
    kit.submit("a", "mail").await;
    let runner = Runner::builder(&kit.store)
        .node("n1")
        .handler("mail", twice);
    let runner = runner.start().await.unwrap();
    until(&kit, "/people", "/tasks/a/answer").await;
    let fields = filled(&kit, "a", "name=ok&back=task&p.value=").await;
    kit.form("/tasks/a/answer", &fields).await;
    let end = tokio::time::Instant::now() + crate::kit::BOUND;
    while filled(&kit, "a", "name=ok&back=task&p.value=").await == fields {
        assert!(tokio::time::Instant::now() < end, "the task asks again");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let late = kit.send(answer(&kit.admin, &fields)).await;
    assert_eq!(late.status, StatusCode::BAD_REQUEST, "{}", late.text);
    until(&kit, "/tasks/a", "/tasks/a/answer").await;
    runner.shutdown().await;
}

/// A form that is sent twice before a node has the task is one signal: the second one would answer the next question.
#[tokio::test]
async fn a_question_has_one_answer() {
    let kit = Kit::new().await;
    let runner = asking(&kit, &["a"]).await;
    runner.shutdown().await;
    let fields = filled(&kit, "a", "name=approve&p.approved=true&p.by=ann").await;
    let (one, again) = (
        kit.form("/tasks/a/answer", &fields).await,
        kit.form("/tasks/a/answer", &fields).await,
    );
    assert_eq!(one, again);
    assert_eq!(kit.client.commands("a").await.unwrap().len(), 1);
    let page = kit.page("/tasks/a").await;
    assert!(
        page.contains("it waits for a node that runs the task"),
        "{page}"
    );
    assert!(!page.contains("/tasks/a/answer"), "{page}");
}
