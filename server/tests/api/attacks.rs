//! What the server is protected against, one test for each (docs/internals/security-tests.md).

use std::time::Duration;

use windlass_server::{
    Role, Server,
    axum::{body::Body, http::Request},
};

use crate::kit::{Kit, request};

fn bare(line: &str) -> windlass_server::axum::http::request::Builder {
    let (method, path) = line.split_once(' ').unwrap();
    Request::builder().method(method).uri(path)
}

#[tokio::test]
async fn a_request_without_a_token_or_with_a_wrong_one_is_refused() {
    let kit = Kit::new().await;
    let wrong = format!("Bearer {}x", kit.admin);
    for value in [
        None,
        Some("Bearer"),
        Some("Bearer "),
        Some(&*wrong),
        Some("Basic YWRtaW46YWRtaW4="),
        Some("Bearer wlt_"),
    ] {
        let mut request = bare("GET /v1/tasks").header("host", "localhost");
        if let Some(value) = value {
            request = request.header("authorization", value);
        }
        let refused = kit.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(refused.problem(401), "unauthorized", "{value:?}");
        assert_eq!(
            refused.headers["www-authenticate"],
            "Bearer realm=\"windlass\""
        );
        assert!(
            !refused.text.contains("wlt_"),
            "no secret is repeated: {}",
            refused.text
        );
    }
    // Two headers, of which a proxy may have checked one.
    let two = bare("GET /v1/tasks").header("host", "localhost");
    let two = two
        .header("authorization", format!("Bearer {}", kit.admin))
        .header("authorization", "Bearer x");
    let refused = kit.send(two.body(Body::empty()).unwrap()).await;
    assert_eq!(refused.problem(401), "unauthorized");
    // A token in the URL would be in logs and histories of browsers.
    let url = bare(&format!(
        "GET /v1/tasks?token={0}&access_token={0}",
        kit.admin
    ))
    .header("host", "localhost");
    let refused = kit.send(url.body(Body::empty()).unwrap()).await;
    assert_eq!(refused.problem(401), "unauthorized");
}

#[tokio::test]
async fn a_name_that_was_made_to_point_here_is_refused() {
    let kit = Kit::new().await;
    let secret = format!("Bearer {}", kit.admin);
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io:7474",
        "",
        "localhost@evil.example",
    ] {
        let request = bare("GET /v1/tasks")
            .header("host", host)
            .header("authorization", &secret);
        let refused = kit.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(refused.problem(421), "wrong_host", "{host:?}");
    }
    let none = bare("GET /v1/tasks")
        .header("authorization", &secret)
        .body(Body::empty())
        .unwrap();
    assert_eq!(kit.send(none).await.problem(421), "wrong_host");
    let two = bare("GET /v1/tasks")
        .header("host", "localhost")
        .header("host", "evil.example");
    let two = two
        .header("authorization", &secret)
        .body(Body::empty())
        .unwrap();
    assert_eq!(kit.send(two).await.problem(421), "wrong_host");
    let line = bare("GET http://evil.example/v1/tasks").header("host", "localhost");
    let line = line
        .header("authorization", &secret)
        .body(Body::empty())
        .unwrap();
    assert_eq!(kit.send(line).await.problem(421), "wrong_host");
    for host in ["localhost", "LOCALHOST:80", "127.0.0.1:7474", "[::1]:7474"] {
        let request = bare("GET /v1/tasks")
            .header("host", host)
            .header("authorization", &secret);
        assert_eq!(
            kit.send(request.body(Body::empty()).unwrap()).await.status,
            200,
            "{host}"
        );
    }
    // Regression: a name with a port never matched.
    for named in ["tasks.example", "tasks.example:7474"] {
        let server = Server::builder(&kit.store).host(named).build();
        let other = Kit::of_server(&kit, server);
        for host in ["tasks.example", "tasks.example:7474"] {
            let request = bare("GET /v1/tasks")
                .header("host", host)
                .header("authorization", &secret);
            let answer = other.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.status, 200, "{named} {host}");
        }
    }
}

