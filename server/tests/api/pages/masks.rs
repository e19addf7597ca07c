//! Masks and links: a page offers no list that a mask refuses.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};
use windlass::{Limit, Message, NewTask, Runner, TaskContext};
use windlass_server::{Mask, Masks, axum::http::StatusCode};

use crate::kit::{BOUND, Kit};

/// Fails, except for tasks that hold the slot of a limit.
async fn holds_or_fails(task: TaskContext) -> Message {
    match task.id().as_str().starts_with("held") {
        true => task.stop_requested().await.message(),
        false => Message::fail("the disk is full"),
    }
}

/// Returns a page once it has a text.
async fn with(kit: &Kit, path: &str, text: &str) -> String {
    let end = Instant::now() + BOUND;
    loop {
        let page = kit.page(path).await;
        if page.contains(text) {
            return page;
        }
        assert!(Instant::now() < end, "{path} has no {text:?}: {page}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the links of a page to lists and to counts of bulk operations.
fn lists(page: &str) -> Vec<String> {
    let links = page.split("href=\"").skip(1);
    let links = links.filter_map(|link| link.split('"').next());
    let links = links.map(|link| link.replace("&amp;", "&"));
    links
        .filter(|link| link.starts_with("/tasks?") || link.starts_with("/bulk?"))
        .collect()
}

#[tokio::test]
async fn no_page_links_a_list_that_a_mask_refuses() {
    let kit = Kit::new().await;
    let mask = Mask::new("secret", ["/props/password"])
        .unwrap()
        .errors(true);
    Masks::new(&kit.store).set(&mask, None).await.unwrap();
    let end = Instant::now() + BOUND;
    while kit.get("/v1/tasks?error=x").await.status != StatusCode::FORBIDDEN {
        assert!(Instant::now() < end, "the server does not learn the mask");
        sleep(Duration::from_millis(20)).await;
    }
    let none = kit.page("/failures").await;
    assert!(!none.contains("error="), "{none}");
    let runner = Runner::builder(&kit.store)
        .handler("mail", holds_or_fails)
        .handler("pay", holds_or_fails)
        .handler("both", holds_or_fails);
    let _node = runner.start().await.unwrap();
    let props = json!({"password": "hunter2"});
    for (id, kind) in [("m1", "mail"), ("p1", "pay"), ("b1", "both")] {
        let task = NewTask::new(kind).id(id).props(&props);
        kit.client.submit(task).await.unwrap();
        kit.client.wait(id).await.unwrap();
    }
    for id in ["held-1", "held-2"] {
        let limit = Limit::at_once("disk", 1).unwrap();
        let task = NewTask::new("mail").id(id).limit(limit);
        kit.client.submit(task).await.unwrap();
        with(&kit, &format!("/tasks/{id}"), "Owner").await;
    }
    let held = |page: &str| page.contains("It waits: ");
    let end = Instant::now() + BOUND;
    let page = loop {
        let pages = [
            kit.page("/tasks/held-1").await,
            kit.page("/tasks/held-2").await,
        ];
        if let Some(page) = pages.into_iter().find(|page| held(page)) {
            break page;
        }
        assert!(Instant::now() < end, "no task waits for the limit");
        sleep(Duration::from_millis(20)).await;
    };
    let failures = with(&kit, "/failures", "the disk is full").await;
    let of_one = with(&kit, "/failures?kind=mail", "the disk is full").await;
    let task = kit.page("/tasks/m1").await;
    let limits = with(&kit, "/limits", "disk").await;
    let overview = kit.page("/").await;
    let offered = [&failures, &of_one, &task, &limits, &overview, &page].map(|page| lists(page));
    for link in offered.iter().flatten() {
        let answer = kit.call(&format!("GET {link}"), "").await;
        assert_eq!(answer.status, StatusCode::OK, "{link}: {}", answer.text);
    }
    // What a mask of another kind does not concern is offered.
    let [failures, of_one, task, ..] = &offered;
    let leads = |links: &[String], parts: &[&str]| {
        let has = |link: &String| parts.iter().all(|part| link.contains(part));
        links.iter().any(has)
    };
    for kind in ["kind=mail", "kind=pay", "kind=both"] {
        assert!(leads(failures, &["fingerprint=", kind]), "{failures:?}");
    }
    assert!(
        leads(
            of_one,
            &["/bulk?", "fingerprint=", "kind=mail", "action=retry"]
        ),
        "{of_one:?}"
    );
    assert!(leads(task, &["fingerprint=", "kind=mail"]), "{task:?}");
}
