//! `windlass signal`: payloads, replies and outcomes.

use serde_json::json;
use windlass::{BoxError, Command, Message, Runner, TaskContext, store::Store};

use crate::env::Env;

/// Replies to each signal with its name and payload; the signal `silent` ends the run without a reply.
async fn echo(task: TaskContext) -> Result<Message, BoxError> {
    let commands = task.commands();
    loop {
        tokio::select! {
            biased;
            Some(command) = commands.next() => {
                let Command::Signal(signal) = command else { continue };
                if signal.name() == "silent" {
                    return Ok(Message::pause());
                }
                let payload: serde_json::Value = signal.payload()?;
                task.answer(&signal, &json!([signal.name(), payload])).await?;
            }
            stop = task.stop_requested() => return Ok(stop.message()),
        }
    }
}

/// Regression: nothing said that a signal starts a task before its time.
#[test]
fn a_signal_to_a_task_that_asked_for_none_says_what_it_ends() {
    let env = Env::new();
    env.run(&[
        "submit",
        "echo",
        "--id",
        "later",
        "--start-at",
        "2100-01-02T03:04:05Z",
    ])
    .ok();
    env.run(&["submit", "echo", "--id", "held", "--paused"])
        .ok();
    env.run(&["submit", "echo", "--id", "now"]).ok();
    for (id, says) in [
        (
            "later",
            "runs it at once, and skips its sleep until 2100-01-02T03:04:05Z",
        ),
        ("held", "this one runs it, as a resume does"),
    ] {
        let sent = env.run(&["signal", id, "hello"]).ok();
        assert!(sent.err.contains(says), "{sent:?}");
    }
    let sent = env.run(&["signal", "now", "hello"]).ok();
    assert!(!sent.err.contains("at once"), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_printed_and_kept() {
    let env = Env::new();
    env.run(&["submit", "echo", "--id", "a"]).ok();
    // Without a node it waits, and its timeout does not withdraw it.
    let waits = [
        "signal",
        "a",
        "early",
        "--id",
        "s1",
        "--wait",
        "--timeout",
        "50ms",
    ];
    let ran = env.run(&waits).code(5);
    assert!(
        ran.err.contains("no live node handles kind 'echo'"),
        "{ran:?}"
    );
    assert!(
        ran.err
            .contains("signal 's1' to task 'a' is sent, and has no reply yet"),
        "{ran:?}"
    );
    let store = Store::open(&env.url()).await.unwrap();
    let _node = Runner::builder(&store)
        .handler("echo", echo)
        .start()
        .await
        .unwrap();
    let again = [
        "signal",
        "a",
        "early",
        "--id",
        "s1",
        "--wait",
        "--timeout",
        "30s",
    ];
    assert_eq!(env.run(&again).ok().out, "[\"early\",null]\n");

    let payload = env.write("payload.json", "{\"n\": 9007199254740993}");
    let file = format!("@{payload}");
    for (given, input) in [(file.as_str(), ""), ("-", "{\"n\": 9007199254740993}")] {
        let words = [
            "signal",
            "a",
            "set",
            "--payload",
            given,
            "--wait",
            "--timeout",
            "30s",
        ];
        let ran = env.run_with(&words, input).ok();
        assert_eq!(ran.out, "[\"set\",{\"n\":9007199254740993}]\n");
    }
    let words = [
        "signal",
        "a",
        "x",
        "--payload",
        "1",
        "--wait",
        "--timeout",
        "30s",
    ];
    let report = env.json(&words);
    assert_eq!(report["tasks"][0]["outcome"], "answered");
    assert_eq!(report["tasks"][0]["reply"], json!(["x", 1]));

    let words = ["signal", "a", "silent", "--wait", "--timeout", "30s"];
    let ran = env.run(&words).code(1);
    assert_eq!(
        ran.out,
        "a: signal: unanswered (the handler returned without a reply)\n"
    );
    let got = env.json(&["get", "a"]);
    assert_eq!(
        got["commands"][0]["command"],
        json!({"message": "signal", "name": "early"})
    );
    assert_eq!(
        got["commands"][0]["outcome"],
        json!({"outcome": "answered", "reply": ["early", null]})
    );
    let text = env.run(&["get", "a"]).ok().out;
    assert!(text.contains("signal early"), "{text}");
    assert!(text.contains("answered: [\"early\",null]"), "{text}");
}

/// A signal starts a paused command, as it starts every paused task. A command that does not wait for it does not reply.
#[test]
fn a_signal_starts_a_paused_command() {
    let env = Env::new();
    let submit = [
        "submit",
        "exec",
        "--id",
        "a",
        "--props",
        "{\"command\":\"true\"}",
    ];
    env.run(&submit).ok();
    env.run(&["pause", "a"]).ok();
    let mut worker = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["worker", "--store", &env.url()])
        .env("HOME", env.path("home"))
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let words = ["signal", "a", "go", "--wait", "--timeout", "30s"];
    let ran = env.run(&words);
    let got = env.json(&["get", "a"]);
    worker.kill().unwrap();
    worker.wait().unwrap();
    let out = ran.code(1).out;
    assert_eq!(
        out,
        "a: signal: unanswered (the handler returned without a reply)\n"
    );
    assert_eq!(got["state"], "completed");
}

#[test]
fn bad_signals_name_the_field() {
    let env = Env::new();
    env.run(&["submit", "stay", "--id", "a"]).ok();
    let long = "x".repeat(65);
    env.run(&["signal", "a", &long])
        .fails(2, &["name: ", "is not 1 to 64 printable characters"]);
    env.run(&["signal", "a", "n", "--payload", "{"])
        .fails(2, &["payload: is not JSON"]);
    env.run(&["signal", "none", "n"]).fails(3, &["none"]);
    env.run(&["complete", "a"]).ok();
    env.run(&["signal", "a", "n", "--timeout", "1s"]).code(2);
    let large = env.write("large.json", &format!("\"{}\"", "x".repeat(1 << 20)));
    let large = format!("@{large}");
    env.run(&["signal", "a", "n", "--payload", &large]).fails(
        2,
        &["payload has 1048582 bytes; the store takes at most 1048576"],
    );
}

#[test]
fn a_transaction_sends_signals() {
    let env = Env::new();
    env.run(&["submit", "stay", "--id", "a"]).ok();
    let line = |command: &str| format!("{{\"op\":\"send\",\"task\":\"a\",{command}}}\n");
    let good = line("\"command\":\"signal\",\"name\":\"go\",\"payload\":[1]");
    env.run_with(&["apply", "-"], &good).ok();
    let got = env.json(&["get", "a"]);
    let sent = json!({"message": "signal", "name": "go", "payload": [1]});
    assert_eq!(got["commands"][0]["command"], sent);
    env.run_with(&["apply", "-"], &line("\"command\":\"signal\""))
        .fails(2, &["name: is missing"]);
}

/// Regression: a signal to a kind that takes none was silently accepted, and rejected when a worker ran the task.
#[test]
fn a_signal_to_a_schedule_is_noted_at_once() {
    let env = Env::new();
    env.run(&["schedule", "create", "s", "--every", "1h", "--", "true"])
        .ok();
    let ran = env.run(&["signal", "s", "approve"]).ok();
    let says = "note: 's' is a schedule, and schedules take no signals: a worker rejects it\n";
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str()),
        ("s: signal sent\n", says)
    );
    let props = r#"{"command":"true"}"#;
    env.run(&["submit", "exec", "--id", "a", "--props", props])
        .ok();
    let ran = env.run(&["signal", "a", "approve"]).ok();
    let says =
        "the signal waits: no live node handles kind 'exec'; the task gets it when one starts\n";
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str()),
        ("a: signal sent\n", says)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_reply_reports_failed_attempts() {
    let env = Env::new();
    let retry = r#"{"policy":"exponential","base":"500ms","cap":"500ms","attempts":1000}"#;
    env.run(&["submit", "wrong", "--id", "a", "--retry", retry])
        .ok();
    let store = Store::open(&env.url()).await.unwrap();
    let wrong = |task: TaskContext| async move {
        while let Some(command) = task.commands().next().await {
            if let Command::Signal(signal) = command {
                signal.payload::<u64>()?;
            }
        }
        Ok::<_, BoxError>(Message::pause())
    };
    let _node = Runner::builder(&store)
        .handler("wrong", wrong)
        .start()
        .await
        .unwrap();
    let words = [
        "signal",
        "a",
        "set",
        "--payload",
        "\"x\"",
        "--wait",
        "--timeout",
        "3s",
    ];
    let ran = env.run(&words).code(5);
    assert!(ran.err.contains("attempt "), "{ran:?}");
    assert!(
        ran.err
            .contains("to task 'a' is sent, and has no reply yet"),
        "{ran:?}"
    );
}
