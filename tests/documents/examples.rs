//! Each example is run as a program: it ends with the promised exit status and output in time.
//!
//! The cluster on one machine (`examples/cluster/run.sh`) is run by `cli/tests/cli/cluster_example.rs`.
#![cfg(feature = "sqlite-system")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[cfg(feature = "etcd")]
#[allow(dead_code, reason = "each test uses its own part of it")]
#[path = "../etcd/server.rs"]
mod server;

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// The longest that an example may take for anything.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the program of an example, which cargo puts next to the tests.
fn program(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let target = test.ancestors().nth(2).unwrap();
    let program = target.join("examples").join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{name}.rs"));
    let changed = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let is_new = changed(&program) >= changed(&source);
    assert!(
        changed(&program).is_some() && is_new,
        "{} is missing or older than its source: build it with `cargo build --examples --all-features`",
        program.display()
    );
    program
}

/// An example that runs in its own folder. It is killed when this is dropped.
struct Example {
    folder: TempDir,
    child: Child,
}

impl Example {
    fn start(name: &str, arguments: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), name, arguments)
    }

    fn start_in(folder: TempDir, name: &str, arguments: &[&str]) -> Self {
        let output = File::create(folder.path().join("output")).unwrap();
        let mut command = Command::new(program(name));
        command.args(arguments).current_dir(folder.path());
        command
            .stdin(Stdio::null())
            .stderr(output.try_clone().unwrap());
        let child = command.stdout(output).spawn().unwrap();
        Self { folder, child }
    }

    fn output(&self) -> String {
        fs::read_to_string(self.folder.path().join("output")).unwrap()
    }

    fn until(&mut self, what: &str, mut is: impl FnMut(&mut Self) -> bool) {
        let started = Instant::now();
        while !is(self) {
            let output = self.output();
            assert!(
                started.elapsed() < LIMIT,
                "{what}: not in {LIMIT:?}: {output}"
            );
            sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it has printed this.
    fn until_printed(&mut self, text: &str) {
        self.until(text, |own| own.output().contains(text));
    }

    /// Waits for its end, and returns its output.
    fn succeeds(mut self) -> Vec<String> {
        let mut ended: Option<ExitStatus> = None;
        self.until("its end", |own| {
            ended = own.child.try_wait().unwrap();
            ended.is_some()
        });
        let output = self.output();
        assert!(ended.unwrap().success(), "{ended:?}: {output}");
        output.lines().map(String::from).collect()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn inbox_submits_a_task_with_an_order() {
    let output = Example::start("inbox", &[]).succeeds();
    assert_eq!(output, ["invoice for o-17"]);
}

/// It is killed after a step, and continues there.
#[test]
fn countdown_goes_on_after_a_kill() {
    let mut first = Example::start("countdown", &["3"]);
    first.until_printed("apollo: 2");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let folder = std::mem::replace(&mut first.folder, tempfile::tempdir().unwrap());
    let output = Example::start_in(folder, "countdown", &["3"]).succeeds();
    assert!(!output.contains(&"apollo: 3".to_owned()), "{output:?}");
    let ended = output.ends_with(&["apollo: 0".to_owned(), "lift-off".to_owned()]);
    assert!(ended, "{output:?}");
}

#[test]
fn fan_out_joins_every_part() {
    let output = Example::start("fan_out", &[]).succeeds();
    let joined = [
        "speech-0 completed",
        "speech-1 completed",
        "speech-2 completed",
        "speech-3 completed",
        "speech: \"EVERY PART OR NONE\"",
        "silence: \"\"",
    ];
    assert_eq!(output, joined);
}

#[test]
fn schedule_submits_three_runs() {
    let output = Example::start("schedule", &[]).succeeds();
    assert!(output[0].starts_with("the next is at "), "{output:?}");
    let runs = |line: &&String| line.starts_with("the report of ");
    // The last run may be stopped by the end of the program.
    assert!(output.iter().filter(runs).count() >= 2, "{output:?}");
    assert!(output.iter().any(|line| line == "all three are submitted"));
}

#[test]
fn traced_events_are_log_lines_of_their_task() {
    let output = Example::start("traced", &[]).succeeds();
    let lines = [
        "INFO resized picture=\"a.png\"",
        "INFO resized picture=\"b.png\"",
    ];
    assert_eq!(output, lines);
}

#[test]
fn own_retry_tries_three_times_and_not_again_when_no_retry_helps() {
    let mut output = Example::start("own_retry", &[]).succeeds();
    // The example has no log: its failed attempts are on standard error.
    let is_report = |line: &String| line.starts_with("windlass: task ");
    assert!(
        output.iter().filter(|line| is_report(line)).count() == 3,
        "{output:?}"
    );
    output.retain(|line| !is_report(line));
    let failed = "failed: c (no such address); retry with client.retry()";
    assert_eq!(output.pop().as_deref(), Some(failed));
    output.sort_unstable();
    let attempts = [
        "a attempt 1",
        "b attempt 1",
        "b attempt 2",
        "b attempt 3",
        "c attempt 1",
    ];
    assert_eq!(output, attempts);
}

#[test]
fn own_state_store_keeps_the_states_in_its_folder() {
    let output = Example::start("own_state_store", &[]).succeeds();
    let counted = (0..=5).rev().map(|left| format!("apollo: {left}"));
    let counted: Vec<String> = counted.collect();
    let (last, lines) = output.split_last().unwrap();
    assert_eq!(lines, counted);
    let name: String = b"apollo".iter().map(|b| format!("{b:02x}")).collect();
    assert!(last.starts_with("lift-off, kept in "), "{last}");
    assert!(last.ends_with(&format!("{name}.json")), "{last}");
}

#[test]
fn agent_waits_for_a_person() {
    let output = Example::start("agent", &[]).succeeds();
    assert_eq!(output, ["the agent says thanks", "done: booked OS-117"]);
}

#[test]
fn etl_copies_every_row_once() {
    let output = Example::start("etl", &[]).succeeds();
    assert_eq!(output, ["350 rows copied, 350 in the target"]);
}

#[test]
fn approval_replies_to_each_approver() {
    let output = Example::start("approval", &[]).succeeds();
    let expected = [
        "bob: refused: only ann may approve",
        "ann: released",
        "approved by ann",
    ];
    assert_eq!(output, expected);
}

#[test]
fn poller_interval_takes_the_new_interval() {
    // The poller may print before the client does.
    let mut output = Example::start("poller_interval", &[]).succeeds();
    output.sort_unstable();
    let expected = [
        "polled after 20 ms",
        "the interval is 20 ms",
        "the interval was 60000 ms",
    ];
    assert_eq!(output, expected);
}

#[cfg(feature = "etcd")]
#[test]
fn beside_metafora_runs_a_task_of_a_client_and_stops_on_sigterm() {
    use windlass::{Client, NewTask, store::Store};

    let server = server::Server::start();
    let url = server.url("my/namespace");
    let mut example = Example::start("beside_metafora", &[&url, "node-1"]);
    example.until_printed("node-1 works");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::new(&Store::open(&url).await.unwrap());
        let props = serde_json::json!({ "steps": 2, "pause_ms": 10 });
        let task = NewTask::new("default").id("t").props(&props);
        let id = client.submit(task).await.unwrap();
        assert!(client.wait(&id).await.unwrap().is_completed());
    });
    let pid = example.child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(sent.success());
    let output = example.succeeds();
    assert_eq!(output, ["node-1 works", "t runs", "t runs"]);
}

/// An example without a test is not run.
#[test]
fn every_example_has_a_test() {
    let own = include_str!("examples.rs");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut examples = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "rs") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let start = format!("Example::start(\"{name}\"");
            assert!(own.contains(&start), "{name} is run by no test");
            examples += 1;
        }
    }
    assert!(examples >= 5, "{examples} examples were found");
}
