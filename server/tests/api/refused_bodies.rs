//! A request that is refused before its body is read: the client can send the rest of it, and gets the answer.

use std::convert::Infallible;

use futures::stream;
use tokio::sync::oneshot;
use windlass_server::{
    Role,
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
