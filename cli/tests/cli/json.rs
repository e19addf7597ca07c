//! What the program prints with `-o json` has the fields of its schema in `docs/reference/schemas`, and no others.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
};

use jiff::Timestamp;
use jsonschema::Validator;
use serde_json::{Value, json};
use windlass::statemachine::wire::read_message;

use crate::env::Env;

/// The schemas of inputs.
const INPUTS: [&str; 4] = ["message", "operation", "schedule", "task"];

/// How the names of the others begin: the schemas of workers, which the tests of the server compare, and that of a check,
/// which needs a client.
const OF_WORKERS: &str = "worker-";

/// The schemas, and which of them some output was compared with.
struct Schemas {
    all: BTreeMap<String, Validator>,
    used: RefCell<BTreeSet<String>>,
}

impl Schemas {
    fn read() -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/schemas");
        let read = |path: std::path::PathBuf| {
            let schema: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, jsonschema::draft202012::new(&schema).unwrap())
        };
        let paths = fs::read_dir(folder).unwrap();
        Self {
            all: paths.map(|entry| read(entry.unwrap().path())).collect(),
            used: RefCell::default(),
        }
    }

    /// Checks documents. With one more field, none of them has the form of the schema.
    #[track_caller]
    fn check(&self, name: &str, documents: &[Value]) {
        let schema = &self.all[name];
        assert!(!documents.is_empty(), "{name} has nothing to check");
        for document in documents {
            let wrong = schema.iter_errors(document);
            let wrong: Vec<String> = wrong
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(wrong.is_empty(), "{name}: {wrong:?} in {document:#}");
            let mut more = document.clone();
            let object = match more.get_mut(0) {
                Some(first) => first,
                None => &mut more,
            };
            let Some(object) = object.as_object_mut() else {
                continue;
            };
            object.insert("xyzzy".to_owned(), json!(1));
            assert!(!schema.is_valid(&more), "{name} takes an unknown field");
        }
        self.used.borrow_mut().insert(name.to_owned());
    }
}

/// The output of one run of the program.
struct Checked<'a> {
    env: &'a Env,
    schemas: &'a Schemas,
}

impl Checked<'_> {
    /// Runs the program, and checks each of the lines that it prints.
    #[track_caller]
    fn run(&self, name: &str, code: i32, words: &[&str]) -> Vec<Value> {
        self.run_with(name, code, words, "")
    }

    #[track_caller]
    fn run_with(&self, name: &str, code: i32, words: &[&str], stdin: &str) -> Vec<Value> {
        let words = [&["-o", "json"], words].concat();
        let lines = self.env.run_with(&words, stdin).code(code).lines();
        self.schemas.check(name, &lines);
        lines
    }
}

