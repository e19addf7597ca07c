//! The options of `windlass submit`, and the tasks that they describe.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Map, Value};
use windlass::{
    Invalid, Json, Limit, NewTask, Unique,
    statemachine::{
        plain,
        wire::{TaskForm, read_retry},
    },
    store::Submit,
};

use super::{super::steer::after, tip};
use crate::{
    changed_props::check_limits,
    command_args::CommandArgs,
    exec,
    exit::Failure,
    help, input,
    output::Output,
    parse::{Moment, at_once, duration, label, meta, moment, priority, rate, time, unique},
    waiting::WaitArgs,
};

/// The tasks to submit.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass submit --id backup-7 --cwd /srv -- tar czf /tmp/home.tgz home
  windlass submit --shell 'sort words.txt > sorted.txt' --cwd .
  windlass submit exec --props '{\"command\":\"make\",\"timeout\":\"1h\"}' --cwd . --wait
  windlass submit report --props @report.json --in 2h --label team=billing --priority 5
  windlass submit poll --retry '{\"policy\":\"exponential\",\"attempts\":5}' --wait --timeout 1m
  windlass submit sync --id sync-ann --free-id --retry 20,cap=7d
  windlass submit report --id draft --paused
  windlass submit --after-ok fetch-1,fetch-2 -- /usr/local/bin/report
  windlass submit mail --props '{\"to\":\"ann\"}' --unique mail-ann=1h
  windlass submit call --at-once customer=acme=3 --rate api=100/1m
  windlass submit --lines tasks.jsonl --kind report --idempotent --keep-going")]
pub(crate) struct Args {
    /// The kind of the task, which selects its handler; exec by default when a command is given
    #[arg(value_name = "KIND", required_unless_present_any = ["kind", "lines", "shell", "command"])]
    pub(super) kind_given: Option<String>,

    /// Set the kind, like KIND; with --lines, the kind of lines without one
    #[arg(long, value_name = "KIND", conflicts_with = "kind_given")]
    pub(super) kind: Option<String>,

    /// Set the id: 1 to 256 bytes of printable text without '/'; a UUID by default
    #[arg(long, value_name = "ID", conflicts_with = "lines")]
    pub(super) id: Option<String>,

    /// Set the input of the handler: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    pub(super) props: Option<String>,

    /// Start no earlier than this time, but for a command or a signal that starts it (RFC 3339, '2026-11-28 09:30', tomorrow, 'in 2 hours'; days are those of this
    /// machine's time zone)
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "wait_in")]
    pub(super) start_at: Option<Timestamp>,

    /// Start no earlier than this long from now, but for a command or a signal: 90s, 15m, 1h30m, 7d
    #[arg(id = "wait_in", long = "in", value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub(super) wait_in: Option<Duration>,

    /// Run only after these tasks have ended, whatever their outcomes are
    #[arg(
        long,
        value_name = "ID",
        value_delimiter = ',',
        conflicts_with = "after_ok"
    )]
    pub(super) after: Vec<String>,

    /// Run only after these tasks have completed; fail if one of them does not
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(super) after_ok: Vec<String>,

    /// Accept ids of --after, --after-ok and the lines of --lines that no task has: a missing task counts as ended, and
    /// with --after-ok as failed. Without this option the submit is refused
    #[arg(long)]
    pub(super) allow_missing: bool,

    /// Stop waiting at this time (RFC 3339, '2026-11-28 09:30', tomorrow, 'in 2 hours'; days are those of this
    /// machine's time zone), even if tasks of --after have not ended
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) after_deadline: Option<Timestamp>,

    /// Fail the task unless a run has begun by this time (RFC 3339, '2026-11-28 09:30', tomorrow, 'in 2 hours'; days are those of this
    /// machine's time zone), or within this duration: 15m,
    /// 2h
    #[arg(long, value_name = "TIME|DURATION", allow_hyphen_values = true, value_parser = moment)]
    pub(super) start_by: Option<Moment>,

    /// Fail the task unless it has ended by this time (RFC 3339, '2026-11-28 09:30', tomorrow, 'in 2 hours'; days are those of this
    /// machine's time zone), or within this duration: 15m, 2h
    #[arg(long, value_name = "TIME|DURATION", allow_hyphen_values = true, value_parser = moment)]
    pub(super) end_by: Option<Moment>,

    /// Refuse the task if another one with this key was submitted less than DURATION ago. With
    /// --idempotent the same task is accepted; with --replace an ended task loses the key
    #[arg(long, value_name = "KEY=DURATION", value_parser = unique)]
    pub(super) unique: Option<Unique>,

    #[arg(long, value_name = "KEY=N", value_parser = at_once, help = help::AT_ONCE)]
    pub(super) at_once: Vec<Limit>,

    #[arg(long, value_name = "KEY=N/DURATION", value_parser = rate, help = help::RATE)]
    pub(super) rate: Vec<Limit>,

    /// Set the priority; tasks with a higher one are claimed first; 0 by default
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = priority)]
    pub(super) priority: Option<i32>,

    /// Add a label
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub(super) labels: Vec<(String, String)>,

    /// Add text that travels with the task to its handler or command. A command receives
    /// traceparent=… as TRACEPARENT
    #[arg(long, value_name = "NAME=VALUE", value_parser = meta)]
    pub(super) meta: Vec<(String, String)>,

    #[arg(long, value_name = "POLICY", help = help::RETRY)]
    pub(super) retry: Option<String>,

    /// Succeed if a task with this id, kind and props exists already (spaces and the order of names
    /// in the props do not matter)
    #[arg(long)]
    pub(crate) idempotent: bool,

    /// Replace an ended task with this id
    #[arg(long, conflicts_with = "idempotent")]
    pub(crate) replace: bool,

    /// If a task of the same kind waits with the id or the --unique key, give it the new props and time: of many
    /// submits, only the last one runs. Replace an ended task. A claimed task refuses the submit
    #[arg(long, conflicts_with_all = ["idempotent", "replace", "after", "after_ok", "paused"])]
    pub(crate) replace_waiting: bool,

    /// Free the id when the task has completed: a later submit of the id makes a new task in its place. A task that failed
    /// or was killed keeps its id
    #[arg(long)]
    pub(super) free_id: bool,

    /// Submit the task paused: it runs when it is resumed (`windlass resume ID`)
    #[arg(long, conflicts_with_all = ["start_at", "wait_in", "after", "after_ok"])]
    pub(super) paused: bool,

    /// Read tasks as JSON lines from this file, or - for standard input; the other options are
    /// defaults for the lines
    #[arg(long, value_name = "FILE")]
    pub(crate) lines: Option<String>,

    /// Continue after an invalid line
    #[arg(long, requires = "lines")]
    pub(crate) keep_going: bool,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(super) command: CommandArgs,

    /// Whether the hint about shells was printed.
    #[arg(skip)]
    pub(super) hinted: AtomicBool,
}

