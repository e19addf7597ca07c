//! Submits: new tasks, and those that take the place of one that has ended.

use jiff::Timestamp;

use super::{Inner, claims::touch, errors::Fault, item::Item, read::Bundle, records::place_of};
use crate::store::{
    Error, Submit, Submitted,
    rules::{
        self,
        submit::{Taken, Verdict},
    },
};

const OPERATION: &str = "submit a task";
const ROUNDS: usize = 5;

/// Whether what was found, live or ended, is what one of these attempts has written.
fn is_of(found: &Bundle, tried: &[(Timestamp, u32)]) -> bool {
    found.envelope().is_ok_and(|(envelope, order)| {
        let mut tried = tried.iter();
        tried.any(|(at, place)| envelope.submitted_at == Some(*at) && place_of(order) == *place)
    })
}

impl Inner {
    pub(super) async fn submit(&self, submit: Submit) -> Result<Submitted, Error> {
        let task = &submit.task;
        rules::size::check_task(task, self.options.limits.max_bytes)?;
        let mut replaces = None;
        // The attempts without an answer: when, and at which place. The task keeps both to its end,
        // which may have come before it is looked for.
        let mut tried: Vec<(Timestamp, u32)> = Vec::new();
        let mut reason = String::from("the task changes too often");
        for _ in 0..ROUNDS {
            let mut item = Item::new(touch(&task.id)).at(self.pipeline.places(1), 1);
            item.in_order = true;
            item.when_at(&self.keys.task(&task.id), 0);
            let mut pointers = Vec::new();
            let before = self.capacity.operations();
            match &replaces {
                None => item.when_at(&self.keys.finished(&task.id), 0),
                Some(old) => pointers = self.clear(&mut item, &task.id, old).await?,
            }
            let (place, now) = (item.place, self.now());
            self.put_task(&mut item, task, place, now)?;
            match self.pipeline.write(item).await {
                Ok(done) if done.written.is_some() => {
                    let read_at = replaces.map_or(0, |old| old.revision);
                    self.drop_pointers(&task.id, read_at, pointers).await;
                    return Ok(Submitted::New);
                }
                Ok(_) => {}
                Err(Fault::Unknown(why)) => {
                    tried.push((now, place));
                    reason = why;
                }
                Err(fault) if self.capacity.has_shrunk(before, &fault) => {}
                Err(fault) => return Err(fault.into_error(OPERATION)),
            }
            let read = self.read(&task.id).await;
            let found = read.map_err(|fault| fault.into_error(OPERATION))?;
            if is_of(&found, &tried) {
                return Ok(Submitted::New);
            }
            replaces = None;
            if found.exists() {
                match there(&submit, &found)? {
                    Verdict::Existing(code) => return Ok(Submitted::Existing(code)),
                    Verdict::Replace => replaces = Some(found),
                }
            }
        }
        Err(Error::unavailable(OPERATION, reason))
    }
}

/// Decides a submit whose id is taken by what was found.
fn there(submit: &Submit, found: &Bundle) -> Result<Verdict, Error> {
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
