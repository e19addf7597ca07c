//! A program that runs tasks, has pages of its own, and mounts the requests of windlass below `/tasks`.
//!
//! It calls itself once, as a script would, prints the answer, and ends.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use windlass::{Message, Runner, TaskContext, store::Store};
use windlass_server::{
    NewToken, Role, Server, Tokens,
    axum::{self, Router, routing::get},
};

#[tokio::main]
async fn main() -> Result<(), windlass::BoxError> {
    let store = Store::open("memory:").await?;
    let runner = Runner::builder(&store)
        .handler("greet", async |_: TaskContext| {
            Message::complete_with("hello")
        })
        .start()
        .await?;

    // The requests of windlass, beside those of the program. Each needs a token.
    let tasks = Server::builder(&store).base_path("/tasks")?.build();
    let app = Router::new()
        .route("/", get(async || "the page of the program"))
        .merge(tasks.router());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });

    let new = NewToken::new("script", Role::Operate).valid_for(Duration::from_secs(60));
    let (_, secret) = Tokens::new(&store).make(new, None).await?;
    let token = format!("Authorization: Bearer {secret}\r\n");
    println!("{}", call(address, "GET /", "", "").await?);
    let body = r#"{"id":"a","kind":"greet"}"#;
    println!(
        "{}",
        call(address, "POST /tasks/v1/tasks", &token, body).await?
    );
    let ended = call(
        address,
        "GET /tasks/v1/tasks/a?wait=30s&for=ended",
        &token,
        "",
    )
    .await?;
    println!("{ended}");

    serving.abort();
    runner.shutdown().await;
    Ok(())
}

/// Sends a request, and returns the body of its answer.
async fn call(
    address: std::net::SocketAddr,
    line: &str,
    headers: &str,
    body: &str,
) -> Result<String, windlass::BoxError> {
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok(body.to_owned())
}
