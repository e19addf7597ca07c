//! Commands run by a real node, on the store in memory.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};
use windlass::{
    Client, Command, KindConfig, NewTask, Retry, Runner, StateKind, TaskId, client::Done,
    store::Store,
};

use nix::sys::signal::Signal;

use super::{folders::folders_of, process::Stat, *};

mod groups;
mod leftovers;

/// The longest wait of a test.
const LONG: Duration = Duration::from_secs(30);

struct Node {
    client: Client,
    runner: Runner,
    dir: TempDir,
}

impl Node {
    async fn start() -> Self {
        let store = Store::open("memory:").await.unwrap();
        let client = Client::new(&store);
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("s").display());
        let folders = folders_of(&url, &client).await;
        let exec = Exec::new(folders, 1 << 20);
        let config = KindConfig::default().retry(Retry::Abandoned);
        let runner = Runner::builder(&store)
            .handler_with(KIND, config, exec)
            .start()
            .await
            .unwrap();
        Self {
            client,
            runner,
            dir,
        }
    }

    async fn submit(&self, props: Value) -> TaskId {
        let task = NewTask::new(KIND).id("Task").props(&props);
        self.client.submit(task).await.unwrap().into_id()
    }

    async fn run(&self, props: Value) -> Done {
        let id = self.submit(props).await;
        timeout(LONG, self.client.wait(&id)).await.unwrap().unwrap()
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a command that writes its number and that of a child to a file, then waits for ever.
    fn family(&self, before: &str) -> Value {
        let file = self.file("family");
        let script = format!(
            "{before} sleep 600 & echo $$ $! > {0}.new; mv {0}.new {0}; wait",
            file.display()
        );
        json!({"shell": script, "grace": "200ms"})
    }

    async fn pids(&self) -> Vec<i32> {
        let text = content(&self.file("family")).await;
        text.split_whitespace()
            .map(|p| p.parse().unwrap())
            .collect()
    }
}

/// Waits until the condition holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}: not within {LONG:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn content(file: &Path) -> String {
    until("the file", async || file.exists()).await;
    std::fs::read_to_string(file).unwrap()
}

async fn gone(pids: &[i32]) {
    until("the processes are gone", async || {
        pids.iter()
            .all(|pid| Stat::of(*pid).is_none_or(|s| s.state == 'Z'))
    })
    .await;
}

fn result(done: &Done) -> Output {
    assert_eq!(done.code(), StateKind::Completed, "{:?}", done.error());
    done.result().unwrap()
}

fn data(done: &Done) -> Output {
    assert_eq!(done.code(), StateKind::Failed);
    done.state.data.as_ref().unwrap().get("data").unwrap()
}

#[tokio::test]
async fn success_is_a_result() {
    let node = Node::start().await;
    let done = node
        .run(json!({"shell": "echo out; echo err >&2; exit 3", "ok_exit_codes": [0, 3]}))
        .await;
    let output = result(&done);
    assert_eq!(output.exit_code, Some(3));
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert!(!output.truncated);
}

#[tokio::test]
async fn a_failure_reports_the_code_and_the_last_lines() {
    let node = Node::start().await;
    let done = node
        .run(json!({"shell": "echo out; echo early >&2; echo 'no such thing' >&2; exit 7"}))
        .await;
    assert_eq!(done.error(), Some("exit code 7: early\nno such thing"));
    let output = data(&done);
    assert_eq!(
        (output.exit_code, output.stdout.as_str()),
        (Some(7), "out\n")
    );
}

#[tokio::test]
async fn a_signal_is_named() {
    let node = Node::start().await;
    let done = node.run(json!({"shell": "kill -9 $$"})).await;
    assert_eq!(
        done.error(),
        Some("ended by signal 9 (SIGKILL; by the kernel when memory runs out, or by a user)")
    );
    assert_eq!(data(&done).signal, Some(9));
}