/// Tasks in every state, with every field.
fn submit_all(see: &Checked<'_>, env: &Env) {
    let full = [
        "submit",
        "flaky",
        "--id",
        "full",
        "--props",
        "1",
        "--label",
        "team=a",
        "--meta",
        "trace=t",
        "--priority",
        "3",
        "--retry",
        "exponential",
        "--start-by",
        "1h",
        "--end-by",
        "2h",
        "--unique",
        "u=1h",
        "--at-once",
        "one=1",
        "--rate",
        "two=100/1m",
    ];
    see.run("submitted", 0, &full);
    see.run("submitted", 0, &[&full[..], &["--idempotent"]].concat());
    let done = ["submit", "double", "--id", "done", "--props", "2", "--wait"];
    see.run("submitted", 0, &done);
    see.run(
        "submitted",
        1,
        &["submit", "fail", "--id", "failed", "--wait"],
    );
    for (id, more) in [
        ("runs", &[][..]),
        ("sleeps", &["--in", "1h"]),
        (
            "waits",
            &[
                "--after",
                "runs",
                "--after-deadline",
                "2100-01-01T00:00:00Z",
            ],
        ),
        ("stays", &[]),
    ] {
        see.run(
            "submitted",
            0,
            &[&["submit", "stay", "--id", id], more].concat(),
        );
    }
    let lines = r#"{"id":"line","kind":"double","props":3}
        {"id":"bad","kind":7}"#;
    let words = ["submit", "--lines", "-", "--keep-going"];
    see.run_with("submitted-lines", 1, &words, lines);
    env.run(&["watch", "--after", "0", "--limit", "12"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_output_has_the_fields_of_its_schema() {
    let (env, schemas) = (Env::new(), Schemas::read());
    let see = Checked {
        env: &env,
        schemas: &schemas,
    };
    let node = env.node("n1").await;
    submit_all(&see, &env);
    see.run("report", 0, &["signal", "stays", "go", "--payload", "1"]);
    see.run("report", 0, &["pause", "stays", "--wait"]);
    see.run("report", 1, &["kill", "done", "--wait"]);
    see.run("report", 3, &["pause", "nothing"]);
    see.run("failures", 0, &["failures"]);
    see.run("report", 0, &["retry", "failed"]);
    see.run("report", 0, &["kill", "sleeps", "--wait"]);
    let states = see.run("record", 0, &["list", "--limit", "100"]);
    let states: BTreeSet<&str> = states.iter().filter_map(|r| r["state"].as_str()).collect();
    for state in ["runnable", "sleeping", "paused", "completed", "killed"] {
        assert!(states.contains(state), "{states:?}");
    }
    for id in ["full", "done", "failed", "runs", "waits", "stays", "sleeps"] {
        see.run("get", 0, &["get", id, "--history"]);
    }
    see.run("change", 0, &["watch", "--after", "0", "--limit", "12"]);
    see.run("graph", 0, &["graph", "waits"]);
    see.run("nodes", 0, &["nodes"]);
    see.run("stats", 0, &["stats"]);
    see.run("why", 0, &["why"]);
    see.run("top", 0, &["top", "--once", "--every", "100ms"]);
    see.run(
        "bulk",
        0,
        &["bulk", "kill", "--kind", "nothing", "--dry-run"],
    );
    see.run("task-why", 0, &["why", "waits"]);
    see.run("node", 0, &["node", "balance", "n1", "--wait"]);
    see.run("finding", 0, &["doctor"]);
    see.run("time", 0, &["time"]);
    see.run("token", 0, &["token", "new", "ci", "--role", "read"]);
    see.run("token", 0, &["token", "rotate", "ci", "--overlap", "1h"]);
    see.run("token", 0, &["token", "list"]);
    env.run(&["mask", "set", "exec", "/props/env/*", "--log"])
        .ok();
    see.run("mask", 0, &["mask", "list"]);
    see.run("report", 1, &["wait", "done", "failed"]);
    see.run("setting", 0, &["config"]);
    schedules(&see);
    let lines = r#"{"op":"submit","id":"applied","kind":"double","props":1,"if_exists":"skip"}
        {"op":"require","task":"runs","exists":true}
        {"op":"send","task":"stays","command":"kill"}
        {"op":"retry","task":"done"}"#;
    see.run_with("checked", 0, &["apply", "-", "--dry-run"], lines);
    see.run_with("applied", 0, &["apply", "-"], lines);
    see.run_with("apply-wrong", 2, &["apply", "-"], r#"{"op":"drop"}"#);
    let refused = r#"{"op":"require","task":"runs","state":"paused","version":9}
        {"op":"delete","task":"nothing"}"#;
    see.run_with("refused", 1, &["apply", "-", "--dry-run"], refused);
    let refused = see.run_with("refused", 1, &["apply", "-"], refused);
    let reasons = refused[0]["refused"].as_array().unwrap().iter();
    let reasons: Vec<_> = reasons.map(|r| (&r["line"], &r["reason"])).collect();
    assert_eq!(
        reasons,
        [
            (&json!(1), &json!("state")),
            (&json!(1), &json!("version")),
            (&json!(2), &json!("missing")),
        ]
    );
    node.shutdown().await;
    let url = format!("sqlite:{}", env.path("copy.db"));
    let from = env.url();
    see.run(
        "copied",
        0,
        &["copy", "--from", &from, "--to", &url, "--backup"],
    );
    see.run("backup", 0, &["backup", &env.path("backup.db")]);
    let file = env.path("tasks.jsonl");
    see.run("exported", 0, &["export", &file]);
    let exported = fs::read_to_string(&file).unwrap();
    let exported = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    schemas.check("export-line", &exported.collect::<Vec<Value>>());
    let new = format!("sqlite:{}", env.path("new.db"));
    see.run("copied", 0, &["import", "--store", &new, &file]);
    see.run("report", 0, &["delete", "sleeps"]);
    see.run("purged", 0, &["purge", "--older-than", "0s", "--yes"]);
    see.run("audit", 0, &["audit"]);
    commands(&see, &env);
    // A task that cannot be read.
    env.sql(
        "UPDATE windlass_states SET state = '{}' WHERE n = (SELECT n FROM windlass_tasks WHERE id = 'waits')",
    );
    see.run("get", 0, &["get", "waits"]);
    see.run("record", 0, &["list", "--quarantined"]);
    let all: BTreeSet<String> = schemas.all.keys().cloned().collect();
    let used = schemas.used.borrow().clone();
    let unused = all.difference(&used);
    let unused: Vec<&String> = unused
        .filter(|name| !name.starts_with(OF_WORKERS))
        .collect();
    assert_eq!(
        unused, INPUTS,
        "each other schema is compared with an output"
    );
}

fn schedules(see: &Checked<'_>) {
    let create = [
        "schedule",
        "create",
        "s",
        "--cron",
        "@daily",
        "--every",
        "90m",
        "--zone",
        "Europe/Berlin",
        "--except-date",
        "2100-12-25",
        "--end-within",
        "1h",
        "--overlap",
        "allow:2",
        "--kind",
        "double",
        "--props",
        "1",
        "--retry",
        "3",
    ];
    let created = see.run("schedule-record", 0, &create);
    let next = created[0]["next"]["nominal"].as_str().unwrap().to_owned();
    see.run("schedule-action", 0, &["schedule", "trigger", "s"]);
    see.run("schedule-action", 0, &["schedule", "skip", "s", &next]);
    see.run("schedule-times", 0, &["schedule", "preview", "s"]);
    see.run(
        "schedule-record",
        0,
        &["schedule", "update", "s", "--count", "7"],
    );
    let listed = see.env.json(&["schedule", "list"]);
    see.schemas
        .check("schedule-record", listed.as_array().unwrap());
    see.run("schedule-action", 0, &["schedule", "pause", "s"]);
    see.run("schedule-record", 0, &["schedule", "get", "s"]);
    see.run("schedule-action", 0, &["schedule", "delete", "s"]);
    let crontab = see.env.write("crontab", "0 3 * * * true\n");
    see.run(
        "schedule-imported",
        0,
        &["schedule", "import", &crontab, "--dry-run"],
    );
    let create = [&create[..], &["--dry-run"]].concat();
    see.run("schedule-imported", 0, &create);
    let spec = json!({"run": {"kind": "k", "retry": 3}, "cron": ["@daily"], "every": null});
    see.schemas.check("schedule", &[spec]);
    see.schemas.used.borrow_mut().remove("schedule");
}

/// The outputs of commands that run.
fn commands(see: &Checked<'_>, env: &Env) {
    let lines = env.write(
        "lines",
        "{\"command\":\"echo\",\"args\":[\"a\"]}\n{\"command\":\"false\"}\n",
    );
    let words = [
        "-o",
        "json",
        "run",
        "--print-output",
        "--keep-going",
        &lines,
    ];
    let ran = env.run(&words).code(1).lines();
    let (last, completed) = ran.split_last().unwrap();
    see.schemas.check("run", std::slice::from_ref(last));
    see.schemas.check("ran", completed);
    let id = completed[0]["id"].as_str().unwrap();
    see.run("logs", 0, &["logs", id]);
    see.run("logs", 0, &["logs", id, "--follow"]);
}

#[test]
fn an_input_that_is_taken_has_the_form_of_its_schema() {
    let schemas = Schemas::read();
    let task = json!({
        "id": "a", "kind": "k", "props": [1], "start_at": null, "priority": null, "labels": null,
        "retry": "never", "after": null, "after_ok": ["b"], "after_deadline": "2100-01-01T00:00:00Z",
        "start_by": null, "end_by": null, "unique": {"key": "u", "within": "1h"},
        "limits": [{"key": "l", "at_once": 1}, {"key": "m", "starts": 3, "within": "1m"}], "meta": {"a": "b"},
    });
    let retries = [
        json!(3),
        json!({"policy": "exponential", "attempts": 5}),
        Value::Null,
    ];
    let tasks = retries.map(|retry| json!({"kind": "k", "retry": retry}));
    schemas.check("task", &[&[task.clone(), json!({})][..], &tasks].concat());
    let mut submit = task;
    submit["op"] = json!("submit");
    submit["if_exists"] = json!("skip");
    let operations = [
        submit,
        json!({"op": "send", "task": "a", "command": "complete", "result": null}),
        json!({"op": "send", "task": "a", "command": "signal", "name": "go", "payload": [1]}),
        json!({"op": "delete", "task": "a"}),
        json!({"op": "retry", "task": "a"}),
        json!({"op": "reschedule", "task": "a", "due": "2100-01-01T00:00:00Z", "priority": null, "data": null}),
        json!({"op": "require", "task": "a", "exists": false, "state": "paused", "data": {"a": 1}}),
    ];
    schemas.check("operation", &operations);
    let messages = [
        json!({"message": "sleep", "until": "in 5m", "data": null, "effects": operations, "keep_signals": null}),
        json!({"message": "sleep", "after": ["a"], "after_deadline": "2100-01-01T00:00:00Z"}),
        json!({"message": "error", "error": "broken", "retry": false}),
        json!({"message": "complete", "result": 7, "replies": [{"signal": 7, "reply": null}]}),
    ];
    schemas.check("message", &messages);
    for message in &messages {
        let new_id = || windlass::CommandId::new("new");
        let read = read_message(&message.to_string(), Timestamp::UNIX_EPOCH, new_id);
        assert!(read.is_ok(), "{message}: {read:?}");
    }
    let lines: Vec<String> = operations.iter().map(Value::to_string).collect();
    // Each line is valid, but the tasks do not exist.
    let ran = Env::new().run_with(&["apply", "-", "--dry-run"], &lines[..1].join("\n"));
    assert!(!ran.err.contains("wrong"), "{ran:?}");
    for wrong in [
        json!({"op": "delete"}),
        json!({"op": "drop", "task": "a"}),
        json!({"op": "send", "task": "a", "command": "error"}),
    ] {
        let is_valid = schemas.all["operation"].is_valid(&wrong);
        assert!(!is_valid, "{wrong}");
    }
}
