//! Makes the document.

use std::collections::BTreeMap;

use axum::{body::Body, http::header};
use serde_json::{Map, Value, json};

use super::fixture::{Answered, Fixture};
use crate::{
    auth::Role,
    routes::{
        forms,
        table::{self, Answer, EVENTS, FILE, JSON, LINES, Method, Of, Param, requests},
    },
};

/// What the requests of a status have in common: its name, what it means, and a request that has it.
struct Refusal {
    status: u16,
    name: &'static str,
    about: &'static str,
}

const fn refusal(status: u16, name: &'static str, about: &'static str) -> Refusal {
    Refusal {
        status,
        name,
        about,
    }
}

const REFUSALS: &[Refusal] = &[
    refusal(
        400,
        "Invalid",
        "A field, a parameter or a header is wrong; `field` names it.",
    ),
    refusal(401, "Unauthorized", "The request has no valid token."),
    refusal(
        403,
        "Forbidden",
        "The role or the scope of the token does not allow the request.",
    ),
    refusal(
        404,
        "NotFound",
        "What the path names does not exist, or is outside of the scope of the token.",
    ),
    refusal(
        409,
        "Conflict",
        "The present state does not allow the request; `code` and `detail` say why.",
    ),
    refusal(413, "TooLarge", "The body is too large."),
    refusal(
        415,
        "MediaType",
        "The body is of another type, or compressed.",
    ),
    refusal(
        421,
        "WrongHost",
        "The header Host does not name the server.",
    ),
    refusal(
        429,
        "TooMany",
        "The caller makes too many requests; Retry-After says when to try again.",
    ),
    refusal(501, "Unsupported", "The store cannot do this."),
    refusal(
        503,
        "Unavailable",
        "The server or its store cannot answer at present; Retry-After says when to try again.",
    ),
];

/// Returns the problem document of a status.
async fn refused(status: u16) -> Answered {
    let new = async |build| Fixture::new(false, build).await;
    let plain = async || new(|builder| builder).await;
    let line = match status {
        400 => "GET /v1/tasks?limit=0",
        403 | 409 => "POST /v1/tasks",
        404 => "GET /v1/tasks/none",
        413 => "POST /v1/tasks",
        415 => "PATCH /v1/tasks/mail-1",
        501 => "GET /v1/doctor",
        _ => "GET /v1/time",
    };
    let task = r#"{"id":"mail-1","kind":"mail"}"#;
    let fixture = match status {
        413 => new(|builder| builder.max_body(10)).await,
        429 => new(|builder| builder.rate(1)).await,
        503 => new(|builder| builder.max_in_flight(0)).await,
        _ => plain().await,
    };
    let token = if status == 403 {
        &fixture.reader
    } else {
        &fixture.admin
    };
    let request = match status {
        401 => fixture.request(line),
        421 => axum::http::Request::get("/v1/time").header(header::HOST, "example.com"),
        _ => fixture.by(token, line),
    };
    if status == 429 {
        let first = fixture.by(token, line).body(Body::empty()).unwrap();
        assert_eq!(fixture.send(first).await.status, 200);
    }
    let body = if line.starts_with("GET") { "" } else { task };
    let answered = fixture.send(request.body(Body::from(body)).unwrap()).await;
    assert_eq!(answered.status.as_u16(), status, "{}", answered.text);
    assert_eq!(answered.media, "application/problem+json");
    answered
}