#[tokio::test]
async fn a_command_that_cannot_be_run_is_reported() {
    let node = Node::start().await;
    for (props, says) in [
        (
            json!({"command": "/no/such/program"}),
            "'/no/such/program' cannot be run: No such file",
        ),
        (
            json!({"command": "true", "cwd": "/no/such"}),
            "props.cwd: '/no/such' is not a folder",
        ),
        (
            json!({"command": 5}),
            "props: command: is 5, not text in quotes",
        ),
    ] {
        let done = node.run(props).await;
        assert!(done.error().unwrap().contains(says), "{:?}", done.error());
        node.client.force_delete(&done.task.id).await.unwrap();
    }
}

#[tokio::test]
async fn the_command_gets_what_the_task_says() {
    let node = Node::start().await;
    let cwd = node.dir.path().canonicalize().unwrap();
    let done = node
        .run(json!({
            "shell": "cat; pwd; echo $1; echo $OWN $WINDLASS_TASK_ID $WINDLASS_ATTEMPT \
                      $WINDLASS_INCARNATION; test \"$WINDLASS_FENCE\" -gt 0 -a -d \"$WINDLASS_STATE_DIR\"",
            "args": ["an argument"],
            "stdin": "input\n",
            "cwd": cwd,
            "env": {"OWN": "mine", "WINDLASS_TASK_ID": "not this"},
        }))
        .await;
    let expected = format!("input\n{}\nan argument\nmine Task 1 0\n", cwd.display());
    assert_eq!(result(&done).stdout, expected);
}

#[tokio::test]
async fn a_command_that_does_not_read_its_input_is_no_failure() {
    let node = Node::start().await;
    let done = node
        .run(json!({"command": "true", "stdin": "x".repeat(500_000)}))
        .await;
    assert_eq!(result(&done).exit_code, Some(0));
}

#[tokio::test]
async fn the_last_of_the_output_is_kept() {
    let node = Node::start().await;
    let done = node
        .run(json!({"shell": "seq 1 100000; printf 'a\\377\\000b'", "capture": 20}))
        .await;
    let output = result(&done);
    assert_eq!(output.stdout, "98\n99999\n100000\na\u{fffd}\0b");
    assert!(output.truncated);
}

#[tokio::test]
async fn the_largest_output_still_fits_the_store() {
    let node = Node::start().await;
    // Every byte takes six bytes as JSON.
    let done = node
        .run(json!({"shell": "head -c 600000 /dev/zero | tee /dev/stderr", "capture": 524_288}))
        .await;
    let output = result(&done);
    assert!(output.truncated && output.stdout.len() > 80_000 && output.stderr.len() > 80_000);
}

#[tokio::test]
async fn a_pause_ends_the_command_and_it_goes_on_from_its_own_progress() {
    let node = Node::start().await;
    let ready = node.file("ready");
    let script = format!(
        "cd \"$WINDLASS_STATE_DIR\"; [ -e step ] && {{ echo again; exit; }}; touch step {}; sleep 600",
        ready.display()
    );
    let id = node.submit(json!({"shell": script})).await;
    content(&ready).await;
    let pause = node.client.command(&id, Command::Pause).await.unwrap();
    let outcome = timeout(LONG, node.client.wait_outcome(&pause))
        .await
        .unwrap()
        .unwrap();
    assert!(outcome.is_applied(), "{outcome}");
    let state = node.client.get(&id).await.unwrap().state.unwrap();
    assert_eq!((state.code(), state.attempts), (StateKind::Paused, 0));
    let output: Output = state.data.unwrap().get("data").unwrap();
    assert_eq!(output.signal, Some(15));

    node.client.command(&id, Command::Run).await.unwrap();
    let done = timeout(LONG, node.client.wait(&id)).await.unwrap().unwrap();
    assert_eq!(result(&done).stdout, "again\n");
    let above = node.file("s.tasks");
    let store = std::fs::read_dir(&above).unwrap().next().unwrap().unwrap();
    let entries = || std::fs::read_dir(store.path()).unwrap().count();
    until("the folder is removed", async || entries() == 0).await;
}

