//! How tasks go, and how they come back: delete, retry, purge, retention.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use windlass_statemachine::{Code, Invalid, State, TaskId, errors::MAX_KEPT};

use super::{
    Inner,
    claims::touch,
    errors::Fault,
    item::Item,
    keys::end_of,
    read::{Bundle, corrupt, parked_for, revision},
    records::{self, Envelope, Hold},
};
use crate::store::{Error, What};

const ROUNDS: usize = 5;
/// How many tasks one call of `maintain` removes at the most.
const TASKS_PER_STEP: u32 = 5000;
/// How many pointers of commands go in the same write as their task.
const POINTERS_AT_ONCE: usize = 60;
/// How many times of the past `maintain` remembers the revision of.
const MARKS: usize = 64;

/// `/NS/meta/horizon`: which revision it was at which time, and since which one history is told.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Horizon {
    /// Changes up to this revision are not told any more.
    pub(super) pruned: i64,
    /// Times and the revisions then, oldest first.
    marks: Vec<(Timestamp, i64)>,
}

impl Horizon {
    /// Whether the next mark is due: as many as are kept are spread over the retention.
    fn is_time(&self, now: Timestamp, before: Timestamp) -> bool {
        let apart = now.duration_since(before) / MARKS as i32;
        let last = self.marks.last().map(|(at, _)| *at);
        last.is_none_or(|last| now.duration_since(last) >= apart)
    }
}

impl Inner {
    /// Adds that everything of a task goes, if it is as it was read.
    pub(super) async fn clear(
        &self,
        item: &mut Item,
        id: &TaskId,
        bundle: &Bundle,
    ) -> Result<(), Error> {
        let keys = &self.keys;
        item.when_at(&keys.finished(id), revision(bundle.finished.as_ref()));
        let (slot, outcomes) = (keys.slot(id), keys.outcomes(id));
        let mut names = Vec::new();
        if bundle.task.is_some() {
            item.when_not_after(&slot, &format!("{slot}0"), bundle.revision);
            item.delete(&keys.task(id));
            item.delete_all(&keys.parts(id));
            names.extend(bundle.queue.iter().filter_map(|stored| stored.name.clone()));
        }
        item.delete(&keys.finished(id));
        item.delete(&keys.state(id));
        item.delete_all(&keys.histories(id));
        item.delete_all(&outcomes);
        let settled = self.get_all(&outcomes).await;
        let (settled, _) =
            settled.map_err(|fault| fault.into_error("read the commands of a task"))?;
        for kv in settled {
            let name = std::str::from_utf8(kv.key())
                .ok()
                .and_then(|k| k.strip_prefix(&outcomes));
            names.extend(name.map(str::to_owned));
        }
        let root = keys.root();
        let mut pointers = names
            .into_iter()
            .map(|name| format!("{root}commands/{name}"));
        for key in pointers.by_ref().take(POINTERS_AT_ONCE) {
            item.delete(&key);
        }
        // Those of a task with very many commands go first. One that is left behind points to
        // nothing, and is written over when its id is used again.
        let rest: Vec<String> = pointers.collect();
        for some in rest.chunks(POINTERS_AT_ONCE) {
            let mut more = Item::new(touch(id));
            some.iter().for_each(|key| more.delete(key));
            let done = self.pipeline.write(more).await;
            done.map_err(|fault| fault.into_error("delete a task"))?;
        }
        Ok(())
    }

