//! A server that listens: on a socket, on TCP, until it is shut down.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    time::timeout,
};
use windlass_server::{Listen, Server, Serving};

use crate::kit::{BOUND, Kit};

async fn serve(kit: &Kit) -> (Serving, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("run/s.sock");
    let listens = [
        Listen::Socket(socket),
        Listen::Loopback("127.0.0.1:0".parse().unwrap()),
    ];
    let server = Server::builder(&kit.store).build();
    (server.listen(listens).await.unwrap(), dir)
}

/// Sends bytes and reads until the other side closes.
pub(crate) async fn exchange(
    mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin,
    bytes: &[u8],
) -> String {
    stream.write_all(bytes).await.unwrap();
    let mut read = Vec::new();
    let all = timeout(BOUND, stream.read_to_end(&mut read)).await;
    all.expect("an end in time").unwrap();
    String::from_utf8_lossy(&read).into_owned()
}

#[tokio::test]
async fn the_user_of_the_socket_needs_no_token() {
    let kit = Kit::new().await;
    let (serving, _dir) = serve(&kit).await;
    let socket = || UnixStream::connect(&serving.sockets()[0]);
    let body = r#"{"id":"a","kind":"k"}"#;
    let post = format!(
        "POST /v1/tasks HTTP/1.1\r\nHost: windlass\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let made = exchange(socket().await.unwrap(), post.as_bytes()).await;
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let by = kit.client.history("a", 1).await.unwrap()[0].by.clone();
    let uid = nix_uid();
    let by = by.unwrap();
    assert!(!by.as_str().starts_with("token"), "{by} is user {uid}");
    // A browser that comes by something that forwards to the socket.
    for header in [
        "Origin: http://localhost:3000",
        "Sec-Fetch-Site: cross-site",
        "Cookie: a=b",
    ] {
        let get = format!(
            "GET /v1/tasks HTTP/1.1\r\nHost: windlass\r\n{header}\r\nConnection: close\r\n\r\n"
        );
        let refused = exchange(socket().await.unwrap(), get.as_bytes()).await;
        assert!(refused.starts_with("HTTP/1.1 403"), "{header}: {refused}");
    }
    // A token at the socket is an intent: it counts.
    let get = "GET /v1/tasks HTTP/1.1\r\nHost: windlass\r\nAuthorization: Bearer x\r\nConnection: close\r\n\r\n";
    let refused = exchange(socket().await.unwrap(), get.as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    serving.shutdown(Duration::from_secs(5)).await;
}

fn nix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or(0, |found| found.uid())
}

#[tokio::test]
async fn by_tcp_a_token_is_needed_and_smuggled_requests_are_not_read() {
    let kit = Kit::new().await;
    let (serving, _dir) = serve(&kit).await;
    let tcp = || TcpStream::connect(serving.addresses()[0]);
    let get = "GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let refused = exchange(tcp().await.unwrap(), get.as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let admin = &kit.admin;
    for smuggled in [
        // Two lengths, and a length beside chunks.
        format!(
            "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {admin}\r\nContent-Length: 5\r\nContent-Length: 40\r\n\r\n{{\"kind\":\"k\"}}GET /v1/tokens HTTP/1.1\r\n\r\n"
        ),
        format!(
            "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {admin}\r\nTransfer-Encoding: chunked, identity\r\nConnection: close\r\n\r\n0\r\n\r\nGET /v1/tokens HTTP/1.1\r\n\r\n"
        ),
        "GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\nConnection: close\r\n\r\n"
            .to_owned(),
        "GET /v1/tasks\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\u{2}".to_owned() + "\r\n\r\n",
    ] {
        let answer = exchange(tcp().await.unwrap(), smuggled.as_bytes()).await;
        assert!(
            answer.is_empty()
                || answer.starts_with("HTTP/1.1 4")
                || answer.starts_with("HTTP/1.0 4"),
            "{smuggled:?}: {answer}"
        );
        assert_eq!(
            answer.matches("HTTP/1.").count().max(1),
            1,
            "{smuggled:?}: {answer}"
        );
    }
    assert!(kit.tokens.list().await.unwrap().len() == 1);
    serving.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_shutdown_ends_waits_and_streams_and_removes_the_socket() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    let (serving, _dir) = serve(&kit).await;
    let path = serving.sockets()[0].clone();
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nHost: windlass\r\nConnection: close\r\n\r\n");
    let mut wait = UnixStream::connect(&path).await.unwrap();
    wait.write_all(get("/v1/tasks/a?wait=5m").as_bytes())
        .await
        .unwrap();
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream
        .write_all(get("/v1/changes").as_bytes())
        .await
        .unwrap();
    let mut head = [0; 12];
    timeout(BOUND, stream.read_exact(&mut head))
        .await
        .expect("a head in time")
        .unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    timeout(BOUND, serving.shutdown(Duration::from_secs(20)))
        .await
        .expect("an end in time");
    let (mut waited, mut streamed) = (String::new(), String::new());
    timeout(BOUND, wait.read_to_string(&mut waited))
        .await
        .expect("an end of the wait")
        .unwrap();
    assert!(
        waited.starts_with("HTTP/1.1 200") && waited.contains("\"runnable\""),
        "{waited}"
    );
    timeout(BOUND, stream.read_to_string(&mut streamed))
        .await
        .expect("an end of the stream")
        .unwrap();
    assert!(
        streamed.contains("event: end") && streamed.contains("shuts down"),
        "{streamed}"
    );
    assert!(!path.exists(), "the socket is removed");
}

#[tokio::test]
async fn a_server_that_stops_names_the_others() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    let url = |n: u8| format!("https://tasks-{n}.example.com/base");
    let listen = async |n| {
        let server = Server::builder(&kit.store)
            .advertise(url(n))
            .unwrap()
            // The test asks until both are known.
            .rate(1_000_000)
            .build();
        let at = Listen::Loopback("127.0.0.1:0".parse().unwrap());
        server.listen([at]).await.unwrap()
    };
    let (first, second) = (listen(1).await, listen(2).await);
    let address = first.addresses()[0];
    let bearer = format!(
        "Host: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        kit.admin
    );
    let known = async {
        loop {
            let get = format!("GET /v1/servers HTTP/1.1\r\n{bearer}");
            let stream = TcpStream::connect(address).await.unwrap();
            let servers = exchange(stream, get.as_bytes()).await;
            if servers.contains(&url(1)) && servers.contains(&url(2)) {
                return;
            }
        }
    };
    timeout(BOUND, known).await.expect("both servers are known");
    let mut wait = TcpStream::connect(address).await.unwrap();
    let get = format!("GET /v1/tasks/a?wait=5m HTTP/1.1\r\n{bearer}");
    wait.write_all(get.as_bytes()).await.unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let get = format!("GET /v1/changes HTTP/1.1\r\n{bearer}");
    stream.write_all(get.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    timeout(BOUND, stream.read_exact(&mut head))
        .await
        .expect("a head in time")
        .unwrap();
    // The wait may not have reached the server yet; the stream has, and was sent later.
    first.shutdown(Duration::from_secs(20)).await;
    let (mut waited, mut streamed) = (String::new(), String::new());
    timeout(BOUND, wait.read_to_string(&mut waited))
        .await
        .expect("an end of the wait")
        .unwrap();
    timeout(BOUND, stream.read_to_string(&mut streamed))
        .await
        .expect("an end of the stream")
        .unwrap();
    let header = format!("windlass-servers: {}\r\n", url(2));
    assert!(waited.contains(&header), "{waited}");
    let servers = format!("\"servers\":[\"{}\"]", url(2));
    assert!(streamed.contains(&servers), "{streamed}");
    // The one that has stopped is no longer named.
    let values = kit.store.registry().values("server/at/").await.unwrap();
    assert_eq!(values.len(), 1, "{values:?}");
    second.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn an_address_that_others_reach_is_refused() {
    let kit = Kit::new().await;
    let server = Server::builder(&kit.store).build();
    let refused = server
        .listen([Listen::Loopback("0.0.0.0:0".parse().unwrap())])
        .await;
    let text = refused.expect_err("a refusal").to_string();
    assert!(
        text.contains("can be reached from other machines"),
        "{text}"
    );
    let proxied = Server::builder(&kit.store).build();
    let serving = proxied
        .listen([Listen::BehindProxy("127.0.0.1:0".parse().unwrap())])
        .await
        .unwrap();
    let address = serving.addresses()[0];
    let again = Server::builder(&kit.store)
        .build()
        .listen([Listen::Loopback(address)])
        .await;
    let text = again.expect_err("a refusal").to_string();
    assert!(text.contains("give another address or port"), "{text}");
    serving.shutdown(Duration::from_secs(1)).await;
}

/// A proxy keeps connections that it does not use for a while: the server must not close them first, because a request on its
/// way would be lost.
#[tokio::test(start_paused = true)]
async fn a_known_caller_keeps_its_connection_and_a_stranger_does_not() {
    let kit = Kit::new().await;
    let server = Server::builder(&kit.store).build();
    let serving = server
        .listen([Listen::Loopback("127.0.0.1:0".parse().unwrap())])
        .await
        .unwrap();
    let address = serving.addresses()[0];
    let mut known = TcpStream::connect(address).await.unwrap();
    let get = format!(
        "GET /v1/time HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        kit.admin
    );
    let mut answer = vec![0; 4096];
    for _ in 0..3 {
        known.write_all(get.as_bytes()).await.unwrap();
        let length = known.read(&mut answer).await.unwrap();
        let text = String::from_utf8_lossy(&answer[..length]);
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let mut stranger = TcpStream::connect(address).await.unwrap();
    let begun = tokio::time::Instant::now();
    let length = stranger.read(&mut answer).await.unwrap_or_default();
    assert_eq!(length, 0, "it is closed without a word");
    let waited = begun.elapsed();
    let bounds = Duration::from_secs(9)..Duration::from_secs(15);
    assert!(bounds.contains(&waited), "{waited:?}");
    serving.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn ten_thousand_connections_that_send_nothing_hold_up_nobody() {
    let kit = Kit::new().await;
    let server = Server::builder(&kit.store).max_connections(50).build();
    let serving = server
        .listen([Listen::Loopback("127.0.0.1:0".parse().unwrap())])
        .await
        .unwrap();
    let address = serving.addresses()[0];
    let get = format!(
        "GET /v1/time HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        kit.admin
    );
    let mut idle = std::collections::VecDeque::new();
    let begun = std::time::Instant::now();
    for n in 0..10_000 {
        let connected = timeout(BOUND, TcpStream::connect(address)).await;
        idle.push_back(connected.expect("a connection in time").unwrap());
        if idle.len() > 200 {
            idle.pop_front();
        }
        if n % 1000 == 999 {
            let answer = exchange(TcpStream::connect(address).await.unwrap(), get.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{n}: {answer}");
        }
    }
    // Each would have held its place for 5 s.
    assert!(begun.elapsed() < BOUND * 4, "{:?}", begun.elapsed());
    drop(idle);
    serving.shutdown(Duration::from_secs(1)).await;
}
