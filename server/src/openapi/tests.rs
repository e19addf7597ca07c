//! The document is that of the table, is valid, and its examples are true.

use std::{collections::BTreeSet, fs};

use axum::body::Body;
use serde_json::{Value, json};

use super::{
    document::document,
    examples::{answered, answers, documents},
    fixture::Fixture,
    schemas::validator,
};
use crate::routes::{
    forms,
    table::{FILE, JSON, LINES, requests},
};

const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../docs/reference/openapi.json"
);

/// The schema of OpenAPI 3.1 documents, of the OpenAPI Initiative.
const OPENAPI: &str = include_str!("../../tests/openapi-3.1/schema.json");

async fn text() -> String {
    format!("{:#}\n", document().await)
}

fn stored() -> Value {
    serde_json::from_str(&fs::read_to_string(PATH).unwrap()).unwrap()
}

#[tokio::test]
async fn the_stored_document_is_that_of_the_requests() {
    let stored = fs::read_to_string(PATH).unwrap_or_default();
    assert!(
        stored == text().await,
        "docs/reference/openapi.json is stale; write it again: \
         cargo test --workspace --all-features --lib -- --ignored write_the_openapi_document"
    );
}

#[tokio::test]
#[ignore = "writes docs/reference/openapi.json"]
async fn write_the_openapi_document() {
    fs::write(PATH, text().await).unwrap();
}

#[test]
fn the_document_is_one_of_openapi() {
    let schema: Value = serde_json::from_str(OPENAPI).unwrap();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let document = stored();
    let errors: Vec<String> = schema
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let mut wrong = document;
    wrong["paths"]["/v1/tasks"]["get"]["parameters"][0]["in"] = json!("body");
    assert!(!schema.is_valid(&wrong), "the schema finds mistakes");
}

#[test]
fn each_reference_leads_to_something_and_each_operation_has_its_own_name() {
    fn walk(value: &Value, whole: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(to)) = fields.get("$ref") {
                    let place = to.strip_prefix('#').unwrap();
                    assert!(whole.pointer(place).is_some(), "{to} leads nowhere");
                }
                fields.values().for_each(|inner| walk(inner, whole));
            }
            Value::Array(items) => items.iter().for_each(|inner| walk(inner, whole)),
            _ => {}
        }
    }
    let document = stored();
    walk(&document, &document);
    let mut names = BTreeSet::new();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name), "{name} is the name of two operations");
        }
    }
    let count: usize = requests().map(|request| request.methods.len()).sum();
    assert_eq!(names.len(), count);
}

/// Makers of clients make a class of each schema: no two names are the same without regard to case and punctuation.
#[test]
fn each_schema_has_a_name_of_its_own() {
    let document = stored();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut names = BTreeSet::new();
    for (name, schema) in schemas {
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric()), "{name}");
        assert!(names.insert(name.to_lowercase()), "{name} is there twice");
        assert_eq!(
            schema["title"], **name,
            "a schema has the title of its name"
        );
    }
    assert!(names.contains("problem"));
}

/// Returns the names of the fields of a form.
fn properties(schemas: &Value, form: &str) -> Vec<String> {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let name: String = form.split('-').map(capital).collect();
    let fields = schemas[name]["properties"].as_object();
    fields
        .into_iter()
        .flat_map(|fields| fields.keys().cloned())
        .collect()
}