/// Returns the time of an option.
fn by(
    given: Option<Moment>,
    now: Timestamp,
    option: &'static str,
) -> Result<Option<Timestamp>, Failure> {
    Ok(match given {
        Some(Moment::At(at)) => Some(at),
        Some(Moment::In(wait)) => Some(after(now, wait, option)?),
        None => None,
    })
}

impl Args {
    /// Returns the task of the options.
    pub(super) fn task(&self, now: Timestamp) -> Result<TaskForm, Failure> {
        let props = match (&self.props, self.command.props()?) {
            (Some(text), _) => input::json("props", text)?,
            (None, props) => props.map(Json::from).unwrap_or_default(),
        };
        let kind = self.kind_given.clone().or_else(|| self.kind.clone());
        if let Some(kind) = kind.as_deref().filter(|kind| kind.contains('/'))
            && let Err(invalid) = windlass::Kind::new(kind)
            && let Some(tip) = tip::for_kind(kind)
        {
            let reason = format!("{}; {tip}", invalid.reason());
            return Err(Invalid::new("kind", reason).into());
        }
        let is_command = self.command.is_given();
        let retry = self
            .retry
            .as_deref()
            .map(|text| read_retry(text).map_err(|e| Invalid::new("retry", e)));
        let start_at = match self.wait_in {
            Some(wait) => Some(after(now, wait, "--in")?),
            None => self.start_at,
        };
        Ok(TaskForm {
            id: self.id.clone(),
            kind: kind.or_else(|| is_command.then(|| exec::KIND.to_owned())),
            props,
            start_at,
            priority: self.priority,
            labels: self.labels.iter().cloned().collect(),
            retry: retry.transpose()?,
            after: self.after.clone(),
            after_ok: self.after_ok.clone(),
            after_deadline: self.after_deadline,
            start_by: by(self.start_by, now, "--start-by")?,
            end_by: by(self.end_by, now, "--end-by")?,
            unique: self.unique.clone(),
            limits: self.at_once.iter().chain(&self.rate).cloned().collect(),
            meta: self.meta.iter().cloned().collect(),
            free_id: self.free_id,
            paused: self.paused,
        })
    }

    /// Returns the task, ready to be submitted.
    pub(super) fn submit(&self, task: NewTask, out: &Output) -> Result<Submit, Invalid> {
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
        let task = match self.replace_waiting {
            true => task.replace_waiting(),
            false => task,
        };
        let mut submit = task.build()?;
        check_limits(&submit.task)?;
        let kind = submit.task.kind.as_str();
        self.command.check_kind("tasks", kind)?;
        if !submit.task.kind.is_command() {
            return Ok(submit);
        }
        // Without props the error says that the command is missing.
        if self.command.has_place() || submit.task.props.is_null() {
            let mut props = match submit.task.props.is_null() {
                true => Map::new(),
                false => plain::object(submit.task.props.as_str())
                    .map_err(|e| Invalid::new("props", e))?,
            };
            self.command.add_to(&mut props)?;
            submit.task.props = Value::Object(props).into();
        }
        // Invalid props of a command are rejected now, instead of failing the task later.
        let props = exec::Props::parse(&submit.task.props)?;
        let words = props.args.iter().filter_map(exec::Word::as_text);
        if !props.is_shell
            && let Some(word) = exec::operators::among(words)
            && !self.hinted.swap(true, Ordering::Relaxed)
        {
            let instead = match self.command.is_given() {
                true => "give the line as --shell 'LINE'",
                false => "put the line into 'shell' instead of 'command'",
            };
            out.note(format!(
                "note: '{word}' is an argument of '{}': no shell reads it; {instead} to have one",
                props.program
            ));
        }
        Ok(submit)
    }
}
