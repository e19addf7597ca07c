//! Submits: new tasks, and those that take the place of one that has ended.

use jiff::Timestamp;
use windlass_statemachine::{State, Task};

use super::clear::{Clearing, Leftover};
use crate::store::{
    Error, IfExists, Submit, Submitted,
    etcd::{
        schema::{
            Of, Snapshot,
            checks::{check_task, exists},
            corrupt,
            numbers::place_of,
        },
        write::{Change, Edit, Step},
    },
};

/// Submits tasks.
pub(crate) struct Submits {
    pub(crate) clearing: Clearing,
    pub(crate) max_bytes: usize,
}

impl Submits {
    pub(crate) fn new(clearing: Clearing, max_bytes: usize) -> Self {
        Self {
            clearing,
            max_bytes,
        }
    }

    pub(crate) async fn submit(&self, submit: Submit) -> Result<Submitted, Error> {
        let Submit { task, if_exists } = submit;
        check_task(&task, self.max_bytes)?;
        let mut new = NewTask {
            by: self,
            task: &task,
            if_exists,
            is_first: true,
            tried: Vec::new(),
            last: (self.clearing.access.now(), 0),
            left: None,
        };
        let submitted = self.clearing.access.pipeline.attempt(&mut new).await?;
        if let Some(left) = new.left {
            self.clearing.drop_pointers(&task.id, left).await;
        }
        Ok(submitted)
    }
}

struct NewTask<'a> {
    by: &'a Submits,
    task: &'a Task,
    if_exists: IfExists,
    is_first: bool,
    /// The tries without an answer: when, and at which place. The task keeps both to its end, which
    /// may have come before it is looked for.
    tried: Vec<(Timestamp, u32)>,
    last: (Timestamp, u32),
    /// Of the task whose place it takes.
    left: Option<Leftover>,
}

impl Change for NewTask<'_> {
    /// What has the id; not read before the first try.
    type Found = Option<Snapshot>;
    type Output = Submitted;
    const OPERATION: &'static str = "submit a task";

    async fn read(&mut self) -> Result<Self::Found, Error> {
        if std::mem::replace(&mut self.is_first, false) {
            return Ok(None);
        }
        let found = self
            .by
            .clearing
            .access
            .reader
            .found(&self.task.id, Self::OPERATION);
        found.await.map(Some)
    }

    /// Whether what has the id, live or ended, is what one of the tries has written.
    fn already_done(&mut self, found: &Self::Found) -> Option<Submitted> {
        let (envelope, order) = found.as_ref()?.envelope().ok()?;
        let is_of = |(at, place): &(Timestamp, u32)| {
            envelope.submitted_at == Some(*at) && place_of(order) == *place
        };
        self.tried.iter().any(is_of).then_some(Submitted::New)
    }

    async fn build(&mut self, found: Self::Found) -> Result<Step<Submitted>, Error> {
        let (by, task) = (self.by, self.task);
        self.left = None;
        if let Some(found) = &found
            && let Some(there) = there(task, self.if_exists, found)
        {
            return there.map(Step::Done);
        }
        let clearing = &by.clearing;
        let mut item = clearing.access.item(&task.id, 1);
        item.in_order = true;
        let replaces = found.filter(|found| found.finished.is_some());
        let mut edit = Edit::new(&clearing.access.keys(), &task.id, &mut item);
        edit.when(Of::Task, 0);
        match &replaces {
            None => edit.when(Of::Finished, 0),
            Some(old) => self.left = Some(clearing.clear(&mut item, &task.id, old).await?),
        }
        self.last = (clearing.access.now(), item.place);
        let (now, place) = self.last;
        Edit::new(&clearing.access.keys(), &task.id, &mut item).put_task(task, place, now)?;
        Ok(Step::Write(item))
    }

    fn written(&mut self, _: i64) -> Option<Submitted> {
        Some(Submitted::New)
    }

    fn lost(&mut self) {
        self.tried.push(self.last);
    }
}

/// What a submit comes to when something has its id; `None` when it can go on.
fn there(task: &Task, if_exists: IfExists, found: &Snapshot) -> Option<Result<Submitted, Error>> {
    let id = &task.id;
    if !found.exists() {
        return None;
    }
    let live = found.task.is_some();
    let old = found.whole_task(id);
    let same = if_exists == IfExists::Same && old.is_ok_and(|old| old.is_same_work(task));
    Some(match if_exists {
        IfExists::Same if same => match (found.aside(), found.state()) {
            (None, Ok((state, _))) => Ok(Submitted::Existing(State::code(&state))),
            (Some(reason), _) | (None, Err(reason)) => Err(corrupt(id, reason)),
        },
        IfExists::ReplaceFinished if !live => return None,
        _ if live => Err(exists(id)),
        _ => Err(Error::AlreadyFinished(id.clone())),
    })
}
