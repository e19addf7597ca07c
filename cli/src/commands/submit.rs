//! `windlass submit`: one task, or many as JSON lines.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass::{
    Client, Invalid, NewTask, StateKind, TaskId,
    client::{Done, WaitReason, Waiting},
    store::Submit,
};

use crate::{
    args::{duration, label, priority, time},
    commands::{steer::after, submit_lines},
    env_args::EnvArgs,
    exec,
    exit::{Exit, Failure},
    global::Global,
    input,
    line::TaskLine,
    output::Output,
    plain,
    text::one_line,
    waiting::{Deadline, WaitArgs, note_unhandled},
};

/// What to submit.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass submit exec --id backup-7 --props '{\"command\":\"tar\",\"args\":[\"czf\",\"/tmp/home.tgz\",\"home\"]}'
  windlass submit report --props @report.json --in 2h --label team=billing --priority 5
  windlass submit poll --retry '{\"policy\":\"exponential\",\"attempts\":5}' --wait --timeout 1m
  windlass submit --lines tasks.jsonl --kind report --idempotent --keep-going")]
pub(crate) struct Args {
    /// The kind: which handler runs it
    #[arg(value_name = "KIND", required_unless_present_any = ["kind", "lines"])]
    kind_given: Option<String>,

    /// The same; for --lines that of lines which say none
    #[arg(long, value_name = "KIND", conflicts_with = "kind_given")]
    kind: Option<String>,

    /// Its id: 1 to 256 bytes of printable text without '/'; a UUID by default
    #[arg(long, value_name = "ID", conflicts_with = "lines")]
    id: Option<String>,

    /// What it is to work on: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    props: Option<String>,

    /// Not before this time, as RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "wait_in")]
    start_at: Option<Timestamp>,

    /// Not before so long from now: 90s, 15m, 1h30m, 7d
    #[arg(id = "wait_in", long = "in", value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    wait_in: Option<Duration>,

    /// Tasks with a greater one are claimed first; 0 by default
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = priority)]
    priority: Option<i32>,

    /// A label
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,

    /// What follows a failed attempt: a number of attempts, 'exponential' (8 attempts), 'strikes'
    /// (8 failures within 4h fail it; 10m between two), 'never', 'abandoned' (only an attempt whose
    /// worker died is followed by another) or JSON, such as
    /// {"policy":"exponential","attempts":5,"cap":"10m"}
    #[arg(long, value_name = "POLICY")]
    retry: Option<String>,

    #[command(flatten)]
    env: EnvArgs,

    /// A task that is there already, with the same kind and props (as values: spaces and the order of names do not matter), is as good as submitted
    #[arg(long)]
    pub(crate) idempotent: bool,

    /// Take the place of a task of this id that has ended
    #[arg(long, conflicts_with = "idempotent")]
    pub(crate) replace: bool,

    /// Read tasks as JSON lines from this file, or - for standard input; the other options are what
    /// a line leaves out
    #[arg(long, value_name = "FILE")]
    pub(crate) lines: Option<String>,

    /// Go on after a line that is wrong
    #[arg(long, requires = "lines")]
    pub(crate) keep_going: bool,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    /// Whether the hint to shells was given.
    #[arg(skip)]
    hinted: AtomicBool,
}

impl Args {
    /// The task that the options describe.
    fn task(&self, now: Timestamp) -> Result<TaskLine, Failure> {
        let props = self.props.as_deref().map(|p| input::json("props", p));
        let retry = self
            .retry
            .as_deref()
            .map(|text| exec::read_retry(text).map_err(|e| Invalid::new("retry", e)));
        let start_at = match self.wait_in {
            Some(wait) => Some(after(now, wait, "--in")?),
            None => self.start_at,
        };
        Ok(TaskLine {
            id: self.id.clone(),
            kind: self.kind_given.clone().or_else(|| self.kind.clone()),
            props: props.transpose()?.unwrap_or_default(),
            start_at,
            priority: self.priority,
            labels: self.labels.iter().cloned().collect(),
            retry: retry.transpose()?,
        })
    }

