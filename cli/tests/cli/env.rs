//! [`Env`]: the store file of one test, with the program and nodes on it.

use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;
use windlass::{BoxError, Message, Retry, Runner, TaskContext, store::Store};

pub(crate) struct Env {
    dir: TempDir,
}

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Env {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// The name of the folder.
    pub(crate) fn name(&self) -> String {
        let name = self.dir.path().file_name().unwrap();
        name.display().to_string()
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.path("store.db"))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .env("WINDLASS_STORE", self.url())
            .env_remove("WINDLASS_LOG")
            .env_remove("WINDLASS_CONFIG")
            .env_remove("WINDLASS_LOG_FORMAT")
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env_remove("NO_COLOR")
            .timeout(Duration::from_secs(60));
        command
    }

    /// Runs the program with these words.
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        self.run_with(words, "")
    }

    /// Runs the program with these words, and this on standard input.
    pub(crate) fn run_with(&self, words: &[&str], stdin: &str) -> Ran {
        let output = self
            .command()
            .args(words)
            .write_stdin(stdin)
            .output()
            .unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs the program, which has to succeed, and reads the JSON line that it prints.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let ran = self.run(&[words, &["-o", "json"]].concat()).ok();
        assert_eq!(ran.out.lines().count(), 1, "{ran:?}");
        ran.lines().remove(0)
    }

    pub(crate) fn sql(&self, text: &str) {
        let conn = rusqlite::Connection::open(self.path("store.db")).unwrap();
        conn.execute_batch(text).unwrap();
    }

    /// A node with handlers for the kinds of these tests: `double` completes with twice its props,
    /// `stay` runs until it gets a stop, `stubborn` completes when it gets any signal,
    /// `fail` fails for good, `flaky` completes at its second attempt, `print` completes with captured output.
    pub(crate) async fn node(&self, name: &str) -> Runner {
        let store = Store::open(&self.url()).await.unwrap();
        let fail = windlass::KindConfig::default().retry(Retry::Never);
        Runner::builder(&store)
            .node(name)
            .park_after(Duration::from_millis(50))
            .handler("double", double)
            .handler("stay", |task: TaskContext| async move {
                task.stop_requested().await.message()
            })
            .handler("stubborn", |task: TaskContext| async move {
                task.stop_requested().await;
                Message::complete()
            })
            .handler_with("fail", fail, |_: TaskContext| async {
                Message::error("out of luck")
            })
            .handler("flaky", |task: TaskContext| async move {
                match task.attempt() {
                    1 => Message::error("timed out"),
                    _ => Message::complete(),
                }
            })
            .handler("print", |_: TaskContext| async {
                Message::complete_with(serde_json::json!({"stdout": "one\n", "stderr": "two\n"}))
            })
            .start()
            .await
            .unwrap()
    }
}

async fn double(task: TaskContext) -> Result<Message, BoxError> {
    let n: u64 = task.props()?;
    Ok(Message::complete_with(n * 2))
}

impl Ran {
    /// Asserts that it ended with this code.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.code(0)
    }

    /// Asserts that it ended with this code, and with one line on standard error that contains all
    /// of these texts.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, says: &[&str]) -> Self {
        let ran = self.code(code);
        assert!(ran.err.starts_with("error: "), "{ran:?}");
        for text in says {
            assert!(ran.err.contains(text), "{text} is not in {ran:?}");
        }
        ran
    }

    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}
