//! Submits: new tasks, and those that take the place of one that has ended.

use jiff::Timestamp;
use windlass_statemachine::{State, Task};

use super::{
    Inner,
    claims::touch,
    effects::exists,
    errors::Fault,
    item::Item,
    read::{Bundle, corrupt},
    records::place_of,
};
use crate::store::{Error, IfExists, Submit, Submitted};

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
        let Submit { task, if_exists } = submit;
        self.check_task(&task)?;
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
            self.put_task(&mut item, &task, place, now)?;
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
            match Self::there(&task, if_exists, &found) {
                Some(Ok(existing)) => return Ok(existing),
                Some(Err(error)) => return Err(error),
                None if found.finished.is_some() => replaces = Some(found),
                None => {}
            }
        }
        Err(Error::unavailable(OPERATION, reason))
    }

    /// What a submit comes to when something has its id; `None` when it can go on.
    fn there(task: &Task, if_exists: IfExists, found: &Bundle) -> Option<Result<Submitted, Error>> {
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
}
