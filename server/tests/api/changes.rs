//! Changes as events.

use std::time::Duration;

use futures::StreamExt;
use windlass_server::{
    NewToken, Role,
    axum::{
        body::Body,
        http::{HeaderValue, Request},
    },
};

use crate::kit::{BOUND, Kit, request};

/// The events of a stream, as they come.
struct Events {
    body: windlass_server::axum::body::BodyDataStream,
    read: String,
}

impl Events {
    async fn open(kit: &Kit, request: Request<Body>) -> Self {
        let response = kit.open(request).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            body: response.into_body().into_data_stream(),
            read: String::new(),
        }
    }

    /// Returns the next event: its name, its id and its data; `None` at the end.
    async fn next(&mut self) -> Option<(String, String, String)> {
        // Comments keep a stream alive, and no event comes by them.
        let event = tokio::time::timeout(BOUND, self.read_next()).await;
        event.expect("an event in time")
    }

    async fn read_next(&mut self) -> Option<(String, String, String)> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let field = |name: &str| {
                    let mut lines = event.lines();
                    let line = lines.find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().trim().to_owned()
                };
                let (event, rest) = (
                    (field("event:"), field("id:"), field("data:")),
                    rest.to_owned(),
                );
                self.read = rest;
                if event.0.is_empty() {
                    // A comment.
                    continue;
                }
                return Some(event);
            }
            let bytes = self.body.next().await?.unwrap();
            self.read.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
}

