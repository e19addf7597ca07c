//! [`World`]: what is stored and witnessed in the end, for the checkers.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use windlass::{
    Client, Code, CommandId, Fence, NodeName, Outcome, TaskId,
    store::{Change, CommandRecord, Filter, Page, TaskRecord, What},
};

use crate::{
    BoxError, feed,
    kinds::Job,
    node_commands::Ordered,
    race::Race,
    witness::{self, Line, Said},
};

/// One task with all that is stored of it.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Its record.
    pub record: TaskRecord,
    /// All of its history, oldest first.
    pub history: Vec<Change>,
    /// All of its commands, in order.
    pub commands: Vec<CommandRecord>,
}

impl Subject {
    /// Its id.
    pub fn id(&self) -> &TaskId {
        &self.record.task.id
    }

    /// Its state's code; `None` when it cannot be read.
    pub fn code(&self) -> Option<Code> {
        self.record.state.as_ref().ok().map(|s| s.code())
    }

    /// What its handler was to do, when it is one of [`crate::kinds`].
    pub fn job(&self) -> Option<Job> {
        self.record.task.props.get("props").ok()
    }

    /// The count in its data, if its handler keeps one.
    pub fn count(&self) -> Option<u64> {
        let data = self.record.state.as_ref().ok()?.data.as_ref()?;
        data.get::<crate::kinds::Kept>("data").ok().map(|k| k.n)
    }

    /// The last transition.
    pub fn last_move(&self) -> Option<&What> {
        let mut moves = self.history.iter().rev().map(|c| &c.what);
        moves.find(|w| matches!(w, What::Moved { .. }))
    }

    /// The command that has this order.
    pub fn command(&self, order: u64) -> Option<&CommandRecord> {
        self.commands.iter().find(|c| c.order == order)
    }

    /// Everything about it, to be read by people.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        let state = match &self.record.state {
            Ok(state) => serde_json::to_string(state).unwrap_or_default(),
            Err(e) => e.to_string(),
        };
        let node = self.record.node.as_ref().map_or("nobody", |n| n.as_str());
        let _ = writeln!(text, "{}: held by {node}, {state}", self.id());
        for change in &self.history {
            let what = serde_json::to_string(&change.what).unwrap_or_default();
            let _ = writeln!(text, "  {} {} {what}", change.seq, change.at);
        }
        for command in &self.commands {
            let outcome = match &command.outcome {
                Some(outcome) => outcome.to_string(),
                None => "waits".to_owned(),
            };
            let _ = writeln!(
                text,
                "  command {} {} → {outcome}",
                command.order,
                command.command.kind()
            );
        }
        text
    }
}

/// What was acknowledged to the test.
#[derive(Debug, Clone, Default)]
pub struct Promised {
    /// Tasks whose submit was acknowledged.
    pub tasks: Vec<TaskId>,
    /// Tasks that the test has deleted; their submits and commands are promised no more.
    pub deleted: Vec<TaskId>,
    /// Commands whose sending was acknowledged, in the order in which they were.
    pub commands: Vec<(TaskId, CommandId)>,
    /// For each id of [`crate::reuse`] the word of the last submit that was acknowledged; none after
    /// a delete.
    pub reused: BTreeMap<TaskId, u64>,
    /// Ids that two clients have submitted at the same moment.
    pub races: Vec<Race>,
    /// Commands to nodes.
    pub node_commands: Vec<Ordered>,
}

/// A line that a command of the kind `exec` wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecLine {
    /// Its task.
    pub task: TaskId,
    /// Its claim.
    pub fence: Fence,
    /// What.
    pub said: ExecSaid,
}

/// What a command wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecSaid {
    /// It started and found this count in its folder.
    Start(u64),
    /// It stored this count in its folder.
    Step(u64),
    /// It found that the command of this claim lives.
    Overlap(Fence),
}

impl ExecLine {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (task, fence) = (words.next()?, words.next()?);
        let (said, n) = (words.next()?, words.next()?.parse().ok()?);
        Some(Self {
            task: task.parse().ok()?,
            fence: Fence(fence.parse().ok()?),
            said: match said {
                "start" => ExecSaid::Start(n),
                "step" => ExecSaid::Step(n),
                "overlap" => ExecSaid::Overlap(Fence(n)),
                _ => return None,
            },
        })
    }
}

