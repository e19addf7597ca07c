//! A request that is refused before its body is read: the client can send the rest of it, and gets the answer.

use std::{convert::Infallible, time::Duration};

use futures::stream;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};
use windlass_server::{
    Listen, Role, Server,
    axum::body::{Body, Bytes},
};

use crate::kit::{BOUND, Kit, request};

/// Returns a body of a megabyte in pieces, and what reports that it was read to its end.
fn large() -> (Body, oneshot::Receiver<()>) {
    let (read, is_read) = oneshot::channel();
    let pieces = stream::unfold((16, Some(read)), |(left, read)| async move {
        if left == 0 {
            let is_gone = read.is_some_and(|read| read.send(()).is_err());
            assert!(!is_gone, "the test waits for the end");
            return None;
        }
        let piece = Ok::<_, Infallible>(Bytes::from(vec![b' '; 64 << 10]));
        Some((piece, (left - 1, read)))
    });
    (Body::from_stream(pieces), is_read)
}

/// Regression: a 415 closed the connection with unread bytes, which is a broken pipe for the client.
#[tokio::test]
async fn the_rest_of_a_body_is_read_when_its_request_is_refused() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    let read_only = kit.token("reader", Role::Read, &[]).await;
    for (token, line, encoding, status) in [
        (&kit.admin, "PATCH /v1/tasks/a", "identity", 415),
        (&kit.admin, "POST /v1/tasks", "gzip", 415),
        (&read_only, "POST /v1/tasks", "identity", 403),
        (&kit.admin, "POST /v1/none", "identity", 404),
    ] {
        let (body, is_read) = large();
        let mut request = request(token, line, body);
        let headers = request.headers_mut();
        headers.insert("content-encoding", encoding.parse().unwrap());
        let refused = kit.send(request).await;
        assert_eq!(refused.status, status, "{line}: {}", refused.text);
        let read = tokio::time::timeout(BOUND, is_read).await;
        assert_eq!(read.expect("the body is read in time"), Ok(()), "{line}");
    }
    // Of a stranger's little is read.
    let (body, is_read) = large();
    let refused = kit.send(request("wlt_none", "POST /v1/tasks", body)).await;
    assert_eq!(refused.problem(401), "unauthorized");
    let read = tokio::time::timeout(BOUND, is_read).await;
    assert!(read.expect("the body is dropped in time").is_err());
}

/// Regression: a body of the type `text/plain`, which a page of any site may send without asking, was read as JSON.
#[tokio::test]
async fn a_body_of_another_type_than_json_is_refused() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    let send = async |line: &str, kind: &str, body: &'static str| {
        let mut request = request(&kit.admin, line, body);
        let kind = kind.parse().unwrap();
        request.headers_mut().insert("content-type", kind);
        kit.send(request).await
    };
    let index = kit.get("/v1").await.json();
    let requests = index["requests"].as_array().unwrap().iter();
    let with_body = requests.filter(|one| one["bodies"].is_array());
    let lines = with_body.map(|one| {
        let text = |field: &str| one[field].as_str().unwrap().to_owned();
        let line = format!("{} {}", text("method"), text("path"));
        line.replace("{id}", "a").replace("{name}", "n")
    });
    let lines: Vec<String> = lines.collect();
    assert!(lines.len() > 15, "{lines:?}");
    for line in lines {
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "text/plain;application/json",
        ] {
            let refused = send(&line, kind, "{}").await;
            assert_eq!(refused.status, 415, "{line} {kind}: {}", refused.text);
            assert_eq!(refused.problem(415), "media_type");
            let detail = refused.json()["detail"].to_string();
            let is_patch = line.starts_with("PATCH /v1/tasks/");
            let wanted = match is_patch {
                true => "'Content-Type: application/json-patch+json'",
                false => "'Content-Type: application/json'",
            };
            assert!(detail.contains(wanted), "{line}: {detail}");
        }
    }
    assert_eq!(
        kit.get("/v1/tasks").await.json()["tasks"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    for kind in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/vnd.x+json",
    ] {
        let sent = send("POST /v1/tasks", kind, r#"{"kind":"k"}"#).await;
        assert_eq!(sent.status, 201, "{kind}: {}", sent.text);
    }
    // Without a body there is nothing to read.
    let empty = send("POST /v1/tasks/a/signals/n", "text/plain", "").await;
    assert!(empty.status.is_success(), "{}", empty.text);
}

/// A client that writes its whole body before it reads the answer.
#[tokio::test]
async fn a_client_that_sends_a_large_body_gets_the_answer_that_refuses_it() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    let server = Server::builder(&kit.store).build();
    let listens = [Listen::Loopback("127.0.0.1:0".parse().unwrap())];
    let serving = server.listen(listens).await.unwrap();
    let body = " ".repeat(7 << 20);
    for (line, more, status) in [
        ("PATCH /v1/tasks/a", "Content-Type: text/plain\r\n", 415),
        ("POST /v1/tasks", "Content-Encoding: gzip\r\n", 415),
        ("POST /v1/none", "", 404),
    ] {
        for connection in ["close", "keep-alive"] {
            let head = format!(
                "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: {connection}\r\n{more}\
                 Content-Length: {}\r\n\r\n",
                kit.admin,
                body.len()
            );
            let mut stream = TcpStream::connect(serving.addresses()[0]).await.unwrap();
            let exchange = async {
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(body.as_bytes()).await?;
                let mut answer = [0; 12];
                stream.read_exact(&mut answer).await?;
                Ok::<_, std::io::Error>(answer)
            };
            let answer = tokio::time::timeout(BOUND, exchange).await;
            let answer = answer.expect("an answer in time");
            let answer = answer.unwrap_or_else(|error| panic!("{line} {connection}: {error}"));
            let expected = format!("HTTP/1.1 {status}");
            assert_eq!(answer, expected.as_bytes(), "{line} {connection}");
        }
    }
    serving.shutdown(Duration::from_secs(1)).await;
}
