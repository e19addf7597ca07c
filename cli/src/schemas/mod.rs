//! The JSON Schemas of what the program reads and prints: `docs/reference/schemas/` and `docs/reference/json.md`,
//! generated from the types.

mod page;

use std::{collections::BTreeSet, fs, path::PathBuf};

use schemars::JsonSchema;
use serde_json::Value;
use windlass::{
    Message,
    schedule::Schedule,
    statemachine::wire::{Line, TaskForm},
    store::{
        AuditEntry, NodeRecord,
        copy::{ExportLine, Report, Written},
    },
    wire::{
        FailuresForm, GraphForm, RecordForm, ScheduleActionForm, ScheduleForm, StatsForm,
        TaskWhyForm, TimeForm, WhyForm,
    },
    workers::protocol::{
        Exchange, Exchanged, Leave, ReadWaited, Register, Registered, ReportItems, Reported,
        WaitedResults,
    },
};
use windlass_server::{MaskForm, TokenForm, schema};

use crate::{
    bulk,
    commands::{
        apply, backup, config, doctor, get, logs, node, purge,
        run::{printing, report::summary},
        schedule, submit, time, top, watch, worker_check,
    },
};

/// A form of JSON.
struct Form {
    /// The name of its schema.
    name: &'static str,
    /// Which command or file reads or prints it.
    of: &'static str,
    is_input: bool,
}

fn input<T: JsonSchema>(name: &'static str, of: &'static str) -> (Form, Value) {
    let is_input = true;
    (Form { name, of, is_input }, schema::input::<T>())
}

/// A form whose reader ignores unknown fields.
fn lenient<T: JsonSchema>(name: &'static str, of: &'static str) -> (Form, Value) {
    let is_input = true;
    (Form { name, of, is_input }, schema::lenient::<T>())
}

fn output<T: JsonSchema>(name: &'static str, of: &'static str) -> (Form, Value) {
    let is_input = false;
    (Form { name, of, is_input }, schema::output::<T>())
}

fn open_output<T: JsonSchema>(name: &'static str, of: &'static str) -> (Form, Value) {
    let is_input = false;
    (Form { name, of, is_input }, schema::open_output::<T>())
}