#[tokio::test]
async fn a_deleted_task_leaves_nothing_running() {
    let node = Node::start().await;
    let id = node.submit(node.family("trap '' TERM;")).await;
    let pids = node.pids().await;
    node.client.force_delete(&id).await.unwrap();
    gone(&pids).await;
}

#[tokio::test]
async fn a_shutdown_gives_the_task_back() {
    let node = Node::start().await;
    let id = node.submit(node.family("")).await;
    let pids = node.pids().await;
    node.runner.shutdown().await;
    gone(&pids).await;
    let record = node.client.get(&id).await.unwrap();
    assert_eq!(
        (record.state.unwrap().code(), record.node),
        (StateKind::Runnable, None)
    );
}

#[tokio::test]
async fn the_output_of_a_running_command_can_be_seen() {
    let node = Node::start().await;
    let script = "echo first; sleep 2; echo second; sleep 600";
    let id = node.submit(json!({"shell": script})).await;
    let seen = async || {
        let data = node.client.get(&id).await.unwrap().state.unwrap().data?;
        data.get::<Output>("data").ok()
    };
    until("it is persisted automatically", async || {
        seen()
            .await
            .is_some_and(|o| o.stdout == "first\n" && o.exit_code.is_none())
    })
    .await;
    until("so is what follows", async || {
        seen().await.is_some_and(|o| o.stdout == "first\nsecond\n")
    })
    .await;
    let checkpoint = node.client.command(&id, Command::Checkpoint).await.unwrap();
    let outcome = timeout(LONG, node.client.wait_outcome(&checkpoint))
        .await
        .unwrap()
        .unwrap();
    assert!(outcome.is_applied(), "{outcome}");
    node.runner.abort().await;
}

#[tokio::test]
async fn the_next_attempt_ends_what_an_earlier_one_left() {
    let node = Node::start().await;
    // The leftovers of a killed worker: a record and a running group.
    let client = node.client.clone();
    let url = format!("sqlite:{}", node.file("s").display());
    let folders = folders_of(&url, &client).await;
    for recorded in [true, false] {
        let task = NewTask::new(KIND)
            .id("Task")
            .props(&json!({"shell": "echo ran", "grace": "100ms"}))
            .start_at(jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1));
        let id = client.submit(task).await.unwrap().into_id();
        let order = client.get(&id).await.unwrap().order;
        let folder = folders.prepare(&id, order).unwrap();
        let mut command = tokio::process::Command::new("sh");
        command
            .args(["-c", "trap '' TERM; sleep 600 & wait"])
            .env(tagged::STATE_DIR, &folder.path)
            .process_group(0);
        let mut left = command.spawn().unwrap();
        let pid = left.id().unwrap() as i32;
        let running = Running {
            fence: windlass::Fence(0),
            holders: &[],
            grace: Duration::ZERO,
        };
        let mut record = record::about_to_start(&folder, running).unwrap();
        if recorded {
            record.is(pid).unwrap();
        }
        client.command(&id, Command::Run).await.unwrap();
        let done = timeout(LONG, client.wait(&id)).await.unwrap().unwrap();
        assert_eq!(result(&done).stdout, "ran\n");
        timeout(LONG, left.wait()).await.unwrap().unwrap();
        until("its group is gone", async || !process::group_lives(pid)).await;
        assert!(!folder.record.exists());
        node.client.force_delete(&id).await.unwrap();
    }
}

#[tokio::test]
async fn a_failed_command_is_tried_as_its_task_says() {
    let node = Node::start().await;
    let task = NewTask::new(KIND)
        .props(&json!({"shell": "echo $WINDLASS_ATTEMPT >> \"$WINDLASS_STATE_DIR/n\"; [ $WINDLASS_ATTEMPT = 3 ] && cat \"$WINDLASS_STATE_DIR/n\""}))
        .retry(Retry::exponential(3, Duration::from_millis(20)));
    let id = node.client.submit(task).await.unwrap().into_id();
    let done = timeout(LONG, node.client.wait(&id)).await.unwrap().unwrap();
    assert_eq!(result(&done).stdout, "1\n2\n3\n");
}
