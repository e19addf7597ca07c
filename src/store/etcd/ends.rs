//! How a task goes, and how it comes back: delete and retry.

use jiff::Timestamp;
use tracing::debug;
use windlass_statemachine::{State, TaskId};

use super::{
    Inner,
    claims::touch,
    errors::Fault,
    item::Item,
    keys::version_of,
    read::{Bundle, parked_for, revision},
    records::{self, Entry, Envelope, Hold},
};
use crate::store::{
    Error, What,
    rules::{
        self,
        retry::{Counted, Record},
    },
};

const ROUNDS: usize = 5;
/// How many pointers of commands go in the same write as their task.
const POINTERS_AT_ONCE: usize = 60;

impl Inner {
    /// Adds that everything of a task goes, if it is as it was read; but not state and mark, which
    /// a task that takes its place writes over. Answers the pointers to its commands that are too
    /// many for one write. They go once the task is gone, since a task that lives on would apply a
    /// command a second time whose id is not known any more.
    pub(super) async fn clear(
        &self,
        item: &mut Item,
        id: &TaskId,
        bundle: &Bundle,
    ) -> Result<Vec<String>, Error> {
        let keys = &self.keys;
        item.when_at(&keys.finished(id), revision(bundle.finished.as_ref()));
        let slot = keys.slot(id);
        let mut names = Vec::new();
        if bundle.task.is_some() {
            item.when_not_after(&slot, &format!("{slot}0"), bundle.revision);
            item.delete(&keys.task(id));
            item.delete_parts(&self.keys, id, bundle);
            names.extend(bundle.queue.iter().filter_map(|stored| stored.name.clone()));
        }
        item.delete(&keys.finished(id));
        self.delete_history(item, id).await?;
        names.extend(self.delete_outcomes(item, id).await?);
        let root = keys.root();
        let mut pointers = names
            .into_iter()
            .map(|name| format!("{root}commands/{name}"));
        for key in pointers
            .by_ref()
            .take(self.capacity.things(POINTERS_AT_ONCE))
        {
            item.delete(&key);
        }
        Ok(pointers.collect())
    }

    /// Deletes pointers to commands of a task that is gone, as long as they still name it and
    /// were not written since it was read: the next task of this id may have the same commands. One
    /// that is left behind points to nothing, and is written over when its id is used again.
    pub(super) async fn drop_pointers(&self, id: &TaskId, read_at: i64, mut pointers: Vec<String>) {
        let Ok(names_it) = records::write("task", id) else {
            return;
        };
        while !pointers.is_empty() {
            let before = self.capacity.operations();
            let count = self.capacity.things(POINTERS_AT_ONCE);
            let from = pointers.len().saturating_sub(count);
            let mut item = Item::new(touch(id));
            for key in &pointers[from..] {
                item.delete_if(key, &names_it, read_at);
            }
            match self.pipeline.write(item).await {
                Ok(_) => pointers.truncate(from),
                Err(fault) if self.capacity.has_shrunk(before, &fault) => {}
                Err(fault) => {
                    let error = fault.into_error("delete a task");
                    debug!(task = %id, %error, "pointers to its commands are left behind");
                    return;
                }
            }
        }
    }