#[tokio::test]
async fn a_stream_has_every_change_and_resumes_after_the_last_event() {
    let kit = Kit::new().await;
    let mut events = Events::open(&kit, request(&kit.admin, "GET /v1/changes", "")).await;
    kit.submit("a", "k").await;
    kit.submit("b", "k").await;
    let (name, first, data) = events.next().await.unwrap();
    assert_eq!(name, "change");
    assert!(data.contains(r#""task":"a""#), "{data}");
    drop(events);
    let mut again = request(&kit.admin, "GET /v1/changes", "");
    again
        .headers_mut()
        .insert("last-event-id", first.parse().unwrap());
    let mut events = Events::open(&kit, again).await;
    let (_, second, data) = events.next().await.unwrap();
    assert!(data.contains(r#""task":"b""#), "{data}");
    let after = format!("GET /v1/changes?after={first}");
    let mut events = Events::open(&kit, request(&kit.admin, &after, "")).await;
    assert_eq!(events.next().await.unwrap().1, second);
    let wrong = kit.get("/v1/changes?after=x").await;
    assert_eq!(wrong.field(), "after");
}

/// Regression: with a byte that is not ASCII the header was ignored, and the stream began now.
#[tokio::test]
async fn a_last_event_id_that_is_no_number_is_refused() {
    let kit = Kit::new().await;
    for wrong in [&b"x"[..], b"-1", b"7\xff", b"\xc3\xa9", b"", b"7 8"] {
        let mut request = request(&kit.admin, "GET /v1/changes?after=0", "");
        let id = HeaderValue::from_bytes(wrong).unwrap();
        request.headers_mut().insert("last-event-id", id);
        let refused = kit.send(request).await;
        assert_eq!(refused.field(), "Last-Event-ID", "{wrong:?}");
    }
}

#[tokio::test]
async fn a_position_that_is_not_kept_gives_a_reset() {
    let kit = Kit::new().await;
    // Later than every change: of a store that was restored.
    let mut events =
        Events::open(&kit, request(&kit.admin, "GET /v1/changes?after=99999", "")).await;
    assert_eq!(events.next().await.unwrap().0, "reset");
    kit.submit("a", "k").await;
    assert_eq!(events.next().await.unwrap().0, "change");
}

/// Regression: the event `reset` had no id, so that a client that connected again was reset again, or lost changes.
#[tokio::test]
async fn a_client_that_was_reset_goes_on_from_there() {
    let kit = Kit::new().await;
    kit.submit("before", "k").await;
    let late = request(&kit.admin, "GET /v1/changes?after=99999", "");
    let mut events = Events::open(&kit, late).await;
    let (name, id, _) = events.next().await.unwrap();
    assert_eq!(name, "reset");
    drop(events);
    kit.submit("between", "k").await;
    // As a browser does it: the first URL, with the id of the last event.
    let mut again = request(&kit.admin, "GET /v1/changes?after=99999", "");
    let headers = again.headers_mut();
    headers.insert("last-event-id", id.parse().unwrap());
    let mut events = Events::open(&kit, again).await;
    let (name, _, data) = events.next().await.unwrap();
    assert_eq!(name, "change");
    assert!(data.contains(r#""task":"between""#), "{data}");
}

#[tokio::test]
async fn a_scope_shows_its_own_changes_only() {
    let kit = Kit::new().await;
    let token = kit.token("mail", Role::Read, &["mail"]).await;
    let mut events = Events::open(&kit, request(&token, "GET /v1/changes", "")).await;
    kit.submit("secret", "other").await;
    kit.submit("seen", "mail").await;
    let mut expect = async |what: &str| {
        let (_, _, data) = events.next().await.unwrap();
        assert!(
            data.contains(r#""task":"seen""#) && data.contains(what),
            "{data}"
        );
    };
    expect("submitted").await;
    kit.client.delete("secret").await.unwrap();
    kit.client.delete("seen").await.unwrap();
    expect("deleted").await;
}

/// No read of the tokens finds anything new when one expires.
#[tokio::test]
async fn a_stream_ends_when_its_token_expires() {
    let kit = Kit::new().await;
    let short = NewToken::new("short", Role::Read).valid_for(Duration::from_secs(2));
    let (_, secret) = kit.tokens.make(short, None).await.unwrap();
    let mut events = Events::open(&kit, request(&secret, "GET /v1/changes", "")).await;
    kit.submit("a", "k").await;
    assert_eq!(events.next().await.unwrap().0, "change");
    let (name, _, data) = events.next().await.unwrap();
    assert_eq!(name, "end");
    assert!(data.contains("expired"), "{data}");
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked() {
    let kit = Kit::new().await;
    let token = kit.token("short", Role::Read, &[]).await;
    let mut events = Events::open(&kit, request(&token, "GET /v1/changes", "")).await;
    kit.submit("a", "k").await;
    assert_eq!(events.next().await.unwrap().0, "change");
    assert!(kit.tokens.revoke("short", None).await.unwrap());
    let (name, _, data) = events.next().await.unwrap();
    assert_eq!(name, "end");
    assert!(data.contains("revoked"), "{data}");
    assert!(events.next().await.is_none());
    let refused = kit.call_as(&token, "GET /v1/tasks", "").await;
    assert_eq!(refused.problem(401), "unauthorized");
}

/// The id of a task of others is used again: what happened to theirs is not shown.
#[tokio::test]
async fn a_scope_does_not_see_what_happened_to_an_earlier_task_with_the_id() {
    let kit = Kit::new().await;
    kit.submit("a", "pay").await;
    kit.client.delete("a").await.unwrap();
    // The store has microseconds.
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    let token = kit.token("mail", Role::Operate, &["mail"]).await;
    let own = kit
        .call_as(&token, "POST /v1/tasks", r#"{"id":"a","kind":"mail"}"#)
        .await;
    assert_eq!(own.status, 201, "{}", own.text);
    let mut events = Events::open(&kit, request(&token, "GET /v1/changes?after=0", "")).await;
    let (_, _, data) = events.next().await.unwrap();
    assert!(data.contains(r#""by":"token mail""#), "{data}");
}

/// A stream remembers the tasks whose changes came last, whatever came before them.
#[tokio::test]
async fn a_stream_of_a_scope_reports_the_deletion_of_each_of_its_last_tasks() {
    let kit = Kit::new().await;
    let token = kit.token("mail", Role::Read, &["mail"]).await;
    let mut events = Events::open(&kit, request(&token, "GET /v1/changes", "")).await;
    let ids: Vec<String> = (0..10_050).map(|n| format!("t{n}")).collect();
    for some in ids.chunks(500) {
        let tasks = some
            .iter()
            .map(|id| windlass::NewTask::new("mail").id(id.as_str()));
        for submitted in kit.client.submit_many(tasks).await {
            submitted.unwrap();
        }
        for id in some {
            let (_, _, data) = events.next().await.unwrap();
            assert!(data.contains(&format!(r#""task":"{id}""#)), "{data}");
        }
    }
    for id in ["t60", "t9000", "t10049"] {
        kit.client.delete(id).await.unwrap();
        let (_, _, data) = events.next().await.unwrap();
        let says = data.contains(&format!(r#""task":"{id}""#)) && data.contains("deleted");
        assert!(says, "{data}");
    }
}

/// On etcd the time of a deletion is that at which it is read: later than the submit of the next task with the id.
#[tokio::test]
async fn a_scope_does_not_see_the_deletion_of_an_earlier_task_with_the_id() {
    let kit = Kit::new().await;
    kit.submit("a", "pay").await;
    let after = kit.client.newest_change().await.unwrap();
    kit.client.delete("a").await.unwrap();
    kit.submit("a", "mail").await;
    let token = kit.token("mail", Role::Read, &["mail"]).await;
    let from = format!("GET /v1/changes?after={after}");
    let mut events = Events::open(&kit, request(&token, &from, "")).await;
    let (_, _, data) = events.next().await.unwrap();
    assert!(data.contains("submitted"), "{data}");
}
