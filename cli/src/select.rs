//! Selects tasks: by ids, or by filters with a dry run and a confirmation.

use std::{
    collections::HashSet,
    io::{IsTerminal, Write},
};

use jiff::Timestamp;
use windlass::{
    Client, Invalid, Json, Kind, NodeName, StateKind, TaskId,
    store::{Filter, TaskRecord, TimeRange},
};

use crate::{
    exit::{Exit, Failure},
    output::Output,
    parse::time,
    view,
};

/// The filters. A task has to match all of them.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Only tasks in this state; separate several states with commas
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', value_parser = state)]
    states: Vec<StateKind>,

    /// Only tasks of this kind; 'inbox/*' for every kind that begins with inbox/
    #[arg(long, value_name = "KIND", value_parser = kind_filter)]
    kind: Option<KindFilter>,

    /// Only tasks with this label
    #[arg(long = "label", value_name = "NAME[=VALUE]", value_parser = label_filter)]
    labels: Vec<(String, Option<String>)>,

    /// Only tasks whose id begins with this text
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// Only tasks claimed by this node
    #[arg(long, value_name = "NODE")]
    node: Option<NodeName>,

    /// Only tasks that a node has claimed, which are the running ones
    #[arg(long)]
    claimed: bool,

    /// Only tasks with this text in one of their errors
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,

    /// Only tasks whose last error has this fingerprint ('fingerprint' in '-o json'), which ignores numbers, ids and
    /// paths
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<String>,

    /// Only quarantined tasks: their record cannot be read
    #[arg(long)]
    quarantined: bool,

    /// Only tasks submitted at this time (RFC 3339) or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    submitted_from: Option<Timestamp>,

    /// Only tasks submitted before this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = time)]
    submitted_until: Option<Timestamp>,

    /// Only tasks that ended at this time (RFC 3339) or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    ended_from: Option<Timestamp>,

    /// Only tasks that ended before this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = time)]
    ended_until: Option<Timestamp>,

    /// Only tasks with this value at this place of their props: a JSON pointer and JSON, such as '/to/country="de"'.
    /// Every task that matches the other filters is read
    #[arg(long = "props-at", value_name = "POINTER=JSON", value_parser = props_at)]
    props: Vec<(String, Json)>,
}

/// The kinds that a filter selects.
#[derive(Debug, Clone)]
enum KindFilter {
    Is(Kind),
    /// Those that begin so.
    Begins(String),
}

/// Reads a kind, or the beginning of kinds with a '*' behind it.
fn kind_filter(text: &str) -> Result<KindFilter, Invalid> {
    match text.strip_suffix('*') {
        Some(prefix) => Ok(KindFilter::Begins(prefix.to_owned())),
        None => Kind::new(text).map(KindFilter::Is),
    }
}

/// Reads a JSON pointer and the value at it. What is no JSON is a text.
fn props_at(text: &str) -> Result<(String, Json), String> {
    let Some((first, rest)) = text.split_once('=') else {
        return Err(format!(
            "'{text}' has no value; write it like '/to/country=\"de\"'"
        ));
    };
    // A name may contain '=': the value is the longest JSON behind one.
    let ends = text.match_indices('=').map(|(at, _)| at);
    let mut parts = ends.map(|at| (&text[..at], &text[at + 1..]));
    let whole = parts.find(|(_, value)| Json::parse("value", value).is_ok());
    let (pointer, value) = whole.unwrap_or((first, rest));
    if !(pointer.is_empty() || pointer.starts_with('/')) {
        return Err(format!(
            "'{pointer}' is no JSON pointer; it begins with '/', such as /to/country"
        ));
    }
    let value = match Json::parse("value", value) {
        Ok(value) => value,
        Err(_) => Json::from(serde_json::Value::from(value)),
    };
    Ok((pointer.to_owned(), value))
}