    pub(super) async fn delete(&self, id: &TaskId) -> Result<(), Error> {
        match self.delete_if(id, |_| true).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::no_task(id)),
            Err(error) => Err(error),
        }
    }

    /// Deletes a task if it is there and as it is meant to be; answers whether it did.
    pub(super) async fn delete_if(
        &self,
        id: &TaskId,
        is_meant: impl Fn(&Bundle) -> bool,
    ) -> Result<bool, Error> {
        const OPERATION: &str = "delete a task";
        let mut tried = false;
        let mut reason = String::from("the task changes too often");
        for _ in 0..ROUNDS {
            let bundle = self.read(id).await.map_err(|f| f.into_error(OPERATION))?;
            if !bundle.exists() {
                // An attempt without an answer may have been the one.
                return Ok(tried);
            }
            if !is_meant(&bundle) {
                return Ok(false);
            }
            let before = self.capacity.operations();
            let mut item = Item::new(touch(id));
            item.when_at(&self.keys.task(id), revision(bundle.task.as_ref()));
            item.delete(&self.keys.parked(id));
            item.delete(&self.keys.state(id));
            let pointers = self.clear(&mut item, id, &bundle).await?;
            match self.pipeline.write(item).await {
                Ok(done) if done.written.is_some() => {
                    self.drop_pointers(id, bundle.revision, pointers).await;
                    return Ok(true);
                }
                Ok(_) => {}
                Err(Fault::Unknown(why)) => (tried, reason) = (true, why),
                Err(fault) if self.capacity.has_shrunk(before, &fault) => {}
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
            // An attempt without an answer may have started it; it may even have ended again.
            let started = |(s, _): (State, Hold)| Some((s.incarnation, s.version)) >= tried;
            if tried.is_some() && bundle.state().is_ok_and(started) {
                return Ok(());
            }
            let now = self.now();
            let state = self.retried(id, &bundle, now).await?;
            let item = self.retry_item(id, &bundle, &state, now)?;
            match self.pipeline.write(item).await {
                Ok(done) if done.written.is_some() => return Ok(()),
                Ok(_) => {}
                Err(Fault::Unknown(why)) => {
                    tried = Some((state.incarnation, state.version));
                    reason = why;
                }
                Err(fault) => return Err(fault.into_error(OPERATION)),
            }
        }
        Err(Error::unavailable(OPERATION, reason))
    }

    /// The state that a retry starts a task with.
    async fn retried(&self, id: &TaskId, bundle: &Bundle, now: Timestamp) -> Result<State, Error> {
        let state = bundle.state().map(|(state, _)| state);
        let last = match &state {
            Ok(_) => Counted::default(),
            Err(_) => self.counted(id).await?,
        };
        let record = Record {
            id,
            state,
            envelope: bundle.whole_task(id).err(),
            is_quarantined: bundle.aside().is_some(),
            last,
        };
        rules::retry::state(record, now)
    }

    /// What the last write of a task has counted to, by its history: that is named by version.
    async fn counted(&self, id: &TaskId) -> Result<Counted, Error> {
        let prefix = self.keys.histories(id);
        let read = self.get_all(&prefix).await;
        let (entries, _) = read.map_err(|fault| fault.into_error("read the history of a task"))?;
        let mut last = Counted::default();
        for kv in &entries {
            let name = std::str::from_utf8(kv.key()).unwrap_or_default();
            let name = name.strip_prefix(&prefix).unwrap_or_default();
            last.version = last.version.max(version_of(name).unwrap_or(0));
            for change in Entry::read(id, kv, &self.fences) {
                last.fence = last.fence.max(change.what.fence().unwrap_or_default());
            }
        }
        Ok(last)
    }

    fn retry_item(
        &self,
        id: &TaskId,
        bundle: &Bundle,
        state: &State,
        now: Timestamp,
    ) -> Result<Item, Error> {
        let keys = &self.keys;
        let read = bundle.envelope();
        let is_repaired = read.is_err();
        let (mut envelope, order) = match read {
            Ok(read) => read,
            Err(reason) => bundle.replaced_envelope(id, reason)?,
        };
        let mut item = Item::new(touch(id)).at(self.pipeline.places(1), 1);
        let (task, finished, owner) = (keys.task(id), keys.finished(id), keys.owner(id));
        item.when_at(&task, revision(bundle.task.as_ref()));
        item.when_at(&finished, revision(bundle.finished.as_ref()));
        item.when_at(&keys.state(id), revision(bundle.state.as_ref()));
        item.when_at(&owner, revision(bundle.owner.as_ref()));
        if bundle.task.is_none() || is_repaired {
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
        if bundle.has_unreadable_props() {
            item.delete(&keys.props(id));
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
}
