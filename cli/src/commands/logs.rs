//! `windlass logs`: what a task has printed, as far as its state keeps it.

use futures::StreamExt;
use serde_json::{Value, json};
use windlass::{Code, Status, TaskId, store::TaskRecord};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
};

/// Which task.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass logs build-12
  windlass logs build-12 --follow
  windlass logs build-12 -o json | jq -r .stderr")]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID")]
    id: TaskId,

    /// Go on until the task has ended
    #[arg(short, long)]
    follow: bool,
}

/// The captured output of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Captured {
    stdout: String,
    stderr: String,
}

impl Captured {
    /// What a JSON document holds of it: text in `stdout` and `stderr`, at the top or in
    /// `last_output`; or text in `last_output` itself.
    fn find(document: &Value) -> Option<Self> {
        let text = |name: &str| {
            document
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let (stdout, stderr) = (text("stdout"), text("stderr"));
        if stdout.is_some() || stderr.is_some() {
            return Some(Self {
                stdout: stdout.unwrap_or_default(),
                stderr: stderr.unwrap_or_default(),
            });
        }
        match document.get("last_output")? {
            Value::String(text) => Some(Self {
                stdout: text.clone(),
                ..Self::default()
            }),
            inner => Self::find(inner),
        }
    }

    /// What the state of a task holds of it: the result before the data.
    fn of(record: &TaskRecord) -> Option<Self> {
        let state = record.state.as_ref().ok()?;
        let result = match &state.status {
            Status::Completed { result } => result.as_ref(),
            _ => None,
        };
        let mut documents = result.into_iter().chain(state.data.as_ref());
        documents.find_map(|json| Self::find(&json.get("output").ok()?))
    }

    /// Prints what is new since `before`.
    fn print_since(&self, out: &Output, before: &Self) -> Result<(), Failure> {
        out.bytes(fresh(&self.stdout, &before.stdout).as_bytes())?;
        std::io::Write::write_all(
            &mut std::io::stderr(),
            fresh(&self.stderr, &before.stderr).as_bytes(),
        )?;
        Ok(())
    }
}

/// What `now` has beyond `before`; all of it when it is another text (of another attempt, say).
fn fresh<'a>(now: &'a str, before: &str) -> &'a str {
    now.strip_prefix(before).unwrap_or(now)
}

/// Prints it.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.existing().await?;
    let out = global.out();
    let mut changes = if args.follow {
        Some(client.changes(None).await?)
    } else {
        None
    };
    let mut before: Option<Captured> = None;
    loop {
        let record = client.get(&args.id).await?;
        let state = record.state.as_ref().map(windlass::State::code).ok();
        let now = Captured::of(&record);
        if let Some(captured) = now.as_ref().filter(|c| before.as_ref() != Some(*c)) {
            if out.is_json() {
                out.json(&json!({
                    "id": record.task.id,
                    "state": state,
                    "stdout": captured.stdout,
                    "stderr": captured.stderr,
                }))?;
            } else {
                captured.print_since(&out, &before.unwrap_or_default())?;
            }
        } else if !args.follow {
            nothing(&out, &record)?;
        }
        before = now;
        let Some(stream) = changes
            .as_mut()
            .filter(|_| !state.is_none_or(Code::is_terminal))
        else {
            return Ok(Exit::Ok);
        };
        loop {
            match stream.next().await {
                Some(Ok(batch)) if batch.iter().any(|c| c.task == args.id) => break,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => {
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                    *stream = client.changes(None).await?;
                    break;
                }
            }
        }
    }
}

/// Says that there is no output.
fn nothing(out: &Output, record: &TaskRecord) -> Result<(), Failure> {
    let id = &record.task.id;
    if out.is_json() {
        let state = record.state.as_ref().map(windlass::State::code).ok();
        out.json(&json!({ "id": id, "state": state, "stdout": null, "stderr": null }))?;
    }
    out.note(format!(
        "task '{id}' keeps no output; `windlass get {id}` shows what there is"
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_found_where_it_may_be() {
        let both = |a: &str, b: &str| {
            Some(Captured {
                stdout: a.into(),
                stderr: b.into(),
            })
        };
        for (document, found) in [
            (json!({"stdout": "a", "stderr": "b"}), both("a", "b")),
            (json!({"exit": 1, "stderr": "b"}), both("", "b")),
            (json!({"last_output": "a"}), both("a", "")),
            (json!({"last_output": {"stdout": "a"}}), both("a", "")),
            (json!({"stdout": 3}), None),
            (json!([1]), None),
            (json!(null), None),
        ] {
            assert_eq!(Captured::find(&document), found, "{document}");
        }
        assert_eq!(fresh("abc", "ab"), "c");
        assert_eq!(fresh("xyz", "ab"), "xyz");
    }
}
