//! `serve` and `token`: the store by HTTP.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    process::Stdio,
    time::Duration,
};

use crate::live::{Place, Running, until};
use nix::sys::signal::Signal;

const BOUND: Duration = Duration::from_secs(30);

/// A server of a place, on a socket and a free port.
struct Served {
    running: Running,
    address: String,
}

impl Served {
    fn start(place: &Place, more: &[&str]) -> Self {
        let log = place.path("serve.log");
        let words = ["serve", "--socket", "run/s.sock", "--listen", "127.0.0.1:0"];
        let mut command = place.windlass(&[&words, more].concat());
        command
            .env("WINDLASS_LOG_FORMAT", "json")
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap());
        let running = Running::of(command.spawn().unwrap());
        let mut address = None;
        until("the server listens", || {
            let log = fs::read_to_string(&log).unwrap_or_default();
            let url = log.split("http://").nth(1);
            address = url
                .and_then(|url| url.split(['"', '/']).next())
                .map(str::to_owned);
            address.is_some()
        });
        Self {
            running,
            address: address.unwrap(),
        }
    }

    /// Sends a request by TCP, and returns the whole answer.
    fn tcp(&self, token: &str, line: &str, body: &str) -> String {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        let token = format!("Authorization: Bearer {token}\r\n");
        exchange(stream, &token, line, body)
    }
}

