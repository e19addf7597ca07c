//! The places for connections.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    time::timeout,
};
use windlass_server::{Listen, Role, Server, Serving};

use crate::{
    kit::{BOUND, Kit},
    listening::exchange,
};

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

async fn serve(kit: &Kit, most: usize) -> (Serving, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let listens = [
        Listen::Socket(dir.path().join("run/s.sock")),
        Listen::Loopback("127.0.0.1:0".parse().unwrap()),
    ];
    let server = Server::builder(&kit.store).max_connections(most).build();
    (server.listen(listens).await.unwrap(), dir)
}

fn get(path: &str, token: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{more}\r\n")
}

/// Opens a connection on which a request has been answered, or a stream has begun.
async fn opened(serving: &Serving, path: &str, token: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(serving.addresses()[0]).await.unwrap();
    stream
        .write_all(get(path, token, "").as_bytes())
        .await
        .unwrap();
    let mut head = [0; 12];
    let read = timeout(BOUND, stream.read_exact(&mut head)).await;
    read.expect("a head in time").unwrap();
    (stream, String::from_utf8_lossy(&head).into_owned())
}

/// Waits until the other side has closed a connection.
async fn closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let read = timeout(BOUND, stream.read_to_end(&mut rest)).await;
    let _ = read.expect("an end in time");
}

#[tokio::test]
async fn idle_connections_of_one_token_lock_out_nobody() {
    let kit = Kit::new().await;
    let greedy = kit.token("greedy", Role::Read, &[]).await;
    let (serving, _dir) = serve(&kit, 8).await;
    let mut idle = Vec::new();
    for _ in 0..40 {
        let (stream, head) = opened(&serving, "/v1/time", &greedy).await;
        assert_eq!(head, "HTTP/1.1 200");
        idle.push(stream);
    }
    // Four of them have kept their places.
    for one in idle.drain(..36) {
        closed(one).await;
    }
    let tcp = || TcpStream::connect(serving.addresses()[0]);
    let close = get("/v1/time", &kit.admin, "Connection: close\r\n");
    let answer = exchange(tcp().await.unwrap(), close.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = exchange(tcp().await.unwrap(), HEALTH).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    serving.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn health_and_the_socket_are_answered_while_a_request_is_in_work_on_every_connection() {
    let kit = Kit::new().await;
    let others = [
        kit.token("a", Role::Read, &[]).await,
        kit.token("b", Role::Read, &[]).await,
    ];
    let (serving, _dir) = serve(&kit, 2).await;
    let mut streams = Vec::new();
    for token in &others {
        let (stream, head) = opened(&serving, "/v1/changes", token).await;
        assert_eq!(head, "HTTP/1.1 200");
        streams.push(stream);
    }
    let tcp = || TcpStream::connect(serving.addresses()[0]);
    let answer = exchange(tcp().await.unwrap(), HEALTH).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let close = get("/v1/time", &kit.admin, "Connection: close\r\n");
    let refused = exchange(tcp().await.unwrap(), close.as_bytes()).await;
    assert!(
        refused.starts_with("HTTP/1.1 503") && refused.contains("busy"),
        "{refused}"
    );
    let (_, head) = opened(&serving, "/v1/changes", &others[0]).await;
    assert_eq!(head, "HTTP/1.1 503");
    let socket = UnixStream::connect(&serving.sockets()[0]).await.unwrap();
    let own = b"GET /v1/time HTTP/1.1\r\nHost: windlass\r\nConnection: close\r\n\r\n";
    let answer = exchange(socket, own).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(streams.pop());
    let freed = async {
        loop {
            let answer = exchange(tcp().await.unwrap(), close.as_bytes()).await;
            if answer.starts_with("HTTP/1.1 200") {
                return;
            }
        }
    };
    timeout(BOUND, freed).await.expect("a free place in time");
    serving.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn the_connections_of_a_revoked_token_are_closed() {
    let kit = Kit::new().await;
    let leaked = kit.token("leaked", Role::Read, &[]).await;
    let (serving, _dir) = serve(&kit, 8).await;
    let (idle, _) = opened(&serving, "/v1/time", &leaked).await;
    let (other, _) = opened(&serving, "/v1/time", &kit.admin).await;
    kit.tokens.revoke("leaked", None).await.unwrap();
    closed(idle).await;
    let mut other = other;
    let again = get("/v1/time", &kit.admin, "Connection: close\r\n");
    other.write_all(again.as_bytes()).await.unwrap();
    let mut rest = String::new();
    let read = timeout(BOUND, other.read_to_string(&mut rest)).await;
    read.expect("an end in time").unwrap();
    assert!(rest.contains("HTTP/1.1 200"), "{rest}");
    serving.shutdown(Duration::from_secs(1)).await;
}
