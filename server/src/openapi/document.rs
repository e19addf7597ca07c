//! Makes the document.

use serde_json::{Map, Value, json};

use super::{
    examples::{answered, needs_file, steady_lines, value_of},
    refusals::{REFUSALS, Refusal, refused},
    schemas::{Schemas, name_of},
};
use crate::{
    auth::Role,
    routes::table::{Answer, FILE, JSON, LINES, Method, Param, ParamType, requests},
};

fn parameter(param: &Param) -> Value {
    let mut schema = match param.of {
        ParamType::Text => json!({"type": "string"}),
        ParamType::Texts => json!({"type": "array", "items": {"type": "string"}}),
        ParamType::Flag => json!({"type": "boolean"}),
        ParamType::Length => json!({"type": "string", "examples": ["30s"]}),
        ParamType::Past => {
            json!({"type": "string", "examples": ["2030-01-01T00:00:00Z", "5m ago", "yesterday"]})
        }
        ParamType::Number(least, most) => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        ParamType::One(words) => json!({"enum": words}),
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
            ("name", path) if path.starts_with("/v1/workers") => "The name of the worker.",
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

/// Returns the statuses that a request may have in addition to its own.
fn refusals(path: &str, method: &Method) -> impl Iterator<Item = &'static Refusal> {
    let is_change = method.role != Role::Read && method.method != "GET";
    let has_body = !method.bodies.is_empty();
    // A worker that no server knows is over.
    let is_worker = path.starts_with("/v1/workers");
    let may_be_over = ["/exchange", "/report", "/waited"]
        .iter()
        .any(|request| path.ends_with(request));
    let names = path.contains('{') && !is_worker
        || path == "/v1/transactions"
        || path == "/v1/schedule-times";
    REFUSALS.iter().filter(move |refusal| match refusal.status {
        404 => names,
        409 => is_change && !path.ends_with("/leave"),
        410 => is_worker && may_be_over,
        413 | 415 => has_body,
        501 => needs_file(path),
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
                            server (`in 5m`); numbers come back digit by digit. See docs/operate/server.md.",
            "version": "1",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
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
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": crate::guard::COOKIE},
            },
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
        let answered = answered(path, method, answer).await.unwrap();
        let response = &mut operation["responses"][answer.status.to_string()];
        if response.is_null() {
            *response = json!({"description": answer.about});
        } else {
            let before = response["description"].as_str().unwrap_or_default();
            response["description"] = format!("{before} {}", answer.about).into();
        }
        if answer.media == FILE {
            response["content"][FILE] = json!({"schema": {"description": "A database of SQLite."}});
        } else if !answer.form.is_empty() {
            let schema = schemas.reference(answer.form);
            let content = match answer.media {
                JSON => json!({"schema": schema, "example": value_of(&answered.text)}),
                // A schema of the whole text says nothing of its lines.
                media => json!({
                    "schema": {
                        "type": "string", "contentMediaType": media,
                        "description": format!("Each line, or the data of each event change, is a {}.", name_of(answer.form)),
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
                "schema": {"type": "string", "contentMediaType": LINES, "description": format!("Each line is a {}.", name_of(body.form))},
                "x-schema-of-each": reference,
            }),
            _ => json!({"schema": reference}),
        };
        media["examples"] = examples.into();
        content.insert(body.media.to_owned(), media);
    }
    json!({"required": is_required, "content": content})
}