fn exchange(mut stream: impl Read + Write, headers: &str, line: &str, body: &str) -> String {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The secret that a command prints, alone on its standard output.
fn secret(place: &Place, words: &[&str]) -> String {
    let (code, out, err) = place.run(words);
    assert_eq!(code, 0, "{err}");
    let secret = out.trim_end().to_owned();
    assert!(
        secret.starts_with("wlt_") && !secret.contains('\n'),
        "{out}"
    );
    assert!(!err.contains("wlt_"), "{err}");
    secret
}

#[test]
fn a_store_is_served_to_the_user_of_the_socket_and_to_holders_of_tokens() {
    let place = Place::new();
    let served = Served::start(&place, &[]);
    let socket = || UnixStream::connect(place.path("run/s.sock")).unwrap();
    let made = exchange(
        socket(),
        "",
        "POST /v1/tasks",
        r#"{"id":"a","kind":"mail"}"#,
    );
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    // The props of a command are checked as `windlass submit` checks them.
    let wrong = exchange(
        socket(),
        "",
        "POST /v1/tasks",
        r#"{"kind":"exec","props":{"command":[]}}"#,
    );
    assert!(wrong.starts_with("HTTP/1.1 400"), "{wrong}");
    let token = secret(
        &place,
        &["token", "new", "ci", "--role", "operate", "--kind", "mail"],
    );
    let read = served.tcp(&token, "GET /v1/tasks/a", "");
    assert!(
        read.starts_with("HTTP/1.1 200") && read.contains(r#""kind":"mail""#),
        "{read}"
    );
    let forbidden = served.tcp(&token, "POST /v1/tasks", r#"{"kind":"exec"}"#);
    assert!(forbidden.starts_with("HTTP/1.1 403"), "{forbidden}");
    assert_eq!(place.get("a")["id"], "a");

    let rotated = secret(&place, &["token", "rotate", "ci", "--overlap", "1h"]);
    for token in [&token, &rotated] {
        let read = served.tcp(token, "GET /v1/time", "");
        assert!(read.starts_with("HTTP/1.1 200"), "{read}");
    }
    let (code, out, _) = place.run(&["token", "list", "-o", "json"]);
    assert_eq!((code, out.lines().count()), (0, 1));
    assert!(
        out.contains(r#""kinds":["mail"]"#) && out.contains(r#""secrets":2"#),
        "{out}"
    );
    let (code, _, err) = place.run(&["token", "revoke", "ci"]);
    assert_eq!(
        (code, err.contains("token 'ci' is revoked")),
        (0, true),
        "{err}"
    );
    until("the server refuses it", || {
        served
            .tcp(&token, "GET /v1/time", "")
            .starts_with("HTTP/1.1 401")
    });
    let (code, _, err) = place.run(&["token", "revoke", "ci"]);
    assert_eq!((code, err.contains("token list")), (1, true), "{err}");
    let (_, audit, _) = place.run(&["audit"]);
    assert!(audit.contains("set the value server/token/ci"), "{audit}");

    served.running.signal(Signal::SIGTERM);
    assert_eq!(served.running.wait(), Some(0));
    assert!(!place.path("run/s.sock").exists());
    let log = place.read("serve.log");
    assert!(!log.contains("wlt_"), "the log has no secret: {log}");
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let place = Place::new();
    for (words, says) in [
        (
            &["serve", "--listen", "0.0.0.0:0"][..],
            "can be reached from other machines",
        ),
        (
            &["serve", "--base-path", "tasks/"],
            "--base-path: 'tasks/' is not a path such as /windlass",
        ),
        (
            &["serve", "--socket", "s.sock"],
            "give a path with a folder",
        ),
        (&["serve", "--socket", "/tmp/s.sock"], "open to other users"),
        (&["serve", "--rate", "0"], "--rate"),
        (&["serve", "--tls", "127.0.0.1:0"], "--tls-cert"),
        (
            &["serve", "--advertise", "http://a b"],
            "--advertise: 'http://a b' is not a URL",
        ),
        (
            &["serve", "--advertise", "https://me:secret@a/"],
            "is not a URL such as https://tasks.example.com/base, without a user",
        ),
        (
            &[
                "serve",
                "--no-socket",
                "--tls",
                "127.0.0.1:0",
                "--tls-cert",
                "none.pem",
                "--tls-key",
                "none.pem",
            ],
            "none.pem has no certificate",
        ),
        (
            &[
                "serve",
                "--trust-header",
                "Cookie",
                "--trust-user",
                "ann=read",
            ],
            "--trust-header: 'Cookie' is not the name",
        ),
        (
            &[
                "serve",
                "--trust-header",
                "X-User",
                "--trust-user",
                "ann=read",
                "--trust-user",
                "ann=admin",
            ],
            "--trust-user: 'ann=read' and 'ann=admin' give one name two values",
        ),
        (
            &["serve", "--trust-header", "X-User", "--trust-user", "ann"],
            "is not USER=ROLE, such as ann=operate",
        ),
        (&["token", "new", "a b", "--role", "read"], "name"),
        (
            &["token", "new", "a", "--role", "king"],
            "'king' is not one of read, operate, work, admin",
        ),
        (&["token", "new", "a"], "--role"),
        (
            &["token", "new", "a", "--role", "admin", "--kind", "mail"],
            "an admin token has every task",
        ),
        (&["token", "rotate", "none"], "'none' does not exist"),
    ] {
        let (code, out, err) = place.run(words);
        assert!(code > 0 && out.is_empty(), "{words:?}: {code} {out}");
        assert!(err.contains(says), "{words:?}: {err}");
    }
    let _first = Served::start(&place, &[]);
    let again = ["serve", "--socket", "run/s.sock", "--listen", "127.0.0.1:0"];
    let (code, _, err) = place.run(&again);
    assert!(code > 0 && err.contains("another server uses it"), "{err}");
}

#[test]
fn a_link_opens_a_session_under_a_name_that_other_servers_do_not_know() {
    let place = Place::new();
    let served = Served::start(&place, &[]);
    let url = format!("http://{}", served.address);
    let (code, link, err) = place.run(&["token", "link", "--role", "read", "--url", &url]);
    assert_eq!(code, 0, "{err}");
    let rest = link.trim_end().strip_prefix("http://").unwrap();
    let (at, path) = rest.split_at(rest.find('/').unwrap());
    let (name, port) = at.split_once(".localhost:").unwrap();
    assert!(
        name.starts_with('w') && served.address.ends_with(port),
        "{link}"
    );
    let send = |line: &str, headers: &str| {
        let mut stream = TcpStream::connect(&served.address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        let request =
            format!("{line} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let origin = format!("Origin: http://{at}\r\n");
    let opened = send(&format!("POST {path}"), &origin);
    assert!(opened.starts_with("HTTP/1.1 303"), "{opened}");
    let cookie = opened.split("set-cookie: ").nth(1).unwrap();
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let read = send("GET /v1/tasks", &cookie);
    assert!(read.starts_with("HTTP/1.1 200"), "{read}");
    let refused = send("GET /v1/tokens", &cookie);
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    // Elsewhere the name is that of the URL.
    let away = ["token", "link", "--url", "https://tasks.example.com/base/"];
    let (code, link, _) = place.run(&away);
    let begin = "https://tasks.example.com/base/session/wll_";
    assert!(code == 0 && link.starts_with(begin), "{link}");
    let (code, _, err) = place.run(&["token", "link", "--url", "tasks.example.com"]);
    assert!(
        code > 0 && err.contains("--url: 'tasks.example.com' is not a URL"),
        "{err}"
    );
}

#[test]
fn a_worker_serves_beside_its_work() {
    let place = Place::new();
    let log = place.path("worker.log");
    let mut command = place.windlass(&["worker", "--serve", "127.0.0.1:0"]);
    command
        .env("WINDLASS_LOG_FORMAT", "json")
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap());
    let running = Running::of(command.spawn().unwrap());
    let mut address = None;
    until("the worker listens", || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        let url = log.split("http://").nth(1);
        address = url.and_then(|url| url.split('"').next()).map(str::to_owned);
        address.is_some()
    });
    let served = Served {
        running,
        address: address.unwrap(),
    };
    let token = secret(&place, &["token", "new", "me", "--role", "operate"]);
    let body = r#"{"id":"a","kind":"exec","props":{"command":"true"}}"#;
    let made = served.tcp(&token, "POST /v1/tasks", body);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let ended = served.tcp(&token, "GET /v1/tasks/a?wait=30s", "");
    assert!(ended.contains(r#""completed""#), "{ended}");
    let metrics = served.tcp(&token, "GET /metrics", "");
    for line in [
        "# TYPE windlass_claims_total counter",
        "windlass_claims_total{kind=\"exec\"} 1",
        "windlass_http_requests_total{request=\"POST /v1/tasks\",status=\"201\"} 1",
        "windlass_http_requests_in_work 1",
        "windlass_http_request_duration_seconds_bucket{request=\"GET /v1/tasks/{id}\",le=\"60\"} 1",
    ] {
        assert!(
            metrics.contains(&format!("\n{line}\n")),
            "{line}: {metrics}"
        );
    }
    served.running.signal(Signal::SIGTERM);
    assert_eq!(served.running.wait(), Some(0));
}

#[test]
fn sockets_that_systemd_has_opened_are_served() {
    let place = Place::new();
    let (code, _, err) = place.run(&["serve", "--passed"]);
    assert!(code > 0 && err.contains("no socket was passed"), "{err}");
    let path = place.path("passed.sock");
    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let notified = place.path("notify.sock");
    let manager = std::os::unix::net::UnixDatagram::bind(&notified).unwrap();
    manager.set_read_timeout(Some(BOUND)).unwrap();
    let mut command = place.windlass(&["serve", "--passed"]);
    command
        // The socket is file descriptor 0 here; systemd begins at 3.
        .stdin(std::os::fd::OwnedFd::from(socket))
        .env("LISTEN_FDS", "1")
        .env("LISTEN_FDS_FIRST_FD", "0")
        .env("NOTIFY_SOCKET", &notified)
        .stdout(Stdio::null())
        .stderr(fs::File::create(place.path("serve.log")).unwrap());
    let running = Running::of(command.spawn().unwrap());
    let mut state = [0; 100];
    let length = manager.recv(&mut state).unwrap();
    assert_eq!(&state[..length], b"READY=1\n");
    let stream = UnixStream::connect(&path).unwrap();
    let read = exchange(stream, "", "GET /v1/tasks", "");
    assert!(read.starts_with("HTTP/1.1 200"), "{read}");
    running.signal(Signal::SIGTERM);
    let length = manager.recv(&mut state).unwrap();
    assert_eq!(&state[..length], b"STOPPING=1\n");
    assert_eq!(running.wait(), Some(0));
    assert!(path.exists(), "the socket is the manager's");
}

/// A server without a worker took schedules and bulk operations, and nothing carried them out.
#[test]
fn a_server_alone_runs_schedules_and_bulk_operations() {
    let place = Place::new();
    place.run(&["submit", "mail", "--id", "m", "--paused"]);
    let served = Served::start(&place, &[]);
    let spec = r#"{"run":{"kind":"mail"},"every":[{"interval":"1s"}]}"#;
    let (code, _, err) = place.run(&["schedule", "create", "often", "--spec", spec]);
    assert_eq!(code, 0, "{err}");
    until("a run of the schedule", || {
        let words = [
            "list", "--kind", "mail", "--state", "runnable", "-o", "json",
        ];
        !place.run(&words).1.is_empty()
    });
    let (code, id, err) = place.run(&[
        "bulk", "delete", "--kind", "mail", "--state", "paused", "--yes",
    ]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = place.run(&["wait", id.trim(), "--timeout", "30s"]);
    assert_eq!(code, 0, "{err}");
    assert_ne!(place.run(&["get", "m"]).0, 0, "it is deleted");
    let log = fs::read_to_string(place.path("serve.log")).unwrap();
    assert!(!log.contains("ERROR"), "{log}");
    drop(served);
}