#[tokio::test]
async fn only_the_health_of_the_server_is_told_to_strangers() {
    let kit = Kit::new().await;
    for path in ["/healthz", "/readyz"] {
        let request = bare(&format!("GET {path}"))
            .header("host", "anything")
            .body(Body::empty())
            .unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(10), async {
            loop {
                let again = bare(&format!("GET {path}")).body(Body::empty()).unwrap();
                let answer = kit.send(again).await;
                if answer.status == 200 {
                    return answer;
                }
                assert_eq!(answer.text, "not ok\n");
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(answer.await.expect("ready in time").text, "ok\n");
        assert_eq!(kit.send(request).await.text, "ok\n");
    }
    // The pages have a test of their own: pages::a_stranger_is_told_how_to_open_a_session.
    for path in [
        "/v1",
        "/metrics",
        "/v1/tasks/../tokens",
        "/healthz/..",
        "//v1/tasks",
        "/v1/tasks/%2e%2e/tokens",
    ] {
        let request = bare(&format!("GET {path}"))
            .header("host", "localhost")
            .body(Body::empty())
            .unwrap();
        let refused = kit.send(request).await;
        assert_eq!(refused.problem(401), "unauthorized", "{path}");
    }
}

#[tokio::test]
async fn a_path_names_one_task_whatever_its_characters_are() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    for path in [
        "/v1/tasks/%2e%2e%2ftokens",
        "/v1/tasks/a%2fhistory",
        "/v1/tasks/a%00",
        "/v1/tasks/%ff",
        "/v1/tasks/a%0ab",
    ] {
        let answer = kit.get(path).await;
        assert!(
            (400..500).contains(&answer.status.as_u16()),
            "{path}: {} {}",
            answer.status,
            answer.text
        );
        assert!(
            !answer.text.contains("\"tokens\""),
            "{path}: {}",
            answer.text
        );
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_or_compressed_is_refused() {
    let kit = Kit::new().await;
    let server = Server::builder(&kit.store).max_body(1000).build();
    let kit = Kit::of_server(&kit, server);
    let large = format!(r#"{{"kind":"k","props":"{}"}}"#, "x".repeat(1000));
    for line in [
        "POST /v1/tasks",
        "POST /v1/transactions",
        "POST /v1/tokens",
        "POST /v1/tasks/a/commands",
    ] {
        let refused = kit.call(line, large.clone()).await;
        assert_eq!(refused.problem(413), "body", "{line}");
        assert!(
            refused.text.contains("more than 1000 bytes"),
            "{}",
            refused.text
        );
    }
    let mut lines = request(&kit.admin, "POST /v1/tasks", large);
    lines
        .headers_mut()
        .insert("content-type", "application/x-ndjson".parse().unwrap());
    let refused = kit.send(lines).await;
    assert!(refused.text.contains("too_large"), "{}", refused.text);
    let mut compressed = request(&kit.admin, "POST /v1/tasks", "x");
    compressed
        .headers_mut()
        .insert("content-encoding", "gzip".parse().unwrap());
    assert_eq!(kit.send(compressed).await.problem(415), "encoded");
    let deep = format!("{}{}", "[".repeat(900), "]".repeat(90));
    let refused = kit.call("POST /v1/tasks", deep).await;
    assert_eq!(refused.field(), "body");
}

#[tokio::test]
async fn a_caller_with_too_many_requests_is_told_to_wait() {
    let kit = Kit::new().await;
    let server = Server::builder(&kit.store).rate(5).build();
    let kit = Kit::of_server(&kit, server);
    let other = kit.token("other", Role::Read, &[]).await;
    let mut refused = None;
    for _ in 0..200 {
        let answer = kit.get("/v1/time").await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a refusal");
    assert_eq!(refused.problem(429), "too_many");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(
        kit.call_as(&other, "GET /v1/time", "").await.status,
        200,
        "others are not held up"
    );
}

#[tokio::test]
async fn streams_have_places_of_their_own_and_leave_the_others_free() {
    let kit = Kit::new().await;
    let server = Server::builder(&kit.store).max_in_flight(2).build();
    let kit = Kit::of_server(&kit, server);
    let other = kit.token("other", Role::Read, &[]).await;
    let stream = |token: &str| request(token, "GET /v1/changes", "");
    let one = kit.open(stream(&kit.admin)).await;
    let two = kit.open(stream(&kit.admin)).await;
    let refused = kit.call_as(&other, "GET /v1/changes", "").await;
    assert_eq!(refused.problem(503), "busy");
    assert_eq!(kit.call_as(&other, "GET /v1/time", "").await.status, 200);
    drop(one);
    let again = kit.open(stream(&other)).await;
    assert_eq!(again.status(), 200);
    drop(two);
}

#[tokio::test]
async fn answers_forbid_what_pages_could_do_with_them() {
    let kit = Kit::new().await;
    for answer in [kit.get("/v1/tasks").await, kit.get("/v1/none").await] {
        let header = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("referrer-policy"), "no-referrer");
        assert!(header("content-security-policy").contains("frame-ancestors 'none'"));
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
        assert_eq!(header("x-request-id").len(), 36);
    }
}

#[tokio::test]
async fn a_server_that_cannot_confirm_its_tokens_answers_503_and_not_401() {
    use windlass::testing::{Fault, FaultyStore, Operation};
    let faulty = FaultyStore::new(&windlass::Store::open("memory:").await.unwrap());
    let kit = Kit::with(faulty.store()).await;
    assert_eq!(kit.get("/v1/time").await.status, 200);
    faulty.fail(Operation::Read, Fault::Before, 1_000_000);
    let unconfirmed = async {
        loop {
            let answer = kit.get("/v1/time").await;
            if answer.status != 200 {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(20), unconfirmed).await;
    let answer = answer.expect("a refusal within 20 s");
    assert_eq!(answer.problem(503), "unconfirmed");
    let stranger = kit.call_as("wlt_none", "GET /v1/time", "").await;
    assert_eq!(stranger.problem(503), "unconfirmed");
    faulty.heal();
    let back = async {
        while kit.get("/v1/time").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), back)
        .await
        .expect("it works again");
}

#[tokio::test]
async fn one_caller_leaves_room_for_others() {
    let kit = Kit::new().await;
    let server = Server::builder(&kit.store).max_in_flight(16).build();
    let kit = Kit::of_server(&kit, server);
    let greedy = kit.token("greedy", Role::Read, &[]).await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(kit.open(request(&greedy, "GET /v1/changes", "")).await);
    }
    let refused = kit.call_as(&greedy, "GET /v1/changes", "").await;
    assert_eq!(refused.problem(429), "too_many");
    assert_eq!(kit.call_as(&greedy, "GET /v1/time", "").await.status, 200);
    let other = kit.open(request(&kit.admin, "GET /v1/changes", "")).await;
    assert_eq!(other.status(), 200);
    drop(streams.pop());
    let again = kit.open(request(&greedy, "GET /v1/changes", "")).await;
    assert_eq!(again.status(), 200);
}

#[tokio::test]
async fn every_error_is_a_problem_document() {
    let kit = Kit::new().await;
    for path in ["/v1/tasks/%ff", "/v1/node-commands/x", "/v1/tasks?%ff"] {
        let refused = kit.get(path).await;
        assert!(!refused.problem(400).is_empty(), "{path}");
    }
}
