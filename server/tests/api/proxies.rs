//! A proxy that says who sends a request.

use std::{path::Path, time::Duration};

use tokio::net::{TcpStream, UnixStream};
use windlass_server::{Listen, Role, Server, Serving, TrustedHeader};

use crate::{kit::Kit, listening::exchange};

async fn serve(kit: &Kit, socket: &Path, from: &str) -> Serving {
    let header = TrustedHeader::new("X-Forwarded-User").unwrap();
    let header = header.from([from.parse().unwrap()]);
    let header = header.user("ann", Role::Operate).user("bob", Role::Read);
    let server = Server::builder(&kit.store)
        .host("tasks.example")
        .trust_header(header)
        .build();
    let listens = [
        Listen::Socket(socket.to_owned()),
        Listen::BehindProxy("127.0.0.1:0".parse().unwrap()),
    ];
    server.listen(listens).await.unwrap()
}

/// A request with more lines in its head.
fn head(line: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nHost: tasks.example\r\nConnection: close\r\nContent-Length: {length}\r\n{more}\r\n{body}"
    )
}

#[tokio::test]
async fn the_user_that_a_trusted_proxy_names_is_the_caller() {
    let kit = Kit::new().await;
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("run/s.sock");
    let serving = serve(&kit, &socket, "127.0.0.1").await;
    let tcp = || TcpStream::connect(serving.addresses()[0]);
    let ann = "X-Forwarded-User: ann\r\nOrigin: https://tasks.example\r\n";
    let post = head("POST /v1/tasks", ann, r#"{"id":"a","kind":"k"}"#);
    for (stream, status) in [(tcp().await.unwrap(), "201"), (tcp().await.unwrap(), "409")] {
        let made = exchange(stream, post.as_bytes()).await;
        assert!(made.starts_with(&format!("HTTP/1.1 {status}")), "{made}");
    }
    let by = kit.client.history("a", 1).await.unwrap()[0].by.clone();
    assert_eq!(by.unwrap().as_str(), "proxy ann");
    for (more, status) in [
        ("X-Forwarded-User: bob\r\n", "200"),
        ("X-Forwarded-User: eve\r\n", "403"),
        ("X-Forwarded-User: ann\r\nX-Forwarded-User: bob\r\n", "403"),
        ("", "401"),
        ("X-Forwarded-User:\r\n", "401"),
        ("X-Forwarded-User:  \r\n", "401"),
    ] {
        let get = head("GET /v1/tasks", more, "");
        let answer = exchange(tcp().await.unwrap(), get.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{more}: {answer}"
        );
        // The user of the socket is the proxy now.
        let answer = exchange(UnixStream::connect(&socket).await.unwrap(), get.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{more}: {answer}"
        );
    }
    // The browser of the user sends what the proxy asks for with every request, also with those of other pages.
    for foreign in [
        "",
        "Origin: https://evil.example\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
    ] {
        let more = format!("X-Forwarded-User: ann\r\n{foreign}");
        let post = head("POST /v1/tasks", &more, r#"{"kind":"k"}"#);
        let refused = exchange(tcp().await.unwrap(), post.as_bytes()).await;
        assert!(refused.starts_with("HTTP/1.1 403"), "{foreign}: {refused}");
    }
    let bob = "X-Forwarded-User: bob\r\nOrigin: https://tasks.example\r\n";
    let post = head("POST /v1/tasks", bob, r#"{"kind":"k"}"#);
    let refused = exchange(tcp().await.unwrap(), post.as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    serving.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn the_header_of_a_stranger_names_nobody() {
    let kit = Kit::new().await;
    let dir = tempfile::tempdir().unwrap();
    let serving = serve(&kit, &dir.path().join("run/s.sock"), "10.0.0.1").await;
    let get = head("GET /v1/tasks", "X-Forwarded-User: ann\r\n", "");
    let stranger = TcpStream::connect(serving.addresses()[0]).await.unwrap();
    let refused = exchange(stranger, get.as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    // A router that is mounted elsewhere does not know where requests come from.
    let mounted = Server::builder(&kit.store)
        .trust_header(TrustedHeader::new("X-User").unwrap().others(Role::Admin))
        .build();
    let other = Kit::of_server(&kit, mounted);
    let mut request = crate::kit::request("", "GET /v1/tasks", "");
    request.headers_mut().remove("authorization");
    request
        .headers_mut()
        .insert("x-user", "ann".parse().unwrap());
    assert_eq!(other.send(request).await.problem(401), "unauthorized");
    serving.shutdown(Duration::from_secs(5)).await;
}

#[test]
fn a_header_with_another_purpose_is_not_trusted() {
    for name in ["Cookie", "authorization", "host", "a b", ""] {
        let refused = TrustedHeader::new(name).unwrap_err();
        assert_eq!(refused.field(), "header", "{name}");
    }
}