    /// The task, ready to be submitted.
    pub(crate) fn submit(&self, task: NewTask, out: &Output) -> Result<Submit, Invalid> {
        let task = if self.idempotent {
            task.idempotent()
        } else {
            task
        };
        let task = if self.replace {
            task.replace_finished()
        } else {
            task
        };
        let mut submit = task.build()?;
        if submit.task.kind.as_str() != exec::KIND {
            if self.env.is_empty() {
                return Ok(submit);
            }
            let reason = format!(
                "is for commands, which tasks of kind '{}' are not; leave it out",
                submit.task.kind
            );
            return Err(Invalid::new("--env-file or --env-from", reason));
        }
        if !self.env.is_empty() {
            let mut props: Map<String, Value> = plain::from_str(submit.task.props.as_str())
                .map_err(|e| Invalid::new("props", e))?;
            self.env.add_to(&mut props)?;
            submit.task.props = Value::Object(props).into();
        }
        // What a command cannot be made of is an error now, not of a task that failed.
        let props = exec::Props::parse(&submit.task.props)?;
        let words = props.args.iter().filter_map(exec::Word::as_text);
        if !props.is_shell
            && let Some(word) = exec::operators::among(words)
            && !self.hinted.swap(true, Ordering::Relaxed)
        {
            out.note(format!(
                "note: '{word}' is an argument of '{}': no shell reads it; put the line into 'shell' \
                 instead of 'command' to have one",
                props.program
            ));
        }
        Ok(submit)
    }
}

/// Submits.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    // Invalid options are reported before a store is opened.
    if args.lines.as_deref() == Some("-") && args.props.as_deref() == Some("-") {
        let text = "--lines and --props cannot both read standard input; put one into a file";
        return Err(Failure::Usage(text.into()));
    }
    let task = args.task(Timestamp::now())?;
    if let Some(path) = &args.lines {
        let lines = input::lines("lines", path)?;
        return submit_lines::execute(lines, &task, &args, global).await;
    }
    let out = global.out();
    let submit = args.submit(task.into_task(&TaskLine::default())?, &out)?;
    let (id, kind) = (submit.task.id.clone(), submit.task.kind.clone());
    let client = global.lasting().await?;
    let answer = client.submit(submit).await?;
    if !out.is_json() {
        out.line(&id)?;
    }
    let is_over = answer.existing().is_some_and(StateKind::is_terminal);
    if !is_over {
        note_unhandled(&client, &out, &BTreeSet::from([kind]), "it runs").await;
    }
    let done = if args.wait.wait {
        let report = |waiting: Waiting| {
            if let Some(text) = reported(&waiting) {
                out.note(text);
            }
        };
        let deadline = Deadline::after(args.wait.timeout);
        Some(ended(&client, &id, deadline, report).await?)
    } else {
        None
    };
    if out.is_json() {
        let existing = answer.existing();
        let submitted = if answer.is_new() { "new" } else { "existing" };
        out.json(&json!({
            "id": id,
            "submitted": submitted,
            "state": done.as_ref().map(Done::code).or(existing),
            "result": done.as_ref().and_then(Done::result_json),
            "error": done.as_ref().filter(|d| !d.is_completed()).and_then(Done::error),
        }))?;
    } else if let Some(done) = &done {
        match (
            done.result_json(),
            done.error().filter(|_| !done.is_completed()),
        ) {
            (Some(result), _) => out.line(format!("{}: {result}", done.code()))?,
            (None, Some(error)) => {
                out.line(format!("{}: {}", done.code(), one_line(error)))?;
            }
            (None, None) => out.line(done.code())?,
        }
    }
    Ok(if done.is_none_or(|d| d.is_completed()) {
        Exit::Ok
    } else {
        Exit::No
    })
}

/// Waits until a task has ended, and reports what happens meanwhile.
pub(crate) async fn ended(
    client: &Client,
    id: &TaskId,
    deadline: Deadline,
    report: impl FnMut(Waiting) + Send,
) -> Result<Done, Failure> {
    let wait = async { Ok(client.wait_with(id, report).await?) };
    let what = format!("task '{id}' has not ended");
    deadline.within(&what, wait).await
}

/// What to note of a wait: everything but what is printed anyway, which is that no node handles the
/// kind, and the end.
pub(crate) fn reported(waiting: &Waiting) -> Option<String> {
    match waiting {
        Waiting::Failed(failed) if failed.is_last() => None,
        Waiting::Unclaimed(WaitReason::NoNode) => None,
        waiting => Some(one_line(&waiting.to_string())),
    }
}
