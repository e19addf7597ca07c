//! [`World`]: what is stored and recorded at the end, for the checkers.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use jiff::Timestamp;
use windlass::{
    Client, CommandId, Fence, NodeName, Outcome, StateKind, TaskId,
    store::{Change, ChangeKind, CommandRecord, Filter, Page, TaskCount, TaskRecord},
};

use crate::{
    BoxError,
    exec_lines::ExecLine,
    feed::{self, Life},
    kinds::Job,
    node_commands::Ordered,
    passes::Pass,
    race::Race,
    readers::Reading,
    time,
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
    pub fn code(&self) -> Option<StateKind> {
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
    pub fn last_move(&self) -> Option<&ChangeKind> {
        let mut moves = self.history.iter().rev().map(|c| &c.what);
        moves.find(|w| matches!(w, ChangeKind::Moved { .. }))
    }

    /// The command that has this order.
    pub fn command(&self, order: u64) -> Option<&CommandRecord> {
        self.commands.iter().find(|c| c.order == order)
    }

    /// Returns a description for people.
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
    /// Tasks that the test has deleted, and when that was acknowledged. Their submits, commands and
    /// retries are promised no more.
    pub deleted: Vec<(TaskId, u64)>,
    /// Tasks that were deleted without force.
    pub unforced: Vec<TaskId>,
    /// How many retries of a task were asked for, whatever was answered. A task that is not here may have had more.
    pub asked_retries: BTreeMap<TaskId, u64>,
    /// What readers that began in the past have read.
    pub readings: Vec<Reading>,
    /// Retries that were acknowledged, each with the incarnation that it had to start at least.
    pub retries: Vec<(TaskId, u32)>,
    /// Commands whose sending was acknowledged, in the order in which they were.
    pub commands: Vec<(TaskId, CommandId)>,
    /// Outcomes of signals that were read.
    pub outcomes: Vec<(CommandId, Outcome)>,
    /// For each id of [`crate::reuse`] the word of the last submit that was acknowledged; none after
    /// a delete.
    pub reused: BTreeMap<TaskId, u64>,
    /// Ids that two clients have submitted at the same time.
    pub races: Vec<Race>,
    /// Transactions that competed for a task.
    pub passes: Vec<Pass>,
    /// Commands to nodes.
    pub node_commands: Vec<Ordered>,
}

/// The file that commands of the kind `exec` write to, within the witnesses' folder.
pub const EXEC_FILE: &str = "exec.txt";

/// Everything.
#[derive(Debug, Default)]
pub struct World {
    /// Every task, by its id.
    pub subjects: BTreeMap<TaskId, Subject>,
    /// What the store counts, once it was read: no program changes tasks then.
    pub counts: Option<Vec<TaskCount>>,
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
    /// The lives that a delete or the next task of the id has ended, in order, where the feed was
    /// followed.
    pub gone: BTreeMap<TaskId, Vec<Life>>,
    /// How long leases last, in microseconds.
    pub ttl: u64,
    /// When everything had settled, before the workers were shut down.
    pub settled_at: Option<Timestamp>,
    /// The loss of a claim is recorded at the next claim of its task, not when the lease ends.
    pub lost_later: bool,
}

/// How long a connection to a member of etcd that stands still may bring nothing while renewals reach another one, in microseconds:
/// after 5 s a watch is asked, after 5 s more it counts as dead, and then another one is opened.
pub const SILENCE: u64 = 15_000_000;

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
        let lines = witness::read(witnesses)?;
        let mut world = Self::load_with(client, lines, promised, feed).await?;
        let exec = witnesses.join(EXEC_FILE);
        if exec.exists() {
            let suspended = time::suspended();
            for line in fs::read_to_string(exec)?.lines() {
                let line = ExecLine::parse(line, suspended)
                    .ok_or_else(|| format!("not a line: {line}"))?;
                world.exec.push(line);
            }
        }
        Ok(world)
    }

    /// Reads everything that is stored, beside what was witnessed.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn load_with(
        client: &Client,
        witness: Vec<Line>,
        promised: Promised,
        feed: Option<Vec<Change>>,
    ) -> Result<Self, BoxError> {
        let mut gone = feed.as_deref().map(feed::lives).unwrap_or_default();
        let mut told = feed.is_some().then(|| feed::take_live(&mut gone));
        let mut world = Self {
            gone,
            promised,
            feed: feed.unwrap_or_default(),
            witness,
            ..Self::default()
        };
        // Each page of a store on etcd reads all there is.
        let mut page = Page::new(10_000);
        loop {
            let records = client.list(&Filter::default(), page).await?;
            let Some(last) = records.last() else {
                world.counts = Some(client.counts().await?);
                return Ok(world);
            };
            page.after = last.order;
            for record in records {
                let mut subject = load(client, record).await?;
                let id = subject.id().clone();
                if let Some(told) = &mut told {
                    // A task whose last life has ended is there and was deleted: it has no history.
                    let history = told.remove(&id).map_or_else(Vec::new, |life| life.history);
                    let kept = std::mem::replace(&mut subject.history, history);
                    world.kept.insert(id.clone(), kept);
                }
                world.subjects.insert(id, subject);
            }
        }
    }

    /// The histories of the lives that have ended.
    pub fn histories_gone(&self) -> impl Iterator<Item = (&TaskId, &[Change])> {
        let gone = self.gone.iter();
        gone.flat_map(|(id, lives)| lives.iter().map(move |l| (id, &l.history[..])))
    }

    /// The histories of all lives: those that have ended, and those of the tasks that are there.
    pub fn histories(&self) -> impl Iterator<Item = (&TaskId, &[Change])> {
        let there = self.subjects.iter().map(|(id, s)| (id, &s.history[..]));
        self.histories_gone().chain(there)
    }

    /// Which life of a task a claim belongs to: the number of lives before it. Fences grow from life to
    /// life. A life without a claim has no handlers and does not count at the end.
    pub fn life(&self, task: &TaskId, fence: Fence) -> usize {
        let lives = self.gone.get(task).map_or(&[][..], Vec::as_slice);
        let there = self.subjects.get(task).map_or(&[][..], |s| &s.history[..]);
        let makes = |history: &[Change]| history.iter().any(|c| claim(&c.what) == Some(fence));
        if let Some(life) = lives.iter().position(|life| makes(&life.history)) {
            return life;
        }
        if makes(there) {
            return lives.len();
        }
        let last = |life: &Life| life.history.iter().filter_map(|c| claim(&c.what)).max();
        let later = lives.iter().rev();
        let later = later.take_while(|life| last(life).is_none_or(|last| last >= fence));
        lives.len() - later.count()
    }

    /// Returns the wall clock time for a monotonic time, if the start of the run has recorded both.
    pub fn wall(&self, at: u64) -> Option<Timestamp> {
        let offset = self.witness.iter().find_map(|line| match line.said {
            Said::Clock { wall } => Some(wall - i64::try_from(line.at).ok()?),
            _ => None,
        })?;
        Timestamp::from_microsecond(i64::try_from(at).ok()?.checked_add(offset)?).ok()
    }

    /// Whether a process had a wall clock that was wrong by more than a second for a while. Times of changes prove nothing then.
    pub fn has_wrong_clocks(&self) -> bool {
        self.had_clocks_wrong_by(1_000_000)
    }

    /// Whether a process had a wall clock that was wrong by more than so many microseconds for a while.
    pub fn had_clocks_wrong_by(&self, micros: u64) -> bool {
        let offset = |line: &Line| match line.said {
            Said::Clock { wall } => Some(wall - i64::try_from(line.at).ok()?),
            _ => None,
        };
        let mut offsets = self.witness.iter().filter_map(offset);
        let Some(right) = offsets.next() else {
            return false;
        };
        offsets.any(|offset| offset.abs_diff(right) > micros)
    }

    /// When an operator ended the lease of the node of a process.
    pub fn revoked(&self, pid: u32) -> impl Iterator<Item = u64> {
        let lines = self.witness.iter().filter(move |line| line.pid == pid);
        lines.filter_map(|line| matches!(line.said, Said::Revoked).then_some(line.at))
    }

    /// How long before its lease can end a node stops its handlers, in microseconds
    /// (docs/reference/guarantees.md, G7).
    pub fn margin(&self) -> u64 {
        (self.ttl / 5).min(3_000_000)
    }

    /// How long a node may hear nothing and wait for a write while it renews its lease: [`SILENCE`] where members of etcd stood
    /// still, else 0.
    pub fn silence(&self) -> u64 {
        let is_shaken = |line: &Line| matches!(line.said, Said::Shaken { .. });
        match self.witness.iter().any(is_shaken) {
            true => SILENCE,
            false => 0,
        }
    }

    /// The spans in which a process was stopped, or not run: from, to. The span of one that was killed
    /// while it was stopped lasts until then.
    pub fn pauses(&self, pid: u32) -> Vec<(u64, u64)> {
        let mut pauses = Vec::new();
        let mut since = None;
        for line in self.witness.iter().filter(|l| l.pid == pid) {
            match line.said {
                Said::Stopped => since = Some(line.at),
                Said::Continued | Said::Killed => {
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

    /// The process that was this node at a moment: the last that was launched before.
    pub fn process(&self, node: &NodeName, at: u64) -> Option<u32> {
        let before = self.witness.iter().take_while(|l| l.at <= at);
        before.fold(None, |process, line| match &line.said {
            Said::Launched { node: launched } if launched == node => Some(line.pid),
            _ => process,
        })
    }

    /// The node that has made a claim.
    pub fn claimant(&self, task: &TaskId, by: Fence) -> Option<&NodeName> {
        let gone = self.gone.get(task).into_iter().flatten();
        let there = self.subjects.get(task).map(|s| &s.history);
        let mut changes = gone.map(|life| &life.history).chain(there).flatten();
        changes.find_map(|c| match &c.what {
            ChangeKind::Claimed { node, fence, .. } if *fence == by => Some(node),
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

/// The fence of a claim, if the change is one.
fn claim(what: &ChangeKind) -> Option<Fence> {
    match what {
        ChangeKind::Claimed { fence, .. } => Some(*fence),
        _ => None,
    }
}

/// Whether this outcome came from the task's machine, not from the end of the task.
pub fn is_answered(outcome: &Outcome) -> bool {
    let ends = ["the task has ended", "the task was about to end"];
    !matches!(outcome, Outcome::Rejected { reason } if ends.iter().any(|end| reason.starts_with(end)))
}