/// Reads a state. A task that runs has none of its own.
fn state(text: &str) -> Result<StateKind, String> {
    text.parse().map_err(|e: Invalid| match text {
        "running" => {
            "a task that runs is in the state runnable, and a node has it; --claimed selects the tasks \
             that a node has"
                .to_owned()
        }
        _ => e.to_string(),
    })
}

/// Reads a label to select by, with a value or with any.
pub(crate) fn label_filter(text: &str) -> Result<(String, Option<String>), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() {
        return Err(format!(
            "'{text}' has no name; write it like team or team=billing"
        ));
    }
    Ok((name.to_owned(), value))
}

impl FilterArgs {
    /// Converts to the library's filter.
    pub(crate) fn filter(&self) -> Filter {
        let mut filter = Filter::new()
            .states(self.states.iter().copied())
            .quarantined(self.quarantined)
            .labels(self.labels.iter().cloned())
            .claimed(self.claimed)
            .submitted(TimeRange::new(self.submitted_from, self.submitted_until))
            .ended(TimeRange::new(self.ended_from, self.ended_until))
            .props(self.props.iter().cloned());
        match &self.kind {
            Some(KindFilter::Is(kind)) => filter.kind = Some(kind.clone()),
            Some(KindFilter::Begins(prefix)) => filter.kind_prefix = Some(prefix.clone()),
            None => {}
        }
        filter.id_prefix = self.prefix.clone();
        filter.node = self.node.clone();
        filter.error = self.error.clone();
        filter.fingerprint = self.fingerprint.clone();
        filter
    }
}

/// Ids, or filters.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SelectArgs {
    /// The tasks, by id; or give filters
    #[arg(value_name = "ID")]
    ids: Vec<TaskId>,

    #[command(flatten)]
    filter: FilterArgs,

    /// Every task of the store
    #[arg(long, help_heading = "Filters")]
    all: bool,

    /// Show the matching tasks, and change none
    #[arg(long)]
    dry_run: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

/// The selection.
pub(crate) enum Choice {
    /// Act on these.
    Act(Vec<TaskId>),
    /// None: a dry run, no match, or no confirmation.
    Done(Exit),
}

impl SelectArgs {
    /// Selects the tasks, and asks for confirmation where needed. `verb` names the action; a
    /// filter's tasks that are not `wanted` are left out.
    pub(crate) async fn choose(
        &self,
        client: &Client,
        out: &Output,
        verb: &str,
        wanted: fn(&TaskRecord) -> bool,
    ) -> Result<Choice, Failure> {
        let filter = self.filter.filter();
        match (self.ids.is_empty(), filter.is_all(), self.all) {
            (false, ..) => {
                self.has_ids_alone()?;
                self.by_id(client, out).await
            }
            (true, true, false) => Err(Failure::Usage(format!(
                "no task is named; give ids, filters such as --state, or --all to {verb} every task"
            ))),
            (true, ..) => self.by_filter(client, out, verb, &filter, wanted).await,
        }
    }

    /// Rejects filters beside ids.
    pub(crate) fn has_ids_alone(&self) -> Result<(), Failure> {
        match self.filter.filter().is_all() && !self.all {
            true => Ok(()),
            false => Err(Failure::Usage(
                "ids and filters do not go together; give one or the other".into(),
            )),
        }
    }

    /// Returns the ids that are given, each once.
    pub(crate) fn ids(&self) -> Vec<TaskId> {
        let mut seen = HashSet::new();
        let ids = self.ids.iter().filter(|id| seen.insert(*id));
        ids.cloned().collect()
    }

    async fn by_id(&self, client: &Client, out: &Output) -> Result<Choice, Failure> {
        let ids = self.ids();
        if !self.dry_run {
            return Ok(Choice::Act(ids));
        }
        let (records, exit) = read(client, ids).await;
        view::records(out, &records, client.store().clock().now())?;
        Ok(Choice::Done(exit))
    }

