//! What a token may not see or do is neither shown nor offered.

use windlass::NewTask;
use windlass_server::{Mask, Masks, NewToken, Role, Scope, axum::http::StatusCode};

use super::checked;
use crate::kit::Kit;

#[tokio::test]
async fn actions_are_offered_by_role() {
    let kit = Kit::new().await;
    kit.submit("a", "mail").await;
    let read = kit.token("r", Role::Read, &[]).await;
    let operate = kit.token("o", Role::Operate, &[]).await;
    let page = kit.page_as(&read, "/tasks/a").await;
    assert!(
        !page.contains("/commands/") && !page.contains("Kill"),
        "{page}"
    );
    assert!(!page.contains("/doctor") && !page.contains("/tokens"));
    let page = kit.page_as(&operate, "/tasks/a").await;
    assert!(
        page.contains("/tasks/a/commands/pause") && !page.contains("/doctor"),
        "{page}"
    );
    let page = kit.page("/tasks/a").await;
    assert!(page.contains("/doctor") && page.contains("/tokens"));
    // What is not offered is refused, too.
    let refused = kit.call_as(&read, "POST /tasks/a/commands/pause", "").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    checked(&refused);
    for path in ["/doctor", "/tokens"] {
        let refused = kit.call_as(&operate, &format!("GET {path}"), "").await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}");
        checked(&refused);
    }
    assert!(kit.client.commands("a").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_token_of_a_worker_sees_no_page() {
    let kit = Kit::new().await;
    kit.submit("a", "mail").await;
    let work = kit.token("w", Role::Work, &["mail"]).await;
    for path in super::PAGES.into_iter().chain(["/tasks/a"]) {
        let refused = kit.call_as(&work, &format!("GET {path}"), "").await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}");
        checked(&refused);
    }
}

#[tokio::test]
async fn a_scope_holds_on_every_page() {
    let kit = Kit::new().await;
    kit.submit("ours", "mail").await;
    kit.submit("theirs", "report").await;
    let token = kit.token("o", Role::Operate, &["mail"]).await;
    for path in [
        "/",
        "/tasks",
        "/search?q=t",
        "/search?q=report",
        "/failures",
        "/schedules",
        "/tasks/ours",
    ] {
        let page = kit.page_as(&token, path).await;
        assert!(!page.contains("theirs"), "{path}: {page}");
        assert!(
            !page.contains("\"/nodes\"") && !page.contains("\"/limits\""),
            "{path}: {page}"
        );
    }
    assert!(kit.page_as(&token, "/tasks").await.contains("ours"));
    for path in ["/nodes", "/limits", "/doctor", "/tokens"] {
        let refused = kit.call_as(&token, &format!("GET {path}"), "").await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}");
    }
    for line in ["GET /tasks/theirs", "POST /tasks/theirs/commands/kill"] {
        let missing = kit.call_as(&token, line, "").await;
        assert_eq!(missing.status, StatusCode::NOT_FOUND, "{line}");
        checked(&missing);
    }
    // By label: the overview counts tasks by kind, and such a token sees none of them.
    let scope = Scope::new([], [("team".to_owned(), "a".to_owned())]).unwrap();
    let by_label = kit
        .tokens
        .make(NewToken::new("l", Role::Read).scope(scope), None)
        .await
        .unwrap()
        .1;
    let overview = kit.call_as(&by_label, "GET /", "").await;
    assert_eq!(overview.status, StatusCode::SEE_OTHER);
    let page = kit.page_as(&by_label, "/tasks").await;
    assert!(
        !page.contains("ours") && !page.contains(">Overview<"),
        "{page}"
    );
}

#[tokio::test]
async fn masks_hold_on_pages_and_masked_values_cannot_be_edited() {
    let kit = Kit::new().await;
    let mask = Mask::new("mail", ["/props/password"]).unwrap().errors(true);
    Masks::new(&kit.store).set(&mask, None).await.unwrap();
    let task = NewTask::new("mail")
        .id("a")
        .props(&serde_json::json!({"password": "hunter2", "to": "ann"}));
    kit.client.submit(task).await.unwrap();
    let bound = tokio::time::Instant::now() + crate::kit::BOUND;
    let page = loop {
        let page = kit.page("/tasks/a").await;
        if page.contains("masked") || tokio::time::Instant::now() > bound {
            break page;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert!(page.contains("masked") && page.contains("ann"), "{page}");
    assert!(!page.contains("hunter2"), "{page}");
    let refused = kit.call("GET /tasks?error=x&kind=mail", "").await;
    assert_eq!(
        refused.status,
        StatusCode::FORBIDDEN,
        "a filter on a masked field is refused, as in the API"
    );
    checked(&refused);
}
