//! The examples: their requests, and the answers of a server.

use axum::{body::Body, http::header};
use serde_json::{Value, json};

use super::fixture::{Answered, Fixture};
use crate::routes::table::{self, Answer, EVENTS, JSON, LINES, Method, requests};

/// Returns whether a request is about the file of a store.
pub(super) fn needs_file(path: &str) -> bool {
    matches!(path, "/v1/doctor" | "/v1/backup")
}

/// Sends the request of an example, and returns its answer.
pub(super) async fn answered(
    path: &str,
    method: &Method,
    answer: &Answer,
) -> Result<Answered, String> {
    let fixture = Fixture::new(needs_file(path), |builder| builder).await;
    if path.starts_with("/v1/masks") {
        let set = fixture.by(&fixture.admin, "POST /v1/masks");
        let body = r#"{"kind":"exec","pointers":["/props/env/*"]}"#;
        let set = fixture.send(set.body(Body::from(body)).unwrap()).await;
        assert_eq!(set.status.as_u16(), 204, "{}", set.text);
    }
    let mut run = Value::Null;
    if path.starts_with("/v1/workers/") {
        let waits = path.ends_with("/waited");
        let after: &[&str] = if waits { &["report-1"] } else { &[] };
        let has_claimed = waits || path.ends_with("/report");
        let mut last = fixture.register(has_claimed, after).await;
        run = last
            .pointer_mut("/claims/0")
            .map(Value::take)
            .unwrap_or_default();
    }
    let example = &answer.example;
    let path = example.path.replace("ORDER", &fixture.order.to_string());
    let line = format!("{} {path}", method.method);
    let mut request = fixture.by(&fixture.admin, &line);
    if !example.media.is_empty() {
        request = request.header(header::CONTENT_TYPE, example.media);
    }
    if answer.media == LINES {
        request = request.header(header::ACCEPT, LINES);
    }
    let mut body = example.body.to_owned();
    if body.contains("KEY") {
        body = body.replace("KEY", &fixture.bulk_key().await);
    }
    if path.ends_with("/waited") {
        // The run that the worker has.
        let mut form: Value = serde_json::from_str(&body).unwrap();
        (form["fence"], form["run"]) = (run["fence"].take(), run["run"].take());
        body = form.to_string();
    }
    let request = request.body(Body::from(body)).unwrap();
    let answered = fixture.send(request).await;
    let found = (answered.status.as_u16(), answered.media.as_str());
    match found == (answer.status, answer.media) {
        true => Ok(answered),
        false => Err(format!("{line}: {found:?} {}", answered.text)),
    }
}

/// Reads an answer, without what differs each time.
pub(super) fn value_of(text: &str) -> Value {
    let mut value: Value = serde_json::from_str(text).unwrap();
    // The document, and the list of requests, are not examples of themselves.
    if value.get("openapi").is_some() {
        return json!({"openapi": "3.1.0", "paths": {}});
    }
    let requests = value.get_mut("requests").and_then(Value::as_array_mut);
    if let Some(requests) = requests {
        requests.truncate(1);
    }
    steady(&mut value);
    value
}

/// Reads an answer of lines or events, without what differs each time.
pub(super) fn steady_lines(text: &str) -> String {
    let line = |line: &str| {
        let (field, json) = match line.strip_prefix("data: ") {
            Some(json) => ("data: ", json),
            None => ("", line),
        };
        match serde_json::from_str::<Value>(json) {
            Ok(mut value) if value.is_object() => {
                steady(&mut value);
                format!("{field}{value}\n")
            }
            _ => format!("{line}\n"),
        }
    };
    text.trim_end().lines().map(line).collect()
}

/// Replaces what differs each time.
fn steady(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "secret" => *value = json!("wl_0f1e2d3c"),
                    "pid" => *value = json!(4242),
                    // Renewals are stored together, a moment later.
                    "renewed_seq" => *value = json!(1),
                    "found" => *value = json!("…"),
                    "version" if value.is_string() => *value = json!("1.0.0"),
                    _ => steady(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(steady),
        Value::String(text) => {
            if let Some(hash) = hash_of_dry_run(text) {
                text.truncate(hash);
                text.push_str("0f1e2d3c4b5a6978");
            }
        }
        _ => {}
    }
}

/// Returns where the hash begins in the key of a dry run of a bulk operation, or in the id of its task. The hash has the identity
/// of the store.
fn hash_of_dry_run(text: &str) -> Option<usize> {
    let key = text.strip_prefix("bulk-").unwrap_or(text);
    let mut parts = key.split('-');
    let [time, order, hash] = [parts.next()?, parts.next()?, parts.next()?];
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_key = is_number(time) && is_number(order) && hash.len() == 16 && parts.next().is_none();
    is_key.then(|| text.len() - hash.len())
}

/// Returns every answer of the table.
pub(super) fn answers() -> impl Iterator<Item = (&'static str, &'static Method, &'static Answer)> {
    requests().flat_map(|request: &'static table::Request| {
        let methods = request.methods.iter();
        methods.flat_map(move |method| {
            let answers = method.answers.iter();
            answers.map(move |answer| (request.path, method, answer))
        })
    })
}

/// Returns the JSON documents of an answer: one, or those of its lines or events.
pub(super) fn documents(answer: &Answer, text: &str) -> Vec<Value> {
    match answer.media {
        JSON => vec![serde_json::from_str(text).unwrap()],
        EVENTS => {
            let mut lines = text.lines();
            let data = lines.find_map(|line| line.strip_prefix("data: "));
            vec![serde_json::from_str(data.unwrap()).unwrap()]
        }
        _ => text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    }
}