    /// Selects these ids and tasks, with the dry run and the confirmation of a filter.
    pub(crate) async fn choose_with(
        &self,
        client: &Client,
        out: &Output,
        verb: &str,
        (mut ids, others): (Vec<TaskId>, Vec<TaskRecord>),
    ) -> Result<Choice, Failure> {
        if !self.dry_run {
            ids.extend(others.into_iter().map(|record| record.task.id));
            return self.confirm(out, verb, ids);
        }
        let (mut records, exit) = read(client, ids).await;
        records.extend(others);
        view::records(out, &records, client.store().clock().now())?;
        note_dry_run(out, verb, records.len());
        Ok(Choice::Done(exit))
    }

    async fn by_filter(
        &self,
        client: &Client,
        out: &Output,
        verb: &str,
        filter: &Filter,
        wanted: fn(&TaskRecord) -> bool,
    ) -> Result<Choice, Failure> {
        let now = client.store().clock().now();
        let mut ids = Vec::new();
        let mut left_out = 0;
        let mut pages = client.every(filter);
        while let Some(mut records) = pages.next().await? {
            let matching = records.len();
            records.retain(wanted);
            left_out += matching - records.len();
            if self.dry_run && !records.is_empty() {
                view::records(out, &records, now)?;
            }
            ids.extend(records.into_iter().map(|r| r.task.id));
        }
        if self.dry_run {
            note_dry_run(out, verb, ids.len());
            return Ok(Choice::Done(Exit::Ok));
        }
        let is_none = ids.is_empty() && left_out > 0;
        let choice = self.confirm(out, verb, ids)?;
        if is_none {
            let takes = match verb {
                "retry" => "that have ended or are quarantined",
                _ => "that have not ended",
            };
            out.note(format!("note: {verb} takes only tasks {takes}"));
        }
        Ok(choice)
    }

    /// Asks whether to act on these tasks.
    fn confirm(&self, out: &Output, verb: &str, ids: Vec<TaskId>) -> Result<Choice, Failure> {
        let count = count(ids.len());
        if !self.yes && !can_ask() {
            return Err(unasked(verb, &count));
        }
        if ids.is_empty() {
            if out.is_json() {
                return Ok(Choice::Act(ids));
            }
            out.note(format!("{verb}: no task matches"));
            return Ok(Choice::Done(Exit::Ok));
        }
        if !self.yes && !ask(&format!("{verb} {count}?"))? {
            out.note("nothing was changed");
            return Ok(Choice::Done(Exit::No));
        }
        Ok(Choice::Act(ids))
    }
}

/// Reads tasks. Reports those that cannot be read, with the exit code of the last.
async fn read(client: &Client, ids: Vec<TaskId>) -> (Vec<TaskRecord>, Exit) {
    let (mut records, mut exit) = (Vec::new(), Exit::Ok);
    for id in ids {
        match client.get(&id).await {
            Ok(record) => records.push(record),
            Err(e) => exit = Failure::from(e).report(),
        }
    }
    (records, exit)
}

fn note_dry_run(out: &Output, verb: &str, tasks: usize) {
    let count = count(tasks);
    out.note(format!(
        "{verb}: {count} selected; nothing was changed (dry run)"
    ));
}

/// `1 task`, `2 tasks`.
pub(crate) fn count(n: usize) -> String {
    if n == 1 {
        "1 task".to_owned()
    } else {
        format!("{n} tasks")
    }
}

/// Returns whether a terminal can show the question.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Returns the error without a terminal, where this many tasks match.
pub(crate) fn unasked(verb: &str, count: &str) -> Failure {
    Failure::Usage(format!(
        "this would {verb} {count}; without a terminal give --yes, or --dry-run to list them"
    ))
}

/// Asks on the terminal.
pub(crate) fn ask(question: &str) -> Result<bool, Failure> {
    let mut err = std::io::stderr();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

/// Returns whether the task has not ended.
pub(crate) fn is_live(record: &TaskRecord) -> bool {
    record.state.as_ref().is_ok_and(|s| !s.code().is_terminal())
}

/// Returns whether the task has ended, or is quarantined.
pub(crate) fn is_ended(record: &TaskRecord) -> bool {
    !is_live(record)
}
