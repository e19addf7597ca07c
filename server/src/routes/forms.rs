//! The schemas of the bodies and answers, by the names that the table of requests gives them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "only tests make the document, and a test fails by panicking"
)]

use schemars::JsonSchema;
use serde_json::{Value, json};
use windlass::{
    client::activity::Summary,
    schedule::Schedule,
    statemachine::wire::Line,
    store::{Change, CommandRecord, NodeCommand},
    wire::{
        FailuresForm, GraphForm, RecordForm, ScheduleActionForm, ScheduleForm, StatsForm,
        TaskWhyForm, WhyForm,
    },
    workers::protocol::{
        Exchange, Exchanged, Leave, ReadWaited, Register, Registered, ReportItems, Reported,
        WaitedResults,
    },
};

use super::{
    bulk, commands, masks, namespace, nodes, schedules, submits, table, task, tokens, transactions,
    why,
};
use crate::{
    auth::TokenForm,
    problem,
    schema::{input, lenient, open_output, output},
};

/// A page of tasks.
#[derive(JsonSchema, serde::Serialize)]
struct TaskPage<'a> {
    /// The tasks.
    tasks: Vec<RecordForm<'a>>,
    /// The cursor of the next page; `null` on the last one.
    next: Option<String>,
    /// The cursor of the page before; `null` on the first one.
    previous: Option<String>,
}

