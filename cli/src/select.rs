//! Selects tasks: by ids, or by filters with a dry run and a confirmation.

use std::{
    collections::HashSet,
    io::{IsTerminal, Write},
};

use windlass::{
    Client, TaskId,
    jiff::Timestamp,
    store::{Filter, TaskRecord},
};

use crate::{
    exit::{Exit, Failure},
    filters::FilterArgs,
    output::Output,
    view,
};

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

/// What a note says of some of the tasks that filters select.
#[derive(Clone, Copy)]
pub(crate) struct Remark {
    /// Returns whether the note is about the task, at this time.
    pub(crate) concerns: fn(&TaskRecord, Timestamp) -> bool,
    /// The rest of the note, after the number of the tasks.
    pub(crate) text: &'static str,
}

/// Which of the tasks that filters select an action takes.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Returns whether the action takes the task.
    pub(crate) takes: fn(&TaskRecord) -> bool,
    /// What is noted before the confirmation.
    pub(crate) remark: Option<Remark>,
}

/// The result of the selection.
pub(crate) enum Choice {
    /// Act on these tasks.
    Act(Vec<TaskId>),
    /// Do not act: a dry run, no match, or no confirmation.
    Done(Exit),
}

impl SelectArgs {
    /// Selects the tasks, and asks for confirmation if needed. `verb` names the action. Leaves out
    /// tasks of a filter that are not `wanted`.
    pub(crate) async fn choose(
        &self,
        client: &Client,
        out: &Output,
        verb: &str,
        takes: fn(&TaskRecord) -> bool,
    ) -> Result<Choice, Failure> {
        let remark = None;
        self.choose_wanted(client, out, verb, Wanted { takes, remark })
            .await
    }

    /// Selects like [`choose`](Self::choose), and notes how many of the tasks of a filter the remark concerns.
    pub(crate) async fn choose_wanted(
        &self,
        client: &Client,
        out: &Output,
        verb: &str,
        wanted: Wanted,
    ) -> Result<Choice, Failure> {
        let filter = self.filter.filter()?;
        match (self.ids.is_empty(), filter.is_all(), self.all) {
            (false, ..) => {
                self.has_ids_alone()?;
                self.by_id(client, out).await
            }
            (true, true, false) => Err(none_named(verb)),
            (true, ..) => self.by_filter(client, out, verb, &filter, wanted).await,
        }
    }

    /// Returns the filter of what is selected: of the ids, or the filters. `verb` names the action.
    pub(crate) fn selecting(&self, verb: &str) -> Result<Filter, Failure> {
        let mut filter = self.filter.filter()?;
        if !self.ids.is_empty() {
            self.has_ids_alone()?;
            filter.ids = self.ids();
        } else if filter.is_all() && !self.all {
            return Err(none_named(verb));
        }
        Ok(filter)
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Returns whether to act on this many tasks: with --yes, or after a question.
    pub(crate) fn is_confirmed(&self, verb: &str, count: &str) -> Result<bool, Failure> {
        match (self.yes, can_ask()) {
            (true, _) => Ok(true),
            (false, true) => ask(&format!("{verb} {count}?")),
            (false, false) => Err(Failure::Usage(format!(
                "this would {verb} {count}; without a terminal give --yes, or --dry-run to count them"
            ))),
        }
    }

    /// Rejects filters in addition to ids.
    pub(crate) fn has_ids_alone(&self) -> Result<(), Failure> {
        match self.filter.filter()?.is_all() && !self.all {
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
        view::records(client, out, &records).await?;
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
        view::records(client, out, &records).await?;
        note_dry_run(out, verb, records.len());
        Ok(Choice::Done(exit))
    }

    async fn by_filter(
        &self,
        client: &Client,
        out: &Output,
        verb: &str,
        filter: &Filter,
        wanted: Wanted,
    ) -> Result<Choice, Failure> {
        let mut ids = Vec::new();
        let (mut left_out, mut remarkable) = (0, 0);
        let mut pages = client.every(filter);
        while let Some(mut records) = pages.next().await? {
            let matching = records.len();
            records.retain(wanted.takes);
            left_out += matching - records.len();
            if let Some(remark) = wanted.remark {
                let now = client.now();
                let concerned = records.iter().filter(|one| (remark.concerns)(one, now));
                remarkable += concerned.count();
            }
            if self.dry_run && !records.is_empty() {
                view::records(client, out, &records).await?;
            }
            ids.extend(records.into_iter().map(|r| r.task.id));
        }
        if let Some(remark) = wanted.remark.filter(|_| remarkable > 0) {
            out.note(format!("note: {} {}", count(remarkable), remark.text));
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

/// Reads tasks. Reports unreadable ones, and returns the exit code of the last.
pub(crate) async fn read(client: &Client, ids: Vec<TaskId>) -> (Vec<TaskRecord>, Exit) {
    let (mut records, mut exit) = (Vec::new(), Exit::Ok);
    for id in ids {
        match client.get(&id).await {
            Ok(record) => records.push(record),
            Err(e) => exit = Failure::from(e).report(),
        }
    }
    (records, exit)
}

fn none_named(verb: &str) -> Failure {
    Failure::Usage(format!(
        "no task is named; give ids, filters such as --state, or --all to {verb} every task"
    ))
}

fn note_dry_run(out: &Output, verb: &str, tasks: usize) {
    let count = count(tasks);
    out.note(format!(
        "{verb}: {count} selected; nothing was changed (dry run)"
    ));
}

/// Formats a count: `1 task`, `2 tasks`.
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

/// Returns the failure when the question cannot be asked, with the number of matching tasks.
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