    pub(super) async fn delete(&self, id: &TaskId) -> Result<(), Error> {
        const OPERATION: &str = "delete a task";
        let mut tried = false;
        let mut reason = String::from("the task changes too often");
        for _ in 0..ROUNDS {
            let bundle = self.read(id).await.map_err(|f| f.into_error(OPERATION))?;
            if !bundle.exists() {
                // An attempt without an answer may have been the one.
                return if tried {
                    Ok(())
                } else {
                    Err(Error::no_task(id))
                };
            }
            let mut item = Item::new(touch(id));
            item.when_at(&self.keys.task(id), revision(bundle.task.as_ref()));
            item.delete(&self.keys.parked(id));
            self.clear(&mut item, id, &bundle).await?;
            match self.pipeline.write(item).await {
                Ok(done) if done.written.is_some() => return Ok(()),
                Ok(_) => {}
                Err(Fault::Unknown(why)) => (tried, reason) = (true, why),
                Err(fault) => return Err(fault.into_error(OPERATION)),
            }
        }
        Err(Error::unavailable(OPERATION, reason))
    }

    pub(super) async fn retry(&self, id: &TaskId) -> Result<(), Error> {
        const OPERATION: &str = "retry a task";
        let mut tried = None;
        let mut reason = String::from("the task changes too often");
        for _ in 0..ROUNDS {
            let bundle = self.read(id).await.map_err(|f| f.into_error(OPERATION))?;
            if !bundle.exists() {
                return Err(Error::no_task(id));
            }
            let now = self.now();
            let state = match retried(id, &bundle, now) {
                Ok(state) => state,
                // An attempt without an answer may have started it.
                Err(error) => {
                    let started = |(s, _): (State, Hold)| Some(s.incarnation) >= tried;
                    let done = tried.is_some() && bundle.state().is_ok_and(started);
                    return if done { Ok(()) } else { Err(error) };
                }
            };
            let item = self.retry_item(id, &bundle, &state, now)?;
            match self.pipeline.write(item).await {
                Ok(done) if done.written.is_some() => return Ok(()),
                Ok(_) => {}
                Err(Fault::Unknown(why)) => (tried, reason) = (Some(state.incarnation), why),
                Err(fault) => return Err(fault.into_error(OPERATION)),
            }
        }
        Err(Error::unavailable(OPERATION, reason))
    }

    fn retry_item(
        &self,
        id: &TaskId,
        bundle: &Bundle,
        state: &State,
        now: Timestamp,
    ) -> Result<Item, Error> {
        let keys = &self.keys;
        let (mut envelope, order) = bundle.envelope().map_err(|reason| corrupt(id, reason))?;
        let mut item = Item::new(touch(id)).at(self.pipeline.places(1), 1);
        let (task, finished, owner) = (keys.task(id), keys.finished(id), keys.owner(id));
        item.when_at(&task, revision(bundle.task.as_ref()));
        item.when_at(&finished, revision(bundle.finished.as_ref()));
        item.when_at(&keys.state(id), revision(bundle.state.as_ref()));
        item.when_at(&owner, revision(bundle.owner.as_ref()));
        if bundle.task.is_none() {
            let props = envelope.props.take();
            let live = Envelope {
                order: Some(order),
                state: None,
                ended_at: None,
                ..envelope
            };
            item.delete(&finished);
            item.put(&task, records::write("task", &live)?);
            if let Some(props) = props {
                item.put(&keys.props(id), props.as_str().to_owned());
            }
        }
        if bundle.owner.is_some() {
            item.delete(&owner);
        }
        item.put(
            &keys.state(id),
            records::write_state(state, &Hold::default())?,
        );
        match parked_for(state) {
            Some(parked) => item.put(&keys.parked(id), records::write("parked", &parked)?),
            None => item.delete(&keys.parked(id)),
        }
        self.put_history(&mut item, id, state.version, now, &[What::Retried])?;
        Ok(item)
    }