fn forms() -> Vec<(Form, Value)> {
    vec![
        input::<TaskForm>(
            "task",
            "A line of `windlass submit --lines`. A line of `windlass run` has the fields of a command instead of \
             `props`, and may have `inputs` ([exec](exec.md)).",
        ),
        input::<Line>(
            "operation",
            "A line of `windlass apply`, and the column `operation` of [`windlass_inbox`](../learn/inbox.md). `apply` reads \
             relative times too, and gives a task without an id a UUID.",
        ),
        input::<Message>(
            "message",
            "What a handler returns, for a worker of another language (`wire::read_message` of the library).",
        ),
        input::<Schedule>(
            "schedule",
            "The option `--spec` of `windlass schedule`, and the props of a task of the kind `schedule`.",
        ),
        lenient::<Register>(
            "worker-registration",
            "`POST /v1/workers` of a server ([workers](workers.md)). This and the other requests of workers are the only forms of \
             which unknown fields are ignored.",
        ),
        lenient::<Exchange>("worker-exchange", "`POST /v1/workers/{name}/exchange`."),
        lenient::<ReportItems>("worker-report", "`POST /v1/workers/{name}/report`."),
        lenient::<ReadWaited>("worker-waited", "`POST /v1/workers/{name}/waited`."),
        lenient::<Leave>("worker-leave", "`POST /v1/workers/{name}/leave`."),
        output::<RecordForm<'_>>("record", "A line of `windlass list`."),
        output::<get::Full<'_>>("get", "`windlass get`."),
        output::<watch::Line<'_>>("change", "A line of `windlass watch`."),
        output::<submit::Submitted<'_>>("submitted", "`windlass submit`."),
        output::<submit::lines::Report>("submitted-lines", "`windlass submit --lines`."),
        output::<crate::commands::bulk::Started>("bulk", "`windlass bulk`."),
        output::<bulk::Report>(
            "report",
            "The commands that act on tasks: `pause`, `resume`, `sleep`, `release`, `checkpoint`, `complete`, \
             `kill`, `signal`, `retry`, `reschedule`, `delete`; and `wait`.",
        ),
        output::<apply::AppliedForm<'_>>("applied", "`windlass apply`."),
        output::<apply::Checked>("checked", "`windlass apply --dry-run`."),
        output::<apply::WrongForm>("apply-wrong", "`apply` with wrong lines"),
        output::<apply::RefusedForm<'_>>(
            "refused",
            "`windlass apply` and `apply --dry-run`, for a transaction that the store refuses.",
        ),
        output::<purge::Purged>("purged", "`windlass purge`."),
        output::<printing::Ran>(
            "ran",
            "`windlass run --print-output`: a line for each task that has completed.",
        ),
        output::<summary::Summary<'_>>("run", "`windlass run`: the last line."),
        output::<logs::printer::Document<'_>>(
            "logs",
            "`windlass logs`: a line, or with `--follow` many.",
        ),
        output::<AuditEntry>("audit", "A line of `windlass audit`."),
        output::<GraphForm<'_>>("graph", "`windlass graph`."),
        output::<Vec<NodeRecord>>("nodes", "`windlass nodes`."),
        output::<StatsForm<'_>>("stats", "`windlass stats`."),
        output::<FailuresForm<'_>>("failures", "`windlass failures`."),
        output::<WhyForm<'_>>("why", "`windlass why`."),
        output::<TaskWhyForm>("task-why", "`windlass why ID`."),
        output::<top::Data>("top", "`windlass top`."),
        output::<node::Sent<'_>>("node", "`windlass node`."),
        output::<ScheduleForm<'_>>(
            "schedule-record",
            "`windlass schedule get`, `create` and `update`; `list` prints an array of them, and so does `--dry-run` of `pause`, `resume` and `delete`.",
        ),
        output::<Vec<TimeForm>>("schedule-times", "`windlass schedule preview`."),
        output::<ScheduleActionForm<'_>>(
            "schedule-action",
            "The other commands of `windlass schedule`: `pause`, `resume`, `skip`, `trigger`, `backfill`, `delete`.",
        ),
        output::<schedule::form::PlanForm<'_>>(
            "schedule-imported",
            "A line of `windlass schedule import`, and `create` and `update` with `--dry-run`.",
        ),
        output::<time::Now>("time", "`windlass time`."),
        output::<MaskForm<'_>>(
            "mask",
            "A line of `windlass mask list`, and the request of a server that lists them.",
        ),
        output::<TokenForm<'_>>(
            "token",
            "`windlass token new` and `rotate`, a line of `windlass token list`, and the requests of a server about tokens.",
        ),
        output::<doctor::Line<'_>>("finding", "A line of `windlass doctor`."),
        output::<worker_check::Line<'_>>("worker-check", "A line of `windlass worker-check`."),
        output::<config::Setting>("setting", "A line of `windlass config`."),
        output::<Report>("copied", "`windlass copy` and `windlass import`."),
        output::<backup::Made<'_>>("backup", "`windlass backup`."),
        output::<ExportLine>(
            "export-line",
            "A line of the file that `windlass export` writes and `import` reads.",
        ),
        output::<Written>("exported", "`windlass export` into a file."),
        open_output::<Registered>(
            "worker-registered",
            "The answer to `POST /v1/workers`. A worker ignores unknown fields of the answers: a later version may have more.",
        ),
        open_output::<Exchanged>(
            "worker-exchanged",
            "The answer to `POST /v1/workers/{name}/exchange`.",
        ),
        open_output::<Reported>(
            "worker-reported",
            "The answer to `POST /v1/workers/{name}/report`.",
        ),
        open_output::<WaitedResults>(
            "worker-waited-results",
            "The answer to `POST /v1/workers/{name}/waited`.",
        ),
    ]
}

fn docs() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference"))
}

/// Returns each file with its text.
fn files() -> Vec<(PathBuf, String)> {
    let forms = forms();
    let mut files: Vec<(PathBuf, String)> = forms
        .iter()
        .map(|(form, schema)| {
            let path = docs().join("schemas").join(format!("{}.json", form.name));
            (path, format!("{schema:#}\n"))
        })
        .collect();
    files.push((docs().join("json.md"), page::page(&forms)));
    files
}

#[test]
fn the_schemas_and_their_page_are_those_of_the_types() {
    let files = files();
    for (path, text) in &files {
        let stored = fs::read_to_string(path).unwrap_or_default();
        assert!(
            stored == *text,
            "{} is stale; write all of them again: \
             cargo test --workspace --all-features --lib -- --ignored write_the_schemas",
            path.display()
        );
    }
    let made: BTreeSet<&PathBuf> = files.iter().map(|(path, _)| path).collect();
    for entry in fs::read_dir(docs().join("schemas")).unwrap() {
        let path = entry.unwrap().path();
        assert!(made.contains(&path), "{} has no type", path.display());
    }
}

#[test]
#[ignore = "writes docs/reference/schemas and docs/reference/json.md"]
fn write_the_schemas() {
    fs::create_dir_all(docs().join("schemas")).unwrap();
    for (path, text) in files() {
        fs::write(path, text).unwrap();
    }
}
