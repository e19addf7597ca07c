//! Several servers of one store, and servers that stop or lose their store.

use std::time::Duration;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use windlass::testing::{Fault, FaultyStore, Operation};
use windlass_server::{Listen, Role, Server};

use super::{SECRET, Worker, registered, returned, store};
use crate::kit::{BOUND, Kit};

/// A worker registers at one server, exchanges at another and reports to a third: one claim, one attempt.
#[tokio::test]
async fn any_server_of_a_store_speaks_for_a_worker() {
    let (first, mut worker) = registered().await;
    let another = || Kit::of_server(&first, Server::builder(&first.store).build());
    let (second, third) = (another(), another());
    first.submit("a", "k").await;
    let run = worker.claim(&second).await;
    let answer = worker.exchange(&third, 0).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answer = answer.json();
    assert!(
        answer["lost"].is_null() && answer["stop"].is_null(),
        "{answer}"
    );
    // A late request through the server before is refused, and has no effect.
    let seq = worker.seq;
    worker.seq -= 1;
    assert_eq!(worker.exchange(&second, 0).await.problem(409), "stale");
    worker.seq = seq;
    let message = json!({"message": "complete"});
    let answer = worker
        .report(&first, json!([returned(&run, &message)]))
        .await;
    assert_eq!(
        answer.json()["results"][0]["state"],
        "completed",
        "{}",
        answer.text
    );
    let record = first.client.get("a").await.unwrap();
    let state = record.state.unwrap();
    assert_eq!(
        (state.attempts, json!(state.fence)),
        (0, run["fence"].clone())
    );
}

/// The answer to a report is lost: the same report again, through the same server and another one, has one effect.
#[tokio::test]
async fn a_report_that_is_sent_again_has_one_effect() {
    let (kit, mut worker) = registered().await;
    let other = Kit::of_server(&kit, Server::builder(&kit.store).build());
    kit.submit("a", "k").await;
    let run = worker.claim(&kit).await;
    let submits = json!([{"op": "submit", "id": "next", "kind": "k"}]);
    let message = json!({"message": "sleep", "until": "in 1h", "data": 7, "effects": submits});
    let items = json!([returned(&run, &message)]);
    for (at, server) in [&kit, &kit, &other].into_iter().enumerate() {
        let answer = worker.report(server, items.clone()).await;
        let result = &answer.json()["results"][0];
        assert_eq!(
            (&result["result"], &result["state"]),
            (&json!("applied"), &json!("sleeping")),
            "{at}: {}",
            answer.text
        );
    }
    let changes = kit.client.history("a", 100).await.unwrap();
    let sleeps = changes
        .iter()
        .filter(|change| format!("{:?}", change.what).contains("Sleep"));
    assert!(sleeps.count() <= 1, "{changes:?}");
    assert_eq!(kit.client.get("next").await.unwrap().commands, 0);
}

/// An answer that carried a run is lost: the run comes again, with the same name.
#[tokio::test]
async fn a_run_whose_answer_was_lost_comes_again_with_its_name() {
    let (kit, mut worker) = registered().await;
    kit.submit("a", "k").await;
    let lost = worker.claim(&kit).await;
    worker.held.clear();
    let again = worker.claim(&kit).await;
    assert_eq!(super::name_of(&lost), super::name_of(&again));
    assert_eq!(again["attempt"], 1);
}

#[tokio::test]
async fn a_server_that_stops_answers_open_exchanges_and_names_the_others() {
    let kit = Kit::with(store().await).await;
    let url = |n: u8| format!("https://tasks-{n}.example.com");
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
    let post = |path: &str, body: String| {
        format!(
            "POST /v1/workers{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            kit.admin,
            body.len()
        )
    };
    let register = json!({"name": "w1", "secret": SECRET, "kinds": {"k": {"slots": 1}}});
    let known = async {
        loop {
            let stream = TcpStream::connect(address).await.unwrap();
            let request = post("", register.to_string());
            let answer = crate::listening::exchange(stream, request.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            if answer.contains(&url(1)) && answer.contains(&url(2)) {
                return;
            }
        }
    };
    timeout(BOUND, known).await.expect("both servers are known");
    let mut open = TcpStream::connect(address).await.unwrap();
    let wait = json!({"secret": SECRET, "seq": 1, "wait_ms": 11_000});
    let request = post("/w1/exchange", wait.to_string());
    open.write_all(request.as_bytes()).await.unwrap();
    let name = "w1".parse().unwrap();
    let is_open = async {
        loop {
            let found = kit.store.coordinator().worker(&name).await.unwrap();
            if found.is_some_and(|worker| worker.speaker.seq == 1) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(BOUND, is_open).await.expect("the exchange begins");
    let began = tokio::time::Instant::now();
    timeout(BOUND, first.shutdown(Duration::from_secs(20)))
        .await
        .expect("an end in time");
    let mut answer = String::new();
    timeout(BOUND, open.read_to_string(&mut answer))
        .await
        .expect("an answer to the open exchange")
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "not after its wait"
    );
    let header = format!("windlass-servers: {}\r\n", url(2));
    assert!(answer.contains(&header), "{answer}");
    let body = format!(r#""servers":["{}"]"#, url(2));
    assert!(answer.contains(&body), "{answer}");
    second.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_server_that_is_cut_off_from_its_store_answers_503() {
    let inner = store().await;
    let faulty = FaultyStore::new(&inner);
    let kit = Kit::with(faulty.store()).await;
    let token = kit.token("w", Role::Work, &[]).await;
    let mut worker = Worker::new(&token, "w1");
    assert_eq!(worker.register(&kit, &["k"], json!({})).await.status, 200);
    // The server cannot confirm its tokens any more, whatever workers ask.
    faulty.fail(Operation::Read, Fault::Before, 1_000_000);
    let cut_off = async {
        loop {
            let answer = worker.exchange(&kit, 100).await;
            if answer.status != 200 {
                return answer;
            }
        }
    };
    let answer = timeout(BOUND, cut_off).await.expect("a refusal in time");
    assert_eq!(answer.status, 503, "{}", answer.text);
    assert_eq!(answer.headers["retry-after"], "1");
    faulty.heal();
    let back = async {
        while worker.exchange(&kit, 100).await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(BOUND, back).await.expect("the worker goes on");
}

#[tokio::test]
async fn an_open_exchange_ends_when_its_token_is_revoked() {
    let (kit, mut worker) = registered().await;
    let exchange = worker.exchange(&kit, 11_000);
    let revoke = async { kit.tokens.revoke("w", None).await.unwrap() };
    let (answer, existed) = tokio::join!(exchange, revoke);
    assert!(existed);
    assert_eq!(answer.problem(401), "unauthorized");
}