    /// Deletes what ended in one of `states` before `before`, oldest first.
    pub(super) async fn purge(
        &self,
        states: &[Code],
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, Error> {
        let prefix = self.keys.all_finished();
        let mut old: Vec<(Timestamp, u64, TaskId)> = Vec::new();
        self.scan(&prefix, &end_of(&prefix), |kv| {
            let id = self
                .keys
                .strip(kv.key(), "finished/")
                .and_then(|id| TaskId::new(id).ok());
            if let (Some(id), Ok(envelope)) = (id, Envelope::read(&kv))
                && envelope.state.is_some_and(|code| states.contains(&code))
                && let Some(at) = envelope.ended_at.filter(|at| *at < before)
            {
                old.push((at, envelope.order(&kv), id));
            }
        })
        .await?;
        old.sort();
        old.truncate(limit as usize);
        let ids = old.into_iter().map(|(_, _, id)| id);
        let gone =
            futures::future::join_all(ids.map(|id| async move { self.delete(&id).await })).await;
        let mut count = 0;
        for deleted in gone {
            match deleted {
                Ok(()) => count += 1,
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    pub(super) async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        let now = self.now();
        let retention = retention.and_then(|r| SignedDuration::try_from(r).ok());
        let Some(before) = retention.and_then(|r| now.checked_sub(r).ok()) else {
            return Ok(0);
        };
        // Looking for what is old reads every ended task: one node does it now and then.
        let read = self.horizon().await;
        let (horizon, _) = read.map_err(|fault| fault.into_error("prune the history"))?;
        if !horizon.is_time(now, before) {
            return Ok(0);
        }
        let all = [Code::Completed, Code::Failed, Code::Killed];
        let gone = self.purge(&all, before, TASKS_PER_STEP).await?;
        // As long as there is more, whoever comes next goes on.
        if gone < u64::from(TASKS_PER_STEP) {
            self.advance_horizon(now, before).await?;
        }
        Ok(gone)
    }

    pub(super) async fn horizon(&self) -> Result<(Horizon, i64), Fault> {
        let kv = self.get_key(&self.keys.horizon()).await?;
        let horizon = kv.as_ref().and_then(|kv| records::parse(kv).ok());
        Ok((horizon.unwrap_or_default(), revision(kv.as_ref())))
    }

    /// Notes which revision it is now, and forgets the history before the revision of back then.
    async fn advance_horizon(&self, now: Timestamp, before: Timestamp) -> Result<(), Error> {
        const OPERATION: &str = "prune the history";
        let read = self.get_all(&self.keys.horizon()).await;
        let (kvs, revision_now) = read.map_err(|fault| fault.into_error(OPERATION))?;
        let mut horizon: Horizon = kvs
            .first()
            .and_then(|kv| records::parse(kv).ok())
            .unwrap_or_default();
        let passed = horizon.marks.iter().rev().find(|(at, _)| *at < before);
        let passed = passed.copied();
        if let Some((_, revision)) = passed {
            horizon.pruned = horizon.pruned.max(revision);
        }
        horizon.marks.retain(|(at, _)| *at >= before);
        horizon.marks.push((now, revision_now));
        let mut item = Item::new("horizon");
        item.when_at(&self.keys.horizon(), revision(kvs.first()));
        item.put(&self.keys.horizon(), records::write("horizon", &horizon)?);
        // Another node may have been first: it noted the same.
        let done = self.pipeline.write(item).await;
        done.map(|_| ())
            .map_err(|fault| fault.into_error(OPERATION))
    }
}

/// The state that a retry starts a task with.
fn retried(id: &TaskId, bundle: &Bundle, now: Timestamp) -> Result<State, Error> {
    let aside = bundle.aside();
    match bundle.state() {
        Ok((state, _)) if state.code().is_terminal() => Ok(state.retried(now)),
        // It can be read again: it goes on from where it was.
        Ok((mut state, _)) if aside.is_some() => {
            state.version += 1;
            Ok(state)
        }
        Ok((state, _)) => {
            let code = state.code();
            let reason =
                format!("is {code}; only a task that has ended or is set aside is retried");
            Err(Invalid::new("state", reason).into())
        }
        Err(reason) => {
            let mut state = State::new(now);
            let error = corrupt(id, aside.unwrap_or(reason));
            state.errors.push(now, error.to_string(), MAX_KEPT);
            Ok(state)
        }
    }
}
