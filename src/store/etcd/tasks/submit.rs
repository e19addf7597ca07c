//! Submits: new tasks, and those that take the place of one that has ended.

use jiff::Timestamp;

use super::clear::{Clearing, Leftover};
use crate::store::{
    Error, Submit, Submitted,
    etcd::{
        schema::{Of, Snapshot, numbers::place_of},
        write::{Change, Edit, Step},
    },
    rules::{
        self,
        submit::{Taken, Verdict},
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
        let task = &submit.task;
        rules::size::check_task(task, self.max_bytes)?;
        let mut new = NewTask {
            by: self,
            submit: &submit,
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
    submit: &'a Submit,
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
            .found(&self.submit.task.id, Self::OPERATION);
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
        let (by, task) = (self.by, &self.submit.task);
        self.left = None;
        if let Some(found) = found.as_ref().filter(|found| found.exists())
            && let Verdict::Existing(code) = there(self.submit, found)?
        {
            return Ok(Step::Done(Submitted::Existing(code)));
        }
        let clearing = &by.clearing;
        let mut item = clearing.access.item(&task.id, 1);
        item.in_order = true;
        let replaces = found.filter(|found| found.finished.is_some());
        let mut edit = Edit::new(clearing.access.keys(), &task.id, &mut item);
        edit.when(Of::Task, 0);
        match &replaces {
            None => edit.when(Of::Finished, 0),
            Some(old) => self.left = Some(clearing.clear(&mut item, &task.id, old).await?),
        }
        self.last = (clearing.access.now(), item.place);
        let (now, place) = self.last;
        Edit::new(clearing.access.keys(), &task.id, &mut item).put_task(task, place, now)?;
        Ok(Step::Write(item))
    }

    fn written(&mut self, _: i64) -> Option<Submitted> {
        Some(Submitted::New)
    }

    fn lost(&mut self) {
        self.tried.push(self.last);
    }
}

/// Decides a submit whose id is taken by what was found.
fn there(submit: &Submit, found: &Snapshot) -> Result<Verdict, Error> {
    let id = &submit.task.id;
    let task = found.whole_task(id).ok();
    let code = match (found.aside(), found.state()) {
        (None, Ok((state, _))) => Ok(state.code()),
        (Some(reason), _) | (None, Err(reason)) => Err(Error::corrupt_task(id, reason)),
    };
    let taken = Taken {
        has_ended: found.task.is_none(),
        task: task.as_ref(),
        code,
    };
    rules::submit::decide(submit, taken)
}