/// Each example is sent to a running server, and its answer has the form that the document promises, and no more fields.
#[tokio::test]
async fn each_example_has_an_answer_of_its_form() {
    let schemas = stored()["components"]["schemas"].clone();
    let mut wrong = Vec::new();
    for (path, method, answer) in answers() {
        let line = format!("{} {}", method.method, answer.example.path);
        let answered = match answered(path, method, answer).await {
            Ok(answered) => answered,
            Err(error) => {
                wrong.push(error);
                continue;
            }
        };
        if answer.media == FILE {
            assert!(answered.text.starts_with("SQLite format 3"), "{line}");
            continue;
        }
        if answer.form.is_empty() {
            assert_eq!(answered.text.is_empty(), answer.media.is_empty(), "{line}");
            continue;
        }
        let form = validator(&schemas, answer.form);
        let documents = documents(answer, &answered.text);
        assert!(!documents.is_empty(), "{line} has no answer");
        for document in documents {
            let errors = form.iter_errors(&document);
            wrong.extend(errors.map(|error| format!("{line}: {}: {error}", error.instance_path())));
            let mut more = document.clone();
            if let Some(fields) = more.as_object_mut().filter(|_| answer.form != "openapi") {
                // Workers ignore unknown fields, so that their answers can get newer.
                let is_open = answer.form.starts_with("worker-");
                let named = properties(&schemas, answer.form);
                let unnamed = fields.keys().filter(|field| !named.contains(field));
                let unnamed = unnamed.filter(|_| is_open);
                wrong.extend(unnamed.map(|field| format!("{line}: {field} is not named")));
                fields.insert("xyzzy".to_owned(), json!(1));
                if form.is_valid(&more) != is_open {
                    wrong.push(format!("{line}: an unknown field is taken: {}", !is_open));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_body_of_an_example_has_its_form() {
    let schemas = stored()["components"]["schemas"].clone();
    for (_, method, answer) in answers() {
        let example = &answer.example;
        let Some(body) = method
            .bodies
            .iter()
            .find(|body| body.media == example.media)
        else {
            continue;
        };
        let form = validator(&schemas, body.form);
        let lines: Vec<&str> = match body.media {
            // The second line of the example is wrong, as its answer says.
            LINES => example.body.lines().take(1).collect(),
            _ => vec![example.body],
        };
        for line in lines
            .into_iter()
            .filter(|line| !line.contains(r#""kind":7"#))
        {
            let document: Value = serde_json::from_str(line).unwrap();
            let wrong: Vec<String> = form.iter_errors(&document).map(|e| e.to_string()).collect();
            assert!(wrong.is_empty(), "{line}: {wrong:?}");
        }
    }
}

/// The forms that other pages describe are the same here, except for what only a request can say.
#[test]
fn the_forms_are_those_of_the_schemas() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/schemas");
    let stored = fs::read_to_string(format!("{folder}/task.json")).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    let fields = |form: &Value| form["properties"].as_object().cloned().unwrap();
    let mut of_requests = fields(&forms::schema("task"));
    for of_request in ["allow_missing", "if_exists"] {
        assert!(of_requests.remove(of_request).is_some(), "{of_request}");
    }
    assert!(
        of_requests == fields(&stored),
        "the fields of docs/reference/schemas/task.json differ"
    );
    for name in [
        "record",
        "failures",
        "stats",
        "graph",
        "schedule-record",
        "schedule-action",
        "token",
    ] {
        let stored = fs::read_to_string(format!("{folder}/{name}.json")).unwrap();
        let stored: Value = serde_json::from_str(&stored).unwrap();
        assert!(
            stored == forms::schema(name),
            "docs/reference/schemas/{name}.json differs"
        );
    }
}

/// Each request takes the parameters that the table names, and no others.
#[tokio::test]
async fn the_parameters_are_those_of_the_table() {
    let fixture = Fixture::new(false, |builder| builder.rate(100_000)).await;
    for request in requests() {
        for method in request.methods {
            let example = &method.answers[0].example;
            let path = example.path.split('?').next().unwrap_or_default();
            let path = path.replace("ORDER", &fixture.order.to_string());
            // What is missing is reported before what is unknown.
            let kind = if request.path == "/v1/scale" {
                "&kind=k"
            } else {
                ""
            };
            let line = format!("{} {path}?xyzzy=1{kind}", method.method);
            let media = if example.media.is_empty() {
                JSON
            } else {
                example.media
            };
            let request = fixture
                .by(&fixture.admin, &line)
                .header("content-type", media);
            let answered = fixture
                .send(request.body(Body::from(example.body)).unwrap())
                .await;
            assert_eq!(answered.status, 400, "{line}: {}", answered.text);
            let problem: Value = serde_json::from_str(&answered.text).unwrap();
            assert_eq!(problem["field"], "xyzzy", "{line}: {problem}");
            let known = problem["detail"].as_str().unwrap();
            let (_, known) = known.split_once("; it has ").unwrap();
            let known: BTreeSet<&str> = match known {
                "none" => BTreeSet::new(),
                known => known.split(", ").collect(),
            };
            let named = method.parameters.iter().map(|parameter| parameter.name);
            assert_eq!(known, named.collect(), "{line}");
        }
    }
}