/// The schemas of the document, in which each type stands once.
#[derive(Default)]
pub(super) struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// Adds a form with the types that it uses, and returns a reference to it.
    fn reference(&mut self, form: &str) -> Value {
        if !self.0.contains_key(form) {
            let mut schema = forms::schema(form);
            let fields = schema.as_object_mut().unwrap();
            fields.remove("$schema");
            let defs = fields.remove("$defs").unwrap_or_default();
            let defs = defs.as_object().cloned().unwrap_or_default();
            let mut names = BTreeMap::new();
            for name in defs.keys() {
                names.insert(name.clone(), self.name_of(form, name, &defs));
            }
            for (name, own) in &names {
                let mut def = defs[name].clone();
                rename(&mut def, &names);
                self.0.insert(own.clone(), def);
            }
            rename(&mut schema, &names);
            self.0.insert(form.to_owned(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{form}")})
    }

    /// Returns the name of a type: its own, unless another form has another type of the name.
    fn name_of(&self, form: &str, name: &str, defs: &Map<String, Value>) -> String {
        let names = defs.keys().map(|name| (name.clone(), name.clone()));
        let mut own = defs[name].clone();
        rename(&mut own, &names.collect());
        match self.0.get(name) {
            Some(known) if *known != own => format!("{form}.{name}"),
            _ => name.to_owned(),
        }
    }
}

/// Lets references name the types of the document.
fn rename(schema: &mut Value, names: &BTreeMap<String, String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get_mut("$ref")
                && let Some(name) = to.strip_prefix("#/$defs/")
            {
                *to = format!("#/components/schemas/{}", names[name]);
            }
            fields.values_mut().for_each(|inner| rename(inner, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| rename(inner, names)),
        _ => {}
    }
}

/// Returns a validator of a form of the document.
pub(super) fn validator(schemas: &Value, form: &str) -> jsonschema::Validator {
    let schema = json!({
        "$ref": format!("#/components/schemas/{form}"),
        "components": {"schemas": schemas},
    });
    jsonschema::draft202012::new(&schema).unwrap()
}

fn parameter(param: &Param) -> Value {
    let mut schema = match param.of {
        Of::Text => json!({"type": "string"}),
        Of::Texts => json!({"type": "array", "items": {"type": "string"}}),
        Of::Flag => json!({"type": "boolean"}),
        Of::Length => json!({"type": "string", "examples": ["30s"]}),
        Of::Past => json!({"type": "string", "examples": ["2030-01-01T00:00:00Z", "5m ago"]}),
        Of::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Of::One(words) => json!({"enum": words}),
    };
    if let Some(default) = param.default {
        let default = serde_json::from_str(default).unwrap_or_else(|_| json!(default));
        schema["default"] = default;
    }
    let mut parameter = json!({
        "name": param.name, "in": "query", "description": param.about, "schema": schema,
    });
    if param.required {
        parameter["required"] = json!(true);
    }
    parameter
}

/// Returns the parameters that are in the path.
fn in_path(path: &str) -> Vec<Value> {
    let mut parameters = Vec::new();
    for part in path.split('/') {
        let Some(name) = part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'))
        else {
            continue;
        };
        let about = match (name, path) {
            ("id", path) if path.starts_with("/v1/schedules") => "The id of the schedule.",
            ("id", path) if path.starts_with("/v1/commands") => "The id of the command.",
            ("id", _) => "The id of the task.",
            ("name", path) if path.contains("/signals/") => "The name of the signal.",
            ("name", _) => "The name of the token.",
            ("node", _) => "The name of the node.",
            _ => "The number of the command.",
        };
        let kind = if name == "order" { "integer" } else { "string" };
        parameters.push(json!({
            "name": name, "in": "path", "required": true, "description": about, "schema": {"type": kind},
        }));
    }
    parameters
}

/// Returns whether a request takes the header `Idempotency-Key`.
fn takes_key(path: &str, method: &Method) -> bool {
    method.role == Role::Operate && !path.starts_with("/v1/schedules") && method.method != "PATCH"
}

/// Returns whether a store in memory does not have a request.
fn needs_file(path: &str) -> bool {
    path == "/v1/doctor" || path == "/v1/backup"
}

/// Returns the statuses that a request may have in addition to its own.
fn refusals(path: &str, method: &Method) -> impl Iterator<Item = &'static Refusal> {
    let is_change = method.role != Role::Read && method.method != "GET";
    let has_body = !method.bodies.is_empty();
    let names = path.contains('{') || path == "/v1/transactions" || path == "/v1/schedule-times";
    let is_of_file = needs_file(path);
    REFUSALS.iter().filter(move |refusal| match refusal.status {
        404 => names,
        409 => is_change,
        413 | 415 => has_body,
        501 => is_of_file,
        _ => true,
    })
}

/// The document, with the answers of a running server as its examples.
pub(super) async fn document() -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for request in requests() {
        let mut item = Map::new();
        for method in request.methods {
            let of = operation(request.path, method, &mut schemas).await;
            item.insert(method.method.to_lowercase(), of);
        }
        paths.insert(request.path.to_owned(), item.into());
    }
    let problem = schemas.reference("problem");
    let mut responses = Map::new();
    for refusal in REFUSALS {
        let example = value_of(&refused(refusal.status).await.text);
        responses.insert(
            refusal.name.to_owned(),
            json!({
                "description": refusal.about,
                "content": {"application/problem+json": {"schema": problem, "example": example}},
            }),
        );
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "windlass",
            "summary": "Durable tasks by HTTP.",
            "description": "The requests of `windlass serve`. Times that a request takes may be relative to the clock of the \
                            server (`in 5m`); numbers come back digit by digit. See docs/server.md.",
            "version": "1",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.0,
            "responses": responses,
            "parameters": {
                "IdempotencyKey": {
                    "name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 256},
                    "description": "Within an hour the same request with the same key has no further effect, and the same answer.",
                },
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

async fn operation(path: &str, method: &Method, schemas: &mut Schemas) -> Value {
    let name = path.replace("/v1", "").replace(['{', '}', '.'], "");
    let name = name.trim_start_matches('/').replace(['/', '-'], "_");
    let name = if name.is_empty() {
        "index".to_owned()
    } else {
        name
    };
    let tag = path.split('/').nth(2).unwrap_or("index");
    let mut parameters = in_path(path);
    parameters.extend(method.parameters.iter().map(parameter));
    if takes_key(path, method) {
        parameters.push(json!({"$ref": "#/components/parameters/IdempotencyKey"}));
    }
    let mut operation = json!({
        "operationId": format!("{}_{name}", method.method.to_lowercase()),
        "tags": [tag],
        "summary": method.about,
        "description": format!("Needs the role {}.", method.role),
        "parameters": parameters,
        "responses": {},
    });
    if !method.bodies.is_empty() {
        operation["requestBody"] = body(method, schemas);
    }
    for answer in method.answers {
        let answered = answered(path, method, answer).await;
        let response = &mut operation["responses"][answer.status.to_string()];
        if response.is_null() {
            *response = json!({"description": answer.about});
        } else {
            let before = response["description"].as_str().unwrap_or_default();
            response["description"] = format!("{before} {}", answer.about).into();
        }
        if answer.media == FILE {
            // Bytes have no schema.
            response["content"][FILE] = json!({});
        } else if !answer.form.is_empty() {
            let schema = schemas.reference(answer.form);
            let content = match answer.media {
                JSON => json!({"schema": schema, "example": value_of(&answered.text)}),
                // A schema of the whole text says nothing of its lines.
                media => json!({
                    "schema": {
                        "type": "string", "contentMediaType": media,
                        "description": format!("Each line, or the data of each event, is a {}.", answer.form),
                    },
                    "x-schema-of-each": schema,
                    "example": steady_lines(&answered.text),
                }),
            };
            response["content"][answer.media] = content;
        }
    }
    for refusal in refusals(path, method) {
        let to = format!("#/components/responses/{}", refusal.name);
        operation["responses"][refusal.status.to_string()] = json!({"$ref": to});
    }
    operation
}

fn body(method: &Method, schemas: &mut Schemas) -> Value {
    let mut content = Map::new();
    let mut is_required = true;
    for body in method.bodies {
        is_required &= !body.optional;
        let own = |answer: &&Answer| answer.example.media == body.media;
        let mut examples = Map::new();
        for answer in method.answers.iter().filter(own) {
            let value = match body.media {
                LINES => json!(answer.example.body),
                _ => serde_json::from_str(answer.example.body).unwrap(),
            };
            examples.insert(answer.status.to_string(), json!({"value": value}));
        }
        let reference = schemas.reference(body.form);
        let mut media = match body.media {
            LINES => json!({
                "schema": {"type": "string", "contentMediaType": LINES, "description": format!("Each line is a {}.", body.form)},
                "x-schema-of-each": reference,
            }),
            _ => json!({"schema": reference}),
        };
        media["examples"] = examples.into();
        content.insert(body.media.to_owned(), media);
    }
    json!({"required": is_required, "content": content})
}

/// Sends the request of an example, and returns its answer.
pub(super) async fn answered(path: &str, method: &Method, answer: &Answer) -> Answered {
    let fixture = Fixture::new(needs_file(path), |builder| builder).await;
    let example = &answer.example;
    let mut request = fixture.by(
        &fixture.admin,
        &format!("{} {}", method.method, example.path),
    );
    if !example.media.is_empty() {
        request = request.header(header::CONTENT_TYPE, example.media);
    }
    if answer.media == LINES {
        request = request.header(header::ACCEPT, LINES);
    }
    let request = request.body(Body::from(example.body)).unwrap();
    let answered = fixture.send(request).await;
    let line = format!("{} {}", method.method, example.path);
    assert_eq!(
        answered.status.as_u16(),
        answer.status,
        "{line}: {}",
        answered.text
    );
    assert_eq!(answered.media, answer.media, "{line}");
    answered
}

/// Reads an answer, without what differs each time.
fn value_of(text: &str) -> Value {
    let mut value: Value = serde_json::from_str(text).unwrap();
    // The document, and the list of requests, are not examples of themselves.
    if value["openapi"].is_string() {
        return json!({"openapi": "3.1.0", "paths": {}});
    }
    if let Some(requests) = value["requests"].as_array_mut() {
        requests.truncate(1);
    }
    steady(&mut value);
    value
}

fn steady_lines(text: &str) -> String {
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
                    "found" => *value = json!("…"),
                    _ => steady(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(steady),
        _ => {}
    }
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
