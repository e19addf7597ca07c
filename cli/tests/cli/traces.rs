//! The place in a trace: from the environment of the command line to the environment of a command, and the export of runs.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value as Any},
    trace::v1::{ResourceSpans, Span, status::StatusCode},
};
use serde_json::{Value, json};
use tonic::{Request, Response, Status};

use crate::env::Env;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn parent() -> String {
    format!("00-{TRACE}-{SPAN}-01")
}

/// Submits with `TRACEPARENT` and `TRACESTATE`, and returns the task's `meta`.
fn submitted(env: &Env, id: &str, words: &[&str], parent: &str) -> Value {
    let words = [&["submit", "--id", id], words].concat();
    let mut command = env.command();
    let command = command.args(&words).env("TRACEPARENT", parent);
    let output = command.env("TRACESTATE", "a=1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    env.json(&["get", id])["meta"].clone()
}

#[test]
fn a_task_keeps_the_trace_of_the_program_that_submits_it() {
    let env = Env::new();
    let expected = json!({"traceparent": parent(), "tracestate": "a=1"});
    assert_eq!(submitted(&env, "a", &["k"], &parent()), expected);
    for no_trace in ["", "nonsense", &format!("00-{TRACE}-{SPAN}")] {
        let id = format!("n{}", no_trace.len());
        let meta = submitted(&env, &id, &["k"], no_trace);
        assert!(matches!(meta, Value::Null) || meta == json!({}), "{meta}");
    }
    let own = submitted(&env, "own", &["k", "--meta", "traceparent=mine"], &parent());
    assert_eq!(own, json!({"traceparent": "mine"}));
}

/// A command has the trace of its task, and what it submits belongs to it too; that of the worker it does not have.
#[test]
fn a_command_continues_the_trace_of_its_task() {
    let env = Env::new();
    let program = env!("CARGO_BIN_EXE_windlass");
    let script = format!("echo $TRACEPARENT $TRACESTATE; {program} submit k --id child");
    submitted(&env, "a", &["--shell", &script], &parent());
    env.run(&["submit", "--id", "b", "--shell", "echo ${TRACEPARENT-none}"])
        .ok();
    let mut worker = env.command();
    let worker = worker.args(["worker", "--until-idle"]);
    let other = "00-11111111111111111111111111111111-2222222222222222-01";
    let output = worker.env("TRACEPARENT", other).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let of = |id: &str| env.run(&["logs", id]).ok().out;
    assert!(
        of("a").contains(&format!("{} a=1", parent())),
        "{}",
        of("a")
    );
    assert!(of("b").contains("none"), "{}", of("b"));
    let child = env.json(&["get", "child"])["meta"].clone();
    assert_eq!(child["traceparent"], parent(), "{child}");
}

/// Keeps the spans that it gets.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ResourceSpans>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let spans = request.into_inner().resource_spans;
        self.0.lock().unwrap().extend(spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn text(of: &[KeyValue], key: &str) -> String {
    let found = of.iter().find(|one| one.key == key);
    let value = found.and_then(|one| one.value.clone()?.value);
    match value {
        Some(Any::StringValue(text)) => text,
        Some(Any::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_exports_each_run_as_a_trace_with_a_link_to_its_submit() {
    let collector = Collector::default();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at: SocketAddr = listener.local_addr().unwrap();
    drop(listener);
    let service = TraceServiceServer::new(collector.clone());
    let server = tonic::transport::Server::builder().add_service(service);
    let server = tokio::spawn(server.serve(at));

    let env = Env::new();
    submitted(&env, "a", &["--shell", "echo $TRACEPARENT"], &parent());
    submitted(&env, "f", &["--retry", "1", "--shell", "exit 3"], &parent());
    let worker = |words: &'static [&'static str], protocol: &'static str| {
        let mut command = env.command();
        command
            .args(words)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{at}"));
        command.env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let refused = worker(&["worker", "--until-idle"], "http/protobuf")
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("OTEL_EXPORTER_OTLP_PROTOCOL") && said.contains("4317"),
        "{said}"
    );

    let done = worker(&["worker", "--until-idle"], "grpc");
    let done = tokio::time::timeout(Duration::from_secs(60), done);
    let done = done.await.expect("the worker ends").unwrap();
    assert!(done.status.success(), "{done:?}");
    let log = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        !log.contains("otel.") && !log.contains("not exported"),
        "{log}"
    );

    let all = collector.0.lock().unwrap().clone();
    let resource = all[0].resource.clone().unwrap();
    assert_eq!(text(&resource.attributes, "service.name"), "windlass");
    let scopes = all.iter().flat_map(|of| &of.scope_spans);
    let spans: Vec<&Span> = scopes.flat_map(|of| &of.spans).collect();
    let of = |id: &str| {
        let mut found = spans.iter().filter(|s| text(&s.attributes, "task") == id);
        let span = found
            .next()
            .unwrap_or_else(|| panic!("no span of {id}: {spans:?}"));
        assert!(found.next().is_none(), "{id} has run once: {spans:?}");
        *span
    };
    for id in ["a", "f"] {
        let span = of(id);
        assert_eq!(span.name, "exec");
        assert_eq!(text(&span.attributes, "attempt"), "1");
        assert_eq!(span.parent_span_id, Vec::<u8>::new(), "it is a root");
        assert_ne!(hex(&span.trace_id), TRACE, "it is a trace of its own");
        let links: Vec<_> = span
            .links
            .iter()
            .map(|l| (hex(&l.trace_id), hex(&l.span_id)))
            .collect();
        assert_eq!(links, [(TRACE.to_owned(), SPAN.to_owned())]);
    }
    // The command continues the trace of the run.
    let logged = env.run(&["logs", "a"]).ok().out;
    let (trace, span) = (hex(&of("a").trace_id), hex(&of("a").span_id));
    assert!(
        logged.contains(&format!("00-{trace}-{span}-01")),
        "{logged}"
    );
    let status = of("f").status.clone().unwrap();
    assert_eq!(status.code(), StatusCode::Error);
    assert!(status.message.contains('3'), "{status:?}");
    server.abort();
}

/// A worker whose collector is away runs its tasks, and ends.
#[test]
fn a_collector_that_is_away_stops_no_task() {
    let env = Env::new();
    env.run(&["submit", "--id", "a", "--shell", "true"]).ok();
    let mut command = env.command();
    command.args(["worker", "--until-idle"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(env.json(&["get", "a"])["state"], "completed");
}

/// The export began a thread in the supervisor before it had blocked its signals, and the thread took them: SIGTERM ended the
/// supervisor at once, and not after its worker.
#[test]
fn a_supervisor_with_traces_waits_for_its_worker() {
    let env = Env::new();
    let script =
        "trap 'sleep 1; echo stopped; exit 0' TERM; echo started; while true; do sleep 0.05; done";
    env.run(&["submit", "--id", "a", "--shell", script]).ok();
    let mut worker = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"));
    let worker = worker.arg("worker").env("WINDLASS_STORE", env.url());
    let worker = worker.env("XDG_CONFIG_HOME", env.path("config"));
    worker.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let mut worker = worker.spawn().unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !env.run(&["logs", "a"]).out.contains("started") {
        assert!(std::time::Instant::now() < deadline, "the command starts");
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(worker.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let status = worker.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status:?}");
    let task = env.json(&["get", "a"]);
    assert_eq!(task["node"], Value::Null, "{task}");
}