/// The file that commands of the kind `exec` write to, within the witnesses' folder.
pub const EXEC_FILE: &str = "exec.txt";

/// Everything.
#[derive(Debug, Default)]
pub struct World {
    /// Every task, by its id.
    pub subjects: BTreeMap<TaskId, Subject>,
    /// What was acknowledged.
    pub promised: Promised,
    /// What was witnessed, in order of time.
    pub witness: Vec<Line>,
    /// What commands of the kind `exec` wrote, in order.
    pub exec: Vec<ExecLine>,
    /// What the feed of changes told, where it was followed.
    pub feed: Vec<Change>,
    /// What the store keeps of the histories, where they are those that the feed told.
    pub kept: BTreeMap<TaskId, Vec<Change>>,
}

impl World {
    /// Reads everything. The histories are those of the `feed`, where there is one.
    ///
    /// # Errors
    ///
    /// Those of the store, and of files that cannot be read.
    pub async fn load(
        client: &Client,
        witnesses: &Path,
        promised: Promised,
        feed: Option<Vec<Change>>,
    ) -> Result<Self, BoxError> {
        let mut told = feed.as_deref().map(feed::by_task);
        let mut world = Self {
            promised,
            feed: feed.unwrap_or_default(),
            witness: witness::read(witnesses)?,
            ..Self::default()
        };
        let exec = witnesses.join(EXEC_FILE);
        if exec.exists() {
            for line in fs::read_to_string(exec)?.lines() {
                let line = ExecLine::parse(line).ok_or_else(|| format!("not a line: {line}"))?;
                world.exec.push(line);
            }
        }
        // Each page of a store on etcd reads all there is.
        let mut page = Page {
            limit: 10_000,
            ..Page::default()
        };
        loop {
            let records = client.list(&Filter::default(), page).await?;
            let Some(last) = records.last() else {
                return Ok(world);
            };
            page.after = last.order;
            for record in records {
                let mut subject = load(client, record).await?;
                let id = subject.id().clone();
                if let Some(told) = &mut told {
                    let told = told.remove(&id).unwrap_or_default();
                    let kept = std::mem::replace(&mut subject.history, told);
                    world.kept.insert(id.clone(), kept);
                }
                world.subjects.insert(id, subject);
            }
        }
    }

    /// The spans in which a node's process was stopped, or not run: from, to.
    pub fn pauses(&self, pid: u32) -> Vec<(u64, u64)> {
        let mut pauses = Vec::new();
        let mut since = None;
        for line in self.witness.iter().filter(|l| l.pid == pid) {
            match line.said {
                Said::Stopped => since = Some(line.at),
                Said::Continued => {
                    if let Some(since) = since.take() {
                        pauses.push((since, line.at));
                    }
                }
                Said::Stalled { since } => pauses.push((since, line.at)),
                _ => {}
            }
        }
        pauses
    }

    /// When the test killed this process; one that was stopped then has done nothing since.
    pub fn died(&self, pid: u32) -> Option<u64> {
        let mut stopped = None;
        for line in self.witness.iter().filter(|l| l.pid == pid) {
            match line.said {
                Said::Stopped => stopped = Some(line.at),
                Said::Continued => stopped = None,
                Said::Killed => return stopped.or(Some(line.at)),
                _ => {}
            }
        }
        None
    }

    /// The processes that have been this node.
    pub fn processes<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = u32> + 'a {
        let lines = self.witness.iter();
        lines.filter_map(move |l| match &l.said {
            Said::Launched { node: launched } if launched == node => Some(l.pid),
            _ => None,
        })
    }
}

/// Reads the rest of what is stored of a task.
///
/// # Errors
///
/// Those of the store.
pub async fn load(client: &Client, record: TaskRecord) -> Result<Subject, BoxError> {
    let id = &record.task.id;
    Ok(Subject {
        history: client.history(id, u32::MAX).await?,
        commands: client.commands(id).await?,
        record,
    })
}

/// Whether this outcome came from the task's machine, not from the end of the task.
pub fn is_answered(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::Rejected { reason } if reason.starts_with("the task has ended"))
}