/// Returns the schema of a form.
pub(crate) fn schema(name: &str) -> Value {
    match name {
        "any" => json!({"description": "Any JSON."}),
        "openapi" => json!({"description": "An OpenAPI 3.1 document.", "type": "object"}),
        "problem" => output::<problem::Form<'_>>(),
        "index" => output::<table::index::IndexForm>(),
        "task" => input::<submits::NewTaskForm>(),
        "task-or-tasks" => either(
            "TaskOrTasks",
            vec![
                input::<submits::NewTaskForm>(),
                array(input::<submits::NewTaskForm>()),
            ],
        ),
        "task-page" => output::<TaskPage<'_>>(),
        "record" => output::<RecordForm<'_>>(),
        "submitted-task" => output::<submits::SubmittedForm>(),
        "submitted-task-or-results" => {
            let results = array(output::<submits::Outcome>());
            either(
                "SubmittedTaskOrResults",
                vec![output::<submits::SubmittedForm>(), results],
            )
        }
        "submitted-line" => {
            let submitted = with_line(output::<submits::SubmittedForm>());
            either(
                "SubmittedLine",
                vec![submitted, with_line(output::<problem::Form<'_>>())],
            )
        }
        "task-changed" => output::<task::Changed<'_>>(),
        "history" => output::<task::HistoryForm>(),
        "log" => output::<task::LogForm>(),
        "graph" => output::<GraphForm<'_>>(),
        "task-why" => output::<TaskWhyForm>(),
        "change" => output::<Change>(),
        "command" => output::<CommandRecord>(),
        "commands" => output::<commands::CommandsForm>(),
        "command-to-send" => variant("send"),
        "sent" => output::<commands::SentForm<'_>>(),
        "retry" => variant("retry"),
        "reschedule" => variant("reschedule"),
        "json-patch" => patch(),
        "bulk" => input::<bulk::BulkForm>(),
        "bulk-counted" => output::<bulk::CountForm>(),
        "bulk-started" => output::<bulk::StartedForm>(),
        "transaction" => input::<transactions::TransactionForm>(),
        "transaction-applied" => output::<transactions::AppliedForm<'_>>(),
        "counts" => output::<namespace::CountsForm>(),
        "stats" => output::<StatsForm<'_>>(),
        "failures" => output::<FailuresForm<'_>>(),
        "activity" => output::<Summary>(),
        "why" => output::<WhyForm<'_>>(),
        "scale" => output::<why::ScaleForm>(),
        "limits" => output::<namespace::LimitsForm>(),
        "nodes" => output::<nodes::NodesForm>(),
        "node-command" => input::<NodeCommand>(),
        "node-command-sent" => output::<nodes::SentForm<'_>>(),
        "node-answer" => output::<nodes::AnswerForm>(),
        "audit-lines" => output::<namespace::AuditForm>(),
        "doctor" => output::<namespace::DoctorForm>(),
        "purge" => input::<namespace::PurgeForm>(),
        "purged-tasks" => output::<namespace::PurgedForm>(),
        "servers" => output::<namespace::ServersForm>(),
        "server-time" => output::<namespace::TimeForm>(),
        "schedules" => output::<schedules::SchedulesForm>(),
        "schedule-record" => output::<ScheduleForm<'_>>(),
        "schedule-action" => output::<ScheduleActionForm<'_>>(),
        "schedule-times" => output::<schedules::TimesForm>(),
        "schedule-preview" => input::<schedules::PreviewForm>(),
        "schedule-fields" => fields_of_schedule(),
        "new-schedule" => input::<schedules::NewScheduleForm>(),
        "schedule-pause" => input::<schedules::PauseForm>(),
        "schedule-resume" => input::<schedules::ResumeForm>(),
        "schedule-trigger" => input::<schedules::TriggerForm>(),
        "schedule-backfill" => input::<schedules::BackfillForm>(),
        "schedule-skip" => input::<schedules::SkipForm>(),
        "tokens" => output::<tokens::TokensForm<'_>>(),
        "token" => output::<TokenForm<'_>>(),
        "masks" => output::<masks::MasksForm<'_>>(),
        "new-mask" => input::<masks::NewForm>(),
        "new-token" => input::<tokens::NewForm>(),
        "worker-registration" => lenient::<Register>(),
        "worker-registered" => open_output::<Registered>(),
        "worker-exchange" => lenient::<Exchange>(),
        "worker-exchanged" => open_output::<Exchanged>(),
        "worker-report" => lenient::<ReportItems>(),
        "worker-reported" => open_output::<Reported>(),
        "worker-waited" => lenient::<ReadWaited>(),
        "worker-waited-results" => open_output::<WaitedResults>(),
        "worker-leave" => lenient::<Leave>(),
        other => panic!("the form '{other}' of the table has no schema"),
    }
}

/// Returns the schema of an array.
fn array(mut of: Value) -> Value {
    let defs = of["$defs"].take();
    json!({"type": "array", "items": of, "$defs": defs})
}

/// Adds the number of a line to a schema.
fn with_line(mut of: Value) -> Value {
    of["properties"]["line"] =
        json!({"type": "integer", "description": "The number of the line, from 1."});
    let required = of["required"].as_array_mut();
    required
        .map(|names| names.push(json!("line")))
        .unwrap_or_default();
    of
}

/// Returns the schema of one of several forms.
fn either(title: &str, forms: Vec<Value>) -> Value {
    let mut all = serde_json::Map::new();
    let without_defs = |mut form: Value| {
        let fields = form.as_object_mut();
        let defs = fields.and_then(|fields| fields.remove("$defs"));
        all.extend(
            defs.and_then(|defs| defs.as_object().cloned())
                .unwrap_or_default(),
        );
        form
    };
    let forms: Vec<Value> = forms.into_iter().map(without_defs).collect();
    json!({"title": title, "oneOf": forms, "$defs": all})
}

/// Returns the schema of an operation of a task whose request names the operation and the task.
fn variant(op: &str) -> Value {
    let mut all = input::<Line>();
    let defs = all["$defs"].take();
    let variants = all["oneOf"].as_array().cloned().unwrap_or_default();
    let mut variants = variants.into_iter();
    let found = variants.find(|variant| variant["properties"]["op"]["const"] == op);
    let mut found = found.unwrap_or_else(|| panic!("no operation '{op}'"));
    for field in ["op", "task"] {
        let fields = found["properties"].as_object_mut();
        fields.map(|fields| fields.remove(field));
        let required = found["required"].as_array_mut();
        required
            .map(|names| names.retain(|name| name != field))
            .unwrap_or_default();
    }
    found["$defs"] = defs;
    found
}

/// Returns the schema of the fields of a schedule, none of which is required.
fn fields_of_schedule() -> Value {
    let mut schema = input::<Schedule>();
    schema["title"] = json!("ScheduleFields");
    let fields = schema.as_object_mut();
    fields.map(|fields| fields.remove("required"));
    schema["properties"]["run"] = json!({
        "anyOf": [schema["properties"]["run"].clone(), {"type": "null"}]
    });
    schema
}

/// Returns the schema of a JSON Patch.
fn patch() -> Value {
    let pointer =
        json!({"type": "string", "description": "A JSON pointer: /props/to, /data/rows/0."});
    json!({
        "title": "JsonPatch",
        "description": "Operations of RFC 6902 on an object with the fields `props` and `data`.",
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "op": {"enum": ["add", "remove", "replace", "move", "copy", "test"]},
                "path": pointer, "from": pointer,
                "value": {"description": "Any JSON."},
            },
            "required": ["op", "path"],
        },
    })
}
