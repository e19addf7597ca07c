//! The socket, and processes that are not what they say.

use std::time::Duration;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::timeout,
};
use windlass::Json;

use super::*;

const LONG: Duration = Duration::from_secs(20);

async fn connect(asking: &Asking) -> BufReader<UnixStream> {
    BufReader::new(UnixStream::connect(&asking.socket).await.unwrap())
}

async fn answer(stream: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    timeout(LONG, stream.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    line
}

async fn send(stream: &mut BufReader<UnixStream>, line: &str) {
    stream
        .write_all(format!("{line}\n").as_bytes())
        .await
        .unwrap();
}

fn wait(key: &str, name: &str) -> String {
    format!(r#"{{"key":"{key}","wait_signal":{{"name":"{name}"}}}}"#)
}

async fn next(asking: &mut Asking) -> (String, oneshot::Sender<Answer>) {
    let Asked { request, answer } = timeout(LONG, asking.next()).await.unwrap().unwrap();
    let Request::WaitSignal(wait) = request;
    (wait.signal.name().to_owned(), answer)
}

#[tokio::test]
async fn each_run_gets_the_requests_with_its_key() {
    let sockets = Sockets::default();
    let mut one = sockets.register().await.unwrap();
    let mut two = sockets.register().await.unwrap();
    assert_eq!(one.socket, two.socket);
    assert_ne!(one.key, two.key);
    let mut stream = connect(&one).await;
    // One connection may speak for several runs, if it has their keys.
    for (asking, name) in [(&mut two, "b"), (&mut one, "a")] {
        send(&mut stream, &wait(&asking.key, name)).await;
        let (asked, to) = next(asking).await;
        assert_eq!(asked, name);
        to.send(Answer::Payload(Json::null())).unwrap();
        assert_eq!(answer(&mut stream).await, "{\"payload\":null}\n");
    }
}

#[tokio::test]
async fn a_hostile_key_is_refused_and_reaches_no_run() {
    let sockets = Sockets::default();
    let mut asking = sockets.register().await.unwrap();
    let key = asking.key.clone();
    for (hostile, says) in [
        (wait("", "a"), "the key is that of no run"),
        (wait(&key[1..], "a"), "the key is that of no run"),
        (
            wait(
                &key.to_uppercase()
                    .replace(|c: char| c.is_ascii_digit(), "_"),
                "a",
            ),
            "the key is that of no run",
        ),
        (
            r#"{"key":"x","wait_signal":{"name":""}}"#.into(),
            "the key is that of no run",
        ),
        (r#"{"wait_signal":{"name":"a"}}"#.into(), "is missing"),
        ("\u{0}".into(), "\"field\":\"request\""),
    ] {
        let mut stream = connect(&asking).await;
        send(&mut stream, &hostile).await;
        let refused = answer(&mut stream).await;
        assert!(refused.contains(says), "{hostile}: {refused}");
        assert_eq!(answer(&mut stream).await, "", "the connection has ended");
    }
    assert!(asking.requests.try_recv().is_err());
    // Its own process is served all the same.
    let mut stream = connect(&asking).await;
    send(&mut stream, &wait(&key, "a")).await;
    assert_eq!(next(&mut asking).await.0, "a");
}

#[tokio::test]
async fn a_wrong_request_names_its_field_and_the_connection_stays() {
    let sockets = Sockets::default();
    let mut asking = sockets.register().await.unwrap();
    let mut stream = connect(&asking).await;
    send(&mut stream, &wait(&asking.key, "")).await;
    let refused = answer(&mut stream).await;
    assert!(refused.ends_with("\"field\":\"name\"}\n"), "{refused}");
    send(&mut stream, &wait(&asking.key, "a")).await;
    assert_eq!(next(&mut asking).await.0, "a");
}

#[tokio::test]
async fn a_key_ends_with_its_run() {
    let sockets = Sockets::default();
    let mut asking = sockets.register().await.unwrap();
    let other = sockets.register().await.unwrap();
    let mut stream = connect(&asking).await;
    let line = wait(&asking.key, "a");
    send(&mut stream, &line).await;
    let (_, unanswered) = next(&mut asking).await;
    drop((asking, unanswered));
    let ended = answer(&mut stream).await;
    assert!(
        ended.contains("the run of the command has ended"),
        "{ended}"
    );
    let mut stream = connect(&other).await;
    send(&mut stream, &line).await;
    let refused = answer(&mut stream).await;
    assert!(refused.contains("the key is that of no run"), "{refused}");
}

#[tokio::test]
async fn a_request_without_end_is_refused() {
    let sockets = Sockets::default();
    let asking = sockets.register().await.unwrap();
    let mut stream = connect(&asking).await;
    let line = vec![b' '; (1 << 20) + 1];
    // The worker closes the connection before it has read everything.
    let _ = stream.write_all(&line).await;
    let refused = answer(&mut stream).await;
    assert!(refused.contains("which is too much"), "{refused}");
}

#[tokio::test]
async fn connections_that_wait_keep_nobody_out() {
    let sockets = Sockets::default();
    let mut asking = sockets.register().await.unwrap();
    let line = wait(&asking.key, "a");
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut stream = connect(&asking).await;
        send(&mut stream, &line).await;
        waiting.push((next(&mut asking).await, stream));
    }
    for ((_, to), mut stream) in waiting.into_iter().rev() {
        to.send(Answer::Expired).unwrap();
        assert_eq!(answer(&mut stream).await, "{\"expired\":true}\n");
    }
}

#[tokio::test]
async fn the_last_owner_removes_the_socket() {
    let sockets = Sockets::default();
    let asking = sockets.register().await.unwrap();
    let path = asking.socket.clone();
    drop(sockets.clone());
    assert!(path.exists());
    drop((sockets, asking));
    assert!(!path.exists() && !path.parent().unwrap().exists());
}

/// Regression: a program that cleans folders of temporary files removed the socket, and no command could wait any more.
#[tokio::test]
async fn a_socket_that_was_removed_is_opened_again() {
    let sockets = Sockets::default();
    let first = sockets.register().await.unwrap();
    let again = sockets.register().await.unwrap();
    assert_eq!(first.socket, again.socket);
    std::fs::remove_file(&first.socket).unwrap();
    let next = sockets.register().await.unwrap();
    assert!(first.socket != next.socket);
    connect(&next).await;
}
